//! [`Peer`]: one client, from its first word to its last.

use super::desk::Desk;
use super::wire::{Wire, WireOptions};
use crate::control::Attach;
use drover_base::Ns;
use drover_mem::AllocError;
use drover_rt::control::{ControlStream, Frame, Message};
use drover_verbs::{
    ConnectError, CreateError, Export, ImportError, PostError, Provider, RegisterError, WcStatus,
};
use std::rc::Rc;

/// A client could not be let in, or not be kept.
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
    #[error("its ring holds what no client writes")]
    BadRecord,
    #[error("its queue pair failed: {status:?}")]
    Failed { status: WcStatus },
}

/// One client.
pub(super) struct Peer<P: Provider> {
    stream: ControlStream,
    wire: Option<Wire<P>>,
    session: u64,
    broken: bool,
    ctx: Rc<P::Context>,
}

impl<P: Provider> Peer<P> {
    pub(super) fn new(ctx: &Rc<P::Context>, stream: ControlStream) -> Peer<P> {
        Peer {
            stream,
            wire: None,
            session: 0,
            broken: false,
            ctx: ctx.clone(),
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

    /// Takes back what the client held.
    pub(super) fn give_up(&mut self, desk: &mut Desk<P>) {
        if let Some(wire) = self.wire.take() {
            wire.close(&self.ctx, desk);
        }
    }

    /// Queues and buffers for the client; its ring and our queue pair.
    pub(super) fn open(&mut self, session: u64, options: WireOptions) -> Result<(Export, Export), PeerError> {
        if self.wire.is_some() {
            return Err(PeerError::OutOfOrder);
        }
        let wire = Wire::<P>::new(&self.ctx, options)?;
        let exports = wire.exports(&self.ctx)?;
        self.wire = Some(wire);
        self.session = session;
        Ok(exports)
    }

    /// Connects with the client's end.
    pub(super) fn attach(&mut self, attach: &Attach) -> Result<(), PeerError> {
        let wire = self.wire.as_mut().ok_or(PeerError::OutOfOrder)?;
        wire.attach(&self.ctx, (&attach.qp, &attach.mailbox, &attach.values))
    }

    /// Answers what has come. Whether there was something.
    pub(super) fn serve(&mut self, cpu: &P::Cpu, desk: &mut Desk<P>) -> bool {
        let Some(wire) = self.wire.as_mut().filter(|_| !self.broken) else {
            return false;
        };
        wire.serve(cpu, desk).unwrap_or_else(|error| {
            tracing::debug!(%error, "a client is given up");
            self.broken = true;
            true
        })
    }
}
