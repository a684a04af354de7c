//! System calls on the sockets of links, which never wait.

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Silence after which the system asks whether the other machine is still there; it gives up after three questions.
const PROBE_AFTER: Duration = Duration::from_secs(10);
const PROBE_EVERY: Duration = Duration::from_secs(5);

/// Writes once. `None`: there is no space now.
pub(crate) fn send(socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<Option<usize>> {
    loop {
        match rustix::net::send(socket, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::AGAIN) => return Ok(None),
            done => return Ok(Some(done?)),
        }
    }
}

/// Reads once into `into`, which is not empty. `None`: there is nothing now.
///
/// # Errors
/// Also at the end of input.
pub(crate) fn receive(socket: BorrowedFd<'_>, into: &mut [u8]) -> io::Result<Option<usize>> {
    loop {
        match rustix::net::recv(socket, &mut *into, RecvFlags::DONTWAIT) {
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::AGAIN) => return Ok(None),
            Ok((0, _)) => {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the peer closed the link",
                ));
            }
            done => return Ok(Some(done?.0)),
        }
    }
}

/// Begins to connect to `addr`; the socket becomes writable when that has ended.
pub(crate) fn connect(addr: SocketAddr) -> io::Result<OwnedFd> {
    let family = match addr {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    tune(socket.as_fd());
    match rustix::net::connect(&socket, &addr) {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => Ok(socket),
        Err(errno) => Err(errno.into()),
    }
}

/// Whether connecting has ended well.
pub(crate) fn connected(socket: BorrowedFd<'_>) -> io::Result<()> {
    Ok(sockopt::socket_error(socket)??)
}

/// Sets what links want of TCP: no delay of short segments, and notice of machines that vanish. A system that refuses
/// serves more slowly, or notices later.
pub(crate) fn tune(socket: BorrowedFd<'_>) {
    let _ = sockopt::set_tcp_nodelay(socket, true);
    let _ = sockopt::set_socket_keepalive(socket, true);
    let _ = sockopt::set_tcp_keepidle(socket, PROBE_AFTER);
    let _ = sockopt::set_tcp_keepintvl(socket, PROBE_EVERY);
    let _ = sockopt::set_tcp_keepcnt(socket, 3);
}
