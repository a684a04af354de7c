//! [`LastLevel`]: address ranges that are always in the last-level cache of a machine.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

/// Address ranges that a machine's last-level cache always holds: memory into which network cards write. The RDMA
/// simulator marks a whole region when it is registered for remote WRITE, even before anything is written. The cores of
/// a machine share it; clones are handles of the same one.
#[derive(Clone, Debug, Default)]
pub struct LastLevel(Rc<RefCell<Vec<Range<usize>>>>);

impl LastLevel {
    /// Marks these addresses as held until [`release`](LastLevel::release).
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
