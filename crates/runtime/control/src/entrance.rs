//! [`Entrance`]: the handshake of a stream, and the frames that wait for its end.

use super::auth::{Credentials, Gate, Guard, Prover, Step};
use super::error::ControlError;
use super::frame::{BODY_BYTES_MAX, FDS_MAX, Frame};
use super::outbound::{QUEUE_BYTES_MAX, QUEUE_FDS_MAX};
use super::peer::Peer;
use drover_base::Ns;
use drover_tls::CHANNEL_BINDING_BYTES;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// A handshake under way, at either end.
#[derive(Debug)]
pub(crate) struct Entrance {
    role: Role,
    held: Vec<Frame>,
    held_bytes: usize,
    held_fds: usize,
}

#[derive(Debug)]
enum Role {
    Client(Prover),
    Server(Gate),
}

impl Entrance {
    /// A client's; the frame is to be sent first.
    pub(crate) fn prove(credentials: Arc<Credentials>) -> (Entrance, Frame) {
        let (prover, hello) = Prover::new(credentials);
        (Entrance::new(Role::Client(prover)), hello)
    }

    /// A server's, whose client is `peer`.
    pub(crate) fn guard(guard: Arc<Guard>, peer: Peer) -> Entrance {
        Entrance::new(Role::Server(Gate::new(guard, peer)))
    }

    fn new(role: Role) -> Entrance {
        Entrance {
            role,
            held: Vec::new(),
            held_bytes: 0,
            held_fds: 0,
        }
    }

    /// Whether this is a server's end: the peer has to prove itself.
    pub(crate) fn is_servers(&self) -> bool {
        matches!(self.role, Role::Server(_))
    }

    /// Ties the proofs to the channel that `binding` names, if TLS gives it a name.
    pub(crate) fn bind(&mut self, binding: Option<[u8; CHANNEL_BINDING_BYTES]>) {
        match &mut self.role {
            Role::Client(prover) => prover.bind(binding),
            Role::Server(gate) => gate.bind(binding),
        }
    }

    pub(crate) fn next_look(&self) -> Ns {
        match &self.role {
            Role::Client(_) => Ns::MAX,
            Role::Server(gate) => gate.next_look(),
        }
    }

    /// Keeps a frame of the application. Errors are those of sending it.
    pub(crate) fn hold(
        &mut self,
        kind: u16,
        body: &[u8],
        fds: &[Arc<OwnedFd>],
        carries_fds: bool,
    ) -> Result<(), ControlError> {
        if body.len() > BODY_BYTES_MAX {
            return Err(ControlError::TooLong { bytes: body.len() });
        }
        if fds.len() > FDS_MAX {
            return Err(ControlError::TooManyFds { count: fds.len() });
        }
        if !fds.is_empty() && !carries_fds {
            return Err(ControlError::FdsOverTcp);
        }
        let (queued_bytes, queued_fds) = (self.held_bytes + body.len(), self.held_fds + fds.len());
        if queued_bytes > QUEUE_BYTES_MAX || queued_fds > QUEUE_FDS_MAX {
            return Err(ControlError::Stalled {
                queued_bytes,
                queued_fds,
            });
        }
        (self.held_bytes, self.held_fds) = (queued_bytes, queued_fds);
        self.held.push(Frame {
            kind,
            body: body.to_vec(),
            fds: fds.to_vec(),
        });
        Ok(())
    }

    /// Takes a frame of the peer, if there is one, and does what is due. Returns the answer, and whether the handshake
    /// is complete.
    pub(crate) fn step(
        &mut self,
        frame: Option<&Frame>,
        now: Ns,
    ) -> Result<(Option<Frame>, bool), ControlError> {
        let step = match (&mut self.role, frame) {
            (Role::Client(prover), Some(frame)) => prover.take(frame),
            (Role::Client(_), None) => Step::Wait,
            (Role::Server(gate), Some(frame)) => gate.take(frame, now),
            (Role::Server(gate), None) => gate.pass(now),
        };
        match step {
            Step::Wait => Ok((None, false)),
            Step::Send(answer) => Ok((Some(answer), false)),
            Step::Open(answer) => Ok((answer, true)),
            Step::Refuse(why) => Err(ControlError::Unproven { why }),
        }
    }

    /// The frames that waited, in order.
    pub(crate) fn into_held(self) -> Vec<Frame> {
        self.held
    }
}
