//! [`AddressSpace`]: where mappings of memory begin, and which of them are gone.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::Rc;

/// The memory mappings that a simulation uses, as address ranges. The model of a core's cache asks it, because an
/// address alone does not identify memory: the system reuses addresses of unmapped memory, and it decides which
/// mappings are neighbours. With it, cache hits depend on the simulation alone. Clones share the same mappings.
#[derive(Clone, Debug, Default)]
pub struct AddressSpace(Rc<Mappings>);

#[derive(Debug, Default)]
struct Mappings {
    starts: RefCell<BTreeSet<usize>>,
    /// Every range that was unmapped, in order. It grows by 16 bytes per mapping of a run.
    unmapped: RefCell<Vec<Range<usize>>>,
    /// Length of `unmapped`, so that a cache can tell at every access whether there is more.
    unmapped_count: Cell<usize>,
}

impl AddressSpace {
    /// Records that memory has been mapped at the addresses `bytes`.
    pub fn mapped(&self, bytes: &Range<usize>) {
        self.0.starts.borrow_mut().insert(bytes.start);
    }

    /// Records that the memory at the addresses `bytes` has been unmapped: caches forget its lines before their next
    /// access.
    pub fn unmapped(&self, bytes: Range<usize>) {
        self.0.starts.borrow_mut().remove(&bytes.start);
        let mut unmapped = self.0.unmapped.borrow_mut();
        unmapped.push(bytes);
        self.0.unmapped_count.set(unmapped.len());
    }

    /// How many ranges were unmapped so far.
    #[inline]
    pub(crate) fn unmapped_count(&self) -> usize {
        self.0.unmapped_count.get()
    }

    /// Whether `address` is in a range that was unmapped after the first `seen` of them.
    pub(crate) fn was_unmapped_since(&self, seen: usize, address: usize) -> bool {
        let unmapped = self.0.unmapped.borrow();
        unmapped[seen..].iter().any(|range| range.contains(&address))
    }

    /// Whether a mapping begins at `address`.
    pub(crate) fn starts_at(&self, address: usize) -> bool {
        self.0.starts.borrow().contains(&address)
    }
}
