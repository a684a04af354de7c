//! [`Socket`]: the carriers of a control channel behind one nonblocking interface.

use super::frame::FDS_MAX;
use super::memory::MemoryEnd;
use super::tls::TlsSocket;
use drover_tls::{CHANNEL_BINDING_BYTES, TlsSession};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

/// Credentials of the process at the other end of a Unix socket, as of connecting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeerCred {
    /// Process id; 0 if the process lives in another pid namespace.
    pub pid: u32,
    /// Effective user id.
    pub uid: u32,
    /// Effective group id.
    pub gid: u32,
}

/// A nonblocking byte stream that may carry descriptors.
#[derive(Debug)]
pub(crate) enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
    Tls(Box<TlsSocket>),
    Memory(MemoryEnd),
}

/// Result of one read.
pub(crate) struct Received {
    /// Number of bytes; 0 means end of stream.
    pub(crate) len: usize,
    /// Whether the system discarded descriptors.
    pub(crate) fds_lost: bool,
}

impl Received {
    fn bytes(len: usize) -> Received {
        let fds_lost = false;
        Received { len, fds_lost }
    }
}

impl Socket {
    pub(crate) fn tls(stream: TcpStream, session: TlsSession) -> Socket {
        Socket::Tls(Box::new(TlsSocket::new(stream, session)))
    }

    pub(crate) fn carries_fds(&self) -> bool {
        !matches!(self, Socket::Tcp(_) | Socket::Tls(_))
    }

    /// Descriptor for `poll`; `None` for an in-memory end.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Socket::Unix(stream) => Some(stream.as_fd()),
            Socket::Tcp(stream) => Some(stream.as_fd()),
            Socket::Tls(socket) => Some(socket.stream().as_fd()),
            Socket::Memory(_) => None,
        }
    }

    /// Writes as many bytes as possible now; the descriptors go with the first byte. `WouldBlock` if there is no space.
    pub(crate) fn write(&self, bytes: &[u8], fds: &[Arc<OwnedFd>]) -> io::Result<usize> {
        match self {
            Socket::Unix(stream) => send(stream.as_fd(), bytes, fds),
            Socket::Tcp(stream) => send(stream.as_fd(), bytes, &[]),
            Socket::Tls(socket) => socket.write(bytes),
            Socket::Memory(end) => end.write(bytes, fds),
        }
    }

    /// Whether a read is known to find nothing, if that can be told without a system call.
    pub(crate) fn is_surely_empty(&self) -> bool {
        matches!(self, Socket::Memory(end) if end.is_empty())
    }

    /// Reads available bytes; appends descriptors to `fds`. `WouldBlock` if there are none.
    pub(crate) fn read(&self, out: &mut [u8], fds: &mut Vec<Arc<OwnedFd>>) -> io::Result<Received> {
        match self {
            Socket::Unix(stream) => receive(stream.as_fd(), out, fds),
            Socket::Tcp(stream) => receive(stream.as_fd(), out, fds),
            Socket::Tls(socket) => socket.read(out).map(Received::bytes),
            Socket::Memory(end) => end.read(out, fds).map(Received::bytes),
        }
    }

    /// Writes what the carrier itself has kept, as far as possible now.
    pub(crate) fn flush(&self) {
        if let Socket::Tls(socket) = self {
            socket.flush();
        }
    }

    /// Whether space in the socket is worth waiting for; `has_frames`: frames wait to be written.
    pub(crate) fn wants_write(&self, has_frames: bool) -> bool {
        match self {
            Socket::Tls(socket) => socket.wants_write(has_frames),
            _ => has_frames,
        }
    }

    /// Whether a TLS handshake is under way.
    pub(crate) fn is_handshaking(&self) -> bool {
        matches!(self, Socket::Tls(socket) if socket.is_handshaking())
    }

    /// Bytes that name this channel to both ends and to nobody else; only TLS has some, after its handshake.
    pub(crate) fn channel_binding(&self) -> Option<[u8; CHANNEL_BINDING_BYTES]> {
        match self {
            Socket::Tls(socket) => socket.channel_binding(),
            _ => None,
        }
    }

    /// Shuts down both directions for all holders of the socket. Errors are ignored: the socket is closed soon.
    pub(crate) fn shutdown(&self) {
        let _ = match self {
            Socket::Unix(stream) => stream.shutdown(Shutdown::Both),
            Socket::Tcp(stream) => stream.shutdown(Shutdown::Both),
            Socket::Tls(socket) => {
                socket.close();
                socket.stream().shutdown(Shutdown::Both)
            }
            Socket::Memory(end) => {
                end.shutdown();
                Ok(())
            }
        };
    }

    /// Waits until the socket is readable (or writable, if requested), at most `timeout`. Returns false on timeout.
    pub(crate) fn wait(&self, writable: bool, timeout: Duration) -> bool {
        let Some(fd) = self.fd() else {
            return match self {
                Socket::Memory(end) => end.wait_readable(timeout),
                Socket::Unix(_) | Socket::Tcp(_) | Socket::Tls(_) => true,
            };
        };
        let out = if writable {
            PollFlags::OUT
        } else {
            PollFlags::empty()
        };
        let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN | out)];
        // If interrupted or failed, the caller's next attempt shows the state.
        rustix::event::poll(&mut fds, Some(&timespec(timeout))) != Ok(0)
    }

    /// Credentials of the peer, if the kernel knows them.
    pub(crate) fn peer_cred(&self) -> Option<PeerCred> {
        let Socket::Unix(stream) = self else {
            return None;
        };
        let cred = rustix::net::sockopt::socket_peercred(stream).ok()?;
        Some(PeerCred {
            pid: u32::try_from(cred.pid.as_raw_nonzero().get()).unwrap_or(0),
            uid: cred.uid.as_raw(),
            gid: cred.gid.as_raw(),
        })
    }
}

/// Converts `timeout` for system calls.
pub(crate) fn timespec(timeout: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(timeout.subsec_nanos()),
    }
}

fn send(socket: BorrowedFd<'_>, bytes: &[u8], fds: &[Arc<OwnedFd>]) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let borrowed: Vec<BorrowedFd<'_>> = fds.iter().map(|fd| fd.as_fd()).collect();
    if !borrowed.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(&borrowed)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    loop {
        let sent = rustix::net::sendmsg(
            socket,
            &[IoSlice::new(bytes)],
            &mut ancillary,
            SendFlags::NOSIGNAL,
        );
        match sent {
            Err(rustix::io::Errno::INTR) => continue,
            other => return Ok(other?),
        }
    }
}

fn receive(socket: BorrowedFd<'_>, out: &mut [u8], fds: &mut Vec<Arc<OwnedFd>>) -> io::Result<Received> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let got = loop {
        let flags = RecvFlags::CMSG_CLOEXEC;
        match rustix::net::recvmsg(socket, &mut [IoSliceMut::new(out)], &mut ancillary, flags) {
            Err(rustix::io::Errno::INTR) => continue,
            other => break other?,
        }
    };
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights.map(Arc::new));
        }
    }
    Ok(Received {
        len: got.bytes,
        fds_lost: got.flags.contains(ReturnFlags::CTRUNC),
    })
}
