//! An in-memory pair of byte pipes that carries descriptors: control channels of tests and simulators.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Most bytes in one direction before its writer would block, like a socket buffer.
const PIPE_BYTES: usize = 64 << 10;

/// One direction.
#[derive(Debug, Default)]
struct Pipe {
    state: Mutex<PipeState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct PipeState {
    bytes: VecDeque<u8>,
    /// Bytes ever read: stream positions count from the start.
    taken: u64,
    /// Descriptors and the position of the byte they are sent with, ascending.
    fds: VecDeque<(u64, Vec<Arc<OwnedFd>>)>,
    closed: bool,
}

impl Pipe {
    fn lock(&self) -> MutexGuard<'_, PipeState> {
        // The state is plain data, consistent even after a panic of the other end.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One end of a pair.
#[derive(Debug)]
pub(crate) struct MemoryEnd {
    incoming: Arc<Pipe>,
    outgoing: Arc<Pipe>,
}

impl MemoryEnd {
    /// Two connected ends.
    pub(crate) fn pair() -> (MemoryEnd, MemoryEnd) {
        let (a, b) = (Arc::new(Pipe::default()), Arc::new(Pipe::default()));
        let left = MemoryEnd {
            incoming: a.clone(),
            outgoing: b.clone(),
        };
        (
            left,
            MemoryEnd {
                incoming: b,
                outgoing: a,
            },
        )
    }

    /// Like `sendmsg` on a nonblocking socket.
    pub(crate) fn write(&self, bytes: &[u8], fds: &[Arc<OwnedFd>]) -> io::Result<usize> {
        let mut pipe = self.outgoing.lock();
        if pipe.closed {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let len = bytes.len().min(PIPE_BYTES - pipe.bytes.len().min(PIPE_BYTES));
        if len == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if !fds.is_empty() {
            let position = pipe.taken + pipe.bytes.len() as u64;
            pipe.fds.push_back((position, fds.to_vec()));
        }
        pipe.bytes.extend(&bytes[..len]);
        self.outgoing.changed.notify_all();
        Ok(len)
    }

    /// Whether [`read`](MemoryEnd::read) would block.
    pub(crate) fn is_empty(&self) -> bool {
        let pipe = self.incoming.lock();
        pipe.bytes.is_empty() && !pipe.closed
    }

    /// Like `recvmsg` on a nonblocking socket: a read stops before bytes that have descriptors of their own.
    pub(crate) fn read(&self, out: &mut [u8], fds: &mut Vec<Arc<OwnedFd>>) -> io::Result<usize> {
        let mut pipe = self.incoming.lock();
        if pipe.bytes.is_empty() {
            return if pipe.closed {
                Ok(0)
            } else {
                Err(io::ErrorKind::WouldBlock.into())
            };
        }
        let taken = pipe.taken;
        if pipe.fds.front().is_some_and(|(at, _)| *at == taken) {
            fds.extend(pipe.fds.pop_front().into_iter().flat_map(|(_, fds)| fds));
        }
        let until_fds = pipe
            .fds
            .front()
            .map_or(usize::MAX, |(at, _)| (*at - taken) as usize);
        let len = out.len().min(pipe.bytes.len()).min(until_fds);
        for (to, from) in out.iter_mut().zip(pipe.bytes.drain(..len)) {
            *to = from;
        }
        pipe.taken += len as u64;
        Ok(len)
    }

    /// Shuts down both directions; bytes already written can still be read.
    pub(crate) fn shutdown(&self) {
        for pipe in [&self.incoming, &self.outgoing] {
            pipe.lock().closed = true;
            pipe.changed.notify_all();
        }
    }

    /// Waits until there are bytes to read, at most `timeout`. Returns false on timeout.
    pub(crate) fn wait_readable(&self, timeout: Duration) -> bool {
        let pipe = self.incoming.lock();
        let nothing = |state: &mut PipeState| state.bytes.is_empty() && !state.closed;
        let waited = self.incoming.changed.wait_timeout_while(pipe, timeout, nothing);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }
}
