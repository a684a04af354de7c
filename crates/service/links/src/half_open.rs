//! [`HalfOpen`]: a connection that plays the server's part of the handshake, without waiting.

use crate::handshake::{HELLO_BYTES, LinkTarget, MemberIdentity, PROOF_BYTES, Refusal, Verifier, refusing};
use crate::socket;
use drover_base::Ns;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// What comes of a half-open connection.
pub(crate) enum Outcome {
    Wait,
    /// It has proved itself; the verdict is the caller's.
    Proved {
        from: String,
        target: LinkTarget,
    },
    Refused(Refusal),
    /// It was closed, or broke.
    Gone,
}

pub(crate) struct HalfOpen {
    socket: OwnedFd,
    /// Where it comes from.
    pub(crate) addr: SocketAddr,
    /// Time when it has taken too long.
    pub(crate) until: Ns,
    /// The hello, then the proof.
    received: [u8; HELLO_BYTES],
    got: usize,
    /// Set once the hello is there.
    verifier: Option<Verifier>,
}

impl HalfOpen {
    pub(crate) fn new(socket: OwnedFd, addr: SocketAddr, until: Ns) -> HalfOpen {
        HalfOpen {
            socket,
            addr,
            until,
            received: [0; HELLO_BYTES],
            got: 0,
            verifier: None,
        }
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Goes on when there is input. Sends at most one refusal.
    pub(crate) fn advance(&mut self, identity: &MemberIdentity) -> Outcome {
        match self.try_advance(identity) {
            Ok(outcome) => outcome,
            Err(_) => Outcome::Gone,
        }
    }

    fn try_advance(&mut self, identity: &MemberIdentity) -> io::Result<Outcome> {
        if self.verifier.is_none() {
            if !self.fill(HELLO_BYTES)? {
                return Ok(Outcome::Wait);
            }
            match Verifier::new(identity, &self.received) {
                Ok(verifier) => {
                    self.send(&verifier.challenge())?;
                    self.verifier = Some(verifier);
                    self.got = 0;
                }
                Err(refusal) => {
                    self.send(&refusing(refusal))?;
                    return Ok(Outcome::Refused(refusal));
                }
            }
        }
        if !self.fill(PROOF_BYTES)? {
            return Ok(Outcome::Wait);
        }
        let verifier = self.verifier.as_ref().expect("the hello is there");
        match verifier.verify(&self.received[..PROOF_BYTES]) {
            Ok(()) => Ok(Outcome::Proved {
                from: verifier.from.clone(),
                target: verifier.target,
            }),
            Err(refusal) => {
                self.send(&[refusal.number()])?;
                Ok(Outcome::Refused(refusal))
            }
        }
    }

    /// Reads until `len` bytes are there, not beyond. Returns whether they are.
    fn fill(&mut self, len: usize) -> io::Result<bool> {
        while self.got < len {
            match socket::receive(self.socket.as_fd(), &mut self.received[self.got..len])? {
                Some(count) => self.got += count,
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Sends the verdict, and lets go of the socket.
    pub(crate) fn conclude(self, refusal: Option<Refusal>) -> io::Result<OwnedFd> {
        self.send(&[refusal.map_or(0, Refusal::number)])?;
        Ok(self.socket)
    }

    /// Sends a few bytes, for which a new socket always has space.
    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        match socket::send(self.fd(), bytes)? {
            Some(count) if count == bytes.len() => Ok(()),
            _ => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}
