//! [`Extents`]: an allocator for records that peers may be reading: it never overwrites or moves a record, and never
//! reuses its memory at once.
//!
//! ```text
//!   memory   | chunk, 2 MiB | chunk | chunk | chunk | ...          a run of chunks for longer records
//!            | 64 64 64 .. |  160 160 ..  |  free  | run ...       other chunks are cut into slots of one class
//! ```
//! Classes increase in steps of 16 bytes up to 1 KiB and by a quarter from there, so that at most a quarter of a slot
//! above 1 KiB is unused. A retired slot stays in *quarantine* for a while, so that a reader in progress finds the old
//! record whole; but readers rely on a checksum, not on the quarantine. A chunk whose slots are all free can be cut
//! again. The allocator only decides offsets: the memory belongs to the caller. *(Pilaf's released code uses a buddy
//! allocator, updates in place, and copies every record to grow while all clients are disconnected: read in public
//! code. This design: our choice.)*

use drover_base::Ns;
use std::collections::VecDeque;

/// Largest class that is reached in steps of [`STEP`], bytes.
const STEPS_END: usize = 1024;
const STEP: usize = 16;

/// A record that fits in a line lies in one: such slots do not straddle lines.
const LINE: usize = 64;

/// Sizes and grace period of an [`Extents`] allocator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExtentsOptions {
    /// Bytes of memory to allocate from; a remainder shorter than a chunk is not used.
    pub bytes: usize,
    /// Bytes of a chunk: a multiple of 64.
    pub chunk_bytes: usize,
    /// Shortest time between retiring a slot and reusing it, unless it is [released early](Extents::release_early);
    /// [`for_bytes`](ExtentsOptions::for_bytes) sets a millisecond.
    pub grace: Ns,
}

impl ExtentsOptions {
    /// Options for `bytes` of memory: chunks of 1/32 of it, rounded down to a multiple of 64, but at least 64 bytes and
    /// at most 2 MiB; a grace period of a millisecond *(our choice: ten times the longest READ)*.
    pub fn for_bytes(bytes: usize) -> ExtentsOptions {
        ExtentsOptions {
            bytes,
            chunk_bytes: (bytes / 32 / LINE * LINE).clamp(LINE, 2 << 20),
            grace: Ns::from_ms(1),
        }
    }
}

/// A slot: `len` bytes allocated at `offset`. It is only a location: dropping it does not free the slot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Extent {
    /// Offset from the start of the memory; a multiple of 16.
    pub offset: u64,
    /// Requested length in bytes.
    pub len: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Chunk {
    Free,
    /// Cut into slots of a class, `used` of them allocated or in quarantine.
    Cut {
        class: u16,
        used: u32,
    },
    /// First chunk of a run.
    Run,
    /// Further chunk of a run.
    Inside,
}

/// Allocator of slots for records of any length in memory that peers READ; it delays the reuse of retired slots. It
/// decides offsets only: the memory is the caller's. Cost of an allocation: a pop, and for a new chunk a push for each
/// of its slots.
#[derive(Debug)]
pub struct Extents {
    options: ExtentsOptions,
    chunks: Vec<Chunk>,
    /// Free slots, by class.
    free: Vec<Vec<u64>>,
    quarantine: VecDeque<(Ns, Extent)>,
    used_bytes: usize,
    /// Number of chunks that are cut and have no slot in use.
    empty: usize,
}

/// Bytes of the slots of class `class`.
fn class_bytes(class: usize) -> usize {
    let steps = STEPS_END / STEP;
    let mut bytes = (class.min(steps - 1) + 1) * STEP;
    for _ in steps - 1..class {
        bytes = (bytes + bytes / 4).div_ceil(STEP) * STEP;
    }
    bytes
}

impl Extents {
    /// Creates an allocator with all memory free.
    ///
    /// # Panics
    /// If the chunk size is 0 or not a multiple of 64 bytes.
    pub fn new(options: ExtentsOptions) -> Extents {
        let chunk = options.chunk_bytes;
        assert!(chunk > 0 && chunk.is_multiple_of(LINE), "chunks of {chunk} bytes");
        let classes = (0..).take_while(|class| class_bytes(*class) <= chunk).count();
        Extents {
            chunks: vec![Chunk::Free; options.bytes / chunk],
            free: vec![Vec::new(); classes],
            quarantine: VecDeque::new(),
            used_bytes: 0,
            empty: 0,
            options,
        }
    }

