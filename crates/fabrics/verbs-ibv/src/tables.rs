//! [`Tables`]: lookup tables for the keys in requests, and [`Places`], which makes lookups cheap.

use crate::domain::IbvDomain;
use crate::ffi;
use crate::raw::Handle;
use drover_verbs::provide::Keys;
use std::cell::{RefCell, UnsafeCell};

/// The tables of a context.
pub(crate) struct Tables {
    domain: IbvDomain,
    /// Remote keys of imported regions, as their owners' devices know them, under the domain's keys: those that this
    /// context has used. A key that was released, or that another domain imported, gives no access.
    pub(crate) remotes: Places<u32>,
    pub(crate) handles: Handles,
}

impl Tables {
    pub(crate) fn new(domain: &IbvDomain) -> Tables {
        Tables {
            domain: domain.clone(),
            remotes: Places::default(),
            handles: Handles::default(),
        }
    }

    pub(crate) fn domain(&self) -> &IbvDomain {
        &self.domain
    }

    /// The device's key for the domain's `rkey`.
    #[inline(always)]
    pub(crate) fn remote(&self, rkey: u32) -> Option<u32> {
        match self.remotes.find(rkey) {
            None => self.learn(rkey),
            known => known,
        }
    }

    /// Copies what the domain knows of `rkey`.
    #[cold]
    pub(crate) fn learn(&self, rkey: u32) -> Option<u32> {
        let known = self.domain.find(rkey)?;
        self.remotes.put(rkey, known);
        Some(known)
    }
}

/// Values by the index of their keys, each with its valid key, so that a lookup is one comparison. Shared within one
/// thread, without the borrow count of a `RefCell`: no method returns a reference or calls code that could come back
/// here.
pub(crate) struct Places<V: Copy>(UnsafeCell<Vec<(u32, V)>>);

/// A key that is never valid: its index is beyond the limit.
const NO_KEY: u32 = u32::MAX;
const _: () = assert!(Keys::<u32>::index_of(NO_KEY) >= Keys::<u32>::LIMIT);

impl<V: Copy> Default for Places<V> {
    fn default() -> Places<V> {
        Places(UnsafeCell::default())
    }
}

impl<V: Copy> Places<V> {
    pub(crate) fn put(&self, key: u32, value: V) {
        // SAFETY: not `Sync`, and no other reference to the places is alive: methods return none.
        let places = unsafe { &mut *self.0.get() };
        let index = Keys::<V>::index_of(key);
        if places.len() <= index {
            places.resize(index + 1, (NO_KEY, value));
        }
        places[index] = (key, value);
    }

    pub(crate) fn forget(&self, key: u32) {
        // SAFETY: as for `put`.
        let places = unsafe { &mut *self.0.get() };
        if let Some(place) = places.get_mut(Keys::<V>::index_of(key))
            && place.0 == key
        {
            place.0 = NO_KEY;
        }
    }

    #[inline(always)]
    pub(crate) fn find(&self, key: u32) -> Option<V> {
        // SAFETY: as for `put`.
        let places = unsafe { &*self.0.get() };
        let (valid, value) = *places.get(Keys::<V>::index_of(key))?;
        (valid == key).then_some(value)
    }
}

/// Address handles by key; what posts need is stored separately from the owners.
#[derive(Default)]
pub(crate) struct Handles {
    owners: RefCell<Keys<Handle>>,
    known: Places<*mut ffi::Ah>,
}

impl Handles {
    /// Adds a handle; `None` when the table is full.
    pub(crate) fn insert(&self, handle: Handle) -> Option<u32> {
        let ah = handle.ptr();
        let key = self.owners.borrow_mut().insert(handle)?;
        self.known.put(key, ah);
        Some(key)
    }

    /// Removes a handle and returns it for the caller to drop: dropping calls the library.
    pub(crate) fn remove(&self, key: u32) -> Option<Handle> {
        self.known.forget(key);
        self.owners.borrow_mut().remove(key)
    }

    #[inline(always)]
    pub(crate) fn find(&self, key: u32) -> Option<*mut ffi::Ah> {
        self.known.find(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forgotten_key_finds_nothing_even_when_its_place_is_taken_again() {
        let (mut keys, places) = (Keys::<u32>::new(), Places::<u32>::default());
        let mut add = |value| {
            let key = keys.insert(value).expect("space");
            places.put(key, value);
            key
        };
        let (first, second) = (add(7), add(8));
        assert_eq!((places.find(first), places.find(second)), (Some(7), Some(8)));
        places.forget(first);
        assert_eq!(places.find(first), None);
        keys.remove(first);
        let again = keys.insert(9).expect("space");
        places.put(again, 9);
        places.forget(first);
        assert_eq!((places.find(first), places.find(again)), (None, Some(9)));
        assert_eq!(places.find(second), Some(8));
        assert_eq!((places.find(0), places.find(NO_KEY)), (None, None));
    }
}
