//! [`SendQueue`]: the requests of a queue pair, from posting until their completions are polled.

use std::collections::VecDeque;

/// The requests of a queue pair.
#[derive(Debug)]
pub(crate) struct SendQueue {
    depth: usize,
    /// Posted slots that no polled completion covers.
    used: usize,
    /// Requests done without a completion since the last completion.
    uncovered: usize,
    posted: u64,
    /// Requests in the card, not yet passed to the transmit engine.
    pending: VecDeque<u32>,
    /// Requests passed to the engine, not yet retired; in order.
    flight: VecDeque<u32>,
    /// Number of those that fetch data.
    reads_out: u64,
}

impl SendQueue {
    pub(crate) fn new(depth: usize) -> SendQueue {
        SendQueue {
            depth,
            used: 0,
            uncovered: 0,
            posted: 0,
            pending: VecDeque::new(),
            flight: VecDeque::new(),
            reads_out: 0,
        }
    }

    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.used >= self.depth
    }

    /// Takes a slot for a request; returns its sequence number.
    #[inline]
    pub(crate) fn take_slot(&mut self) -> u64 {
        self.used += 1;
        self.posted += 1;
        self.posted - 1
    }

    /// Frees the slots that a polled completion covers.
    #[inline]
    pub(crate) fn free(&mut self, count: usize) {
        self.used -= count;
    }

    /// Adds a request that is in the card.
    #[inline]
    pub(crate) fn enter(&mut self, op: u32) {
        self.pending.push_back(op);
    }

    /// The next request for the transmit engine.
    #[inline]
    pub(crate) fn next_pending(&self) -> Option<u32> {
        self.pending.front().copied()
    }

    /// Number of requests in flight that fetch data.
    #[inline]
    pub(crate) fn reads_out(&self) -> u64 {
        self.reads_out
    }

    /// Passes the next request to the transmit engine.
    #[inline]
    pub(crate) fn start(&mut self, fetches: bool) {
        let op = self.pending.pop_front().expect("a request that is pending");
        self.flight.push_back(op);
        self.reads_out += u64::from(fetches);
    }

    /// The oldest request in flight.
    #[inline]
    pub(crate) fn first(&self) -> Option<u32> {
        self.flight.front().copied()
    }

    /// Requests in flight, oldest first.
    #[inline]
    pub(crate) fn in_flight(&self) -> impl Iterator<Item = u32> {
        self.flight.iter().copied()
    }

    /// Removes the oldest request in flight.
    #[inline]
    pub(crate) fn pop_first(&mut self) -> Option<u32> {
        let op = self.flight.pop_front()?;
        self.uncovered += 1;
        Some(op)
    }

    /// Takes note that a request that fetched data is done.
    #[inline]
    pub(crate) fn read_done(&mut self) {
        self.reads_out -= 1;
    }

    /// Takes note that a request ends that was removed with [`clear`](SendQueue::clear), or never entered.
    pub(crate) fn flushed(&mut self) {
        self.uncovered += 1;
    }

    /// Returns the number of slots that the completion being written covers, and starts the next count.
    #[inline]
    pub(crate) fn take_covered(&mut self) -> usize {
        std::mem::take(&mut self.uncovered)
    }

    /// Removes all requests, oldest first.
    pub(crate) fn clear(&mut self) -> Vec<u32> {
        self.reads_out = 0;
        self.flight.drain(..).chain(self.pending.drain(..)).collect()
    }
}
