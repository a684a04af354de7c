//! [`SendQueue`]: requests that are built once and kept, so that they can be posted again.

use crate::Staging;
use drover_verbs::{
    Payload, PostError, PostErrorKind, Provider, RemoteAddr, SendOp, SendWr, WrId, WriteList,
};
use std::hint::cold_path;

/// Decides which requests of a mostly unsignaled send queue are signaled, in terms of a *period* of requests, see
/// [`new`](Signals::new). The last request of a list is signaled if at least a period of requests was posted since that
/// was last the case. Also signaled is each request whose position in its list, counted from 1, is a multiple of the
/// period.
#[derive(Clone, Copy, Debug)]
pub struct Signals {
    period: u32,
    since: u32,
}

impl Signals {
    /// For a queue of `depth` requests. The period is a quarter of it, at least 1 and at most 64 requests, so that a
    /// completion frees the queue before it is full.
    pub fn new(depth: usize) -> Signals {
        Signals {
            period: (depth as u32 / 4).clamp(1, 64),
            since: 0,
        }
    }

    /// Whether request number `nth` of a list is to be signaled, be it the last or not: lists may be longer than
    /// `period`.
    #[inline(always)]
    fn is_due_within(self, nth: usize) -> bool {
        // Lists are seldom so long, and a division takes its time.
        nth as u32 >= self.period && (nth as u32).is_multiple_of(self.period)
    }

