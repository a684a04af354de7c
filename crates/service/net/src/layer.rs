//! [`Layer`]: an optional layer between a socket and a connection, such as TLS.

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;

/// An optional layer between a socket and a connection, such as TLS. One per connection; never blocks.
pub trait Layer {
    /// Reads from the socket, decodes into `into` and returns the number of decoded bytes; 0 at the end of input. The
    /// connection calls it again, possibly in a later turn, until it returns `WouldBlock`.
    ///
    /// # Errors
    /// `WouldBlock` if there is no input now. Any other error ends the connection, except `Interrupted`.
    fn read(&mut self, socket: BorrowedFd<'_>, into: &mut [u8]) -> io::Result<usize>;

    /// Takes bytes from the front of `from` and returns their number. Writes to the socket what the socket has space
    /// for, bytes kept from earlier calls first; the rest it keeps.
    ///
    /// # Errors
    /// `WouldBlock` if it took nothing. Any other error ends the connection, except `Interrupted`, after which it is
    /// called again.
    fn write(&mut self, socket: BorrowedFd<'_>, from: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Whether bytes are left to send to the socket: bytes kept for lack of space, or messages of the layer's own.
    fn wants_write(&self) -> bool;

    /// Tells the peer that no more bytes follow, if the socket has space for that message. Called at most once, before
    /// an orderly close; not for a connection that broke, was idle too long, was shed for its memory or ends by
    /// [`Sockets::close_all`](crate::Sockets::close_all). Does nothing by default.
    fn close(&mut self, socket: BorrowedFd<'_>) {
        let _ = socket;
    }
}
