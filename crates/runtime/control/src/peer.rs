//! [`Peer`]: the process or host at the other end of a control channel, for log lines.

use super::socket::{PeerCred, Socket};
use std::fmt;
use std::net::SocketAddr;

/// The other end of a control channel, as of connecting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Peer {
    /// A process on this machine, over a Unix socket.
    Process(PeerCred),
    /// The remote address of a TCP connection.
    Host(SocketAddr),
    /// A thread of this process, over a [`pair`](crate::ControlStream::pair).
    ThisProcess,
    /// Unknown: the system did not report the peer, usually because the connection had already ended.
    Unknown,
}

impl Peer {
    pub(crate) fn of(socket: &Socket) -> Peer {
        match socket {
            Socket::Unix(_) => socket.peer_cred().map_or(Peer::Unknown, Peer::Process),
            Socket::Tcp(stream) => stream.peer_addr().map_or(Peer::Unknown, Peer::Host),
            Socket::Tls(socket) => socket.stream().peer_addr().map_or(Peer::Unknown, Peer::Host),
            Socket::Memory(_) => Peer::ThisProcess,
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Process(cred) => write!(f, "pid {} (uid {})", cred.pid, cred.uid),
            Peer::Host(addr) => addr.fmt(f),
            Peer::ThisProcess => f.write_str("this process"),
            Peer::Unknown => f.write_str("unknown"),
        }
    }
}
