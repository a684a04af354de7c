//! [`ShardLink`]: a client's session with one shard, re-established whenever it is lost.

use super::Session;
use super::handshake::ClientHandshake;
use drover_base::Ns;
use drover_control::{Dial, Link, LinkEvent, Loss};
use drover_kv::{ResultTransfer, SetupError};
use drover_verbs::Provider;
use std::rc::Rc;

/// The link to one shard, and the session on it.
pub(super) struct ShardLink<P: Provider, S: Session<P>> {
    link: Link<ClientHandshake<P, S>>,
    shard_count: usize,
    session: Option<Box<S>>,
}

impl<P: Provider, S: Session<P>> ShardLink<P, S> {
    /// A link to the first of `(shard, shard_count)`, for a client with `slots` operations; the last arguments are its secret, and how
    /// results come to it.
    pub(super) fn new(
        ctx: &Rc<P::Context>,
        dial: Dial,
        shard: (usize, usize),
        slots: usize,
        wishes: (&[u8], ResultTransfer),
    ) -> ShardLink<P, S> {
        ShardLink {
            shard_count: shard.1,
            link: ClientHandshake::link(ctx, dial, shard, slots, wishes),
            session: None,
        }
    }

    /// The session, if it works.
    #[inline]
    pub(super) fn session(&mut self) -> Option<&mut S> {
        self.session
            .as_deref_mut()
            .filter(|session| !session.resources().agreed.broken)
    }

    pub(super) fn take_error(&mut self) -> Option<SetupError> {
        self.link.take_error()
    }

    /// Time at which it must be [polled](ShardLink::poll).
    pub(super) fn next_timer(&self) -> Ns {
        match &self.session {
            Some(session) if session.resources().agreed.broken || session.expects_frame() => Ns::ZERO,
            _ => self.link.next_timer(),
        }
    }

    /// Dials, shakes hands, receives. Returns true when a session has ended: the caller notifies its operations.
    pub(super) fn poll(&mut self, now: Ns) -> bool {
        let was_up = self.session.is_some();
        if let Err(error) = self.advance(now) {
            self.link.lose(now, error);
            self.session = None;
        }
        was_up && self.session.is_none()
    }

    fn advance(&mut self, now: Ns) -> Result<(), SetupError> {
        if let Some(session) = &self.session {
            if session.resources().agreed.broken {
                return Err(Loss::Broken.into());
            }
            if session.expects_frame() {
                self.link.look_soon();
            }
        }
        let is_due = now >= self.link.next_timer();
        while let Some(event) = self.link.poll(now) {
            match (event, &mut self.session) {
                (LinkEvent::Frame(frame), Some(session)) => {
                    session.receive(&frame)?;
                    if let Some(map) = session.map() {
                        map.check(self.shard_count, None)?;
                    }
                }
                (LinkEvent::Frame(_), None) => return Err(Loss::Unexpected.into()),
                (LinkEvent::Up(session), own) => {
                    *own = Some(session);
                    return Ok(());
                }
                (LinkEvent::Lost, own) => {
                    *own = None;
                    return Ok(());
                }
            }
        }
        match (&mut self.session, self.link.control()) {
            (Some(session), Some(control)) if is_due => session.control_polled(control),
            _ => Ok(()),
        }
    }
}
