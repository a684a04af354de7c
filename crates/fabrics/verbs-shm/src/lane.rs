//! A lane: the shared memory between one sender and one receiving queue pair.
//!
//! ```text
//! word   line  written by  field
//!    0     0   sender      claim, set once by CAS: 0 free, 1 used, u64::MAX revoked by the receiver
//!    1     0   sender      in flight: 1 while it executes one-sided requests (RC, UC)
//!    8     1   receiver    consumed: ring lines read, published every quarter ring
//!    9     1   receiver    posted: RECVs posted so far (RC)
//!   16     2   sender      closed: 1 when the sender is gone
//!   17     2   sender      waiting: 1 while a request waits for a RECV or for space
//!   24     3   receiver    state: 1 when the queue pair is gone or failed
//!   32     4.. receiver    lengths of posted RECVs (RC), two u32 per word, ring of `recv_slots`
//!    R         sender      the ring, a power of two of 64-byte lines; R is a multiple of 8
//! ```
//! The creator maps the lane first and passes the memfd on. The memfd is a *ticket*: an open file description that stays
//! locked while any holder of it exists: a message in flight, a process that may claim the lane, or its sender. If the
//! receiver can take the lock, nothing will come through the lane. Both sides can write the lane, so neither
//! trusts it: positions are kept privately, lengths are checked, and whatever a peer writes here harms only this lane.

use crate::ring::{Consumer, FIRST_BYTES, Memory, Producer, partial_word};
use drover_base::sync::Ordering;
use drover_mem::{RawRegion, Region};
use std::sync::atomic::AtomicU64;

pub(crate) const CLAIM: usize = 0;
pub(crate) const IN_FLIGHT: usize = 1;
pub(crate) const CONSUMED: usize = 8;
pub(crate) const POSTED: usize = 9;
pub(crate) const CLOSED: usize = 16;
pub(crate) const WAITING: usize = 17;
pub(crate) const STATE: usize = 24;
const LENGTHS: usize = 32;

/// Value of [`CLAIM`] in a lane that has a sender.
pub(crate) const CLAIMED: u64 = 1;
/// Value of [`CLAIM`] in a lane that its receiver revoked before it had a sender.
pub(crate) const REVOKED: u64 = u64::MAX;

/// Position and length of the ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Geometry {
    ring_word: usize,
    shift: u32,
    /// Lines - 1.
    mask: u64,
    recv_slots: usize,
}

impl Geometry {
    pub(crate) const SHIFT_MIN: u32 = 2;
    pub(crate) const SHIFT_MAX: u32 = 20;
    pub(crate) const RECV_SLOTS_MAX: usize = 1 << 16;

    /// A ring of `1 << shift` lines and lengths of `recv_slots` RECVs (0: the sender ignores RECVs). `None` if either
    /// is out of range: they come from a peer.
    pub(crate) fn new(shift: u32, recv_slots: usize) -> Option<Geometry> {
        if !(Self::SHIFT_MIN..=Self::SHIFT_MAX).contains(&shift) || recv_slots > Self::RECV_SLOTS_MAX {
            return None;
        }
        let ring_word = LENGTHS + recv_slots.div_ceil(2).next_multiple_of(8);
        Some(Geometry {
            ring_word,
            mask: (1 << shift) - 1,
            shift,
            recv_slots,
        })
    }

    pub(crate) fn shift(self) -> u32 {
        self.shift
    }

    pub(crate) fn recv_slots(self) -> usize {
        self.recv_slots
    }

    #[inline(always)]
    pub(crate) fn lines(self) -> u64 {
        self.mask + 1
    }

    /// Bytes of the whole lane.
    pub(crate) fn bytes(self) -> usize {
        (self.ring_word + (8 << self.shift)) * 8
    }

    /// The first word of line `pos`.
    #[inline(always)]
    pub(crate) fn line_word(self, pos: u64) -> usize {
        self.ring_word + ((pos & self.mask) as usize) * 8
    }

    /// The lap in line `pos` once its message is written.
    #[inline(always)]
    pub(crate) fn lap(self, pos: u64) -> u32 {
        ((pos >> self.shift) as u32).wrapping_add(1)
    }

    /// Number of lines from line `pos` on to the end of its lap.
    #[inline(always)]
    pub(crate) fn left_of_lap(self, pos: u64) -> u64 {
        self.lines() - (pos & self.mask)
    }

    /// Word and bit shift of the length of RECV number `index`.
    #[inline]
    fn length_word(self, index: u64) -> (usize, u32) {
        let slot = (index % self.recv_slots as u64) as usize;
        (LENGTHS + slot / 2, (slot as u32 & 1) * 32)
    }

    /// Stores the length `len` of RECV number `index`; [`publish_posted`] publishes it.
    pub(crate) fn set_recv_length<M: Memory>(self, memory: &M, index: u64, len: u32) {
        let (word, shift) = self.length_word(index);
        let others = memory.load(word, Ordering::Relaxed) & !(0xffff_ffff << shift);
        memory.store(word, others | u64::from(len) << shift, Ordering::Relaxed);
    }

