//! [`Heap`]: a segregated-fit allocator over a range of memory, for items that are never overwritten by others.
//!
//! | offset | size | field | meaning |
//! |---|---|---|---|
//! | 0 | 8 | tag | chunk size (a multiple of 8), bit 0 set while in use |
//! | 8 | 8 | next | free chunks only: the next chunk of its class, or [`NONE`] |
//! | 16 | 8 | previous | free chunks only: the previous chunk of its class, or [`NONE`] |
//! | 8 | size - 16 | content | chunks in use only |
//! | size - 8 | 8 | tag | copy of the first tag, so that the next chunk finds the start of this one |
//!
//! Free chunks of 32, 40, ... 272 bytes have one list per size, longer ones one list per power of two; lists are last
//! in, first out. Free chunks are never adjacent: `free` joins a chunk with its free neighbours at once, so free chunks
//! are as large as possible. The rest of a chunk is split off if it is long enough for a chunk. *(Boundary tags, 8-byte
//! classes, splitting at 32 bytes: stated in `[MICA §4.2.2]`; it scans one list for all long chunks where we have 25,
//! our choice, so that a PUT of a large value does not search the whole heap.)*

use drover_mem::{BoundedRegion, MaskedRef};

/// End of a list.
const NONE: u64 = u64::MAX;

/// Bit of a tag: the chunk is in use.
const USED: u64 = 1;

/// The shortest chunk: two tags and two links.
const CHUNK_BYTES_MIN: u64 = 32;

/// Number of classes of one size each: 32, 40, ... 272.
const EXACT_CLASSES: usize = 31;

/// Number of classes: above those, one per power of two.
const CLASSES: usize = EXACT_CLASSES + 40;

/// Most chunks of a mixed class that are tried before one of a longer class is split.
const TRIES: usize = 16;

/// Segregated-fit allocator. Offsets refer to the content of a chunk.
#[derive(Debug)]
pub(crate) struct Heap {
    memory: BoundedRegion,
    /// First free chunk of each class.
    lists: Box<[u64; CLASSES]>,
    /// One bit per class with free chunks.
    nonempty: u128,
    used_bytes: u64,
}

impl Heap {
    /// Bytes of both tags of a chunk.
    pub(crate) const TAGS_BYTES: u64 = 16;

    /// A heap with one free chunk.
    pub(crate) fn new(memory: BoundedRegion) -> Heap {
        let mut heap = Heap {
            memory,
            lists: Box::new([NONE; CLASSES]),
            nonempty: 0,
            used_bytes: 0,
        };
        heap.clear();
        heap
    }

    /// A heap left by an earlier owner in this memory, in which exactly the chunks of `used`, sorted offsets, are in
    /// use. `None` if the memory does not match; then it is unchanged.
    pub(crate) fn resume(memory: BoundedRegion, used: &[u64]) -> Option<Heap> {
        let mut heap = Heap {
            memory,
            lists: Box::new([NONE; CLASSES]),
            nonempty: 0,
            used_bytes: 0,
        };
        let (mut at, mut used, mut after_free) = (0, used.iter(), false);
        while at < heap.size() {
            let tag = heap.tag(at);
            let size = tag & !USED;
            let fits = size >= CHUNK_BYTES_MIN && size.is_multiple_of(8) && size <= heap.size() - at;
            if !fits || heap.tag(at + size - 8) != tag {
                return None;
            }
            if tag & USED != 0 {
                if used.next() != Some(&(at + 8)) {
                    return None;
                }
                heap.used_bytes += size;
            } else if after_free {
                return None;
            }
            (after_free, at) = (tag & USED == 0, at + size);
        }
        if used.next().is_some() {
            return None;
        }
        heap.list_free_chunks();
        Some(heap)
    }

    /// Puts all free chunks into their lists. The tags must be valid.
    fn list_free_chunks(&mut self) {
        let mut at = 0;
        while at < self.size() {
            let tag = self.tag(at);
            if tag & USED == 0 {
                self.insert(at, tag);
            }
            at += tag & !USED;
        }
    }

    /// Frees everything.
    pub(crate) fn clear(&mut self) {
        self.lists.fill(NONE);
        self.nonempty = 0;
        self.used_bytes = 0;
        self.insert(0, self.size());
    }

