//! [`Outbound`]: the bounded queue of outgoing frames. Shared by a stream and its [`Keeper`](super::Keeper).

use super::error::ControlError;
use super::frame::{BODY_BYTES_MAX, FDS_MAX, Header, kind};
use super::socket::Socket;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most bytes that wait for a peer that does not read.
pub(crate) const QUEUE_BYTES_MAX: usize = 1 << 20;
/// Most descriptors that wait: a client of 240 workers exports two for each before the server reads any.
pub(crate) const QUEUE_FDS_MAX: usize = 1024;

/// The writing half of a channel.
#[derive(Debug)]
pub(crate) struct Outbound {
    pub(crate) socket: Socket,
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    bytes: VecDeque<u8>,
    /// Bytes ever written to the socket: positions count from the start of the stream.
    written: u64,
    /// Descriptors and the position of the byte they are sent with, ascending.
    fds: VecDeque<(u64, Vec<Arc<OwnedFd>>)>,
    fd_count: usize,
    frames_sent: u64,
    /// Whether the connection broke while writing. The reading half detects it and reports the reason.
    broken: bool,
}

impl Outbound {
    pub(crate) fn new(socket: Socket) -> Outbound {
        Outbound {
            socket,
            queue: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        // No code panics while it holds the lock.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a frame and writes as much as possible now.
    pub(crate) fn send(&self, kind: u16, body: &[u8], fds: &[Arc<OwnedFd>]) -> Result<(), ControlError> {
        if body.len() > BODY_BYTES_MAX {
            return Err(ControlError::TooLong { bytes: body.len() });
        }
        if fds.len() > FDS_MAX {
            return Err(ControlError::TooManyFds { count: fds.len() });
        }
        if !fds.is_empty() && !self.socket.carries_fds() {
            return Err(ControlError::FdsOverTcp);
        }
        let mut queue = self.lock();
        queue.push(kind, body, fds);
        queue.flush(&self.socket);
        let (queued_bytes, queued_fds) = (queue.bytes.len(), queue.fd_count);
        if queued_bytes > QUEUE_BYTES_MAX || queued_fds > QUEUE_FDS_MAX {
            queue.give_up();
            return Err(ControlError::Stalled {
                queued_bytes,
                queued_fds,
            });
        }
        Ok(())
    }

    /// Sends a heartbeat unless frames are already waiting: then the peer does not read anyway.
    pub(crate) fn beat(&self, kind: u16) {
        let mut queue = self.lock();
        queue.flush(&self.socket);
        if queue.bytes.is_empty() {
            queue.push(kind, &[], &[]);
            queue.flush(&self.socket);
        }
    }

    /// Sends a ping if no frame was sent since `frames_sent` had the given value. Returns the current value.
    pub(crate) fn ping_if_silent_since(&self, frames_sent: u64) -> u64 {
        if self.frames_sent() == frames_sent {
            self.beat(kind::PING);
        }
        self.frames_sent()
    }

    /// Writes as much as possible now.
    pub(crate) fn flush(&self) {
        self.lock().flush(&self.socket);
    }

    /// Number of frames queued so far.
    pub(crate) fn frames_sent(&self) -> u64 {
        self.lock().frames_sent
    }

    /// Whether something waits for the peer to read, and space in the socket would help.
    pub(crate) fn wants_write(&self) -> bool {
        let has_frames = !self.lock().bytes.is_empty();
        self.socket.wants_write(has_frames)
    }

    /// Drops what waits.
    pub(crate) fn forget(&self) {
        self.lock().drop_all();
    }
}

impl Queue {
    fn push(&mut self, kind: u16, body: &[u8], fds: &[Arc<OwnedFd>]) {
        self.frames_sent += 1;
        if self.broken {
            return;
        }
        if !fds.is_empty() {
            let position = self.written + self.bytes.len() as u64;
            self.fds.push_back((position, fds.to_vec()));
            self.fd_count += fds.len();
        }
        let header = Header {
            kind,
            body_bytes: body.len(),
            fd_count: fds.len(),
        };
        self.bytes.extend(header.encode());
        self.bytes.extend(body);
    }

    fn flush(&mut self, socket: &Socket) {
        while !self.bytes.is_empty() {
            match self.write_some(socket) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // Too many descriptors are in flight in sockets (our limit of open files): retry later.
                Err(error) if error.raw_os_error() == Some(Errno::TOOMANYREFS.raw_os_error()) => return,
                Err(_) => {
                    // The reading half still receives the peer's earlier frames, then the end of the stream.
                    socket.shutdown();
                    return self.give_up();
                }
            }
        }
        socket.flush();
    }

    /// One system call, some more with TLS: writes bytes up to the next ones that have descriptors of their own.
    fn write_some(&mut self, socket: &Socket) -> io::Result<()> {
        let (front, _) = self.bytes.as_slices();
        let with_fds = self.fds.front().is_some_and(|(at, _)| *at == self.written);
        let fds: &[_] = if with_fds { &self.fds[0].1 } else { &[] };
        let next_fds = self.fds.get(usize::from(with_fds));
        let limit = next_fds.map_or(usize::MAX, |(at, _)| (*at - self.written) as usize);
        let len = socket.write(&front[..front.len().min(limit)], fds)?;
        self.bytes.drain(..len);
        self.written += len as u64;
        if with_fds && len > 0 {
            let sent = self.fds.pop_front();
            self.fd_count -= sent.map_or(0, |(_, fds)| fds.len());
        }
        Ok(())
    }

    fn give_up(&mut self) {
        self.broken = true;
        self.drop_all();
    }

    fn drop_all(&mut self) {
        self.bytes = VecDeque::new();
        self.fds.clear();
        self.fd_count = 0;
    }
}
