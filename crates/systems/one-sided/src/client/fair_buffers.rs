//! [`FairBuffers`]: a few buffers shared by many operations.

use std::collections::VecDeque;

/// Buffers that operations borrow, identified by number. Operations that find none free are served first come, first
/// served; without this order, an operation could always find a returned buffer taken by another one, and time out.
#[derive(Debug)]
pub(super) struct FairBuffers {
    free: Vec<u8>,
    waiting: VecDeque<usize>,
}

impl FairBuffers {
    /// `count` buffers.
    pub(super) fn new(count: u8) -> FairBuffers {
        FairBuffers {
            free: (0..count).rev().collect(),
            waiting: VecDeque::new(),
        }
    }

    /// A buffer for `borrower`; `None` if all are lent or reserved for earlier borrowers. The borrower is then queued,
    /// and must call again.
    pub(super) fn take(&mut self, borrower: usize) -> Option<u8> {
        let place = self.waiting.iter().position(|&waiting| waiting == borrower);
        let is_next = place.unwrap_or(self.waiting.len()) < self.free.len();
        if !is_next {
            if place.is_none() {
                self.waiting.push_back(borrower);
            }
            return None;
        }
        self.leave(borrower);
        self.free.pop()
    }

    /// Returns `buffer`.
    pub(super) fn give_back(&mut self, buffer: u8) {
        self.free.push(buffer);
    }

    /// Removes `borrower` from the queue.
    pub(super) fn leave(&mut self, borrower: usize) {
        self.waiting.retain(|&waiting| waiting != borrower);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asked_first_is_served_first() {
        let mut buffers = FairBuffers::new(2);
        assert_eq!((buffers.take(0), buffers.take(1)), (Some(0), Some(1)));
        assert_eq!(
            (buffers.take(5), buffers.take(3), buffers.take(5)),
            (None, None, None)
        );
        buffers.give_back(1);
        assert_eq!(buffers.take(0), None, "5 and 3 have asked before");
        assert_eq!(buffers.take(3), None, "5 has asked before");
        assert_eq!(buffers.take(5), Some(1));
        buffers.give_back(0);
        assert_eq!((buffers.take(3), buffers.take(0)), (Some(0), None));
    }

    #[test]
    fn all_that_there_is_for_is_lent() {
        let mut buffers = FairBuffers::new(2);
        let lent = [buffers.take(0), buffers.take(1)];
        assert_eq!((buffers.take(2), buffers.take(3)), (None, None));
        lent.into_iter()
            .flatten()
            .for_each(|buffer| buffers.give_back(buffer));
        assert!(buffers.take(3).is_some(), "there is one left for 2");
        assert!(buffers.take(2).is_some());
        assert_eq!(buffers.take(4), None);
    }

    #[test]
    fn who_leaves_is_not_waited_for() {
        let mut buffers = FairBuffers::new(1);
        assert_eq!(
            (buffers.take(0), buffers.take(1), buffers.take(2)),
            (Some(0), None, None)
        );
        buffers.leave(1);
        buffers.give_back(0);
        assert_eq!(buffers.take(2), Some(0));
    }
}
