//! [`OutQueue`]: bytes that wait to be written to a link, and those just written that may still be needed.
//!
//! ```text
//!   position  base          written                end
//!             | written ... | to be written ...... |
//! ```
//! Positions count all bytes since the beginning and are never reused, so that an owner can name its messages by them.

use crate::frame::{self, KEEP_ALIVE};
use crate::socket;
use drover_net::Output;
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;

/// An empty queue keeps memory of at most this many bytes.
const KEPT_BYTES: usize = 512 << 10;

#[derive(Default, Debug)]
pub(crate) struct OutQueue {
    bytes: Vec<u8>,
    /// Number of `bytes` already written.
    done: usize,
    /// Position of the first of `bytes`.
    base: u64,
}

impl OutQueue {
    /// Bytes that wait to be written.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.done
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Position behind the last byte.
    #[inline]
    pub(crate) fn end(&self) -> u64 {
        self.base + self.bytes.len() as u64
    }

    /// Position behind the last written byte.
    #[inline]
    pub(crate) fn written(&self) -> u64 {
        self.base + self.done as u64
    }

    /// The `len` bytes before the position `end`.
    pub(crate) fn before(&self, end: u64, len: usize) -> &[u8] {
        let end = (end - self.base) as usize;
        &self.bytes[end - len..end]
    }

    /// Appends a frame and returns the length of its body.
    #[inline]
    pub(crate) fn push(&mut self, pieces: &[&[u8]]) -> usize {
        let len = pieces.iter().map(|piece| piece.len()).sum();
        self.bytes.extend_from_slice(&frame::prefix(len));
        for piece in pieces {
            self.bytes.extend_from_slice(piece);
        }
        len
    }

    pub(crate) fn push_keep_alive(&mut self) {
        self.bytes.extend_from_slice(&KEEP_ALIVE);
    }

    /// Appends a frame with everything in `output`, which is empty afterwards.
    #[inline]
    pub(crate) fn push_output(&mut self, output: &mut Output) {
        if let Some(piece) = output.only_piece() {
            let len = self.push(&[piece]);
            return output.wrote(len);
        }
        self.bytes.extend_from_slice(&frame::prefix(output.ready_bytes()));
        while output.ready_bytes() > 0 {
            let mut slices = [IoSlice::new(&[]); 16];
            let count = output.slices(&mut slices);
            let before = self.bytes.len();
            for slice in &slices[..count] {
                self.bytes.extend_from_slice(slice);
            }
            let len = self.bytes.len() - before;
            output.wrote(len);
        }
    }

    /// Writes what the socket has space for. Returns whether that was everything.
    pub(crate) fn write(&mut self, socket: BorrowedFd<'_>) -> io::Result<bool> {
        while !self.is_empty() {
            match socket::send(socket, &self.bytes[self.done..])? {
                Some(count) => self.done += count,
                None => return Ok(false),
            }
        }
        self.clear();
        Ok(true)
    }

    /// Forgets the bytes before `position`, which are written, if they are many: those behind move to their place.
    pub(crate) fn forget_before(&mut self, position: u64) {
        let count = (position - self.base) as usize;
        if count > self.bytes.len() / 2 {
            self.bytes.drain(..count);
            self.done -= count;
            self.base = position;
        }
    }

    /// Frees the memory of an empty queue.
    pub(crate) fn release(&mut self) {
        if self.is_empty() {
            self.clear();
            self.bytes = Vec::new();
        }
    }

    /// Empties it.
    pub(crate) fn clear(&mut self) {
        self.base = self.end();
        self.done = 0;
        match self.bytes.capacity() > KEPT_BYTES {
            true => self.bytes = Vec::new(),
            false => self.bytes.clear(),
        }
    }
}
