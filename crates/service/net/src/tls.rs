//! TLS as a [`Layer`].

use crate::Layer;
use drover_tls::{TlsAcceptor, TlsSession};
use rustix::net::{RecvFlags, SendFlags};
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::os::fd::BorrowedFd;

/// A layer with a new session, for one connection. If no session can be made, the layer ends the connection: plain text
/// is never the fallback.
pub fn tls_layer(acceptor: &TlsAcceptor) -> Box<dyn Layer> {
    match acceptor.session() {
        Ok(session) => Box::new(session),
        Err(error) => Box::new(Refusing(error.to_string())),
    }
}

impl Layer for TlsSession {
    fn read(&mut self, socket: BorrowedFd<'_>, into: &mut [u8]) -> io::Result<usize> {
        TlsSession::read(self, &mut TlsSocket(socket), into)
    }

    fn write(&mut self, socket: BorrowedFd<'_>, from: &[IoSlice<'_>]) -> io::Result<usize> {
        TlsSession::write(self, &mut TlsSocket(socket), from)
    }

    fn wants_write(&self) -> bool {
        TlsSession::wants_write(self)
    }

    fn close(&mut self, socket: BorrowedFd<'_>) {
        TlsSession::close(self, &mut TlsSocket(socket));
    }
}

/// Layer used when no session could be made, for the given reason.
struct Refusing(String);

impl Refusing {
    fn error(&self) -> io::Error {
        io::Error::new(
            ErrorKind::ConnectionAborted,
            format!("no TLS session: {}", self.0),
        )
    }
}

impl Layer for Refusing {
    fn read(&mut self, _: BorrowedFd<'_>, _: &mut [u8]) -> io::Result<usize> {
        Err(self.error())
    }

    fn write(&mut self, _: BorrowedFd<'_>, _: &[IoSlice<'_>]) -> io::Result<usize> {
        Err(self.error())
    }

    fn wants_write(&self) -> bool {
        false
    }
}

/// A socket with the traits that sessions need.
struct TlsSocket<'a>(BorrowedFd<'a>);

impl Read for TlsSocket<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let (count, _) = rustix::net::recv(self.0, into, RecvFlags::empty())?;
        Ok(count)
    }
}

impl Write for TlsSocket<'_> {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        Ok(rustix::net::send(self.0, from, SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
