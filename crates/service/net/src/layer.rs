//! [`Layer`]: what may lie between a socket and a connection, such as TLS.

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;

/// What may lie between a socket and a connection, such as TLS. One per connection; never blocks.
pub trait Layer {
    /// Reads from the socket what it needs, and gives what that means. Called until it says `WouldBlock`. Returns 0 at
    /// the end. Errors: `WouldBlock` if there is nothing now; anything else ends the connection.
    fn read(&mut self, socket: BorrowedFd<'_>, into: &mut [u8]) -> io::Result<usize>;

    /// Takes bytes, as many as it likes, and writes to the socket what it can, be it nothing but what it kept from
    /// earlier calls. Errors: `WouldBlock` if it took nothing; anything else ends the connection.
    fn write(&mut self, socket: BorrowedFd<'_>, from: &[IoSlice<'_>]) -> io::Result<usize>;

    /// It keeps bytes that the socket had no space for, or that only it need to send.
    fn wants_write(&self) -> bool;

    /// Nothing more will be written: tells the other end, as far as the socket takes it. Once, at the end of a connection
    /// that did not break.
    fn close(&mut self, socket: BorrowedFd<'_>) {
        let _ = socket;
    }
}