    pub(crate) fn memory(&self) -> &BoundedRegion {
        &self.memory
    }

    pub(crate) fn size(&self) -> u64 {
        self.memory.len() as u64
    }

    /// Bytes of chunks in use, including tags.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.used_bytes
    }

    /// The content of the chunk at `offset`.
    #[inline(always)]
    pub(crate) fn place(&self, offset: u64) -> MaskedRef<'_> {
        self.memory.place(offset)
    }

    /// Content bytes that fit in the chunk at `offset`.
    #[inline]
    pub(crate) fn space(&self, offset: u64) -> usize {
        Heap::space_in(&self.memory, offset)
    }

    /// As [`space`](Heap::space), of a chunk in use: nobody but its owner changes its tags.
    #[inline]
    pub(crate) fn space_in(memory: &BoundedRegion, offset: u64) -> usize {
        ((memory.load(offset - 8) & !USED) - Heap::TAGS_BYTES) as usize
    }

    /// The longest content that fits in an empty heap.
    pub(crate) fn space_max(bytes: usize) -> usize {
        bytes - Heap::TAGS_BYTES as usize
    }

    /// A chunk with space for `bytes` of content; `None` if no free chunk is long enough.
    pub(crate) fn allocate(&mut self, bytes: usize) -> Option<u64> {
        let need = chunk_bytes(bytes);
        let chunk = self.fitting(need)?;
        let size = self.tag(chunk);
        self.remove(chunk, size);
        let used = if size - need >= CHUNK_BYTES_MIN {
            self.insert(chunk + need, size - need);
            need
        } else {
            size
        };
        self.set_tags(chunk, used, USED);
        self.used_bytes += used;
        Some(chunk + 8)
    }

    /// Size of the chunk at `at`, where one begins, and whether it is in use, with content at `at + 8`; `None` at the end.
    pub(crate) fn chunk(&self, at: u64) -> Option<(u64, bool)> {
        let tag = (at < self.size()).then(|| self.tag(at))?;
        Some((tag & !USED, tag & USED != 0))
    }

    /// Frees a chunk and joins it with its free neighbours; returns where the free chunk begins.
    pub(crate) fn free(&mut self, offset: u64) -> u64 {
        let mut chunk = offset - 8;
        let tag = self.tag(chunk);
        assert!(tag & USED != 0, "the chunk at {chunk} is freed twice");
        let mut size = tag & !USED;
        self.used_bytes -= size;
        if chunk + size < self.size() {
            let after = self.tag(chunk + size);
            if after & USED == 0 {
                self.remove(chunk + size, after);
                size += after;
            }
        }
        if chunk > 0 {
            let before = self.tag(chunk - 8);
            if before & USED == 0 {
                chunk -= before;
                self.remove(chunk, before);
                size += before;
            }
        }
        self.insert(chunk, size);
        chunk
    }

    /// A free chunk of at least `need` bytes: of its class if a short search finds one, else the first of the next
    /// longer non-empty class, else any of its class.
    fn fitting(&self, need: u64) -> Option<u64> {
        let class = class_of(need);
        if let Some(chunk) = self.search(class, need, TRIES) {
            return Some(chunk);
        }
        let longer = self.nonempty >> class >> 1;
        if longer != 0 {
            return Some(self.lists[class + 1 + longer.trailing_zeros() as usize]);
        }
        self.search(class, need, usize::MAX)
    }

    fn search(&self, class: usize, need: u64, tries: usize) -> Option<u64> {
        let mut chunk = self.lists[class];
        for _ in 0..tries {
            if chunk == NONE {
                return None;
            }
            if self.tag(chunk) >= need {
                return Some(chunk);
            }
            chunk = self.memory.load(chunk + 8);
        }
        None
    }

    /// Puts a free chunk at the front of its list.
    fn insert(&mut self, chunk: u64, size: u64) {
        let class = class_of(size);
        let next = self.lists[class];
        self.set_tags(chunk, size, 0);
        self.memory.store(chunk + 8, next);
        self.memory.store(chunk + 16, NONE);
        if next != NONE {
            self.memory.store(next + 16, chunk);
        }
        self.lists[class] = chunk;
        self.nonempty |= 1 << class;
    }

    /// Removes a free chunk from its list.
    fn remove(&mut self, chunk: u64, size: u64) {
        let class = class_of(size);
        let (next, previous) = (self.memory.load(chunk + 8), self.memory.load(chunk + 16));
        if next != NONE {
            self.memory.store(next + 16, previous);
        }
        if previous != NONE {
            self.memory.store(previous + 8, next);
            return;
        }
        self.lists[class] = next;
        if next == NONE {
            self.nonempty &= !(1 << class);
        }
    }

    #[inline]
    fn tag(&self, at: u64) -> u64 {
        self.memory.load(at)
    }

    fn set_tags(&self, chunk: u64, size: u64, used: u64) {
        self.memory.store(chunk, size | used);
        self.memory.store(chunk + size - 8, size | used);
    }
}

