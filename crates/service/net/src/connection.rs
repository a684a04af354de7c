//! [`Connection`]: reads input, passes it to the protocol, writes output.
//!
//! A connection reads into one buffer of the core, which stays in its caches; only the input that the protocol leaves
//! over (the beginning of a request) is kept, in a block of about its size. Long requests are read into their own
//! block.

mod activity;
mod readiness;

use crate::conn_table::Known;
use crate::counters::Counters;
use crate::pool::Block;
use crate::{Layer, Need, Output, Pool, Protocol};
use activity::{Activity, Unanswered};
use readiness::Readiness;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// A leftover of at most this many bytes is copied back to the core's buffer to continue reading there.
const COPIED_BYTES_MAX: usize = 2 << 10;
/// First block of a long request, bytes: twice the core's buffer. A block for the whole request comes only when this is
/// full.
const LONG_BYTES: usize = 32 << 10;
/// Maximum number of reads at the end of a connection, to discard unserved input.
const GOODBYE_READS: usize = 64;
/// Maximum number of pieces per write.
const SLICES: usize = 16;

pub(crate) struct Connection<T> {
    pub(crate) socket: OwnedFd,
    /// Facts about it for all cores.
    pub(crate) known: Arc<Known>,
    talk: T,
    layer: Option<Box<dyn Layer>>,
    /// Input that has not been used.
    pub(crate) rest: Block,
    pub(crate) output: Output,
    pub(crate) need: Need,
    pub(crate) readiness: Readiness,
    pub(crate) lists: Lists,
    pub(crate) activity: Activity,
    pub(crate) unanswered: Unanswered,
}

/// Lists of its core that a connection is in; it is in each at most once.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    /// Connections that have a turn in the next step.
    pub(crate) queued: bool,
    /// Connections that may have output.
    pub(crate) dirty: bool,
    /// Connections that wait for memory before they read on.
    pub(crate) hungry: bool,
    /// Connections that wait until the way to another core has space.
    pub(crate) stalled: bool,
    /// Connections that wait for the next second.
    pub(crate) asleep: bool,
}

/// Resources that a core lends to a connection during its turn.
pub(crate) struct Bench<'a> {
    /// The core's buffer.
    pub(crate) buffer: &'a mut [u8],
    /// Memory for incomplete requests.
    pub(crate) pool: &'a Pool,
    pub(crate) counters: &'a mut Counters,
    pub(crate) now_s: u32,
}

/// Result of a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    /// Nothing to do until an event.
    Done,
    /// There is more to do.
    Again,
    /// A long request waits for memory.
    Hungry,
    /// The connection broke.
    Broken,
}

/// Result of a read.
enum Read {
    Some(usize),
    /// No input for now, or the call was interrupted: then the socket is still readable.
    Nothing,
    End,
    Broken,
}

impl<T: Protocol> Connection<T> {
    pub(crate) fn new(
        socket: OwnedFd,
        known: Arc<Known>,
        talk: T,
        layer: Option<Box<dyn Layer>>,
        output: Output,
        now_s: u32,
    ) -> Connection<T> {
        Connection {
            socket,
            known,
            talk,
            layer,
            rest: Block::default(),
            output,
            need: Need::Input { at_least: 1 },
            readiness: Readiness::default(),
            lists: Lists::default(),
            activity: Activity::new(now_s),
            unanswered: Unanswered::default(),
        }
    }

    /// Reads once and serves the input, or serves input left from before.
    pub(crate) fn turn(&mut self, executor: &mut T::Executor<'_>, bench: &mut Bench<'_>) -> Turn {
        match self.need {
            Need::Close => Turn::Done,
            Need::Input { .. } if !self.readiness.is_readable() || self.output.is_full() => Turn::Done,
            Need::Input { at_least } => self.receive(executor, bench, at_least),
            Need::Notification if self.readiness.is_readable() => self.receive(executor, bench, 1),
            Need::OutputSpace if self.output.is_full() => Turn::Done,
            Need::OutputSpace
            | Need::Replies
            | Need::Route
            | Need::Tick
            | Need::Turn
            | Need::Notification => {
                let rest = std::mem::take(&mut self.rest);
                let used = self.advance(executor, rest.bytes());
                self.rest = rest;
                self.used(used, bench);
                self.after(bench)
            }
        }
    }

