//! [`Output`]: bytes waiting to be written to a connection.
//!
//! ```text
//!   older blocks ... tail block | pending reply 7 | behind it | pending reply 8 (filled) | behind it | ...
//!   `------- can be written ----´        `--------------- waits for pending reply 7 -------------´
//! ```
//! While no reply is missing, bytes are appended to the tail block and never moved. Bytes behind a pending reply are
//! set aside, and appended when the pending replies before them are filled. Long replies have their own blocks, which
//! are moved whole.

use crate::Pool;
use crate::pool::Block;
use std::collections::VecDeque;
use std::io::IoSlice;
use std::rc::Rc;

/// Usual block size, bytes. A longer reply gets its own block.
const BLOCK_BYTES: usize = 16 << 10;
/// Size of the first block, bytes, until that was once too small: the pool keeps these for a whole round of short
/// replies.
const FIRST_BYTES: usize = 4 << 10;
/// A connection that has had more than this behind a missing reply, of each kind, leaves no memory to the next.
const KEPT_BYTES: usize = 16 << 10;
/// After a short write, a remainder of at most this many bytes moves to a smaller block.
const SETTLE_BYTES: usize = 4 << 10;

/// Identifies the place in an [`Output`] of a reply that is still to come. It names the connection, so a core that
/// forwards a request need not keep any state.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PendingReply {
    /// Number of the connection, as given to [`Output::new`]; [`Sockets`](crate::Sockets) uses its
    /// [`Token`](crate::Token).
    pub connection: u64,
    /// Number within the output: ascending, with gaps, never reused.
    pub number: u64,
}

/// The replies of one connection that wait to be written, in the order of their requests; some may still be missing.
/// The bytes before the first missing reply can be written. It holds memory of its [`Pool`] only while it is not empty.
#[derive(Debug)]
pub struct Output {
    connection: u64,
    pool: Rc<Pool>,
    /// Size in bytes from which on it counts as full.
    limit: usize,
    /// Block being filled; no memory when empty.
    tail: Block,
    /// Size of its first block, bytes.
    first_bytes: usize,
    /// Full blocks, oldest first.
    older: VecDeque<Block>,
    /// Bytes in `older`.
    older_bytes: usize,
    /// Bytes behind pending replies; `None` if there are no pending replies.
    late: Option<Box<Late>>,
    /// Number of the next pending reply.
    next: u64,
    /// Number of requests begun, to measure how long they take.
    begun: u64,
}

/// The first pending reply and everything behind it. The pool keeps it between two uses: in a gateway nearly all replies are
/// pending at first.
#[derive(Debug, Default)]
pub(crate) struct Late {
    entries: VecDeque<Entry>,
    /// Number of the first entry; the others follow.
    first: u64,
    /// Short bytes that came behind pending replies, in order; each entry owns a piece.
    behind: Vec<u8>,
    /// Bytes of `behind` already moved out.
    behind_done: usize,
    /// Short replies that filled pending replies out of order.
    filled: Vec<u8>,
    /// Bytes in blocks of entries.
    long_bytes: usize,
}

/// A pending reply, or a long reply that came behind one, and the short bytes that follow it.
#[derive(Debug)]
struct Entry {
    body: Body,
    /// End of its piece of `behind`; the piece starts at the end of the previous entry's.
    behind_end: usize,
}

#[derive(Debug)]
enum Body {
    Missing,
    /// A piece of `filled`.
    Short {
        start: usize,
        end: usize,
    },
    Long(Block),
}

impl Output {
    /// Creates an empty output with a memory pool of its own, [full](Output::is_full) from `limit` bytes on. Its
    /// pending replies carry `connection`.
    pub fn new(connection: u64, limit: usize) -> Output {
        Output::with_pool(connection, limit, Pool::new(usize::MAX))
    }

    /// As [`new`](Output::new), but takes memory from `pool`.
    pub fn with_pool(connection: u64, limit: usize, pool: Rc<Pool>) -> Output {
        Output {
            connection,
            pool,
            limit,
            tail: Block::default(),
            first_bytes: FIRST_BYTES,
            older: VecDeque::new(),
            older_bytes: 0,
            late: None,
            next: 0,
            begun: 0,
        }
    }