    /// Sum of the requested lengths of all slots that are allocated and not retired, bytes.
    pub fn used_bytes(&self) -> usize {
        self.used_bytes
    }

    /// Bytes of all chunks, used or free, without those [given up](Extents::give_up).
    pub fn bytes(&self) -> usize {
        self.chunks.len() * self.options.chunk_bytes
    }

    /// Number of retired slots that are not [released](Extents::release) yet.
    pub fn quarantined(&self) -> usize {
        self.quarantine.len()
    }

    /// Allocates `len` bytes; `None` if there is no space now. Slots in quarantine are not reused.
    pub fn alloc(&mut self, len: usize) -> Option<Extent> {
        let offset = self.try_alloc(len).or_else(|| {
            self.reclaim();
            self.try_alloc(len)
        })?;
        self.used_bytes += len;
        Some(Extent {
            offset,
            len: len as u32,
        })
    }

    /// Frees at once a slot that no reader can have learned of; for others see [`retire`](Extents::retire).
    pub fn free(&mut self, extent: Extent) {
        self.used_bytes -= extent.len as usize;
        self.reuse(extent);
    }

    /// Puts a slot in quarantine from `now` until its grace period ends; [`release`](Extents::release) then frees it.
    /// Call it when no new reader can learn of the slot.
    pub fn retire(&mut self, extent: Extent, now: Ns) {
        self.used_bytes -= extent.len as usize;
        self.quarantine.push_back((now + self.options.grace, extent));
    }

    /// Frees at most `count` retired slots whose grace period has ended by `now`; returns their number.
    pub fn release(&mut self, now: Ns, count: usize) -> usize {
        let mut released = 0;
        while released < count && self.quarantine.front().is_some_and(|(until, _)| *until <= now) {
            self.release_early();
            released += 1;
        }
        released
    }

    /// Frees the slot that has been in quarantine longest, even before its grace period ends: its readers will see a
    /// wrong checksum and retry. Returns false if there is none.
    pub fn release_early(&mut self) -> bool {
        let Some((_, extent)) = self.quarantine.pop_front() else {
            return false;
        };
        self.reuse(extent);
        true
    }

    /// Gives up the chunks that hold the last `bytes` of the memory, so that the caller may use that many bytes
    /// elsewhere. Returns false, and gives up nothing, if a slot there is in use or in quarantine, or if fewer than
    /// `keep` bytes would be left. Cost: a look at each of these chunks, and at all free slots if some chunk is divided
    /// into slots that are all free.
    pub fn give_up(&mut self, bytes: usize, keep: usize) -> bool {
        self.reclaim();
        let chunk = self.options.chunk_bytes;
        let Some(left) = self.chunks.len().checked_sub(bytes.div_ceil(chunk)) else {
            return false;
        };
        let is_free = self.chunks[left..].iter().all(|chunk| *chunk == Chunk::Free);
        let gives_up = is_free && left >= keep.div_ceil(chunk);
        if gives_up {
            self.chunks.truncate(left);
        }
        gives_up
    }

    /// Undoes a [`give_up`](Extents::give_up) of as many bytes.
    ///
    /// # Panics
    /// If more is taken back than was given up.
    pub fn take_back(&mut self, bytes: usize) {
        let count = self.chunks.len() + bytes.div_ceil(self.options.chunk_bytes);
        assert!(
            count <= self.options.bytes / self.options.chunk_bytes,
            "more than was given up"
        );
        self.chunks.resize(count, Chunk::Free);
    }

    /// The smallest class for `len` bytes; `None` if longer than a chunk.
    fn class_of(&self, len: usize) -> Option<usize> {
        let step = len.max(1).div_ceil(STEP) - 1;
        if step < STEPS_END / STEP {
            return (step < self.free.len()).then_some(step);
        }
        (STEPS_END / STEP..self.free.len()).find(|class| class_bytes(*class) >= len)
    }

