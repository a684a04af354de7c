//! [`Keys`]: a table whose keys become stale on removal, for the lkeys, rkeys and address handles of a provider.

const INDEX_BITS: u32 = 20;
const INDEX_MASK: u32 = (1 << INDEX_BITS) - 1;

/// A table that assigns 32-bit keys: index in the low 20 bits, generation in the high bits, so that the key of a
/// removed value finds nothing (until the generation wraps, after 4095 reuses of the index). Key 0 is never used.
#[derive(Debug)]
pub struct Keys<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
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

impl<T> Keys<T> {
    /// Most values that a table holds at once: 1,048,575.
    pub const LIMIT: usize = INDEX_MASK as usize;

    /// Creates an empty table.
    pub const fn new() -> Keys<T> {
        Keys {
            slots: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Adds `value` and returns its new key; `None` if the table is full.
    pub fn insert(&mut self, value: T) -> Option<u32> {
        let index = match self.free.pop() {
            Some(index) => index as usize,
            None if self.slots.len() < Self::LIMIT => {
                self.slots.push(Slot {
                    key: self.slots.len() as u32,
                    value: None,
                });
                self.slots.len() - 1
            }
            None => return None,
        };
        let slot = &mut self.slots[index];
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
        let slot = self.slots.get((key & INDEX_MASK) as usize)?;
        if slot.key != key {
            return None;
        }
        slot.value.as_ref()
    }

    /// Removes and returns the value under `key`; `None` if there is none. The key is stale afterwards.
    pub fn remove(&mut self, key: u32) -> Option<T> {
        let slot = self.slots.get_mut((key & INDEX_MASK) as usize)?;
        if slot.key != key {
            return None;
        }
        let value = slot.value.take()?;
        self.free.push(key & INDEX_MASK);
        Some(value)
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
}
