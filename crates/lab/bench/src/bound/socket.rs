//! The bare socket: 64 B there, 64 B back over a Unix stream socket, both sides polling.

use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::io;
use std::os::fd::AsFd;

/// Bytes of a message.
pub(super) const MESSAGE_BYTES: usize = 64;

/// First byte of the message that ends a session.
const STOP: u8 = 1;

/// Reads a whole message by polling, without sleeping.
pub(super) fn receive(socket: impl AsFd, message: &mut [u8]) -> io::Result<()> {
    let mut at = 0;
    while at < message.len() {
        match recv(socket.as_fd(), &mut message[at..], RecvFlags::DONTWAIT) {
            Ok((0, _)) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok((n, _)) => at += n,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => drover_mem::pause(),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Sends a whole message; 64 bytes always fit into an empty socket.
pub(super) fn transmit(socket: impl AsFd, message: &[u8]) -> io::Result<()> {
    match send(socket, message, SendFlags::NOSIGNAL)? {
        n if n == message.len() => Ok(()),
        _ => Err(io::ErrorKind::WriteZero.into()),
    }
}

/// Echoes messages until a stop message.
pub(super) fn serve(socket: impl AsFd) -> io::Result<()> {
    let mut message = [0; MESSAGE_BYTES];
    loop {
        receive(socket.as_fd(), &mut message)?;
        if message[0] == STOP {
            return Ok(());
        }
        transmit(socket.as_fd(), &message)?;
    }
}

/// One round trip.
pub(super) fn ping(socket: impl AsFd) -> io::Result<()> {
    let mut message = [0; MESSAGE_BYTES];
    transmit(socket.as_fd(), &message)?;
    receive(socket.as_fd(), &mut message)
}

/// Ends the session.
pub(super) fn stop(socket: impl AsFd) -> io::Result<()> {
    transmit(socket, &[STOP; MESSAGE_BYTES])
}
