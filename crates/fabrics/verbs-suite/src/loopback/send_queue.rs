//! [`SendQueue`]: the requests of a queue pair, and the slots that they and completions occupy.

use super::Flaw;
use super::request::Request;
use drover_base::Ns;
use std::collections::VecDeque;

/// The requests of a queue pair.
#[derive(Debug)]
pub(super) struct SendQueue {
    /// Requests posted and not executed yet.
    pub(super) waiting: VecDeque<Request>,
    depth: usize,
    /// Slots in use: no completion that covers them is polled yet.
    used: usize,
    /// Requests executed without a completion since the last completion.
    uncovered: usize,
    rnr_timeout: Ns,
    /// Time since which the first waiting request has had no RECV.
    rnr_since: Option<Ns>,
}

impl SendQueue {
    pub(super) fn new(depth: usize, rnr_timeout: Ns) -> SendQueue {
        SendQueue {
            waiting: VecDeque::new(),
            depth,
            used: 0,
            uncovered: 0,
            rnr_timeout,
            rnr_since: None,
        }
    }

    /// Whether no request fits.
    pub(super) fn is_full(&self, flaw: Option<Flaw>) -> bool {
        let depth = match flaw {
            Some(Flaw::EndlessSendQueue) => usize::MAX,
            Some(Flaw::HalfSendQueue) => self.depth / 2,
            _ => self.depth,
        };
        self.used >= depth
    }

    /// Takes a slot for a request, which the caller adds.
    pub(super) fn take_slot(&mut self) {
        self.used += 1;
    }

    /// Frees the slots of a polled completion.
    pub(super) fn free(&mut self, count: usize) {
        self.used -= count;
    }

    /// Whether the first waiting request, which has no RECV at `now`, has waited for the whole RNR timeout.
    pub(super) fn has_waited(&mut self, now: Ns) -> bool {
        let since = *self.rnr_since.get_or_insert(now);
        now.since(since) >= self.rnr_timeout
    }

    /// Removes the first waiting request.
    pub(super) fn pop_first(&mut self) -> Option<Request> {
        self.rnr_since = None;
        self.waiting.pop_front()
    }

    /// Takes note that a request ends without a completion.
    pub(super) fn end_silently(&mut self) {
        self.uncovered += 1;
    }

    /// Takes note that a request ends with a completion. Returns the number of slots that polling it frees.
    pub(super) fn end(&mut self) -> usize {
        1 + std::mem::take(&mut self.uncovered)
    }
}
