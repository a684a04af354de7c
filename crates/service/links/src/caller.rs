//! [`LinkCaller`]: a blocking client of one link, for control threads.

use crate::blocking::BlockingFrames;
use crate::handshake::{CHALLENGE_BYTES, LinkTarget, MemberIdentity, Prover, Refusal};
use crate::options::PeerAddr;
use crate::socket;
use drover_base::Ns;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};

/// Maximum bytes of a reply.
const REPLY_BYTES_MAX: usize = 256 << 20;

/// Failure of a call.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The member could not be reached.
    #[error("member {member} at {addr} cannot be reached: {source}")]
    Connect {
        /// Name of the member.
        member: String,
        /// Its address.
        addr: std::net::SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// One end refused the other.
    #[error("no link to member {member}: {source}")]
    Refused {
        /// Name of the member.
        member: String,
        /// The reason.
        source: Refusal,
    },
    /// The link broke, or the reply did not come in time. The message may have been executed.
    #[error("the link to member {member} was lost: {source}")]
    Lost {
        /// Name of the member.
        member: String,
        /// What the system says.
        source: io::Error,
    },
}

/// A blocking client of one link, to a core or to the control thread of a member. After an error the link is closed, and
/// further calls fail.
#[derive(Debug)]
pub struct LinkCaller {
    /// `None` after an error.
    frames: Option<BlockingFrames>,
    member: String,
}

impl LinkCaller {
    /// Makes a link to `target` of `peer`. No step of that waits longer than `timeout`.
    ///
    /// # Errors
    /// [`CallError`], if the member cannot be reached or an end refuses the other.
    pub fn connect(
        identity: &MemberIdentity,
        peer: &PeerAddr,
        target: LinkTarget,
        timeout: Ns,
    ) -> Result<LinkCaller, CallError> {
        let member = peer.name.clone();
        let connected = TcpStream::connect_timeout(&peer.addr, timeout.max(Ns(1)).to_duration());
        let socket = connected.and_then(|socket| {
            socket::tune(socket.as_fd());
            socket.set_read_timeout(Some(timeout.max(Ns::from_ms(1)).to_duration()))?;
            Ok(socket)
        });
        let failed = |source| CallError::Connect {
            member: member.clone(),
            addr: peer.addr,
            source,
        };
        let socket = socket.map_err(failed)?;
        let prover = Prover::new(identity, &peer.name, target);
        greet(&socket, &prover)
            .map_err(failed)?
            .map_err(|source| CallError::Refused {
                member: member.clone(),
                source,
            })?;
        let frames = BlockingFrames::new(OwnedFd::from(socket), REPLY_BYTES_MAX).map_err(failed)?;
        Ok(LinkCaller {
            frames: Some(frames),
            member,
        })
    }

    /// Sends a message and waits for its reply, for at most `timeout` without progress.
    ///
    /// # Errors
    /// [`CallError::Lost`].
    pub fn call(&mut self, message: &[u8], timeout: Ns) -> Result<&[u8], CallError> {
        self.send(message, timeout)?;
        self.receive(timeout)
    }

    /// Sends a message; [`receive`](LinkCaller::receive) is to be called for it later. Several messages can be under way,
    /// as long as their replies are short: a peer whose replies are not read stops reading.
    ///
    /// # Errors
    /// [`CallError::Lost`].
    pub fn send(&mut self, message: &[u8], timeout: Ns) -> Result<(), CallError> {
        let frames = self.frames.as_mut().ok_or_else(closed);
        let sent = frames.and_then(|frames| {
            frames.set_timeout(timeout)?;
            frames.send(message)
        });
        sent.map_err(|source| self.lost(source))
    }

    /// Waits for the reply to the oldest message without one, for at most `timeout` without progress.
    ///
    /// # Errors
    /// [`CallError::Lost`].
    pub fn receive(&mut self, timeout: Ns) -> Result<&[u8], CallError> {
        // Taken out, so that an error leaves nothing behind.
        let mut frames = match self.frames.take() {
            Some(frames) => frames,
            None => return Err(self.lost(closed())),
        };
        let received = frames
            .set_timeout(timeout)
            .and_then(|()| frames.receive().map(|reply| reply.is_some()));
        match received {
            Ok(true) => Ok(self.frames.insert(frames).last()),
            Ok(false) => Err(self.lost(io::ErrorKind::TimedOut.into())),
            Err(source) => Err(self.lost(source)),
        }
    }

    fn lost(&mut self, source: io::Error) -> CallError {
        self.frames = None;
        CallError::Lost {
            member: self.member.clone(),
            source,
        }
    }
}

fn closed() -> io::Error {
    io::ErrorKind::NotConnected.into()
}

/// Plays the client's part of the handshake.
fn greet(mut socket: &TcpStream, prover: &Prover) -> io::Result<Result<(), Refusal>> {
    socket.write_all(prover.hello())?;
    let mut challenge = [0; CHALLENGE_BYTES];
    socket.read_exact(&mut challenge)?;
    let proof = match prover.prove(&challenge) {
        Ok(proof) => proof,
        Err(refusal) => return Ok(Err(refusal)),
    };
    socket.write_all(&proof)?;
    let mut verdict = [0];
    socket.read_exact(&mut verdict)?;
    Ok(Prover::opened(verdict[0]))
}
