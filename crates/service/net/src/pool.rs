//! [`Pool`]: memory blocks that the connections of a core borrow, within a budget.
//!
//! Blocks are powers of two from 1 KiB on. Returned blocks are kept for reuse, last in first out, so that a busy
//! connection gets blocks that are still in the caches; the number kept per size is limited, so that a burst of
//! connections does not hold memory for ever.

use crate::output::Late;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// The smallest block, bytes.
const CLASS_MIN: usize = 1 << 10;
/// Number of sizes kept: 1 KiB to 2 MiB.
const CLASSES: usize = 12;
/// Bytes kept of each size, but at least two blocks: enough for the replies of a whole round, or each round would
/// allocate and free its memory.
const KEPT_BYTES: usize = 512 << 10;

/// Connections whose first missing reply leaves memory for the next connection's.
const LATES_KEPT: usize = 64;

/// Maximum size of a small block, bytes.
const SMALL_BYTES: usize = 64 << 10;

/// Memory blocks that the connections of a core borrow, with a count of lent bytes. A quarter of the budget is for
/// blocks of up to 64 KiB and the rest for longer ones, so that neither kind starves the other.
/// [`try_take`](Pool::try_take) keeps within the budget, [`take`](Pool::take) does not.
#[derive(Debug)]
pub struct Pool {
    kept: [RefCell<Vec<Box<[u8]>>>; CLASSES],
    /// Memory for what stands behind missing replies, not in use.
    #[expect(clippy::vec_box, reason = "boxes come and go whole, so nothing is copied")]
    lates: RefCell<Vec<Box<Late>>>,
    /// Part of `lent_bytes` in small blocks.
    lent_small: Cell<usize>,
    /// Number of blocks returned.
    given: Cell<u64>,
    lent_bytes: Cell<usize>,
    lent_bytes_max: Cell<usize>,
    budget_bytes: usize,
}

impl Pool {
    /// Creates a pool that holds no memory yet. `budget_bytes` limits only [`try_take`](Pool::try_take), which counts
    /// the blocks lent by [`take`](Pool::take) too.
    pub fn new(budget_bytes: usize) -> Rc<Pool> {
        Rc::new(Pool {
            kept: Default::default(),
            lates: RefCell::default(),
            lent_small: 0.into(),
            given: 0.into(),
            lent_bytes: 0.into(),
            lent_bytes_max: 0.into(),
            budget_bytes,
        })
    }

    /// Lends a block of at least `bytes` bytes (rounded up to a power of two, at least 1 KiB) with arbitrary content,
    /// regardless of the budget.
    pub fn take(&self, bytes: usize) -> Box<[u8]> {
        let bytes = block_bytes(bytes);
        self.lent_bytes.set(self.lent_bytes.get() + bytes);
        if is_small(bytes) {
            self.lent_small.set(self.lent_small.get() + bytes);
        }
        self.lent_bytes_max
            .set(self.lent_bytes_max.get().max(self.lent_bytes.get()));
        let kept = self
            .kept
            .get(class_of(bytes))
            .and_then(|class| class.borrow_mut().pop());
        kept.unwrap_or_else(|| vec![0; bytes].into())
    }

    /// As [`take`](Pool::take), but returns `None` if the block would exceed the budget for blocks of its kind. A block
    /// of more than 64 KiB is always granted while no other of that kind is lent, however long it is.
    pub fn try_take(&self, bytes: usize) -> Option<Box<[u8]>> {
        self.has_space(bytes).then(|| self.take(bytes))
    }

    /// Whether [`try_take`](Pool::try_take) would succeed for this size.
    pub fn has_space(&self, bytes: usize) -> bool {
        let (bytes, small) = (block_bytes(bytes), self.lent_small.get());
        let long = self.lent_bytes.get() - small;
        match is_small(bytes) {
            true => small + bytes <= self.small_budget(),
            false => long == 0 || long + bytes <= self.budget_bytes - self.small_budget(),
        }
    }

    fn small_budget(&self) -> usize {
        self.budget_bytes / 4
    }

    /// Takes back a block, which must be one that this pool lent, in full length. Ignores an empty block.
    pub fn give(&self, block: Box<[u8]>) {
        if block.is_empty() {
            return;
        }
        let bytes = block.len();
        self.lent_bytes.set(self.lent_bytes.get() - bytes);
        if is_small(bytes) {
            self.lent_small.set(self.lent_small.get() - bytes);
        }
        self.given.set(self.given.get() + 1);
        if let Some(class) = self.kept.get(class_of(bytes)) {
            let mut class = class.borrow_mut();
            if class.len() < (KEPT_BYTES / bytes).max(2) {
                class.push(block);
            }
        }
    }

