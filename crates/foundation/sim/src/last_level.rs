//! [`LastLevel`]: address ranges that are always in the last-level cache of a machine.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

/// Memory that cards write into the last-level cache and that stays there: the cores read it before it is evicted. The
/// cores of a machine share it; clones are handles of the same one.
#[derive(Clone, Debug, Default)]
pub struct LastLevel(Rc<RefCell<Vec<Range<usize>>>>);

impl LastLevel {
    /// Marks these addresses as cached until [`release`](LastLevel::release).
    pub fn hold(&self, bytes: Range<usize>) {
        self.0.borrow_mut().push(bytes);
    }

    /// Undoes one [`hold`](LastLevel::hold) of the same range; does nothing if there was none.
    pub fn release(&self, bytes: &Range<usize>) {
        let mut held = self.0.borrow_mut();
        if let Some(at) = held.iter().rposition(|range| range == bytes) {
            held.remove(at);
        }
    }

    /// Whether `address` is in a held range. A machine has few such ranges, for example a worker's slots.
    #[inline]
    pub(crate) fn has(&self, address: usize) -> bool {
        self.0.borrow().iter().any(|range| range.contains(&address))
    }
}
