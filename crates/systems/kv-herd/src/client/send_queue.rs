//! [`SendQueue`]: the requests of a session, from their bytes to the doorbell.

use drover_rt::Staging;
use drover_slots::client::request::Line;
use drover_verbs::{
    Payload, PostError, PostErrorKind, Provider, RemoteRegion, SendList, SendOp, SendWr, WrId,
};
use std::hint::cold_path;

/// Bookkeeping of a send queue whose requests are mostly unsignaled: the last of a list asks for a completion, once in
/// `period` requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Signals {
    period: u32,
    since: u32,
}

impl Signals {
    /// For a queue of `depth`: a quarter, so that the queue never fills before a completion frees it.
    pub(super) fn new(depth: usize) -> Signals {
        Signals {
            period: (depth as u32 / 4).clamp(1, 64),
            since: 0,
        }
    }

    /// Whether request number `nth` of a list is to be signaled, be it the last or not: lists may be longer than `period`.
    fn is_due_within(self, nth: usize) -> bool {
        (nth as u32).is_multiple_of(self.period)
    }

    /// Most requests in a list that is signaled at its end only.
    pub(super) fn list_max(self) -> usize {
        self.period as usize
    }

    /// The next list is signaled: its completion will tell how far the queue has come.
    fn hurry(&mut self) {
        self.since = self.period - 1;
    }

    /// Whether the last of the next `count` requests is to be signaled.
    #[inline(always)]
    fn is_due(&mut self, count: usize) -> bool {
        self.since += count as u32;
        let due = self.since >= self.period;
        if due {
            self.since = 0;
        }
        due
    }
}

/// What a send queue is made from.
pub(super) struct SendQueueOptions<P: Provider> {
    /// Slots of the session.
    pub(super) request_count: usize,
    /// Bytes of a block: the image of a slot, and what stands before it.
    pub(super) block_bytes: usize,
    pub(super) signals: Signals,
    /// Staged requests that are worth a doorbell.
    pub(super) post_batch: usize,
    pub(super) inline_bytes: usize,
    /// Where requests too long to be inline are sent from.
    pub(super) staging: Option<Staging<P>>,
}

/// Staged requests and what is known of those posted.
pub(super) struct SendQueue<P: Provider> {
    /// Staged requests. The bytes of every slot's request are kept in it, right-aligned in a block each: built once,
    /// posted from there, and sent again from there. A block is left alone while a request is staged, because slots
    /// become free in [`poll`](drover_kv::KvClient::poll) only, behind the flush that it begins with.
    list: SendList,
    options: SendQueueOptions<P>,
    /// Number of the last request posted, counted from 1.
    posted: u64,
    /// Number of the last one known to have left the queue, and all before it.
    left: u64,
}

impl<P: Provider> SendQueue<P> {
    pub(super) fn new(options: SendQueueOptions<P>) -> SendQueue<P> {
        let count = options.request_count;
        SendQueue {
            list: SendList::with_kept(count, count * options.block_bytes),
            options,
            posted: 0,
            left: 0,
        }
    }

    /// Whether so many requests are staged that they are worth a doorbell.
    #[inline(always)]
    pub(super) fn is_batch(&self) -> bool {
        self.list.len() >= self.options.post_batch
    }

    /// The request bytes of a slot.
    pub(super) fn block(&self, at: usize) -> &[u8] {
        &self.list.kept()[at * self.options.block_bytes..][..self.options.block_bytes]
    }

    #[inline(always)]
    pub(super) fn block_mut(&mut self, at: usize) -> &mut [u8] {
        &mut self.list.kept_mut()[at * self.options.block_bytes..][..self.options.block_bytes]
    }

    /// Adds the request in slot `at`, the last `len` bytes of its block.
    #[inline(always)]
    pub(super) fn push(&mut self, at: usize, op: SendOp, len: usize) {
        let payload = if len <= self.options.inline_bytes {
            self.list.inline_kept((at + 1) * self.options.block_bytes, len)
        } else {
            cold_path();
            let Some(payload) = self.staged_payload(at, len) else {
                // It goes the way of lost requests: it is sent when its time is over.
                return self.options.signals.hurry();
            };
            payload
        };
        debug_assert!(!self.is_staged(at), "slot {at} is staged twice");
        self.list.push(SendWr::new(op, payload));
        if self.options.signals.is_due_within(self.list.len()) {
            cold_path();
            self.list.sign_last(WrId(self.posted + self.list.len() as u64));
        }
    }

