//! The message ring of a lane: one producer, one consumer, no shared index on the data path.
//!
//! ```text
//! line 0 of a message                          continuation lines
//!   0  8  tag                                    0  8  tag (only its lap)
//!   8  4  immediate data                         8 56  payload
//!  12  4  sender's queue pair number
//!  16  4  queue key (WRITE: bytes written)
//!  20  4  count of one-line messages directly after this one, of the same list
//!  24 40  payload
//!
//! tag: bits 0-31 lap, 32-55 payload bytes, 56-63 flags
//! ```
//! All fields are little-endian and written by the producer. The *lap* of line `pos` is `pos / lines + 1`: a line holds
//! a new message exactly when its lap is the one the consumer expects next, so the consumer reads only the message
//! itself. Every line carries the lap, so no payload of an earlier lap can look like a tag. The first tag is stored
//! last (Release); a 32-byte value with immediate data is one cache line.
//!
//! Free space is reported rarely: the consumer publishes its position every quarter ring, and the producer reads it
//! only when it runs out of lines known to be free.

use crate::lane::{CONSUMED, Geometry};
use drover_base::sync::Ordering;
use std::hint::cold_path;
use std::ops::Range;

/// Bytes before the payload in the first line.
pub(crate) const HEAD_BYTES: usize = 24;
/// Payload bytes in the first line.
pub(crate) const FIRST_BYTES: usize = 40;
/// Payload bytes in every other line.
pub(crate) const MORE_BYTES: usize = 56;
/// Lines between the line read next and the line prefetched meanwhile, unless the producer announced further messages.
/// A line further ahead is often not written yet, and fetching it takes it away from the producer: 3 was 8 % slower
/// than 1. (The producer need not prefetch the lines it will write: that was not faster, and a tenth slower at window
/// 1.)
const READ_AHEAD: usize = 1;
/// Most lines prefetched on the producer's announcement, which is untrusted.
const FOLLOWING_MAX: u32 = 15;
/// Bit position of the length in a tag; the flags are above it.
const LENGTH_SHIFT: u32 = 32;
const LENGTH_BITS: u32 = 24;
/// Longest message the tag can describe.
pub(crate) const LENGTH_MAX: usize = (1 << LENGTH_BITS) - 1;

/// The memory of a lane as little-endian words: shared memory, or loom's atomics. Word indexes come from [`Geometry`],
/// which returns only words inside.
pub(crate) trait Memory {
    fn load(&self, word: usize, order: Ordering) -> u64;
    fn store(&self, word: usize, value: u64, order: Ordering);

    /// The same memory as a value that stays in registers, for loops.
    #[inline(always)]
    fn view(&self) -> impl Memory + Copy {
        self
    }

    /// Prefetches the line of `word`, which is read soon.
    #[inline(always)]
    fn prefetch(&self, word: usize) {
        let _ = word;
    }

    /// Stores all payload bytes of a line from a word on, to be published by a later Release store.
    #[inline(always)]
    fn put_all(&self, word: usize, bytes: &[u8; FIRST_BYTES]) {
        self.put(word, bytes);
    }

    /// Stores bytes from a word on, to be published by a later Release store. The rest of the last word is unspecified.
    #[inline(always)]
    fn put(&self, word: usize, bytes: &[u8]) {
        let (words, tail) = bytes.as_chunks::<8>();
        let mut at = word;
        for bytes in words {
            self.store(at, u64::from_le_bytes(*bytes), Ordering::Relaxed);
            at += 1;
        }
        if !tail.is_empty() {
            self.store(at, partial_word(tail), Ordering::Relaxed);
        }
    }
}

impl<M: Memory + ?Sized> Memory for &M {
    fn load(&self, word: usize, order: Ordering) -> u64 {
        (**self).load(word, order)
    }
    fn store(&self, word: usize, value: u64, order: Ordering) {
        (**self).store(word, value, order);
    }
    fn prefetch(&self, word: usize) {
        (**self).prefetch(word);
    }
}

