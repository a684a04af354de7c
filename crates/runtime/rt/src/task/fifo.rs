//! [`Fifo`]: tasks that wait for something in the order in which they asked.

use std::collections::VecDeque;

/// Waiting tasks, first come, first served. A waiter is named by its number; it has been *granted* when it has left the
/// queue by [`grant`](Fifo::grant), and then holds what it waited for even before it runs.
#[derive(Debug)]
pub(super) struct Fifo {
    /// Number and task of each waiter, in the order of numbers.
    waiting: VecDeque<(u64, u32)>,
    next: u64,
    /// Waiters below this number have been granted or have left.
    granted: u64,
}

impl Fifo {
    pub(super) fn new(capacity: usize) -> Fifo {
        Fifo {
            waiting: VecDeque::with_capacity(capacity),
            next: 0,
            granted: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Adds `task` at the end; returns the waiter's number.
    pub(super) fn enter(&mut self, task: u32) -> u64 {
        let number = self.next;
        self.next += 1;
        self.waiting.push_back((number, task));
        number
    }

    /// Removes the first waiter and returns its task, which the caller wakes.
    pub(super) fn grant(&mut self) -> Option<u32> {
        let (number, task) = self.waiting.pop_front()?;
        self.granted = number + 1;
        Some(task)
    }

    /// Whether a waiter that has not left has been granted.
    pub(super) fn is_granted(&self, number: u64) -> bool {
        number < self.granted
    }

    /// Removes a waiter that gives up. Returns false if it had been granted: then it must give back what it got.
    pub(super) fn leave(&mut self, number: u64) -> bool {
        if self.is_granted(number) {
            return false;
        }
        self.waiting.retain(|waiter| waiter.0 != number);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiters_are_granted_in_the_order_of_asking() {
        let mut fifo = Fifo::new(4);
        let numbers: Vec<u64> = (0..5).map(|task| fifo.enter(task)).collect();
        assert!(fifo.leave(numbers[1]) && !fifo.is_granted(numbers[0]));
        assert_eq!((fifo.grant(), fifo.grant(), fifo.len()), (Some(0), Some(2), 2));
        assert!(!fifo.leave(numbers[2]), "granted: it has something to give back");
        assert!(fifo.leave(numbers[3]));
        assert_eq!((fifo.grant(), fifo.grant()), (Some(4), None));
        assert!(fifo.is_empty());
    }
}
