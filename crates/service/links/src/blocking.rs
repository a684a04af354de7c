//! [`BlockingFrames`]: frames on a socket that waits, for control threads.

use crate::frame::{self, KEEP_ALIVE, PREFIX_BYTES};
use drover_base::Ns;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;

/// Most bytes that are waited for at once: memory is taken as they arrive.
const READ_BYTES: usize = 1 << 20;

#[derive(Debug)]
pub(crate) struct BlockingFrames {
    socket: TcpStream,
    /// Body of the last frame.
    body: Vec<u8>,
    body_bytes_max: usize,
}

impl BlockingFrames {
    pub(crate) fn new(socket: OwnedFd, body_bytes_max: usize) -> io::Result<BlockingFrames> {
        let socket = TcpStream::from(socket);
        socket.set_nonblocking(false)?;
        Ok(BlockingFrames {
            socket,
            body: Vec::new(),
            body_bytes_max,
        })
    }

    /// Sets the longest wait of a read or write without progress.
    pub(crate) fn set_timeout(&self, timeout: Ns) -> io::Result<()> {
        let timeout = Some(timeout.max(Ns::from_ms(1)).to_duration());
        self.socket.set_read_timeout(timeout)?;
        self.socket.set_write_timeout(timeout)
    }

    /// Body of the last frame received.
    pub(crate) fn last(&self) -> &[u8] {
        &self.body
    }

    /// Sends a frame.
    pub(crate) fn send(&mut self, body: &[u8]) -> io::Result<()> {
        let prefix = frame::prefix(body.len());
        let mut slices = &mut [IoSlice::new(&prefix), IoSlice::new(body)][..];
        while !slices.is_empty() {
            match self.socket.write_vectored(slices) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => IoSlice::advance_slices(&mut slices, count),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Waits for a frame. `None`: none has begun within the timeout.
    ///
    /// # Errors
    /// The peer closed the link, it broke, or a frame has begun and does not go on.
    pub(crate) fn receive(&mut self) -> io::Result<Option<&[u8]>> {
        let mut prefix = [0; PREFIX_BYTES];
        loop {
            match self.socket.read(&mut prefix[..1]) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            }
            self.socket.read_exact(&mut prefix[1..])?;
            if prefix != KEEP_ALIVE {
                break;
            }
            self.socket.write_all(&KEEP_ALIVE)?;
        }
        let len = u32::from_le_bytes(prefix) as usize;
        if len > self.body_bytes_max {
            let text = format!(
                "a frame of {len} bytes; at most {} were expected",
                self.body_bytes_max
            );
            return Err(io::Error::new(ErrorKind::InvalidData, text));
        }
        self.body.clear();
        while self.body.len() < len {
            let begun = self.body.len();
            self.body.resize(len.min(begun + READ_BYTES), 0);
            self.socket.read_exact(&mut self.body[begun..])?;
        }
        Ok(Some(&self.body))
    }
}
