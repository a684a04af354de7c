//! [`Incoming`]: the end of a link that serves messages and sends replies.

use crate::frame::{self, Next, PREFIX_BYTES};
use crate::handler::{LinkHandler, Source};
use crate::inbox::Arrival;
use crate::input::Input;
use crate::options::LinksOptions;
use crate::out_queue::OutQueue;
use crate::outgoing::LinkFailure;
use drover_base::Ns;
use drover_net::{Event, Output};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// Maximum number of messages that are prefetched together.
const BATCH_MAX: usize = 16;

pub(crate) struct Incoming {
    pub(crate) source: Source,
    arrival: Arrival,
    input: Input,
    pub(crate) queue: OutQueue,
    /// Replies wait for space in the socket since this time.
    blocked_since: Option<Ns>,
    /// Messages wait for space in the queue.
    is_full: bool,
    /// It has a turn in the next step.
    pub(crate) is_queued: bool,
    /// It has had a turn since the last look at the time.
    is_used: bool,
}

impl Incoming {
    pub(crate) fn new(source: Source, arrival: Arrival) -> Incoming {
        Incoming {
            source,
            arrival,
            input: Input::default(),
            queue: OutQueue::default(),
            blocked_since: None,
            is_full: false,
            is_queued: false,
            is_used: false,
        }
    }

    /// Name of the member at the other end.
    pub(crate) fn member(&self) -> &str {
        &self.arrival.member
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.arrival.socket.as_fd()
    }

    pub(crate) fn notice(&mut self, event: &Event) {
        self.input.notice(event);
    }

    /// Whether a turn may find something to do.
    pub(crate) fn has_turn(&self, options: &LinksOptions) -> bool {
        (self.is_full || self.input.is_readable()) && self.queue.len() < options.queue_bytes
    }

    /// Reads once, and serves messages as long as there is space for replies. Returns the number of messages served.
    pub(crate) fn turn<H: LinkHandler>(
        &mut self,
        handler: &mut H,
        buffer: &mut [u8],
        reply: &mut Output,
        options: &LinksOptions,
    ) -> Result<u64, LinkFailure> {
        let (source, queue, is_full) = (self.source, &mut self.queue, &mut self.is_full);
        let mut served = 0;
        self.is_used = true;
        self.input.turn(self.arrival.socket.as_fd(), buffer, |bytes| {
            if !bytes.is_empty() {
                handler.arrived();
            }
            let mut used = 0;
            loop {
                *is_full = queue.len() >= options.queue_bytes;
                if *is_full {
                    return Ok(used);
                }
                let before = used;
                let mut batch = Batch::new(H::NO_HINT);
                used = batch.gather(bytes, used, options, handler, queue)?;
                if used == before {
                    return Ok::<_, LinkFailure>(used);
                }
                batch.look_ahead(bytes, handler);
                for (start, end, hint) in &batch.messages[..batch.count] {
                    handler.serve(source, &bytes[*start..*end], *hint, reply);
                    let reply_bytes = reply.ready_bytes();
                    if reply_bytes > options.reply_bytes_max {
                        *reply = Output::new(0, usize::MAX);
                        return Err(LinkFailure::LongReply(reply_bytes));
                    }
                    queue.push_output(reply);
                }
                served += batch.count as u64;
            }
        })?;
        Ok(served)
    }

    /// Writes what the socket has space for. Returns the number of bytes written.
    pub(crate) fn write(&mut self, now: Ns) -> io::Result<u64> {
        let before = self.queue.written();
        let all = self.queue.write(self.arrival.socket.as_fd())?;
        let written = self.queue.written();
        if !all {
            self.queue.forget_before(written);
        }
        self.blocked_since = match self.blocked_since {
            _ if all => None,
            Some(since) if written == before => Some(since),
            _ => Some(now),
        };
        Ok(written - before)
    }

    /// Looks at the time, and frees the memory of a link that nobody uses.
    pub(crate) fn tick(&mut self, options: &LinksOptions, now: Ns) -> Result<(), LinkFailure> {
        if !std::mem::take(&mut self.is_used) {
            self.queue.release();
            self.input.release();
        }
        match self.blocked_since {
            Some(since) if now.since(since) >= options.stall_timeout => {
                Err(LinkFailure::NoReader(options.stall_timeout))
            }
            _ => Ok(()),
        }
    }
}

/// Messages that are prefetched together: in three passes, buckets, items, and (in the caller) serving.
struct Batch<Hint> {
    /// Start, end and hint of each message.
    messages: [(usize, usize, Hint); BATCH_MAX],
    count: usize,
}

impl<Hint: Copy> Batch<Hint> {
    fn new(no_hint: Hint) -> Batch<Hint> {
        Batch {
            messages: [(0, 0, no_hint); BATCH_MAX],
            count: 0,
        }
    }

    /// Takes whole messages from `start` on, and prefetches. Returns where it stopped.
    fn gather<H: LinkHandler<Hint = Hint>>(
        &mut self,
        bytes: &[u8],
        start: usize,
        options: &LinksOptions,
        handler: &mut H,
        queue: &mut OutQueue,
    ) -> Result<usize, LinkFailure> {
        let mut used = start;
        while self.count < BATCH_MAX {
            match frame::next(bytes, used, options.message_bytes_max)? {
                Next::Body(body) => {
                    handler.prefetch(&bytes[body.clone()]);
                    self.messages[self.count] = (body.start, body.end, H::NO_HINT);
                    self.count += 1;
                    used = body.end;
                }
                Next::KeepAlive => {
                    queue.push_keep_alive();
                    used += PREFIX_BYTES;
                }
                Next::Part => break,
            }
        }
        Ok(used)
    }

    fn look_ahead<H: LinkHandler<Hint = Hint>>(&mut self, bytes: &[u8], handler: &mut H) {
        if self.count > 1 {
            for (start, end, hint) in &mut self.messages[..self.count] {
                *hint = handler.hint(&bytes[*start..*end]);
            }
        }
    }
}