    /// The length of RECV number `index`, which [`POSTED`] covers.
    pub(crate) fn recv_length<M: Memory>(self, memory: &M, index: u64) -> u32 {
        let (word, shift) = self.length_word(index);
        (memory.load(word, Ordering::Relaxed) >> shift) as u32
    }
}

/// Publishes that `count` RECVs have been posted so far.
pub(crate) fn publish_posted<M: Memory>(memory: &M, count: u64) {
    // Release: publishes the lengths; pairs with the Acquire of the sender.
    memory.store(POSTED, count, Ordering::Release);
}

/// The shared memory of a lane.
pub(crate) struct LaneMemory {
    region: Region,
    words: usize,
}

impl LaneMemory {
    /// # Panics
    /// If the region is shorter than `geometry` or read-only: callers check the mapping first.
    pub(crate) fn new(region: Region, geometry: Geometry) -> LaneMemory {
        assert!(
            region.is_writable() && region.contains(0, geometry.bytes()),
            "a lane of {region:?}"
        );
        LaneMemory {
            words: geometry.bytes() / 8,
            region,
        }
    }

    pub(crate) fn region(&self) -> &Region {
        &self.region
    }

    #[inline(always)]
    pub(crate) fn word(&self, word: usize) -> *const AtomicU64 {
        debug_assert!(word < self.words, "word {word} of {}", self.words);
        self.lane_view().word(word)
    }

    #[inline(always)]
    pub(crate) fn lane_view(&self) -> LaneView<'_> {
        LaneView(self.region.raw())
    }
}

impl Memory for LaneMemory {
    #[inline(always)]
    fn view(&self) -> impl Memory + Copy {
        self.lane_view()
    }
    #[inline(always)]
    fn prefetch(&self, word: usize) {
        self.lane_view().prefetch(word);
    }
    #[inline(always)]
    fn load(&self, word: usize, order: Ordering) -> u64 {
        self.lane_view().load(word, order)
    }
    #[inline(always)]
    fn store(&self, word: usize, value: u64, order: Ordering) {
        self.lane_view().store(word, value, order);
    }
    #[inline(always)]
    fn put(&self, word: usize, bytes: &[u8]) {
        self.lane_view().put(word, bytes);
    }
}

/// The memory of a lane, in registers.
#[derive(Clone, Copy)]
pub(crate) struct LaneView<'l>(RawRegion<'l>);

impl<'l> LaneView<'l> {
    #[inline(always)]
    pub(crate) fn region(self) -> RawRegion<'l> {
        self.0
    }

    #[inline(always)]
    fn word(&self, word: usize) -> &'l AtomicU64 {
        // SAFETY: `Geometry` returns only words inside, and `LaneMemory::new` checked that those are mapped writable. No
        // assertion in release builds, because every access to every message comes here.
        unsafe { self.0.word(word * 8) }
    }

    #[inline(never)]
    fn put_words(self, word: usize, bytes: &[u8]) {
        let mut to = word;
        let mut put_one = |word: u64| {
            self.store(to, word, Ordering::Relaxed);
            to += 1;
        };
        // Four words at a time without a branch in between: values of 32 bytes are common.
        let (blocks, rest) = bytes.as_chunks::<32>();
        let (words, tail) = rest.as_chunks::<8>();
        for block in blocks {
            let (four, _) = block.as_chunks::<8>();
            four.iter().for_each(|word| put_one(u64::from_le_bytes(*word)));
        }
        words.iter().for_each(|word| put_one(u64::from_le_bytes(*word)));
        if !tail.is_empty() {
            put_one(partial_word(tail));
        }
    }
}

impl Memory for LaneView<'_> {
    #[inline(always)]
    fn view(&self) -> impl Memory + Copy {
        *self
    }
    #[inline(always)]
    fn prefetch(&self, word: usize) {
        self.0.prefetch_read(word * 8);
    }
    #[inline(always)]
    fn load(&self, word: usize, order: Ordering) -> u64 {
        u64::from_le(self.word(word).load(order))
    }
    #[inline(always)]
    fn store(&self, word: usize, value: u64, order: Ordering) {
        self.word(word).store(value.to_le(), order);
    }

    #[inline(always)]
    fn put_all(&self, word: usize, bytes: &[u8; FIRST_BYTES]) {
        // SAFETY: as for `word`; `Geometry` reserved space for the payload of a line, which begins at `word`.
        unsafe { self.0.copy_40_in(word * 8, bytes) };
    }

    /// As the default, but copies bytes that fit the first line of a message without a loop, by both ends.
    #[inline(always)]
    fn put(&self, word: usize, bytes: &[u8]) {
        if bytes.len() <= FIRST_BYTES {
            // SAFETY: as for `word`; `Geometry` reserved space for all of `bytes` from `word` on.
            return unsafe { self.0.copy_short_in(word * 8, bytes) };
        }
        self.put_words(word, bytes);
    }
}

pub(crate) type LaneProducer = Producer<LaneMemory>;
pub(crate) type LaneConsumer = Consumer<LaneMemory>;
