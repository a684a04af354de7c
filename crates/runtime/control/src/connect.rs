//! [`connect`]: a client's socket.

use super::access::advice;
use super::addr::{ControlAddr, Endpoint};
use super::error::DialError;
use super::runtime_dir::{runtime_dir, trusted_in};
use super::socket::Socket;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Connects to the server at `addr`; blocks for at most `timeout` per resolved address.
pub(crate) fn connect(addr: &ControlAddr, timeout: Duration) -> Result<Socket, DialError> {
    match addr.place() {
        Endpoint::Path(path) => dial_unix(path, timeout).map_err(|error| dial_error(addr, error)),
        Endpoint::HostPort { host, port } => {
            let session = addr.tls().map(|tls| tls.session(host)).transpose();
            let session = session.map_err(|source| DialError::Tls {
                addr: addr.to_string(),
                source,
            })?;
            let stream = dial_tcp(addr, host, *port, timeout)?;
            Ok(match session {
                None => Socket::Tcp(stream),
                Some(session) => Socket::tls(stream, session),
            })
        }
    }
}

fn dial_unix(path: &Path, timeout: Duration) -> io::Result<Socket> {
    // A name is resolved only in a directory of trusted users' servers; a path is the caller's choice.
    let dir = runtime_dir();
    let trusted = match path.parent() == Some(&dir) {
        true => Some(trusted_in(&dir)?),
        false => None,
    };
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
    let socket = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    // With a full backlog, connect blocks; the send timeout bounds that.
    set_socket_timeout(
        &socket,
        Timeout::Send,
        Some(timeout.max(Duration::from_millis(1))),
    )?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    if let Some(trusted) = trusted {
        let listener = rustix::net::sockopt::socket_peercred(&socket)?.uid.as_raw();
        if !trusted.contains(&listener) {
            let text = format!("user {listener} listens there, whom this user does not trust");
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
        }
    }
    set_socket_timeout(&socket, Timeout::Send, None)?;
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(true)?;
    Ok(Socket::Unix(stream))
}

fn dial_tcp(addr: &ControlAddr, host: &str, port: u16, timeout: Duration) -> Result<TcpStream, DialError> {
    let resolve = |source| DialError::Resolve {
        host: host.to_owned(),
        source,
    };
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for target in (host, port).to_socket_addrs().map_err(resolve)? {
        let connected = TcpStream::connect_timeout(&target, timeout.max(Duration::from_millis(1)));
        let ready = connected.and_then(|stream| {
            stream.set_nonblocking(true)?;
            stream.set_nodelay(true)?;
            Ok(stream)
        });
        match ready {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(dial_error(addr, last))
}

fn dial_error(addr: &ControlAddr, source: io::Error) -> DialError {
    let text = addr.to_string();
    match (source.kind(), addr.place()) {
        (io::ErrorKind::NotFound, Endpoint::Path(path)) => DialError::NoServer {
            addr: text,
            path: path.display().to_string(),
        },
        (io::ErrorKind::PermissionDenied, Endpoint::Path(path)) if source.raw_os_error().is_some() => {
            DialError::Forbidden {
                addr: text,
                advice: advice(path),
            }
        }
        (io::ErrorKind::ConnectionRefused, _) => DialError::Refused { addr: text },
        (io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock, _) => DialError::Timeout { addr: text },
        _ => DialError::System { addr: text, source },
    }
}