    /// Maximum length of a list of which only the last request need be signaled: the period, in requests.
    pub fn list_max(self) -> usize {
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

/// Options of a [`SendQueue`].
pub struct SendQueueOptions<P: Provider> {
    /// Number of blocks. Each block holds one request, so this is also the maximum number of requests staged.
    pub request_count: usize,
    /// Bytes of a block. A shorter request lies at the end of its block.
    pub block_bytes: usize,
    /// Which requests are signaled.
    pub signals: Signals,
    /// Number of staged requests that are worth a doorbell: from this number on, [`is_batch`](SendQueue::is_batch) is
    /// true. At most [`Signals::list_max`] with [`push_lines`](SendQueue::push_lines), which signals only the last
    /// request of a list: longer lists may fill the queue without a completion that frees it.
    pub post_batch: usize,
    /// Longest request that [`push`](SendQueue::push) sends inline, bytes; [`push_lines`](SendQueue::push_lines) sends
    /// inline whatever this is.
    pub inline_bytes: usize,
    /// Memory from which requests longer than `inline_bytes` are sent. Needed if `block_bytes` is more than
    /// `inline_bytes`: without it, [`push`](SendQueue::push) of such a request panics.
    pub staging: Option<Staging<P>>,
}

/// Requests of a client on their way to a queue pair: built in blocks, staged, then posted as one list. The bytes of a
/// request stay in its block until another one is built there. It owns the blocks, not the queue pair.
pub struct SendQueue<P: Provider> {
    /// Staged requests, and all blocks. A block must not change while its request is staged.
    list: WriteList,
    options: SendQueueOptions<P>,
    /// Number of the last request posted, counted from 1.
    posted: u64,
    /// Number of the last one known to have left the queue, and all before it.
    left: u64,
}

impl<P: Provider> SendQueue<P> {
    /// An empty queue, whose blocks are zeroed.
    ///
    /// # Panics
    /// All blocks together have 4 GiB or more.
    pub fn new(options: SendQueueOptions<P>) -> SendQueue<P> {
        let count = options.request_count;
        SendQueue {
            list: WriteList::with_kept(count, count * options.block_bytes),
            options,
            posted: 0,
            left: 0,
        }
    }

    /// Whether at least [`post_batch`](SendQueueOptions::post_batch) requests are staged: enough for a doorbell.
    #[inline(always)]
    pub fn is_batch(&self) -> bool {
        self.list.len() >= self.options.post_batch
    }

    /// Block number `index`.
    pub fn block(&self, index: usize) -> &[u8] {
        &self.list.kept()[index * self.options.block_bytes..][..self.options.block_bytes]
    }

    /// Block number `index`, to build a request in.
    #[inline(always)]
    pub fn block_mut(&mut self, index: usize) -> &mut [u8] {
        &mut self.list.kept_mut()[index * self.options.block_bytes..][..self.options.block_bytes]
    }

    /// Stages a WRITE of the last `len` bytes of block `at` to `remote`. If they are too long to be inline and no staging
    /// memory is free, the request is not staged and the caller is not told, as if it had been lost on the way.
    ///
    /// # Panics
    /// It is too long to be inline, and there is no [`staging`](SendQueueOptions::staging) memory at all.
    #[inline(always)]
    pub fn push_write(&mut self, at: usize, remote: RemoteAddr, len: usize) {
        if len > self.options.inline_bytes {
            return self.push(at, SendOp::Write { remote, imm: None }, len);
        }
        debug_assert!(!self.is_staged(at), "block {at} is staged twice");
        self.list.push(remote, (at + 1) * self.options.block_bytes, len);
        self.sign_within();
    }

    /// As [`push_write`](SendQueue::push_write), for any operation `op`.
    ///
    /// # Panics
    /// As [`push_write`](SendQueue::push_write).
    #[cold]
    #[inline(never)]
    pub fn push(&mut self, at: usize, op: SendOp, len: usize) {
        let payload = if len <= self.options.inline_bytes {
            self.list.inline_kept((at + 1) * self.options.block_bytes, len)
        } else {
            let Some(payload) = self.staged_payload(at, len) else {
                return self.options.signals.hurry();
            };
            payload
        };
        debug_assert!(!self.is_staged(at), "block {at} is staged twice");
        self.list.push_send(SendWr::new(op, payload));
        self.sign_within();
    }

    /// Makes the request staged last a signaled one if the list has become so long.
    #[inline(always)]
    fn sign_within(&mut self) {
        let count = self.list.len();
        if self.options.signals.is_due_within(count) {
            cold_path();
            self.list.sign(count - 1, WrId(self.posted + count as u64));
        }
    }

    /// Stages an inline WRITE of the last `len` bytes of block `at`, at most `N`. `build` gets the last `N` bytes of the block
    /// and writes these bytes to their end. They go to the same offset of the remote region with key `rkey`, which has the
    /// layout of the blocks.
    #[inline(always)]
    pub fn push_lines<const N: usize>(
        &mut self,
        at: usize,
        len: usize,
        rkey: u32,
        build: impl FnOnce(&mut [u8; N]),
    ) {
        debug_assert!(!self.is_staged(at), "block {at} is staged twice");
        let end = (at + 1) * self.options.block_bytes;
        build(self.list.kept_block_mut(end));
        let offset = (end - len) as u64;
        self.list.push(RemoteAddr { rkey, offset }, end, len);
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

    /// Notes the completion with id `number`: this request, and all posted before it, have left the queue.
    pub fn has_left(&mut self, number: WrId) {
        self.left = self.left.max(number.0);
    }

    /// Whether the list names a slot's block.
    fn is_staged(&self, at: usize) -> bool {
        let block_bytes = self.options.block_bytes;
        self.list.sends_kept(at * block_bytes..(at + 1) * block_bytes)
    }

    /// Calls `post` with the staged requests, if there are any; afterwards none is staged. Requests that do not fit the
    /// queue are treated as lost. Returns false if `post` fails with any other error than
    /// [`QueueFull`](PostErrorKind::QueueFull): the queue pair is unusable.
    #[inline(always)]
    pub fn post(&mut self, post: impl FnOnce(&mut WriteList) -> Result<(), PostError>) -> bool {
        let mut went = true;
        if !self.list.is_empty() {
            let count = self.list.len();
            if self.options.signals.is_due(count) && !self.options.signals.is_due_within(count) {
                self.list.sign(count - 1, WrId(self.posted + count as u64));
            }
            self.posted += count as u64;
            if let Err(error) = post(&mut self.list) {
                went = self.not_posted(error.accepted, error.kind);
            }
            self.list.clear();
        }
        went
    }

    /// Treats the requests that a full queue did not take as lost.
    #[cold]
    fn not_posted(&mut self, accepted: usize, kind: PostErrorKind) -> bool {
        if let Some(staging) = &mut self.options.staging {
            let refused = &self.list.spread().wrs()[accepted..];
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
