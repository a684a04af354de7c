//! [`Dialing`]: an attempt to make a link: connects and plays the client's part of the handshake, without waiting.

use crate::handshake::{CHALLENGE_BYTES, LinkTarget, MemberIdentity, Prover, Refusal};
use crate::options::PeerAddr;
use crate::socket;
use drover_base::Ns;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Why an attempt failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DialFailure {
    #[error("{0}")]
    System(#[from] io::Error),
    #[error("{0}")]
    Refused(#[from] Refusal),
    #[error("no answer within {0}")]
    TooLate(Ns),
    #[error("its address is not known")]
    NoAddress,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// The system connects.
    Connecting,
    /// The hello is sent.
    Greeted,
    /// The proof is sent.
    Proved,
}

pub(crate) struct Dialing {
    socket: OwnedFd,
    prover: Prover,
    stage: Stage,
    challenge: [u8; CHALLENGE_BYTES],
    /// Bytes of the challenge read so far.
    got: usize,
    /// Time when the attempt has failed.
    pub(crate) until: Ns,
}

impl Dialing {
    /// Begins an attempt to reach `target` that may last until `until`.
    pub(crate) fn new(
        identity: &MemberIdentity,
        peer: &PeerAddr,
        target: LinkTarget,
        until: Ns,
    ) -> io::Result<Dialing> {
        Ok(Dialing {
            socket: socket::connect(peer.addr)?,
            prover: Prover::new(identity, &peer.name, target),
            stage: Stage::Connecting,
            challenge: [0; CHALLENGE_BYTES],
            got: 0,
            until,
        })
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Goes on after an event of the socket. Returns whether the link is open.
    pub(crate) fn advance(&mut self, is_writable: bool) -> Result<bool, DialFailure> {
        if self.stage == Stage::Connecting {
            socket::connected(self.fd())?;
            if !is_writable {
                return Ok(false);
            }
            self.send(self.prover.hello())?;
            self.stage = Stage::Greeted;
        }
        if self.stage == Stage::Greeted {
            while self.got < CHALLENGE_BYTES {
                match socket::receive(self.socket.as_fd(), &mut self.challenge[self.got..])? {
                    Some(count) => self.got += count,
                    None => return Ok(false),
                }
            }
            let proof = self.prover.prove(&self.challenge)?;
            self.send(&proof)?;
            self.stage = Stage::Proved;
        }
        let mut verdict = [0];
        if socket::receive(self.fd(), &mut verdict)?.is_none() {
            return Ok(false);
        }
        Prover::opened(verdict[0])?;
        Ok(true)
    }

    /// Sends a few bytes, for which a new socket always has space.
    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        match socket::send(self.fd(), bytes)? {
            Some(count) if count == bytes.len() => Ok(()),
            _ => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// The socket of the link that is open.
    pub(crate) fn into_socket(self) -> OwnedFd {
        self.socket
    }
}