/// Fewer than 8 bytes as the low end of a word, without a loop.
#[inline(always)]
pub(crate) fn partial_word(bytes: &[u8]) -> u64 {
    let (mut word, mut rest, mut shift) = (0, bytes, 0);
    if let Some((four, more)) = rest.split_first_chunk::<4>() {
        word = u64::from(u32::from_le_bytes(*four));
        (rest, shift) = (more, 32);
    }
    if let Some((two, more)) = rest.split_first_chunk::<2>() {
        word |= u64::from(u16::from_le_bytes(*two)) << shift;
        (rest, shift) = (more, shift + 16);
    }
    if let Some(&one) = rest.first() {
        word |= u64::from(one) << shift;
    }
    word
}

/// Properties of a message other than its payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Head {
    pub(crate) len: usize,
    pub(crate) flags: u8,
    pub(crate) imm: u32,
    pub(crate) src_qpn: u32,
    pub(crate) qkey: u32,
    /// Number of one-line messages directly after this one: a hint for prefetching their lines.
    pub(crate) following: u32,
}

impl Head {
    /// `imm` is valid.
    pub(crate) const IMM: u8 = 1;
    /// The notice of a WRITE; `qkey` is the number of bytes written.
    pub(crate) const WRITE: u8 = 2;
    /// The sender closes the lane: no message follows.
    pub(crate) const CLOSE: u8 = 4;
    /// A SEND longer than its RECV, which it completes with an error.
    pub(crate) const TOO_LONG: u8 = 8;
}

/// Number of lines of a message of `len` bytes.
#[inline(always)]
pub(crate) fn lines_of(len: usize) -> u64 {
    if len <= FIRST_BYTES {
        1
    } else {
        1 + (len - FIRST_BYTES).div_ceil(MORE_BYTES) as u64
    }
}

/// Splits `[0, len)` of a message's payload by lines: calls `piece(byte offset in the lane, range start, bytes)`.
#[inline]
fn by_line(geometry: Geometry, pos: u64, len: usize, mut piece: impl FnMut(usize, usize, usize)) {
    let mut at = 0;
    while at < len {
        let (line, inside, space) = if at < FIRST_BYTES {
            (0, HEAD_BYTES + at, FIRST_BYTES - at)
        } else {
            let behind = at - FIRST_BYTES;
            (
                1 + behind / MORE_BYTES,
                8 + behind % MORE_BYTES,
                MORE_BYTES - behind % MORE_BYTES,
            )
        };
        let n = space.min(len - at);
        piece(geometry.line_word(pos + line as u64) * 8 + inside, at, n);
        at += n;
    }
}

/// The sending side.
pub(crate) struct Producer<M> {
    memory: M,
    geometry: Geometry,
    pos: std::cell::Cell<u64>,
    /// Position below which lines are known to be free.
    limit: std::cell::Cell<u64>,
}

impl<M: Memory> Producer<M> {
    pub(crate) fn new(memory: M, geometry: Geometry) -> Producer<M> {
        Producer {
            memory,
            geometry,
            pos: 0.into(),
            limit: geometry.lines().into(),
        }
    }

    pub(crate) fn memory(&self) -> &M {
        &self.memory
    }

    /// Starts sending up to `count` messages of one line each; finish with [`end_run`](Producer::end_run). There may be
    /// space for fewer, because the ring is full or ends.
    #[inline(always)]
    pub(crate) fn run(&self, count: usize) -> Filling<impl Memory + Copy> {
        let (begin, count) = (self.pos.get(), count as u64);
        if begin + count > self.limit.get() {
            self.refresh(count);
        }
        let left_of_lap = self.geometry.left_of_lap(begin);
        let space = (self.limit.get() - begin).min(count).min(left_of_lap);
        let word = self.geometry.line_word(begin);
        Filling {
            memory: self.memory.view(),
            begin: word,
            word,
            space: space as usize,
            lap: self.geometry.lap(begin),
        }
    }

    /// Counts the messages of a run as sent; returns their number.
    #[inline(always)]
    pub(crate) fn end_run<V>(&self, run: Filling<V>) -> usize {
        let sent = (run.word - run.begin) / 8;
        self.pos.set(self.pos.get() + sent as u64);
        sent
    }

