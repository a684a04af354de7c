//! [`Layer`]: an optional layer between a socket and a connection, such as TLS.

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;

/// An optional layer between a socket and a connection, such as TLS. One per connection; never blocks.
pub trait Layer {
    /// Reads from the socket and returns decoded bytes. Called until it returns `WouldBlock`. Returns 0 at the end.
    ///
    /// # Errors
    /// `WouldBlock` if there is no input now; any other error ends the connection.
    fn read(&mut self, socket: BorrowedFd<'_>, into: &mut [u8]) -> io::Result<usize>;

    /// Takes as many bytes as it likes and writes what it can to the socket, possibly only bytes kept from earlier
    /// calls.
    ///
    /// # Errors
    /// `WouldBlock` if it took nothing; any other error ends the connection.
    fn write(&mut self, socket: BorrowedFd<'_>, from: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Whether it keeps bytes that the socket had no space for, or has bytes of its own to send.
    fn wants_write(&self) -> bool;

    /// Announces to the peer that no more will be written, as far as the socket takes it. Called once, at the end of a
    /// connection that did not break.
    fn close(&mut self, socket: BorrowedFd<'_>) {
        let _ = socket;
    }
}
