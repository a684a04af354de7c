//! [`Input`]: bytes of a link that were read and not handled yet: mostly the beginning of a frame.
//!
//! All links of a core read into one buffer. What is left of it moves to the link, and back to the front of the buffer
//! before the next read. A frame that is longer than the buffer is collected in the link.

use crate::frame;
use crate::socket;
use drover_net::Event;
use std::io;
use std::os::fd::BorrowedFd;

/// Most bytes of a long frame that one read adds.
const LONG_READ_BYTES: usize = 1 << 20;
/// Memory that a link keeps for the beginning of a frame, bytes.
const KEPT_BYTES: usize = 64 << 10;

#[derive(Default, Debug)]
pub(crate) struct Input {
    held: Vec<u8>,
    /// The socket may have input.
    is_readable: bool,
    /// The peer has stopped writing, or the link broke: behind the rest of the input comes its end.
    is_ending: bool,
}

impl Input {
    /// Takes note of what the poller reports.
    pub(crate) fn notice(&mut self, event: &Event) {
        self.is_readable |= event.readable;
        self.is_ending |= event.hung_up;
    }

    /// Whether another turn would read something, as far as is known.
    pub(crate) fn is_readable(&self) -> bool {
        self.is_readable
    }

    /// Frees memory that holds nothing.
    pub(crate) fn release(&mut self) {
        self.held.shrink_to_fit();
    }

    /// Forgets everything, for another socket.
    pub(crate) fn clear(&mut self) {
        *self = Input::default();
    }

    /// Whether it holds part of a frame that does not fit in a buffer of `buffer_bytes`.
    fn is_long(&self, buffer_bytes: usize) -> bool {
        frame::frame_bytes(&self.held).is_some_and(|total| total > buffer_bytes)
    }

    /// Reads once, if the socket may have input, and passes all bytes at hand to `handle`, which returns how many it is
    /// done with. Returns the number of bytes read.
    ///
    /// # Errors
    /// The peer closed the link, it broke, or `handle` failed.
    pub(crate) fn turn<E: From<io::Error>>(
        &mut self,
        socket: BorrowedFd<'_>,
        buffer: &mut [u8],
        handle: impl FnOnce(&[u8]) -> Result<usize, E>,
    ) -> Result<usize, E> {
        if self.is_long(buffer.len()) {
            let count = self.read_long(socket)?;
            let long = std::mem::take(&mut self.held);
            let used = handle(&long)?;
            self.held = long;
            self.held.drain(..used);
            self.shrink();
            return Ok(count);
        }
        let held = self.held.len();
        buffer[..held].copy_from_slice(&self.held);
        self.held.clear();
        let mut count = 0;
        if self.is_readable && held < buffer.len() {
            match socket::receive(socket, &mut buffer[held..])? {
                Some(got) => {
                    count = got;
                    // Less than there was space for: the next arrival makes an event.
                    self.is_readable = self.is_ending || held + got == buffer.len();
                }
                None => self.is_readable = false,
            }
        }
        let bytes = &buffer[..held + count];
        let used = handle(bytes)?;
        self.held.extend_from_slice(&bytes[used..]);
        self.shrink();
        Ok(count)
    }

    /// Adds to a long frame, not beyond its end.
    fn read_long(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        let held = self.held.len();
        let total = frame::frame_bytes(&self.held).expect("its prefix is complete");
        let wanted = total.saturating_sub(held).min(LONG_READ_BYTES);
        if !self.is_readable || wanted == 0 {
            return Ok(0);
        }
        self.held.resize(held + wanted, 0);
        let got = socket::receive(socket, &mut self.held[held..]);
        let count = *got.as_ref().unwrap_or(&None).as_ref().unwrap_or(&0);
        self.held.truncate(held + count);
        self.is_readable = got?.is_some();
        Ok(count)
    }

    fn shrink(&mut self) {
        if self.held.is_empty() && self.held.capacity() > KEPT_BYTES {
            self.held = Vec::new();
        }
    }
}