    /// Sends one message of one line, whose payload is the first bytes of `padded`. Returns false if there is no space.
    #[inline(always)]
    pub(crate) fn put(&self, head: Head, padded: &[u8; FIRST_BYTES]) -> bool {
        debug_assert!(head.len <= FIRST_BYTES);
        let pos = self.pos.get();
        if pos >= self.limit.get() && !self.refresh(1) {
            return false;
        }
        let (memory, word) = (self.memory.view(), self.geometry.line_word(pos));
        memory.put_all(word + 3, padded);
        publish(&memory, self.geometry.lap(pos), word, head);
        self.pos.set(pos + 1);
        true
    }

    /// Sends a message of any length up to half the ring: calls `fill(byte offset in the lane, payload offset, bytes)`
    /// for every piece of it. Returns false if there is no space.
    #[inline]
    pub(crate) fn push_with(&self, head: Head, mut fill: impl FnMut(&M, usize, usize, usize)) -> bool {
        let (pos, count) = (self.pos.get(), lines_of(head.len));
        if pos + count > self.limit.get() && !self.refresh(count) {
            return false;
        }
        by_line(self.geometry, pos, head.len, |to, from, n| {
            fill(&self.memory, to, from, n)
        });
        for line in 1..count {
            let lap = u64::from(self.geometry.lap(pos + line));
            self.memory
                .store(self.geometry.line_word(pos + line), lap, Ordering::Relaxed);
        }
        publish(
            &self.memory,
            self.geometry.lap(pos),
            self.geometry.line_word(pos),
            head,
        );
        self.pos.set(pos + count);
        true
    }

    /// Sends bytes of any length up to half the ring. Returns false if there is no space.
    #[inline]
    pub(crate) fn push(&self, head: Head, payload: &[u8]) -> bool {
        self.push_with(head, |memory, to, from, n| {
            memory.put(to / 8, &payload[from..from + n])
        })
    }

    /// Whether `count` lines are free.
    pub(crate) fn has_space(&self, count: u64) -> bool {
        self.pos.get() + count <= self.limit.get() || self.refresh(count)
    }

    /// Reads the consumer's position. Any value there keeps us inside the ring: only this lane can be harmed.
    #[cold]
    #[inline(never)]
    fn refresh(&self, count: u64) -> bool {
        // Acquire: pairs with the Release in `Consumer::advance`; the consumer has read the lines below for the last
        // time.
        let consumed = self.memory.load(CONSUMED, Ordering::Acquire);
        let used = self.pos.get().wrapping_sub(consumed);
        if used > self.geometry.lines() {
            return false;
        }
        self.limit.set(consumed + self.geometry.lines());
        used + count <= self.geometry.lines()
    }
}

/// Lines of a ring that are filled with messages of one line each: a copy of the producer's state that stays in registers.
pub(crate) struct Filling<V> {
    memory: V,
    /// Word of the first message, and of the next one.
    begin: usize,
    word: usize,
    /// Number of lines that are free, in a row, from the first message on.
    space: usize,
    lap: u32,
}

impl<V: Memory + Copy> Filling<V> {
    /// Number of messages that can be put here, those that have been included.
    #[inline(always)]
    pub(crate) fn space(&self) -> usize {
        self.space
    }

    /// Sends a message for which there is [space](Filling::space), whose payload is the first bytes of `padded`.
    #[inline(always)]
    pub(crate) fn put(&mut self, head: Head, padded: &[u8; FIRST_BYTES]) {
        debug_assert!(head.len <= FIRST_BYTES && self.word < self.begin + 8 * self.space);
        self.memory.put_all(self.word + 3, padded);
        publish(&self.memory, self.lap, self.word, head);
        self.word += 8;
    }
}

/// Writes the head of a message that starts at `word`, the tag last.
#[inline(always)]
fn publish(memory: &impl Memory, lap: u32, word: usize, head: Head) {
    memory.store(
        word + 1,
        u64::from(head.imm) | u64::from(head.src_qpn) << 32,
        Ordering::Relaxed,
    );
    memory.store(
        word + 2,
        u64::from(head.qkey) | u64::from(head.following) << 32,
        Ordering::Relaxed,
    );
    let tag = u64::from(lap) | (head.len as u64) << 32 | u64::from(head.flags) << 56;
    // Release: publishes all lines of the message; pairs with the Acquire in `Consumer::peek`.
    memory.store(word, tag, Ordering::Release);
}