    /// Whether the output holds at least `limit` bytes, so that no further request should begin. The current request
    /// may still add bytes.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.len() >= self.limit
    }

    /// Bytes in the output, whether or not they can be written yet. While a reply is missing, the number can be too
    /// high: bytes that once stood behind a missing reply count, even after they have been written, until no reply is
    /// missing.
    #[inline]
    pub fn len(&self) -> usize {
        let late = match &self.late {
            None => 0,
            Some(late) => late.len(),
        };
        self.ready_bytes() + late
    }

    /// Counts `count` more requests as begun, for [`ConnTable::durations`](crate::ConnTable::durations); changes
    /// nothing else. Their replies are in the output, are pending or are not wanted.
    #[inline]
    pub fn begin(&mut self, count: usize) {
        self.begun += count as u64;
    }

    pub(crate) fn take_begun(&mut self) -> u64 {
        std::mem::take(&mut self.begun)
    }

    /// Whether nothing waits to be written and no reply is missing.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.ready_bytes() == 0 && self.late.is_none()
    }

    /// Number of bytes that can be written now.
    #[inline]
    pub fn ready_bytes(&self) -> usize {
        self.older_bytes + self.tail.len()
    }

    /// Appends bytes at the end, behind all pending replies.
    #[inline]
    pub fn push(&mut self, bytes: &[u8]) {
        self.space(bytes.len()).copy_from_slice(bytes);
    }

    /// Appends `len` bytes of arbitrary content and returns them for the caller to overwrite.
    #[inline]
    pub fn space(&mut self, len: usize) -> &mut [u8] {
        if self.late.is_some() {
            return self.space_behind(len);
        }
        if self.tail.data.len() - self.tail.end < len {
            self.next_block(len);
        }
        let start = self.tail.end;
        self.tail.end += len;
        &mut self.tail.data[start..start + len]
    }

    /// Reserves a place at the end for a reply that comes later, by [`fill`](Output::fill).
    pub fn pending_reply(&mut self) -> PendingReply {
        let pending_reply = self.next_hole();
        self.next += 1;
        let late = self.late.get_or_insert_with(|| self.pool.take_late());
        if late.entries.is_empty() {
            late.first = pending_reply.number;
        }
        late.entries.push_back(Entry {
            body: Body::Missing,
            behind_end: late.behind.len(),
        });
        pending_reply
    }

    /// The value that [`pending_reply`](Output::pending_reply) returns if it is the next call that changes the output,
    /// for callers that need the value before they reserve the place.
    #[inline]
    pub fn next_hole(&self) -> PendingReply {
        PendingReply {
            connection: self.connection,
            number: self.next,
        }
    }

    /// Puts `bytes` in the place of a pending reply. Does nothing if no reply with this number is missing. The caller
    /// ensures that the reply belongs to this connection: `pending_reply.connection` is not checked. Cost: two copies;
    /// one from 8 KiB on.
    pub fn fill(&mut self, pending_reply: PendingReply, bytes: &[u8]) {
        let Some(late) = &mut self.late else { return };
        let index = pending_reply.number.wrapping_sub(late.first) as usize;
        match late.entries.get_mut(index) {
            Some(entry) if matches!(entry.body, Body::Missing) => {
                entry.body = if bytes.len() >= BLOCK_BYTES / 2 {
                    late.long_bytes += bytes.len();
                    Body::Long(copied(&self.pool, bytes))
                } else {
                    let start = late.filled.len();
                    late.filled.extend_from_slice(bytes);
                    Body::Short {
                        start,
                        end: late.filled.len(),
                    }
                };
            }
            _ => return,
        }
        if index == 0 {
            self.hand_over();
        }
    }

    /// Whether any reply is missing, that is pending and not filled.
    #[inline]
    pub fn has_holes(&self) -> bool {
        self.late.is_some()
    }

    /// Number of the first missing reply; `None` if none is missing.
    #[inline]
    pub fn first_missing(&self) -> Option<u64> {
        self.late.as_ref().map(|late| late.first)
    }

    /// Fills `into` with slices of the writable bytes, in order, as many as it has space for. Returns the number of
    /// slices.
    pub fn slices<'a>(&'a self, into: &mut [IoSlice<'a>]) -> usize {
        let pieces = self
            .older
            .iter()
            .chain((!self.tail.is_empty()).then_some(&self.tail));
        let mut count = 0;
        for (slot, block) in into.iter_mut().zip(pieces) {
            *slot = IoSlice::new(block.bytes());
            count += 1;
        }
        count
    }

    /// The writable bytes if they are in one piece, `None` if they are in several; an empty slice if there are none.
    #[inline]
    pub fn only_piece(&self) -> Option<&[u8]> {
        self.older.is_empty().then(|| self.tail.bytes())
    }

    /// Removes the first `count` writable bytes, after they were written, and frees blocks that become empty.
    ///
    /// # Panics
    /// If fewer bytes are writable.
    pub fn wrote(&mut self, mut count: usize) {
        while let Some(front) = self.older.front_mut() {
            let taken = front.len().min(count);
            front.start += taken;
            self.older_bytes -= taken;
            count -= taken;
            if !front.is_empty() {
                assert_eq!(count, 0, "more was written than there was");
                return;
            }
            let done = self.older.pop_front().expect("it is there");
            self.pool.give(done.data);
        }
        assert!(count <= self.tail.len(), "more was written than there was");
        self.tail.start += count;
        if self.tail.is_empty() {
            self.tail.release(&self.pool);
        }
    }

    /// Moves a small remainder from a long block to a short one, because it will wait.
    pub(crate) fn settle(&mut self) {
        let len = self.tail.len();
        if len <= SETTLE_BYTES && self.tail.data.len() > 2 * SETTLE_BYTES {
            let settled = copied(&self.pool, self.tail.bytes());
            self.tail.release(&self.pool);
            self.tail = settled;
        }
    }

    /// Ensures a tail with space for `len` bytes.
    #[inline(never)]
    fn next_block(&mut self, len: usize) {
        if !self.tail.is_empty() {
            self.first_bytes = BLOCK_BYTES;
        }
        let next = Block::empty(self.pool.take(len.max(self.first_bytes)));
        let full = std::mem::replace(&mut self.tail, next);
        self.keep(full);
    }

    /// Appends a block behind all writable bytes.
    fn keep(&mut self, block: Block) {
        if block.is_empty() {
            self.pool.give(block.data);
        } else {
            self.older_bytes += block.len();
            self.older.push_back(block);
        }
    }

    #[cold]
    fn space_behind(&mut self, len: usize) -> &mut [u8] {
        let late = self.late.as_mut().expect("there is a pending_reply");
        if len < BLOCK_BYTES / 2 {
            let start = late.behind.len();
            late.behind.resize(start + len, 0);
            late.entries
                .back_mut()
                .expect("there is a pending_reply")
                .behind_end = start + len;
            return &mut late.behind[start..];
        }
        self.next += 1;
        late.long_bytes += len;
        let mut block = Block::empty(self.pool.take(len));
        block.end = len;
        late.entries.push_back(Entry {
            body: Body::Long(block),
            behind_end: late.behind.len(),
        });
        match &mut late.entries.back_mut().expect("just added").body {
            Body::Long(block) => &mut block.data[..len],
            _ => unreachable!("just added"),
        }
    }

    /// Makes the bytes before the first missing reply writable.
    fn hand_over(&mut self) {
        let Some(mut late) = self.late.take() else { return };
        while let Some(entry) = late
            .entries
            .pop_front_if(|entry| !matches!(entry.body, Body::Missing))
        {
            late.first += 1;
            match entry.body {
                Body::Missing => {}
                Body::Short { start, end } => self.push(&late.filled[start..end]),
                Body::Long(block) => {
                    late.long_bytes -= block.len();
                    let full = std::mem::replace(&mut self.tail, block);
                    self.keep(full);
                }
            }
            self.push(&late.behind[late.behind_done..entry.behind_end]);
            late.behind_done = entry.behind_end;
        }
        match late.entries.is_empty() {
            true => self.pool.give_late(late),
            false => self.late = Some(late),
        }
    }
}

