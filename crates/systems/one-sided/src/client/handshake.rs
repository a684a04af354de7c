//! [`ClientHandshake`]: a client's side of the handshake with one shard. [`Link`](drover_control::Link) dials, pauses
//! between attempts and retries.

use super::Session;
use crate::control::{Hello, Ready, Ticket};
use drover_base::{Cpu, Ns};
use drover_control::{ControlStream, Dial, Frame, Handshake, Link, LinkOptions, Taken};
use drover_kv::{ResultTransfer, SetupError};
use drover_verbs::{Context, Provider};
use std::marker::PhantomData;
use std::rc::Rc;

/// The handshake's state: Hello, Welcome, Attach, Ready.
pub(super) struct ClientHandshake<P: Provider, S> {
    shard: u16,
    shard_count: u16,
    slots: usize,
    secret: Vec<u8>,
    transfer: ResultTransfer,
    /// Ticket of the previous session: the server ends that session first, and the new one resumes it.
    ticket: Ticket,
    /// When the last Hello was sent. Every answer of the server is from a later time.
    hello_at: Ns,
    ctx: Rc<P::Context>,
    session: PhantomData<S>,
}

impl<P: Provider, S: Session<P>> ClientHandshake<P, S> {
    /// A link to the first of `(shard, shard_count)`, for a client with `slots` operations; the last arguments are its secret, and how
    /// results come to it.
    pub(super) fn link(
        ctx: &Rc<P::Context>,
        dial: Dial,
        (shard, shard_count): (usize, usize),
        slots: usize,
        (secret, transfer): (&[u8], ResultTransfer),
    ) -> Link<ClientHandshake<P, S>> {
        let greeting = ClientHandshake {
            shard: shard as u16,
            shard_count: shard_count as u16,
            slots,
            secret: secret.to_vec(),
            transfer,
            ticket: Ticket::NONE,
            hello_at: Ns::ZERO,
            ctx: ctx.clone(),
            session: PhantomData,
        };
        Link::new(dial, greeting, LinkOptions::default())
    }
}

impl<P: Provider, S: Session<P>> Handshake for ClientHandshake<P, S> {
    type Session = S;
    type Error = SetupError;

    fn begin(&mut self, control: &mut ControlStream) -> Result<(), SetupError> {
        self.hello_at = self.ctx.cpu().now();
        let hello = Hello {
            version: S::VERSION,
            slots: self.slots as u16,
            shard: self.shard,
            shard_count: self.shard_count,
            previous: self.ticket,
            secret: self.secret.clone(),
            params: S::client_params(&self.ctx, self.transfer),
        };
        Ok(control.send_message(&hello)?)
    }

    fn take(
        &mut self,
        frame: Frame,
        session: &mut Option<Box<S>>,
        control: &mut ControlStream,
        _: Ns,
    ) -> Result<Taken<S>, SetupError> {
        if let Some(mut session) = session.take() {
            frame.decode::<Ready>()?;
            let agreed = &mut session.resources_mut().agreed;
            agreed.goes_on = agreed.ticket == self.ticket;
            // Not before: what the client sent over earlier sessions belongs to the ticket that it has had so far.
            self.ticket = agreed.ticket;
            return Ok(Taken::Done(session));
        }
        let new = S::new(&self.ctx, self.slots, &frame.decode()?, self.hello_at)?;
        if let Some(map) = new.map() {
            map.check(usize::from(self.shard_count), None)?;
        }
        control.send_message(&new.attach()?)?;
        *session = Some(Box::new(new));
        Ok(Taken::More)
    }
}