    fn try_alloc(&mut self, len: usize) -> Option<u64> {
        match self.class_of(len) {
            Some(class) => self.alloc_place(class),
            None => self.alloc_run(len),
        }
    }

    fn alloc_place(&mut self, class: usize) -> Option<u64> {
        if self.free[class].is_empty() {
            self.cut(class)?;
        }
        let offset = self.free[class].pop()?;
        if let Chunk::Cut { used, .. } = &mut self.chunks[offset as usize / self.options.chunk_bytes] {
            self.empty -= usize::from(*used == 0);
            *used += 1;
        }
        Some(offset)
    }

    /// Cuts a free chunk into slots of `class`, the first of them on top.
    fn cut(&mut self, class: usize) -> Option<()> {
        let index = self.chunks.iter().position(|chunk| *chunk == Chunk::Free)?;
        self.chunks[index] = Chunk::Cut {
            class: class as u16,
            used: 0,
        };
        self.empty += 1;
        let chunk = self.options.chunk_bytes;
        let bytes = class_bytes(class);
        let straddles = |offset: &usize| bytes <= LINE && offset % LINE + bytes > LINE;
        let places = (0..chunk / STEP).map(|at| at * STEP).scan(0, move |next, at| {
            let is_place = at >= *next && at + bytes <= chunk && !straddles(&at);
            *next = if is_place { at + bytes } else { *next };
            Some(is_place.then_some((index * chunk + at) as u64))
        });
        let places: Vec<u64> = places.flatten().collect();
        self.free[class].extend(places.into_iter().rev());
        Some(())
    }

    fn run_len(&self, len: usize) -> usize {
        len.div_ceil(self.options.chunk_bytes)
    }

    fn alloc_run(&mut self, len: usize) -> Option<u64> {
        let count = self.run_len(len);
        let is_free = |run: &[Chunk]| run.iter().all(|chunk| *chunk == Chunk::Free);
        let first = self.chunks.windows(count).position(is_free)?;
        self.chunks[first..first + count].fill(Chunk::Inside);
        self.chunks[first] = Chunk::Run;
        Some((first * self.options.chunk_bytes) as u64)
    }

    fn reuse(&mut self, extent: Extent) {
        let index = extent.offset as usize / self.options.chunk_bytes;
        match &mut self.chunks[index] {
            Chunk::Run => {
                let count = self.run_len(extent.len as usize);
                self.chunks[index..index + count].fill(Chunk::Free);
            }
            Chunk::Cut { class, used } => {
                let class = usize::from(*class);
                *used -= 1;
                self.empty += usize::from(*used == 0);
                self.free[class].push(extent.offset);
            }
            other => panic!("{extent:?} was given back twice: its chunk is {other:?}"),
        }
    }

