//! [`LastLevel`]: what the cores of a machine find in their last-level cache, whatever else they do.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

/// Memory that cards write into the last-level cache, and not past it: looked at before it is pushed out. The cores of a
/// machine share it; clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct LastLevel(Rc<RefCell<Vec<Range<usize>>>>);

impl LastLevel {
    /// From now on the bytes at these addresses are there.
    pub fn hold(&self, bytes: Range<usize>) {
        self.0.borrow_mut().push(bytes);
    }

    /// Takes back a [`hold`](LastLevel::hold) of the same range.
    pub fn release(&self, bytes: &Range<usize>) {
        let mut held = self.0.borrow_mut();
        if let Some(at) = held.iter().rposition(|range| range == bytes) {
            held.remove(at);
        }
    }

    /// Whether `address` is there. A machine has few such ranges: a worker's slots are one.
    #[inline]
    pub(crate) fn has(&self, address: usize) -> bool {
        self.0.borrow().iter().any(|range| range.contains(&address))
    }
}