    /// Lends memory for what stands behind a missing reply: empty, and not counted.
    pub(crate) fn take_late(&self) -> Box<Late> {
        self.lates.borrow_mut().pop().unwrap_or_default()
    }

    /// Takes back what [`take_late`](Pool::take_late) has lent.
    pub(crate) fn give_late(&self, mut late: Box<Late>) {
        let mut lates = self.lates.borrow_mut();
        if late.clear() && lates.len() < LATES_KEPT {
            lates.push(late);
        }
    }

    /// Bytes of all blocks that are lent now, by either method, in full length.
    pub fn lent_bytes(&self) -> usize {
        self.lent_bytes.get()
    }

    /// Maximum of [`lent_bytes`](Pool::lent_bytes) since the pool was created.
    pub fn lent_bytes_max(&self) -> usize {
        self.lent_bytes_max.get()
    }

    /// Whether small blocks, which `take` grants regardless of the budget, exceed their share.
    pub(crate) fn is_over_in_small(&self) -> bool {
        self.lent_small.get() > self.small_budget()
    }

    /// Number of blocks returned; changes whenever a block comes back.
    pub(crate) fn given(&self) -> u64 {
        self.given.get()
    }

    /// Whether more bytes are lent than the budget.
    pub fn is_over(&self) -> bool {
        self.lent_bytes.get() > self.budget_bytes
    }
}

/// Whether a block of this size counts as small.
pub(crate) fn is_small(bytes: usize) -> bool {
    bytes <= SMALL_BYTES
}

fn block_bytes(bytes: usize) -> usize {
    bytes.max(CLASS_MIN).next_power_of_two()
}

/// Index of the size class of a block; beyond the table for sizes that are not kept.
fn class_of(block_bytes: usize) -> usize {
    (block_bytes.ilog2() - CLASS_MIN.ilog2()) as usize
}

/// A borrowed block and the part of it in use. Its holder must return it.
#[derive(Debug, Default)]
pub(crate) struct Block {
    pub(crate) data: Box<[u8]>,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Block {
    /// A block with nothing in use.
    pub(crate) fn empty(data: Box<[u8]>) -> Block {
        Block {
            data,
            start: 0,
            end: 0,
        }
    }

    /// Bytes in use.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.end - self.start
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.end == self.start
    }

    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.data[self.start..self.end]
    }

    /// Returns the memory to the pool.
    pub(crate) fn release(&mut self, pool: &Pool) {
        pool.give(std::mem::take(self).data);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_block_that_came_back_last_is_lent_next_and_bursts_are_forgotten() {
        let pool = Pool::new(1 << 20);
        let (mut one, two) = (pool.take(10), pool.take(1024));
        assert_eq!((one.len(), two.len(), pool.lent_bytes()), (1024, 1024, 2048));
        one[0] = 7;
        pool.give(two);
        pool.give(one);
        assert_eq!(pool.take(1)[0], 7);
        let burst: Vec<_> = (0..1000).map(|_| pool.take(16 << 10)).collect();
        burst.into_iter().for_each(|block| pool.give(block));
        let kept: usize = pool
            .kept
            .iter()
            .map(|class| class.borrow().iter().map(|b| b.len()).sum::<usize>())
            .sum();
        assert!(kept <= KEPT_BYTES + 2 * CLASS_MIN, "{kept}");
        assert_eq!(pool.lent_bytes(), 1024);
    }

    #[test]
    fn the_budget_holds_but_somebody_is_always_served() {
        let pool = Pool::new(1 << 20);
        let big = pool.try_take(8 << 20).expect("the only long one");
        assert!(pool.is_over());
        assert!(pool.try_take(100 << 10).is_none());
        // Small blocks have a quarter, whatever long ones take.
        let small: Vec<_> = (0..4)
            .map(|_| pool.try_take(64 << 10).expect("256 KiB"))
            .collect();
        assert!(pool.try_take(1).is_none() && !pool.is_over_in_small());
        let more = pool.take(1);
        assert!(pool.is_over_in_small());
        let given = pool.given();
        pool.give(big);
        assert_ne!(pool.given(), given);
        let first = pool.try_take(512 << 10).expect("512 of 768 KiB");
        assert!(!pool.is_over() && pool.try_take(512 << 10).is_none());
        pool.give(first);
        small.into_iter().chain([more]).for_each(|block| pool.give(block));
        assert_eq!((pool.lent_bytes(), pool.is_over_in_small()), (0, false));
    }
}
