//! [`Ready`]: the tasks to run next, in the order in which they became ready.

use std::cell::Cell;

/// Ready tasks, each at most once. Cells instead of a borrow: waking a task and running one is what a pool does most.
#[derive(Debug)]
pub(super) struct Ready {
    /// Whether each task is in the ring.
    flags: Box<[Cell<bool>]>,
    /// Longer than there are tasks, and a power of two.
    ring: Box<[Cell<u32>]>,
    /// Positions of the first task in the ring and behind the last one, modulo its length.
    head: Cell<usize>,
    tail: Cell<usize>,
}

impl Ready {
    pub(super) fn new(task_count_max: usize) -> Ready {
        let len = (task_count_max + 1).next_power_of_two();
        Ready {
            flags: (0..task_count_max).map(|_| Cell::new(false)).collect(),
            ring: (0..len).map(|_| Cell::new(0)).collect(),
            head: Cell::new(0),
            tail: Cell::new(0),
        }
    }

    /// Adds `task`, unless it is already there.
    #[inline(always)]
    pub(super) fn push(&self, task: u32) {
        if !self.flags[task as usize].replace(true) {
            let tail = self.tail.get();
            self.ring[tail & (self.ring.len() - 1)].set(task);
            self.tail.set(tail + 1);
        }
    }

    /// Positions of the first task and behind the last one.
    #[inline(always)]
    pub(super) fn bounds(&self) -> (usize, usize) {
        (self.head.get(), self.tail.get())
    }

    /// Removes the first task, which is at `position`.
    #[inline(always)]
    pub(super) fn take(&self, position: usize) -> u32 {
        self.head.set(position + 1);
        let task = self.ring[position & (self.ring.len() - 1)].get();
        self.flags[task as usize].set(false);
        task
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.head.get() == self.tail.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take_all(ready: &Ready) -> Vec<u32> {
        let (first, end) = ready.bounds();
        (first..end).map(|position| ready.take(position)).collect()
    }

    #[test]
    fn tasks_come_once_and_in_order() {
        let ready = Ready::new(3);
        for _ in 0..5 {
            [2, 0, 2, 1, 0].into_iter().for_each(|task| ready.push(task));
            assert_eq!(ready.take(ready.bounds().0), 2);
            ready.push(2);
            assert_eq!(take_all(&ready), [0, 1, 2]);
            assert!(ready.is_empty());
        }
    }
}