    fn receive(&mut self, executor: &mut T::Executor<'_>, bench: &mut Bench<'_>, at_least: usize) -> Turn {
        if self.rest.len() <= COPIED_BYTES_MAX && at_least <= bench.buffer.len() {
            return self.receive_short(executor, bench, at_least);
        }
        if !self.make_space(bench, at_least) {
            return Turn::Hungry;
        }
        let mut rest = std::mem::take(&mut self.rest);
        let read = self.read(&mut rest.data[rest.end..], bench);
        if let Read::Some(count) = read {
            rest.end += count;
        }
        // An incomplete request need not be looked at again.
        let whole = rest.len() >= at_least && matches!(read, Read::Some(_));
        let used = if whole {
            self.advance(executor, rest.bytes())
        } else {
            0
        };
        self.rest = rest;
        self.used(used, bench);
        self.after_read(read, bench)
    }

    /// Reads by the core's buffer.
    #[inline]
    fn receive_short(
        &mut self,
        executor: &mut T::Executor<'_>,
        bench: &mut Bench<'_>,
        at_least: usize,
    ) -> Turn {
        let kept = self.rest.len();
        let buffer = std::mem::take(&mut bench.buffer);
        let read = self.read(&mut buffer[kept..], bench);
        if let Read::Some(count) = read {
            if kept > 0 {
                buffer[..kept].copy_from_slice(self.rest.bytes());
                self.rest.release(bench.pool);
            }
            let all = &buffer[..kept + count];
            let used = if all.len() >= at_least {
                self.advance(executor, all)
            } else {
                0
            };
            if used > 0 {
                self.activity.served();
            }
            self.keep(&all[used..], bench.pool);
        }
        bench.buffer = buffer;
        self.after_read(read, bench)
    }

    fn after_read(&mut self, read: Read, bench: &mut Bench<'_>) -> Turn {
        match read {
            Read::Some(_) | Read::Nothing => self.after(bench),
            Read::End => {
                // The rest is an incomplete request that will never be complete.
                self.need = Need::Close;
                Turn::Done
            }
            Read::Broken => Turn::Broken,
        }
    }

    fn advance(&mut self, executor: &mut T::Executor<'_>, input: &[u8]) -> usize {
        let advance = self.talk.advance(executor, input, &mut self.output);
        self.need = advance.need;
        advance.used.min(input.len())
    }

    /// Whether there is more to do at once.
    fn after(&mut self, bench: &mut Bench<'_>) -> Turn {
        match self.need {
            Need::Input { .. } if self.readiness.is_readable() && !self.output.is_full() => Turn::Again,
            Need::Notification if self.readiness.is_readable() => Turn::Again,
            Need::Turn => {
                bench.counters.yields += 1;
                Turn::Again
            }
            _ => Turn::Done,
        }
    }

    /// Keeps the beginning of a request.
    fn keep(&mut self, bytes: &[u8], pool: &Pool) {
        if bytes.is_empty() {
            return;
        }
        let mut data = pool.take(bytes.len());
        data[..bytes.len()].copy_from_slice(bytes);
        self.rest = Block {
            data,
            start: 0,
            end: bytes.len(),
        };
    }

    /// Drops the first `count` bytes of the rest.
    fn used(&mut self, count: usize, bench: &mut Bench<'_>) {
        self.rest.start += count;
        if count > 0 {
            self.activity.served();
            self.activity.begin_long(bench.now_s);
        }
        if self.rest.is_empty() {
            self.rest.release(bench.pool);
        }
    }

    /// Makes space in `rest` for some of the `at_least` bytes wanted in total. Returns false if there is no memory.
    fn make_space(&mut self, bench: &Bench<'_>, at_least: usize) -> bool {
        let len = self.rest.len();
        let next = next_bytes(len, at_least);
        let is_long = self.rest.data.len() >= LONG_BYTES;
        if is_long && self.rest.end < self.rest.data.len() && self.rest.start == 0 {
            return true;
        }
        if next <= self.rest.data.len() {
            self.rest.data.copy_within(self.rest.start..self.rest.end, 0);
        } else {
            let Some(mut data) = bench.pool.try_take(next) else {
                return false;
            };
            data[..len].copy_from_slice(self.rest.bytes());
            self.rest.release(bench.pool);
            self.rest.data = data;
            if !is_long {
                self.activity.begin_long(bench.now_s);
            }
        }
        (self.rest.start, self.rest.end) = (0, len);
        true
    }

