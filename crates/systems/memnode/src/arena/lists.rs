//! [`Lists`]: a thread's free blocks of one node, by size class. No I/O.

use crate::chunks::CHUNK_BYTES;
use crate::classes::{CLASS_COUNT, Class};
use drover_mem::Limbo;

/// Blocks that one look takes out of the limbo at most, so that no operation takes long.
const RELEASE_MAX: usize = 64;
/// A class keeps the blocks of so many chunks before it looks for whole chunks to give back.
const CHUNKS_KEPT: usize = 4;

/// A freed piece of memory: offset, and its class, or the number of chunks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Freed {
    pub(super) offset: u64,
    pub(super) size: Size,
}

/// Size of a piece of memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Size {
    Block(Class),
    Chunks(u32),
}

impl Size {
    /// Size class of an allocation of `bytes`, or the chunks that it takes.
    pub(super) fn of(bytes: usize) -> Size {
        match Class::of(bytes) {
            Some(class) => Size::Block(class),
            None => Size::Chunks(crate::classes::chunks_for(bytes) as u32),
        }
    }
}

#[derive(Debug, Default)]
struct List {
    free: Vec<u64>,
    /// First block of the open chunk that was never used, and how many follow.
    open: (u64, usize),
    /// Length of `free` at which to look for whole chunks again.
    look_at: usize,
}

/// Free blocks of one node.
#[derive(Debug)]
pub(super) struct Lists {
    lists: [List; CLASS_COUNT],
    limbo: Limbo<Freed>,
    /// Chunks that are free as a whole: to be given back.
    whole: Vec<u64>,
}

impl Default for Lists {
    fn default() -> Lists {
        Lists {
            lists: std::array::from_fn(|index| {
                let class = Class::from_index(index).expect("there are so many");
                List {
                    look_at: 2 * CHUNKS_KEPT * class.per_chunk(),
                    ..List::default()
                }
            }),
            limbo: Limbo::with_capacity(1024),
            whole: Vec::new(),
        }
    }
}

impl Lists {
    /// A block of `class`, now that `reached` is the node's epoch.
    #[inline]
    pub(super) fn take(&mut self, class: Class, reached: u64) -> Option<u64> {
        if let Some(offset) = self.lists[class.index()].free.pop() {
            return Some(offset);
        }
        self.release(reached);
        let list = &mut self.lists[class.index()];
        if let Some(offset) = list.free.pop() {
            return Some(offset);
        }
        let (offset, left) = &mut list.open;
        let block = *offset;
        if *left == 0 {
            return None;
        }
        (*offset, *left) = (block + class.bytes() as u64, *left - 1);
        Some(block)
    }

    /// Adds an unused chunk to those of `class`.
    pub(super) fn add_chunk(&mut self, class: Class, offset: u64) {
        let list = &mut self.lists[class.index()];
        let (first, left) = list.open;
        let bytes = class.bytes() as u64;
        list.free
            .extend((0..left as u64).map(|block| first + block * bytes));
        list.open = (offset, class.per_chunk());
    }

    /// Takes back a block that nobody else has seen.
    pub(super) fn put(&mut self, class: Class, offset: u64) {
        self.lists[class.index()].free.push(offset);
    }

    /// Takes what was freed in `epoch`.
    #[inline]
    pub(super) fn free(&mut self, epoch: u64, freed: Freed) {
        self.limbo.push(epoch, freed);
    }

    /// Takes out of the limbo what may be used again now that `reached` is the node's epoch.
    pub(super) fn release(&mut self, reached: u64) {
        for _ in 0..RELEASE_MAX {
            let Some(freed) = self.limbo.pop(reached) else {
                return;
            };
            match freed.size {
                Size::Block(class) => self.put(class, freed.offset),
                Size::Chunks(count) => {
                    let chunks = 0..u64::from(count);
                    self.whole
                        .extend(chunks.map(|chunk| freed.offset + chunk * CHUNK_BYTES as u64));
                }
            }
        }
    }

    /// A class that has many free blocks, if there is one.
    pub(super) fn crowded(&self) -> Option<Class> {
        let mut lists = self.lists.iter();
        let index = lists.position(|list| list.free.len() >= list.look_at)?;
        Class::from_index(index)
    }

    /// Moves chunks whose blocks are all free from the list of `class` to those that are given back; some stay.
    pub(super) fn collect(&mut self, class: Class) {
        let (list, per_chunk) = (&mut self.lists[class.index()], class.per_chunk());
        // Highest first: a pop takes from the end, so blocks of the lowest chunks are used first, and the others empty.
        list.free.sort_unstable_by(|a, b| b.cmp(a));
        let chunk_of = |offset: u64| offset / CHUNK_BYTES as u64;
        let (mut read, mut write) = (0, 0);
        while read < list.free.len() {
            let chunk = chunk_of(list.free[read]);
            let rest = &list.free[read..];
            let count = rest
                .iter()
                .take_while(|&&offset| chunk_of(offset) == chunk)
                .count();
            let is_kept = list.free.len() - read < CHUNKS_KEPT * per_chunk;
            if count == per_chunk && !is_kept {
                self.whole.push(chunk * CHUNK_BYTES as u64);
            } else {
                list.free.copy_within(read..read + count, write);
                write += count;
            }
            read += count;
        }
        list.free.truncate(write);
        list.look_at = (2 * write).max(2 * CHUNKS_KEPT * per_chunk);
    }