/// The receiving side. Trusts nothing the producer wrote.
pub(crate) struct Consumer<M> {
    memory: M,
    geometry: Geometry,
    pos: u64,
    /// Position before which lines have been prefetched.
    asked: u64,
    published: u64,
    /// Word and lap of the next message, all that an idle check needs.
    next_word: usize,
    next_lap: u32,
    /// A quarter of the lines.
    quarter: u64,
}

/// One-line messages taken one after the other, up to the end of the ring: a copy of the consumer's state that stays in
/// registers. Positions are words.
pub(crate) struct Run<V> {
    memory: V,
    /// Word of the first message, of the next one, and behind the last that is in a row.
    begin: usize,
    word: usize,
    end: usize,
    /// First word of the ring.
    ring_begin: usize,
    lap: u32,
    /// Word before which lines have been prefetched; it goes on behind the end of the ring.
    asked: usize,
}

/// What a [`Run`] did, in lines from its begin.
pub(crate) struct RunEnd {
    taken: u64,
    asked: u64,
}

impl<V: Memory + Copy> Run<V> {
    /// Most messages that the run takes.
    #[inline(always)]
    pub(crate) fn space(&self) -> usize {
        (self.end - self.begin) / 8
    }

    /// Reads the next message of a run without removing it, and the word where its line starts; `None` unless there is
    /// one that takes one line and has no flags but [`Head::IMM`]. Prefetches the lines of the messages that it
    /// announces, so that their transfers overlap. The run must have [space](Run::space).
    #[inline(always)]
    pub(crate) fn peek_plain(&mut self) -> Option<(usize, Head)> {
        let word = self.word;
        // Acquire: pairs with the Release in `publish`.
        let tag = self.memory.load(word, Ordering::Acquire);
        let len_and_flags = (tag >> LENGTH_SHIFT) as u32;
        let len = len_and_flags & !(u32::from(Head::IMM) << LENGTH_BITS);
        if tag as u32 != self.lap || len > FIRST_BYTES as u32 {
            return None;
        }
        let imm_src = self.memory.load(word + 1, Ordering::Relaxed);
        let qkey_following = self.memory.load(word + 2, Ordering::Relaxed);
        let head = Head {
            len: len as usize,
            flags: (len_and_flags >> LENGTH_BITS) as u8,
            imm: imm_src as u32,
            src_qpn: (imm_src >> 32) as u32,
            qkey: qkey_following as u32,
            following: (qkey_following >> 32) as u32,
        };
        if self.asked <= word + 8 * READ_AHEAD {
            cold_path(); // twice per list
            self.asked = ask(
                self.memory,
                self.asked,
                word,
                self.ring_begin..self.end,
                head.following,
            );
        }
        Some((word, head))
    }

    /// Whether there is no message, of any kind. The run must have [space](Run::space).
    #[inline(always)]
    pub(crate) fn is_over(&self) -> bool {
        // Relaxed: no data behind the tag is read.
        self.memory.load(self.word, Ordering::Relaxed) as u32 != self.lap
    }

    /// Removes the peeked message of a run.
    #[inline(always)]
    pub(crate) fn next_plain(&mut self) {
        self.word += 8;
    }

    /// What the run did.
    #[inline(always)]
    pub(crate) fn end(self) -> RunEnd {
        RunEnd {
            taken: ((self.word - self.begin) / 8) as u64,
            asked: ((self.asked - self.begin) / 8) as u64,
        }
    }
}

/// Prefetches the lines after the message at `word`, from `asked` on: as many as it announces, and at least those that are
/// always read ahead. `ring` has the words of the ring. Returns the word before which lines have been prefetched now. A
/// function of its own, because the loop over messages needs all registers.
#[inline(never)]
fn ask(memory: impl Memory, asked: usize, word: usize, ring: Range<usize>, following: u32) -> usize {
    let end = word + 8 + 8 * following.clamp(READ_AHEAD as u32, FOLLOWING_MAX) as usize;
    let mut at = asked.max(word + 8);
    while at < end.min(ring.end) {
        memory.prefetch(at);
        at += 8;
    }
    while at < end {
        memory.prefetch(at - ring.len());
        at += 8;
    }
    end
}

/// The producer violated the format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Poisoned;

