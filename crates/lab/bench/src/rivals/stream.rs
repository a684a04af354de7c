//! [`Stream`]: a non-blocking socket to a rival.

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// A stream socket connected to a rival (a server to compare with); sends and receives without waiting.
#[derive(Debug)]
pub struct Stream {
    socket: OwnedFd,
}

impl Stream {
    /// Connects over a Unix socket.
    ///
    /// # Errors
    /// The connection failed.
    pub fn unix(path: &Path) -> io::Result<Stream> {
        let socket = UnixStream::connect(path)?.into();
        Ok(Stream { socket })
    }

    /// Connects over TCP, without Nagle's delay.
    ///
    /// # Errors
    /// The connection failed.
    pub fn tcp(address: SocketAddr) -> io::Result<Stream> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Stream {
            socket: stream.into(),
        })
    }

    /// Descriptor to poll.
    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Sends as much as the socket takes; returns 0 if it takes nothing.
    pub(super) fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        match send(&self.socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(n) => Ok(n),
            Err(Errno::AGAIN | Errno::INTR) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    /// Receives available bytes; returns 0 if there are none.
    ///
    /// # Errors
    /// The rival closed the connection, or the socket failed.
    pub(super) fn receive(&self, bytes: &mut [u8]) -> io::Result<usize> {
        match recv(&self.socket, bytes, RecvFlags::DONTWAIT) {
            Ok((0, _)) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok((n, _)) => Ok(n),
            Err(Errno::AGAIN | Errno::INTR) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }
}