    /// Makes chunks whose slots are all free whole again. Only when there is no other space: most are soon refilled by
    /// their own class.
    fn reclaim(&mut self) {
        if self.empty == 0 {
            return;
        }
        for chunk in &mut self.chunks {
            if matches!(chunk, Chunk::Cut { used: 0, .. }) {
                *chunk = Chunk::Free;
            }
        }
        self.empty = 0;
        let (chunks, chunk) = (&self.chunks, self.options.chunk_bytes);
        for places in &mut self.free {
            places.retain(|offset| chunks[*offset as usize / chunk] != Chunk::Free);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn extents(bytes: usize, chunk_bytes: usize) -> Extents {
        Extents::new(ExtentsOptions {
            bytes,
            chunk_bytes,
            grace: Ns(100),
        })
    }

    #[test]
    fn classes_waste_at_most_a_quarter() {
        let extents = Extents::new(ExtentsOptions::for_bytes(64 << 20));
        // Fewer lengths under Miri, which is slow.
        for len in (1..100_000usize).step_by(if cfg!(miri) { 97 } else { 1 }) {
            let bytes = class_bytes(extents.class_of(len).expect("shorter than a chunk"));
            assert!(
                bytes >= len && bytes < len + STEP.max(len / 4 + 2 * STEP),
                "{len} in {bytes}"
            );
        }
    }

    #[test]
    fn what_fits_a_line_lies_in_one() {
        let mut extents = extents(1 << 16, 4096);
        for len in [16, 24, 40, 48, 50, 64] {
            for _ in 0..50 {
                let at = extents.alloc(len).expect("space").offset as usize;
                assert!(
                    at % LINE + len <= LINE && at.is_multiple_of(8),
                    "{len} bytes at {at}"
                );
            }
        }
    }

    #[test]
    fn nothing_is_reused_before_its_grace_ends() {
        let mut extents = extents(128, 128);
        let first = extents.alloc(128).expect("space");
        extents.retire(first, Ns(1000));
        assert_eq!((extents.alloc(128), extents.quarantined()), (None, 1));
        assert_eq!(extents.release(Ns(1099), 10), 0);
        assert_eq!(extents.release(Ns(1100), 10), 1);
        assert_eq!(extents.alloc(128), Some(first));
    }

    #[test]
    fn memory_that_is_needed_is_released_early() {
        let mut extents = extents(128, 128);
        let first = extents.alloc(128).expect("space");
        extents.retire(first, Ns(1000));
        assert!(extents.release_early() && !extents.release_early());
        assert_eq!(extents.alloc(128), Some(first));
    }

    /// An empty chunk of one class can serve another class, or a run.
    #[test]
    fn empty_chunks_become_something_else() {
        let mut extents = extents(4096, 1024);
        let small: Vec<Extent> = std::iter::from_fn(|| extents.alloc(32)).collect();
        assert_eq!(small.len(), 4096 / 32);
        assert_eq!(extents.alloc(500), None);
        small.into_iter().for_each(|extent| extents.free(extent));
        let run = extents.alloc(3000).expect("three chunks in a row");
        assert!(extents.alloc(500).is_some());
        extents.free(run);
        assert!(extents.alloc(2000).is_some());
    }

    #[test]
    fn the_end_is_given_up_only_while_nobody_uses_it() {
        let mut extents = extents(4096, 1024);
        let first: Vec<Extent> = (0..2).filter_map(|_| extents.alloc(1024)).collect();
        assert!(!extents.give_up(3000, 0), "the second chunk is in use");
        assert!(!extents.give_up(2048, 2049), "too little would be left");
        assert!(extents.give_up(2048, 2048));
        assert_eq!(extents.alloc(1024), None);
        extents.take_back(2048);
        assert!(extents.alloc(2000).is_some(), "both are there again");
        assert!(!extents.give_up(1, 0));
        first.into_iter().for_each(|extent| extents.free(extent));
        assert!(extents.alloc(2048).is_some());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 3 } else { 128 }))]

        /// No two allocated slots overlap in any sequence of operations; after all are retired, all memory is available
        /// again.
        #[test]
        fn places_never_overlap(steps in proptest::collection::vec((0usize..5000, 0u8..4), 0..200)) {
            let mut extents = extents(1 << 16, 2048);
            let mut living: Vec<Extent> = Vec::new();
            for (at, (len, what)) in steps.into_iter().enumerate() {
                let now = Ns(at as u64 * 10);
                if what > 0 || living.is_empty() {
                    let Some(new) = extents.alloc(len.max(1)) else { continue };
                    for old in &living {
                        let apart = new.offset + u64::from(new.len) <= old.offset
                            || old.offset + u64::from(old.len) <= new.offset;
                        prop_assert!(apart, "{:?} and {:?}", new, old);
                    }
                    prop_assert!(new.offset + u64::from(new.len) <= 1 << 16);
                    living.push(new);
                } else {
                    extents.retire(living.swap_remove(len % living.len()), now);
                }
                extents.release(now, 2);
            }
            let used: usize = living.iter().map(|extent| extent.len as usize).sum();
            prop_assert_eq!(extents.used_bytes(), used);
            living.drain(..).for_each(|extent| extents.retire(extent, Ns(0)));
            while extents.release_early() {}
            prop_assert!(extents.alloc(1 << 16).is_some(), "all of the memory is one run again");
        }
    }
}