impl<M: Memory> Consumer<M> {
    pub(crate) fn new(memory: M, geometry: Geometry) -> Consumer<M> {
        let (next_word, next_lap) = (geometry.line_word(0), geometry.lap(0));
        Consumer {
            memory,
            geometry,
            pos: 0,
            asked: 0,
            published: 0,
            next_word,
            next_lap,
            quarter: geometry.lines() / 4,
        }
    }

    pub(crate) fn memory(&self) -> &M {
        &self.memory
    }

    /// Word of the next message and the lap it will carry.
    #[inline(always)]
    pub(crate) fn next(&self) -> (usize, u32) {
        (self.next_word, self.next_lap)
    }

    /// Reads the next message without removing it. An idle check is one load of a line that is in our cache.
    #[inline(always)]
    pub(crate) fn peek(&self) -> Result<Option<Head>, Poisoned> {
        // Acquire: pairs with the Release in `Producer::publish`.
        let tag = self.memory.load(self.next_word, Ordering::Acquire);
        if tag as u32 != self.next_lap {
            return Ok(None);
        }
        let len = (tag >> 32) as usize & LENGTH_MAX;
        if len > FIRST_BYTES && lines_of(len) > self.quarter * 2 {
            return Err(Poisoned);
        }
        let imm_src = self.memory.load(self.next_word + 1, Ordering::Relaxed);
        let qkey_following = self.memory.load(self.next_word + 2, Ordering::Relaxed);
        Ok(Some(Head {
            len,
            flags: (tag >> 56) as u8,
            imm: imm_src as u32,
            src_qpn: (imm_src >> 32) as u32,
            qkey: qkey_following as u32,
            following: (qkey_following >> 32) as u32,
        }))
    }

    /// Whether there are at most `count` messages for certain: the line after `count` one-line messages is not written,
    /// or does not exist.
    #[inline(always)]
    pub(crate) fn holds_at_most(&self, count: u64) -> bool {
        let behind = self.pos + count;
        let word = self.geometry.line_word(behind);
        // Relaxed: no data behind the tag is read.
        count >= self.geometry.lines()
            || self.memory.load(word, Ordering::Relaxed) as u32 != self.geometry.lap(behind)
    }

    /// Starts taking one-line messages; finish with [`end_run`](Consumer::end_run).
    #[inline(always)]
    pub(crate) fn run(&self) -> Run<impl Memory + Copy> {
        let begin = self.next_word;
        Run {
            memory: self.memory.view(),
            begin,
            word: begin,
            ring_begin: self.geometry.line_word(0),
            end: begin + 8 * self.geometry.left_of_lap(self.pos) as usize,
            lap: self.next_lap,
            asked: begin + 8 * self.asked.saturating_sub(self.pos) as usize,
        }
    }

    /// Removes the messages of a run up to its position. Returns true once per quarter ring, when it publishes the
    /// position.
    #[inline(always)]
    pub(crate) fn end_run(&mut self, end: RunEnd) -> bool {
        self.asked = self.pos + end.asked;
        self.move_to(self.pos + end.taken)
    }

    /// Passes the payload of the peeked message to `take(byte offset in the lane, payload offset, bytes)`, piece by
    /// piece.
    pub(crate) fn payload(&self, head: Head, mut take: impl FnMut(&M, usize, usize, usize)) {
        by_line(self.geometry, self.pos, head.len, |at, to, n| {
            take(&self.memory, at, to, n)
        });
    }

    /// Removes the peeked message. Returns true once per quarter ring, when it publishes the position.
    #[inline(always)]
    pub(crate) fn advance(&mut self, head: Head) -> bool {
        self.move_to(self.pos + lines_of(head.len))
    }

    #[inline(always)]
    fn move_to(&mut self, pos: u64) -> bool {
        self.pos = pos;
        self.next_word = self.geometry.line_word(self.pos);
        self.next_lap = self.geometry.lap(self.pos);
        if self.pos - self.published < self.quarter {
            return false;
        }
        self.published = self.pos;
        // Release: our reads of these lines come before; pairs with the Acquire in `Producer::refresh`.
        self.memory.store(CONSUMED, self.pos, Ordering::Release);
        true
    }
}

#[cfg(test)]
mod tests;