/// Size of the chunk for `bytes` of content.
fn chunk_bytes(bytes: usize) -> u64 {
    ((bytes as u64 + 7) & !7)
        .saturating_add(Heap::TAGS_BYTES)
        .max(CHUNK_BYTES_MIN)
}

/// Class of free chunks of `size`.
fn class_of(size: u64) -> usize {
    let exact = ((size - CHUNK_BYTES_MIN) / 8) as usize;
    if exact < EXACT_CLASSES {
        return exact;
    }
    EXACT_CLASSES + (size.ilog2() - 8) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use drover_base::Rng;
    use drover_mem::PageWish;
    use proptest::prelude::*;

    const SIZE: usize = 1 << 14;

    fn heap() -> Heap {
        Heap::new(BoundedRegion::private(SIZE, PageWish::Small).expect("memory"))
    }

    /// Walks all chunks: they must tile the heap, both tags must agree, no two free chunks may be adjacent, and each
    /// free one must be in its list. Returns the free bytes.
    fn check(heap: &Heap) -> Result<u64, String> {
        let (mut at, mut free, mut after_free) = (0, 0, false);
        let mut listed: Vec<u64> = Vec::new();
        for (class, &first) in heap.lists.iter().enumerate() {
            let (mut chunk, mut previous) = (first, NONE);
            if (first != NONE) != (heap.nonempty >> class & 1 == 1) {
                return Err(format!("class {class} and its bit disagree"));
            }
            while chunk != NONE {
                if heap.memory.load(chunk + 16) != previous || class_of(heap.tag(chunk)) != class {
                    return Err(format!("the chunk at {chunk} is listed wrongly"));
                }
                listed.push(chunk);
                (previous, chunk) = (chunk, heap.memory.load(chunk + 8));
            }
        }
        while at < heap.size() {
            let tag = heap.tag(at);
            let size = tag & !USED;
            if size < CHUNK_BYTES_MIN || size > heap.size() - at || heap.tag(at + size - 8) != tag {
                return Err(format!("tags of the chunk at {at}: {tag:#x}"));
            }
            let is_free = tag & USED == 0;
            if is_free && after_free {
                return Err(format!(
                    "the free chunk at {at} was not joined with the one before"
                ));
            }
            if is_free != listed.contains(&at) {
                return Err(format!("the chunk at {at} is in the wrong place"));
            }
            free += if is_free { size } else { 0 };
            (after_free, at) = (is_free, at + size);
        }
        if free != heap.size() - heap.used_bytes() {
            return Err(format!("{free} bytes are free, {} in use", heap.used_bytes()));
        }
        Ok(free)
    }

    #[test]
    fn classes_are_eight_bytes_apart_then_double() {
        let classes: Vec<usize> = [32, 40, 272, 280, 511, 512, 1023, 1024]
            .into_iter()
            .map(class_of)
            .collect();
        assert_eq!(classes, [0, 1, 30, 31, 31, 32, 32, 33]);
        assert!(class_of(1 << 46) < CLASSES && class_of(1 << 46) < 128);
    }

    #[test]
    fn the_tightest_class_serves_and_the_rest_is_split_off() {
        let mut heap = heap();
        let a = heap.allocate(16).expect("space");
        let b = heap.allocate(100).expect("space");
        let c = heap.allocate(16).expect("space");
        assert_eq!((a, b, c), (8, 8 + 32, 8 + 32 + 120));
        assert_eq!((heap.space(a), heap.space(b)), (16, 104));
        heap.free(b);
        assert_eq!(
            heap.allocate(80),
            Some(b),
            "24 bytes left are no chunk of their own"
        );
        assert_eq!(heap.space(b), 104);
        heap.free(b);
        assert_eq!(heap.allocate(72), Some(b), "32 bytes left are");
        assert_eq!(heap.space(b), 72);
        check(&heap).expect("sound");
    }

    #[test]
    #[cfg_attr(miri, ignore = "hundreds of chunks take an interpreter too long")]
    fn everything_freed_is_one_chunk_again() {
        let mut heap = heap();
        let all: Vec<u64> = std::iter::from_fn(|| heap.allocate(40)).collect();
        assert_eq!(all.len(), SIZE / 56);
        for (i, &chunk) in all.iter().enumerate().filter(|(i, _)| i % 2 == 0) {
            heap.free(chunk);
            check(&heap).unwrap_or_else(|e| panic!("{i}: {e}"));
        }
        all.iter()
            .skip(1)
            .step_by(2)
            .for_each(|&chunk| _ = heap.free(chunk));
        assert_eq!(
            heap.allocate(Heap::space_max(SIZE)),
            Some(8),
            "the whole heap at once"
        );
        assert_eq!(heap.allocate(0), None);
    }

    #[test]
    #[should_panic(expected = "freed twice")]
    fn freeing_twice_is_a_bug() {
        let mut heap = heap();
        let chunk = heap.allocate(8).expect("space");
        heap.free(chunk);
        heap.free(chunk);
    }

    #[test]
    fn a_missing_join_is_caught_by_the_check() {
        let mut heap = heap();
        let (a, b) = (
            heap.allocate(16).expect("space"),
            heap.allocate(16).expect("space"),
        );
        heap.free(a);
        // The flaw: b goes to its list without a check of its neighbours.
        heap.used_bytes -= 32;
        heap.insert(b - 8, 32);
        assert!(check(&heap).is_err_and(|e| e.contains("not joined")));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 64 }))]

        /// Contents never overlap, `None` means that no free chunk is long enough, and the heap stays consistent.
        #[test]
        fn chunks_are_disjoint_and_refusals_are_true(seed in any::<u64>(), longest in 1u64..3000) {
            let mut heap = heap();
            let mut rng = Rng::new(seed, 0, 0);
            let mut held: Vec<(u64, usize, u64)> = Vec::new();
            for stamp in 0..if cfg!(miri) { 12 } else { 300 } {
                if rng.chance(0.4) && !held.is_empty() {
                    let (offset, len, stamp) = held.swap_remove(rng.below(held.len() as u64) as usize);
                    for at in (0..len as u64).step_by(8) {
                        prop_assert_eq!(heap.memory.load(offset + at), stamp);
                    }
                    heap.free(offset);
                } else {
                    let len = rng.below(longest) as usize & !7;
                    match heap.allocate(len) {
                        Some(offset) => {
                            prop_assert!(heap.space(offset) >= len);
                            for at in (0..len as u64).step_by(8) {
                                heap.memory.store(offset + at, stamp);
                            }
                            held.push((offset, len, stamp));
                        }
                        None => {
                            let fits = (0..CLASSES).any(|c| heap.search(c, chunk_bytes(len), usize::MAX).is_some());
                            prop_assert!(!fits);
                        }
                    }
                }
                if let Err(unsound) = check(&heap) {
                    return Err(TestCaseError::fail(unsound));
                }
            }
            let mut used: Vec<u64> = held.iter().map(|(offset, ..)| *offset).collect();
            used.sort_unstable();
            if let [known @ .., _] = &used[..] {
                let words = |heap: &Heap| -> Vec<u64> {
                    (0..heap.size()).step_by(8).map(|at| heap.memory.load(at)).collect()
                };
                let before = words(&heap);
                let missing = Heap::resume(heap.memory.clone(), known);
                prop_assert!(missing.is_none(), "a chunk that nobody knows");
                prop_assert!(words(&heap) == before, "refused memory has changed");
            }
            let mut heap = Heap::resume(heap.memory.clone(), &used).expect("nothing has changed");
            if let Err(unsound) = check(&heap) {
                return Err(TestCaseError::fail(unsound));
            }
            held.into_iter().for_each(|(offset, ..)| _ = heap.free(offset));
            prop_assert_eq!(heap.allocate(Heap::space_max(SIZE)), Some(8));
        }
    }
}
