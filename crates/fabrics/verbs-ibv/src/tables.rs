//! [`Tables`]: lookup tables for the keys in requests, and [`Lookup`], which makes lookups cheap.

use crate::ffi;
use crate::raw::Handle;
use drover_verbs::provide::Keys;
use std::cell::UnsafeCell;

/// The tables of a context.
#[derive(Default)]
pub(crate) struct Tables {
    /// Remote keys of imported regions, as their owners' devices know them. Requests use an index of this table
    /// instead, so that a key that was released, or imported by another context, gives no access.
    pub(crate) remotes: Lookup<u32>,
    pub(crate) handles: Lookup<Handle>,
}

/// The part of an entry that posts need.
pub(crate) trait Entry {
    type Value: Copy;
    fn value(&self) -> Self::Value;
}

impl Entry for u32 {
    type Value = u32;
    #[inline(always)]
    fn value(&self) -> u32 {
        *self
    }
}

impl Entry for Handle {
    type Value = *mut ffi::Ah;
    #[inline(always)]
    fn value(&self) -> *mut ffi::Ah {
        self.ptr()
    }
}

/// [`Keys`] shared within one thread, without the borrow count of a `RefCell`: no method returns a reference or calls
/// code that could come back here. The values that posts need are stored separately from the owners, so that a lookup
/// is one comparison of the key.
pub(crate) struct Lookup<T: Entry>(UnsafeCell<Inside<T>>);

struct Inside<T: Entry> {
    owners: Keys<T>,
    /// Per index: the valid key and its value.
    known: Vec<(u32, T::Value)>,
}

/// A key that is never valid: its index is beyond the limit.
const NO_KEY: u32 = u32::MAX;
const _: () = assert!(Keys::<u32>::index_of(NO_KEY) >= Keys::<u32>::LIMIT);

impl<T: Entry> Default for Lookup<T> {
    fn default() -> Lookup<T> {
        Lookup(UnsafeCell::new(Inside {
            owners: Keys::new(),
            known: Vec::new(),
        }))
    }
}

impl<T: Entry> Lookup<T> {
    /// Adds a value; `None` when the table is full.
    pub(crate) fn insert(&self, value: T) -> Option<u32> {
        // SAFETY: not `Sync`, and no other reference to the table is alive: methods return none.
        let Inside { owners, known } = unsafe { &mut *self.0.get() };
        let seen = value.value();
        let key = owners.insert(value)?;
        let index = Keys::<T>::index_of(key);
        if index == known.len() {
            known.push((NO_KEY, seen));
        }
        known[index] = (key, seen);
        Some(key)
    }

    /// Removes a value and returns it for the caller to drop: dropping may call the library.
    pub(crate) fn remove(&self, key: u32) -> Option<T> {
        // SAFETY: as for `insert`.
        let Inside { owners, known } = unsafe { &mut *self.0.get() };
        let value = owners.remove(key)?;
        known[Keys::<T>::index_of(key)].0 = NO_KEY;
        Some(value)
    }

    #[inline(always)]
    pub(crate) fn find(&self, key: u32) -> Option<T::Value> {
        // SAFETY: as for `insert`.
        let known = unsafe { &(*self.0.get()).known };
        let (valid, value) = *known.get(Keys::<T>::index_of(key))?;
        (valid == key).then_some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_key_finds_nothing_even_when_its_place_is_taken_again() {
        let table = Lookup::<u32>::default();
        let (first, second) = (table.insert(7).expect("space"), table.insert(8).expect("space"));
        assert_eq!((table.find(first), table.find(second)), (Some(7), Some(8)));
        assert_eq!(table.remove(first), Some(7));
        assert_eq!((table.find(first), table.remove(first)), (None, None));
        let again = table.insert(9).expect("space");
        assert_eq!((table.find(first), table.find(again)), (None, Some(9)));
        assert_eq!(table.find(second), Some(8));
        assert_eq!((table.find(0), table.find(NO_KEY)), (None, None));
    }
}