    /// Adds a request of `len` bytes for slot `at` of `remote`, which `build` puts to the end of a line. Nothing stands
    /// before the images of slots.
    #[inline(always)]
    pub(super) fn push_line(
        &mut self,
        at: usize,
        len: usize,
        remote: &RemoteRegion,
        build: impl FnOnce(&mut Line),
    ) {
        debug_assert!(!self.is_staged(at), "slot {at} is staged twice");
        let end = (at + 1) * self.options.block_bytes;
        build(self.list.kept_block_mut(end));
        let payload = self.list.inline_kept(end, len);
        let remote = remote.at(end - len);
        self.list.push(SendWr::write(remote, payload));
    }

    /// The payload of a request that is too long to be inline; `None`: there is no memory free to send it from.
    #[inline(never)]
    fn staged_payload(&mut self, at: usize, len: usize) -> Option<Payload> {
        let (number, left) = (self.posted + self.list.len() as u64 + 1, self.left);
        let block = &self.list.kept()[at * self.options.block_bytes..][..self.options.block_bytes];
        let staging = self.options.staging.as_mut();
        let staging = staging.expect("made when slots are longer than inline payloads");
        staging.payload(number, left, len, |region, piece| {
            region.copy_in(piece, &block[block.len() - len..]);
        })
    }

    /// A completion says that request `number` has left the queue.
    pub(super) fn has_left(&mut self, number: WrId) {
        self.left = self.left.max(number.0);
    }

    /// Whether the list names a slot's block.
    fn is_staged(&self, at: usize) -> bool {
        let block_bytes = self.options.block_bytes;
        let (start, end) = (at * block_bytes, (at + 1) * block_bytes);
        let inside = |offset: u64| (start as u64..end as u64).contains(&offset);
        self.list.wrs().iter().any(|wr| match wr.payload {
            Payload::Inline { start, .. } => inside(start.into()),
            Payload::Region(_) | Payload::Gather { .. } => false,
        })
    }

    /// Hands what is staged to `post`. False: the queue pair has failed.
    #[inline(always)]
    pub(super) fn post(&mut self, post: impl FnOnce(&SendList) -> Result<(), PostError>) -> bool {
        let mut went = true;
        if !self.list.is_empty() {
            let count = self.list.len() as u64;
            if self.options.signals.is_due(self.list.len()) {
                self.list.sign_last(WrId(self.posted + count));
            }
            self.posted += count;
            if let Err(error) = post(&self.list) {
                went = self.not_posted(error.accepted, error.kind);
            }
            self.list.clear();
        }
        went
    }

    /// What a full queue did not take goes the way of lost requests: it is sent again when its time is over.
    #[cold]
    fn not_posted(&mut self, accepted: usize, kind: PostErrorKind) -> bool {
        if let Some(staging) = &mut self.options.staging {
            let refused = &self.list.wrs()[accepted..];
            refused.iter().for_each(|wr| staging.refused(wr.payload));
        }
        let full = kind == PostErrorKind::QueueFull;
        if !full {
            tracing::warn!(%kind, "a request could not be posted: the session is over");
        }
        self.options.signals.hurry();
        full
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests in a row without a completion, at most, when lists of these lengths are posted alternately.
    fn longest_silence(depth: usize, lengths: &[usize]) -> usize {
        let mut signals = Signals::new(depth);
        let (mut silence, mut longest) = (0, 0);
        for &length in lengths.iter().cycle().take(1000) {
            let due_at_end = signals.is_due(length);
            for nth in 1..=length {
                silence += 1;
                longest = longest.max(silence);
                if (nth == length && due_at_end) || signals.is_due_within(nth) {
                    silence = 0;
                }
            }
        }
        longest
    }

    #[test]
    fn a_queue_never_fills_with_requests_that_nobody_hears_of() {
        for depth in [1usize, 2, 4, 16, 128, 1024] {
            for lengths in [
                &[1][..],
                &[8],
                &[1, 7, 3],
                &[16, 1],
                &[depth.div_ceil(4)],
                &[200, 1],
            ] {
                let longest = longest_silence(depth, lengths);
                assert!(
                    longest <= depth.div_ceil(2).max(1),
                    "{longest} of {depth}: {lengths:?}"
                );
            }
        }
    }
}