    /// A chunk that is to be given back.
    pub(super) fn pop_whole(&mut self) -> Option<u64> {
        self.whole.pop()
    }

    /// A chunk that is to be given back after all.
    pub(super) fn push_whole(&mut self, offset: u64) {
        self.whole.push(offset);
    }

    /// Chunks that are to be given back.
    pub(super) fn whole_count(&self) -> usize {
        self.whole.len()
    }

    /// Whether blocks of `class` wait for an epoch.
    pub(super) fn awaits(&self, class: Class) -> bool {
        self.limbo.iter().any(|freed| freed.size == Size::Block(class))
    }

    /// Blocks and pieces that wait for an epoch.
    pub(super) fn limbo_count(&self) -> usize {
        self.limbo.len()
    }

    /// Drops all that lies in chunks for which `is_lost` is true, by the offset of the chunk.
    pub(super) fn forget(&mut self, mut is_lost: impl FnMut(u64) -> bool) {
        let mut keep = |offset: u64| !is_lost(offset / CHUNK_BYTES as u64 * CHUNK_BYTES as u64);
        self.limbo.retain(|freed| keep(freed.offset));
        for list in &mut self.lists {
            list.free.retain(|&offset| keep(offset));
            if list.open.1 > 0 && !keep(list.open.0) {
                list.open = (0, 0);
            }
        }
        self.whole.retain(|&offset| keep(offset));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Against a plain model: no two pieces in use overlap, and nothing is used again before its epoch.
        #[test]
        fn no_piece_is_given_twice(steps in proptest::collection::vec((0u8..10, 0usize..12, any::<prop::sample::Index>()), 1..400)) {
            let mut lists = Lists::default();
            let (mut next_chunk, mut epoch) = (1u64, 10u64);
            let mut used: BTreeMap<u64, Class> = BTreeMap::new();
            let mut waiting: BTreeMap<u64, u64> = BTreeMap::new();
            let mut given = Vec::new();
            for (what, class, which) in steps {
                let class = Class::from_index(class).expect("a class");
                match what {
                    0..5 => {
                        let offset = lists.take(class, epoch).unwrap_or_else(|| {
                            let chunk = given.pop().unwrap_or_else(|| {
                                next_chunk += 1;
                                next_chunk * CHUNK_BYTES as u64
                            });
                            lists.add_chunk(class, chunk);
                            lists.take(class, epoch).expect("of the new chunk")
                        });
                        let end = offset + class.bytes() as u64;
                        let before = used.range(..end).next_back();
                        prop_assert!(before.is_none_or(|(at, class)| at + class.bytes() as u64 <= offset));
                        if let Some(freed) = waiting.remove(&offset) {
                            prop_assert!(freed + 3 <= epoch, "freed in {freed}, used again in {epoch}");
                        }
                        used.insert(offset, class);
                    }
                    5..8 if !used.is_empty() => {
                        let (&offset, &class) = used.iter().nth(which.index(used.len())).expect("one");
                        used.remove(&offset);
                        match what {
                            7 => lists.put(class, offset),
                            _ => {
                                waiting.insert(offset, epoch);
                                lists.free(epoch, Freed { offset, size: Size::Block(class) });
                            }
                        }
                    }
                    8 => epoch += 1,
                    _ => {
                        lists.collect(class);
                        while let Some(chunk) = lists.pop_whole() {
                            let end = chunk + CHUNK_BYTES as u64;
                            prop_assert!(used.range(chunk..end).next().is_none());
                            // Of another class next time.
                            waiting.retain(|offset, _| !(chunk..end).contains(offset));
                            given.push(chunk);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn whole_chunks_are_found() {
        let mut lists = Lists::default();
        let class = Class::of(4096).expect("a class");
        for chunk in 1..=20u64 {
            lists.add_chunk(class, chunk * CHUNK_BYTES as u64);
        }
        let mut blocks: Vec<u64> = std::iter::from_fn(|| lists.take(class, 0)).collect();
        assert_eq!(blocks.len(), 80);
        // One of chunk 20 stays in use.
        blocks.sort_unstable();
        let used = blocks.pop().expect("one");
        blocks.iter().for_each(|&offset| lists.put(class, offset));
        assert_eq!(lists.crowded(), Some(class));
        lists.collect(class);
        assert_eq!(lists.crowded(), None);
        let whole: Vec<u64> = std::iter::from_fn(|| lists.pop_whole()).collect();
        assert!(whole.len() >= 15 && !whole.contains(&(used / CHUNK_BYTES as u64 * CHUNK_BYTES as u64)));
        lists.forget(|chunk| chunk == CHUNK_BYTES as u64);
        assert!(std::iter::from_fn(|| lists.take(class, 0)).all(|offset| offset >= 2 * CHUNK_BYTES as u64));
    }
}
