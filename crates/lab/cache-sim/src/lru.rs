//! [`Lru`]: a cache that evicts the items whose last use is longest ago: a model that counts bytes, and stores none.

use drover_base::KeyHash;
use lru::LruCache;
use std::hash::{BuildHasherDefault, Hasher};

/// Items in the order of their last use, within a limit on their bytes.
#[derive(Debug)]
pub(crate) struct Lru {
    bytes_max: u64,
    /// Bytes of memory for each item besides key and value.
    overhead_bytes: u64,
    bytes: u64,
    items: LruCache<KeyHash, Item, BuildHasherDefault<Folded>>,
    evicted: u64,
}

#[derive(Clone, Copy, Debug)]
struct Item {
    key_bytes: u64,
    value_bytes: u64,
    /// 0: never.
    expire_s: u32,
}

impl Item {
    fn is_expired(&self, now_s: u32) -> bool {
        self.expire_s != 0 && self.expire_s <= now_s
    }
}

impl Lru {
    pub(crate) fn new(bytes_max: u64, overhead_bytes: u64) -> Lru {
        Lru {
            bytes_max,
            overhead_bytes,
            bytes: 0,
            items: LruCache::unbounded_with_hasher(BuildHasherDefault::default()),
            evicted: 0,
        }
    }

    /// Whether the key has an item; counts as a use.
    pub(crate) fn get(&mut self, hash: KeyHash, now_s: u32) -> bool {
        match self.items.get(&hash) {
            None => false,
            Some(item) if !item.is_expired(now_s) => true,
            Some(_) => {
                self.delete(hash);
                false
            }
        }
    }

    /// Bytes of the key's value and its expiry; not a use.
    pub(crate) fn item(&self, hash: KeyHash, now_s: u32) -> Option<(u64, u32)> {
        let item = self.items.peek(&hash).filter(|item| !item.is_expired(now_s));
        item.map(|item| (item.value_bytes, item.expire_s))
    }

    /// Stores an item as the last one used; returns whether it fits at all. If not, an older item of the key is unchanged.
    pub(crate) fn put(
        &mut self,
        hash: KeyHash,
        key_bytes: u64,
        value_bytes: u64,
        expire_s: u32,
        now_s: u32,
    ) -> bool {
        let item = Item {
            key_bytes,
            value_bytes,
            expire_s,
        };
        let cost = self.cost(&item);
        if cost > self.bytes_max {
            return false;
        }
        self.delete(hash);
        while self.bytes + cost > self.bytes_max {
            let (_, oldest) = self.items.pop_lru().expect("what has bytes has items");
            self.bytes -= self.cost(&oldest);
            self.evicted += u64::from(!oldest.is_expired(now_s));
        }
        self.bytes += cost;
        self.items.put(hash, item);
        true
    }

    pub(crate) fn delete(&mut self, hash: KeyHash) {
        if let Some(item) = self.items.pop(&hash) {
            self.bytes -= self.cost(&item);
        }
    }

    /// Changes the expiry of the key's item, if there is one; a use.
    pub(crate) fn touch(&mut self, hash: KeyHash, expire_s: u32, now_s: u32) {
        if self.get(hash, now_s)
            && let Some(item) = self.items.get_mut(&hash)
        {
            item.expire_s = expire_s;
        }
    }

    fn cost(&self, item: &Item) -> u64 {
        item.key_bytes
            .saturating_add(item.value_bytes)
            .saturating_add(self.overhead_bytes)
    }

    /// Number of items, with expired ones that nothing has met.
    pub(crate) fn item_count(&self) -> u64 {
        self.items.len() as u64
    }

    /// Number of items evicted, without those that had expired.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted
    }
}

/// Folds a [`KeyHash`], whose bits are random already, to 64 bits.
#[derive(Default)]
struct Folded(u64);

impl Hasher for Folded {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes
            .iter()
            .for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, word: u64) {
        self.0 ^= word;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hash(key: u64) -> KeyHash {
        KeyHash {
            low: drover_base::mix(key),
            high: drover_base::mix(!key),
        }
    }

    /// The plainest model: a list of (key, value bytes, expiry), the last one used at the end.
    #[derive(Default)]
    struct Plain {
        items: Vec<(u64, u64, u32)>,
    }

    const BYTES_MAX: u64 = 100;
    const KEY_BYTES: u64 = 1;
    const OVERHEAD: u64 = 4;

    impl Plain {
        fn get(&mut self, key: u64, now_s: u32) -> bool {
            let Some(place) = self.items.iter().position(|item| item.0 == key) else {
                return false;
            };
            let item = self.items.remove(place);
            let is_live = item.2 == 0 || item.2 > now_s;
            if is_live {
                self.items.push(item);
            }
            is_live
        }

        fn bytes(&self) -> u64 {
            self.items.iter().map(|item| item.1 + KEY_BYTES + OVERHEAD).sum()
        }

        fn put(&mut self, key: u64, value_bytes: u64, expire_s: u32) -> bool {
            if value_bytes + KEY_BYTES + OVERHEAD > BYTES_MAX {
                return false;
            }
            self.items.retain(|item| item.0 != key);
            self.items.push((key, value_bytes, expire_s));
            while self.bytes() > BYTES_MAX {
                self.items.remove(0);
            }
            true
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Get(u64),
        Put(u64, u64, u32),
        Delete(u64),
        Touch(u64, u32),
    }

    fn step() -> impl Strategy<Value = Step> {
        let expiry = || prop_oneof![Just(0u32), 1u32..60];
        prop_oneof![
            4 => (0u64..12).prop_map(Step::Get),
            4 => (0u64..12, 0u64..110, expiry()).prop_map(|(key, bytes, expiry)| Step::Put(key, bytes % 40 + bytes / 100 * 70, expiry)),
            1 => (0u64..12).prop_map(Step::Delete),
            1 => (0u64..12, expiry()).prop_map(|(key, expiry)| Step::Touch(key, expiry)),
        ]
    }

    proptest! {
        #[test]
        fn it_does_what_a_list_does(steps in proptest::collection::vec(step(), 1..200)) {
            let (mut lru, mut plain) = (Lru::new(BYTES_MAX, OVERHEAD), Plain::default());
            for (now_s, step) in (1..).map(|n: u32| n / 4).zip(steps) {
                match step {
                    Step::Get(key) => prop_assert_eq!(lru.get(hash(key), now_s), plain.get(key, now_s)),
                    Step::Put(key, bytes, expire_s) => prop_assert_eq!(
                        lru.put(hash(key), KEY_BYTES, bytes, expire_s, now_s),
                        plain.put(key, bytes, expire_s)
                    ),
                    Step::Delete(key) => {
                        lru.delete(hash(key));
                        plain.items.retain(|item| item.0 != key);
                    }
                    Step::Touch(key, expire_s) => {
                        lru.touch(hash(key), expire_s, now_s);
                        if plain.get(key, now_s) {
                            plain.items.last_mut().expect("just used").2 = expire_s;
                        }
                    }
                }
                prop_assert_eq!(lru.bytes, plain.bytes());
                prop_assert_eq!(lru.item_count(), plain.items.len() as u64);
            }
        }
    }
}