impl Late {
    /// Bytes held, including those already moved out: they are freed when the last pending reply is filled.
    fn len(&self) -> usize {
        self.behind.len() + self.filled.len() + self.long_bytes
    }

    /// Forgets everything but its memory, unless that is more than a few short replies need; returns whether it is worth
    /// keeping.
    pub(crate) fn clear(&mut self) -> bool {
        self.entries.clear();
        self.behind.clear();
        self.filled.clear();
        (self.behind_done, self.long_bytes) = (0, 0);
        let entry_bytes = self.entries.capacity() * size_of::<Entry>();
        entry_bytes
            .max(self.behind.capacity())
            .max(self.filled.capacity())
            <= KEPT_BYTES
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        self.tail.release(&self.pool);
        for block in self.older.drain(..) {
            self.pool.give(block.data);
        }
        for entry in self.late.iter_mut().flat_map(|late| late.entries.drain(..)) {
            if let Body::Long(block) = entry.body {
                self.pool.give(block.data);
            }
        }
    }
}

/// A block with a copy of `bytes`.
fn copied(pool: &Pool, bytes: &[u8]) -> Block {
    let mut data = pool.take(bytes.len());
    data[..bytes.len()].copy_from_slice(bytes);
    Block {
        data,
        start: 0,
        end: bytes.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use drover_base::Rng;

    /// Takes all writable bytes in pieces of `step` bytes.
    fn drain(output: &mut Output, step: usize) -> Vec<u8> {
        let mut all = Vec::new();
        while output.ready_bytes() > 0 {
            let mut slices = [IoSlice::new(&[]); 3];
            let count = output.slices(&mut slices);
            let joined: Vec<u8> = slices[..count].iter().flat_map(|slice| slice.to_vec()).collect();
            let taken = joined.len().min(step);
            all.extend_from_slice(&joined[..taken]);
            output.wrote(taken);
        }
        all
    }

    #[test]
    fn replies_come_in_the_order_of_requests() {
        let mut output = Output::new(0, 1 << 16);
        output.push(b"a");
        let (first, second) = (output.pending_reply(), output.pending_reply());
        output.push(b"d");
        let third = output.pending_reply();
        output.push(b"f");
        output.fill(second, b"c");
        output.fill(second, b"again");
        assert_eq!(drain(&mut output, 9), b"a");
        output.fill(first, b"b");
        assert_eq!(drain(&mut output, 9), b"bcd");
        assert!(output.has_holes() && !output.is_empty());
        output.fill(third, b"e");
        assert_eq!(drain(&mut output, 1), b"ef");
        assert!(output.is_empty());
        output.fill(third, b"late");
        assert!(output.is_empty());
    }

    #[test]
    fn memory_goes_back_when_it_is_written() {
        let pool = Pool::new(1 << 20);
        let mut output = Output::with_pool(0, 1 << 16, pool.clone());
        output.space(100 << 10).fill(1);
        output.push(&[2; 40 << 10]);
        assert!(output.is_full());
        output.wrote(100 << 10);
        assert_eq!(output.ready_bytes(), 40 << 10);
        assert!(pool.lent_bytes() < 100 << 10, "{}", pool.lent_bytes());
        output.wrote((40 << 10) - 10);
        output.settle();
        assert_eq!(pool.lent_bytes(), 1 << 10);
        assert_eq!(drain(&mut output, 4), [2; 10]);
        assert_eq!(pool.lent_bytes(), 0);
        output.pending_reply();
        output.push(&[3; 50 << 10]);
        output.push(b"x");
        drop(output);
        assert_eq!(pool.lent_bytes(), 0);
    }

    /// Compares with the plainest model: a list of replies, some missing.
    #[test]
    fn any_order_of_fills_gives_the_same_bytes() {
        for seed in 0..30 {
            let mut rng = Rng::new(seed, 0, 0);
            let pool = Pool::new(usize::MAX);
            let mut output = Output::with_pool(0, 1 << 16, pool.clone());
            let mut model: Vec<Option<Vec<u8>>> = Vec::new();
            let mut pending_replies: Vec<(usize, PendingReply)> = Vec::new();
            let (mut written, mut expected) = (Vec::new(), Vec::new());
            for at in 0..300u64 {
                let len = [0, 3, 100, 9000, 20000][(rng.next_u64() % 5) as usize];
                let reply = vec![at as u8; len];
                match rng.next_u64() % 4 {
                    0 => {
                        output.push(&reply);
                        model.push(Some(reply));
                    }
                    1 => {
                        pending_replies.push((model.len(), output.pending_reply()));
                        model.push(None);
                    }
                    _ if !pending_replies.is_empty() => {
                        let (place, pending_reply) = pending_replies
                            .swap_remove((rng.next_u64() % pending_replies.len() as u64) as usize);
                        output.fill(pending_reply, &reply);
                        model[place] = Some(reply);
                    }
                    _ => written.extend(drain(&mut output, 70_001)),
                }
            }
            for (place, pending_reply) in pending_replies {
                output.fill(pending_reply, b"end");
                model[place] = Some(b"end".to_vec());
            }
            written.extend(drain(&mut output, usize::MAX));
            model
                .into_iter()
                .flatten()
                .for_each(|reply| expected.extend(reply));
            assert!(written == expected, "seed {seed}");
            assert_eq!((output.len(), pool.lent_bytes()), (0, 0), "seed {seed}");
        }
    }
}