    #[inline]
    fn read(&mut self, into: &mut [u8], bench: &mut Bench<'_>) -> Read {
        bench.counters.reads += 1;
        let asked = into.len();
        let read = match &mut self.layer {
            None => rustix::net::recv(&self.socket, into, RecvFlags::empty()).map(|(count, _)| count),
            Some(layer) => layer.read(self.socket.as_fd(), into).map_err(|error| {
                log_failed_layer(&self.known, &error);
                errno_of(&error)
            }),
        };
        match read {
            Ok(0) => Read::End,
            Ok(count) => {
                bench.counters.bytes_read += count as u64;
                if self.activity.last_s() != bench.now_s {
                    self.activity.moved(bench.now_s);
                    self.known.spoke(bench.now_s);
                }
                // After a short read of a layer's bytes, the layer may have more of them.
                self.readiness.note_read(count < asked && self.layer.is_none());
                Read::Some(count)
            }
            Err(Errno::AGAIN) => {
                self.readiness.note_drained();
                Read::Nothing
            }
            Err(Errno::INTR) => Read::Nothing,
            Err(_) => Read::Broken,
        }
    }

    /// Writes as much output as the socket takes.
    ///
    /// # Errors
    /// The connection broke.
    pub(crate) fn write(&mut self, counters: &mut Counters, now_s: u32) -> Result<(), Errno> {
        while !self.readiness.is_blocked() && (self.output.ready_bytes() > 0 || self.layer_wants_write()) {
            counters.writes += 1;
            match self.write_once() {
                Ok(count) => {
                    counters.bytes_written += count as u64;
                    self.activity.moved(now_s);
                    self.output.wrote(count);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => self.readiness.note_write(true),
                Err(error) => return Err(error),
            }
        }
        if self.readiness.is_blocked() {
            self.output.settle();
        }
        Ok(())
    }

    fn layer_wants_write(&self) -> bool {
        self.layer.as_ref().is_some_and(|layer| layer.wants_write())
    }

    #[inline]
    fn write_once(&mut self) -> Result<usize, Errno> {
        if let (None, Some(only)) = (&self.layer, self.output.only_piece()) {
            let sent = rustix::net::send(&self.socket, only, SendFlags::NOSIGNAL)?;
            self.readiness.note_write(sent < only.len());
            return Ok(sent);
        }
        let mut slices = [IoSlice::new(&[]); SLICES];
        let count = self.output.slices(&mut slices);
        match &mut self.layer {
            None => rustix::io::writev(&self.socket, &slices[..count]),
            Some(layer) => layer
                .write(self.socket.as_fd(), &slices[..count])
                .map_err(|error| errno_of(&error)),
        }
    }

    /// Whether nothing is left to write or finish. `leaving`: requests that have not begun never will.
    pub(crate) fn is_over(&self, leaving: bool) -> bool {
        let asks_no_more = match self.need {
            Need::Close => true,
            Need::Input { .. } | Need::Notification => leaving,
            Need::OutputSpace | Need::Replies | Need::Route | Need::Tick | Need::Turn => false,
        };
        asks_no_more && self.output.is_empty() && !self.readiness.is_blocked()
    }

    /// Ends the connection cleanly. Unread input is discarded first: otherwise the system would reset the connection,
    /// and the peer may lose replies that it has not read.
    pub(crate) fn say_goodbye(&mut self, buffer: &mut [u8]) {
        if let Some(layer) = &mut self.layer {
            layer.close(self.socket.as_fd());
        }
        for _ in 0..GOODBYE_READS {
            match rustix::net::recv(&self.socket, &mut *buffer, RecvFlags::DONTWAIT) {
                Ok((1.., _)) => {}
                _ => return,
            }
        }
    }

    /// Size of the next block that the incomplete request needs, bytes.
    pub(crate) fn wanted_bytes(&self) -> usize {
        match self.need {
            Need::Input { at_least } => next_bytes(self.rest.len(), at_least),
            _ => 0,
        }
    }

    /// Returns its memory to the pool.
    pub(crate) fn end(mut self, pool: &Pool) {
        self.rest.release(pool);
    }
}

/// Size of the next block of a long request, of which `len` bytes came and `at_least` are wanted.
fn next_bytes(len: usize, at_least: usize) -> usize {
    let wanted = at_least.max(len + 1).max(LONG_BYTES);
    if len < LONG_BYTES { LONG_BYTES } else { wanted }
}

/// What a layer says about its peer; the system's own errors are ends of connections like others.
#[cold]
fn log_failed_layer(known: &Known, error: &io::Error) {
    let is_ours = error.raw_os_error().is_none() && error.kind() != io::ErrorKind::WouldBlock;
    if is_ours && error.kind() != io::ErrorKind::Interrupted {
        tracing::info!("{known} closed: {error}");
    }
}

fn errno_of(error: &io::Error) -> Errno {
    match error.kind() {
        io::ErrorKind::WouldBlock => Errno::AGAIN,
        io::ErrorKind::Interrupted => Errno::INTR,
        _ => Errno::from_io_error(error).unwrap_or(Errno::IO),
    }
}
