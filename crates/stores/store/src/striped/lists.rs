//! [`List`]: the items of a size class in the order of their use, linked through their headers.

use super::NONE;
use drover_base::Cpu;
use drover_mem::BoundedRegion;

/// Offset before an item of the link to the one used later.
const NEWER: u64 = 24;
/// Offset before an item of the link to the one used earlier.
const OLDER: u64 = 16;

/// Both ends of a list. A thread that holds its lock may change the links of its items.
#[derive(Debug)]
pub(super) struct List {
    newest: u64,
    oldest: u64,
}

impl Default for List {
    fn default() -> List {
        List {
            newest: NONE,
            oldest: NONE,
        }
    }
}

impl List {
    /// Offset of the item that was used longest ago.
    pub(super) fn oldest(&self) -> Option<u64> {
        (self.oldest != NONE).then_some(self.oldest)
    }

    /// Reports that links of the item's neighbours are about to change. They and the newest item are in three lines, which
    /// stores fetch at the same time, but the lock is not released before the last of them is there: a simulated core
    /// pays for one.
    #[inline]
    pub(super) fn touch<C: Cpu>(&self, cpu: &C, memory: &BoundedRegion, offset: u64) {
        let neighbour = match memory.load(offset - OLDER) {
            NONE => memory.load(offset - NEWER),
            older => older,
        };
        if self.newest != offset && neighbour != NONE {
            cpu.touch(memory.place(neighbour - NEWER).line(0));
        }
    }

    /// Adds an item as the one used last.
    #[inline]
    pub(super) fn push(&mut self, memory: &BoundedRegion, offset: u64) {
        memory.store(offset - NEWER, NONE);
        memory.store(offset - OLDER, self.newest);
        match self.newest {
            NONE => self.oldest = offset,
            newest => memory.store(newest - NEWER, offset),
        }
        self.newest = offset;
    }

    /// Takes an item out.
    #[inline]
    pub(super) fn remove(&mut self, memory: &BoundedRegion, offset: u64) {
        let (newer, older) = (memory.load(offset - NEWER), memory.load(offset - OLDER));
        match newer {
            NONE => self.newest = older,
            newer => memory.store(newer - OLDER, older),
        }
        match older {
            NONE => self.oldest = newer,
            older => memory.store(older - NEWER, newer),
        }
    }

    /// Makes an item of the list the one used last.
    #[inline]
    pub(super) fn renew(&mut self, memory: &BoundedRegion, offset: u64) {
        if self.newest != offset {
            self.remove(memory, offset);
            self.push(memory, offset);
        }
    }

    /// Offsets of all items, the one used last first.
    #[cfg(all(test, not(loom)))]
    pub(super) fn offsets(&self, memory: &BoundedRegion) -> Vec<u64> {
        let first = (self.newest != NONE).then_some(self.newest);
        std::iter::successors(first, |at| {
            let older = memory.load(at - OLDER);
            (older != NONE).then_some(older)
        })
        .collect()
    }
}
