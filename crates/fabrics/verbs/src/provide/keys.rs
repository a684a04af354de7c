//! [`Keys`]: a table whose keys become stale on removal, for the lkeys, rkeys and address handles of a provider; and
//! [`KnownKeys`], a copy of a part of it.

const INDEX_BITS: u32 = 20;
const INDEX_MASK: u32 = (1 << INDEX_BITS) - 1;

/// A table that assigns 32-bit keys: index in the low 20 bits, generation in the high bits, so that the key of a
/// removed value finds nothing (until the generation wraps, after 4095 reuses of the index). Key 0 is never used.
#[derive(Debug)]
pub struct Keys<T> {
    known: KnownKeys<T>,
    free: Vec<u32>,
}

/// Values under keys that some [`Keys`] assigned: a thread's own copy of a table that threads share.
#[derive(Debug)]
pub struct KnownKeys<T> {
    slots: Vec<Slot<T>>,
}

#[derive(Debug)]
struct Slot<T> {
    key: u32,
    value: Option<T>,
}

impl<T> Default for Keys<T> {
    fn default() -> Keys<T> {
        Keys::new()
    }
}

impl<T> Default for KnownKeys<T> {
    fn default() -> KnownKeys<T> {
        KnownKeys::new()
    }
}

impl<T> KnownKeys<T> {
    /// Creates an empty table.
    pub const fn new() -> KnownKeys<T> {
        KnownKeys { slots: Vec::new() }
    }

    /// Stores `value` under `key`, in place of the value of any other key of the same index.
    pub fn put(&mut self, key: u32, value: T) {
        let index = (key & INDEX_MASK) as usize;
        while self.slots.len() <= index {
            self.slots.push(Slot { key: 0, value: None });
        }
        let value = Some(value);
        self.slots[index] = Slot { key, value };
    }

    /// The value under `key`; `None` if there is none. About 1 ns.
    #[inline(always)]
    pub fn find(&self, key: u32) -> Option<&T> {
        let slot = self.slots.get((key & INDEX_MASK) as usize)?;
        if slot.key != key {
            return None;
        }
        slot.value.as_ref()
    }

    /// Removes and returns the value under `key`; `None` if there is none.
    pub fn remove(&mut self, key: u32) -> Option<T> {
        let slot = self.slots.get_mut((key & INDEX_MASK) as usize)?;
        if slot.key != key {
            return None;
        }
        slot.value.take()
    }

    /// All values.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().filter_map(|slot| slot.value.as_ref())
    }
}

impl<T> Keys<T> {
    /// Most values that a table holds at once: 1,048,575.
    pub const LIMIT: usize = INDEX_MASK as usize;

    /// Creates an empty table.
    pub const fn new() -> Keys<T> {
        Keys {
            known: KnownKeys::new(),
            free: Vec::new(),
        }
    }

    /// Adds `value` and returns its new key; `None` if the table is full.
    pub fn insert(&mut self, value: T) -> Option<u32> {
        let slots = &mut self.known.slots;
        let index = match self.free.pop() {
            Some(index) => index as usize,
            None if slots.len() < Self::LIMIT => {
                slots.push(Slot {
                    key: slots.len() as u32,
                    value: None,
                });
                slots.len() - 1
            }
            None => return None,
        };
        let slot = &mut slots[index];
        let generation = (slot.key >> INDEX_BITS).wrapping_add(1) & (u32::MAX >> INDEX_BITS);
        slot.key = generation.max(1) << INDEX_BITS | index as u32;
        slot.value = Some(value);
        Some(slot.key)
    }

    /// The index in `key`, which is at most [`LIMIT`](Keys::LIMIT): for parallel tables. The key need not be in use.
    #[inline(always)]
    pub const fn index_of(key: u32) -> usize {
        (key & INDEX_MASK) as usize
    }

    /// The value under `key`; `None` if the key was removed or never existed. About 1 ns.
    #[inline(always)]
    pub fn find(&self, key: u32) -> Option<&T> {
        self.known.find(key)
    }

    /// Removes and returns the value under `key`; `None` if there is none. The key is stale afterwards.
    pub fn remove(&mut self, key: u32) -> Option<T> {
        let value = self.known.remove(key)?;
        self.free.push(key & INDEX_MASK);
        Some(value)
    }

    /// All values.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.known.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_key_finds_nothing_even_when_its_slot_is_reused() {
        let mut keys = Keys::new();
        let old = keys.insert("old").expect("space");
        assert_eq!(keys.remove(old), Some("old"));
        let new = keys.insert("new").expect("space");
        assert_ne!(old, new);
        assert_eq!(keys.find(old), None);
        assert_eq!(keys.remove(old), None);
        assert_eq!(keys.find(new), Some(&"new"));
        assert_eq!(keys.find(0), None);
        assert_eq!(keys.find(u32::MAX), None);
    }

    #[test]
    fn a_copy_knows_what_it_was_told_under_keys_of_another_table() {
        let mut keys = Keys::new();
        let (first, second) = (keys.insert(1).expect("space"), keys.insert(2).expect("space"));
        let mut known = KnownKeys::new();
        known.put(second, 2);
        assert_eq!((known.find(first), known.find(second)), (None, Some(&2)));
        assert_eq!((known.find(0), known.find(u32::MAX)), (None, None));
        keys.remove(second);
        let again = keys.insert(3).expect("space");
        assert_eq!(Keys::<u32>::index_of(again), Keys::<u32>::index_of(second));
        known.put(again, 3);
        assert_eq!(known.find(second), None);
        assert_eq!((known.remove(again), known.remove(again)), (Some(3), None));
        assert_eq!(known.find(again), None);
    }
}
