//! [`Peer`]: one client, from its first word to its last.

use super::desk::Desk;
use super::wire::Wire;
use crate::control::{Attach, Grown};
use drover_base::Ns;
use drover_mem::AllocError;
use drover_rt::control::{ControlStream, Frame, Message};
use drover_verbs::{
    ConnectError, Context, CreateError, Export, ImportError, PostError, Provider, QueuePair, RegisterError,
};
use std::rc::Rc;

/// A client could not be let in.
#[derive(Debug, thiserror::Error)]
pub(super) enum PeerError {
    #[error(transparent)]
    Alloc(#[from] AllocError),
    #[error(transparent)]
    Create(#[from] CreateError),
    #[error(transparent)]
    Register(#[from] RegisterError),
    #[error(transparent)]
    Post(#[from] PostError),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Import(#[from] ImportError),
    #[error("not now")]
    OutOfOrder,
}

/// One client.
pub(super) struct Peer<P: Provider> {
    stream: ControlStream,
    wire: Option<Wire<P>>,
    session: u64,
    /// Epoch of the table it was told of last.
    told: u64,
    /// Epoch of the oldest table that it may still be reading.
    adopted: u64,
    broken: bool,
    ctx: Option<Rc<P::Context>>,
}

impl<P: Provider> Peer<P> {
    pub(super) fn new(stream: ControlStream) -> Peer<P> {
        Peer {
            stream,
            wire: None,
            session: 0,
            told: 0,
            adopted: 0,
            broken: false,
            ctx: None,
        }
    }

    pub(super) fn session(&self) -> u64 {
        self.session
    }

    pub(super) fn is_gone(&self) -> bool {
        self.broken || self.stream.is_closed()
    }

    pub(super) fn close(&mut self) {
        self.broken = true;
        self.stream.close();
    }

    pub(super) fn refuse(&mut self, code: u16, text: &str) {
        let (stream, _) = ControlStream::pair();
        std::mem::replace(&mut self.stream, stream).refuse(code, text);
        self.close();
    }

    pub(super) fn send<M: Message>(&mut self, message: &M) {
        if let Err(error) = self.stream.send_message(message) {
            tracing::debug!(%error, "a control message was not sent");
            self.close();
        }
    }

    /// The next frame, if there is one.
    pub(super) fn hear(&mut self, now: Ns) -> Option<Frame> {
        if self.is_gone() {
            return None;
        }
        self.stream.recv(now).unwrap_or_else(|error| {
            tracing::debug!(%error, "a control channel has ended");
            None
        })
    }

    /// Takes back what the client held. Its queue pair goes with it.
    pub(super) fn give_up(&mut self, desk: &mut Desk<P>) {
        let Some(mut wire) = self.wire.take() else { return };
        wire.give_up(desk);
        let values = wire.values;
        drop(wire);
        if let (Some(ctx), Some(values)) = (&self.ctx, values) {
            ctx.forget_region(&values);
        }
    }

    /// Queues and buffers for `slots` operations of the client, which is told of the table of `epoch`.
    pub(super) fn open(
        &mut self,
        ctx: &Rc<P::Context>,
        session: u64,
        slots: usize,
        (message_bytes, item_bytes_max): (usize, usize),
        epoch: u64,
    ) -> Result<Export, PeerError> {
        if self.wire.is_some() {
            return Err(PeerError::OutOfOrder);
        }
        let wire = Wire::<P>::new(ctx, slots, message_bytes, item_bytes_max)?;
        let export = wire.qp.export()?;
        self.wire = Some(wire);
        (self.session, self.told, self.adopted) = (session, epoch, epoch);
        self.ctx = Some(ctx.clone());
        Ok(export)
    }

    /// Connects with the client's end.
    pub(super) fn attach(&mut self, ctx: &Rc<P::Context>, attach: &Attach) -> Result<(), PeerError> {
        let wire = self.wire.as_mut().filter(|wire| wire.values.is_none());
        let wire = wire.ok_or(PeerError::OutOfOrder)?;
        wire.values = Some(ctx.import_region(&attach.values)?);
        Ok(wire.qp.connect(&attach.qp)?)
    }

    /// Whether it has to be told of the table of `epoch`: not before the handshake is over.
    pub(super) fn wants(&self, epoch: u64) -> bool {
        let is_attached = self.wire.as_ref().is_some_and(|wire| wire.values.is_some());
        is_attached && !self.is_gone() && self.told != epoch
    }

    /// Tells it of a table.
    pub(super) fn tell(&mut self, grown: &Grown) {
        self.told = grown.table.epoch;
        self.send(grown);
    }

    /// It has let go of all tables before that of `epoch`. Whatever a client says here is its own loss.
    pub(super) fn adopted(&mut self, epoch: u64) -> Result<(), PeerError> {
        if self.wire.is_none() || !(self.adopted..=self.told).contains(&epoch) {
            return Err(PeerError::OutOfOrder);
        }
        self.adopted = epoch;
        Ok(())
    }

    /// Whether it may be reading the table of `epoch`, or an older one.
    pub(super) fn holds(&self, epoch: u64) -> bool {
        self.wire.is_some() && self.adopted <= epoch
    }

    /// Answers what has come. Returns whether there was something.
    pub(super) fn serve(&mut self, cpu: &P::Cpu, desk: &mut Desk<P>) -> bool {
        let Some(wire) = self.wire.as_mut().filter(|_| !self.broken) else {
            return false;
        };
        let served = wire.serve(cpu, desk);
        self.broken |= served.is_err();
        served.unwrap_or(true)
    }
}
