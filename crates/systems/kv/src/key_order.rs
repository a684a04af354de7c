//! [`KeyOrder`]: the earliest operation on each key, and the oldest of all operations, found without a scan.
//!
//! Operations whose keys share a bucket form a chain in the order of submission; all operations together form a second
//! chain.

/// No operation.
const NONE: u32 = u32::MAX;

/// Links of one operation.
#[derive(Clone, Copy, Debug)]
struct Entry {
    bucket: u32,
    /// Index of the next operation of the same bucket in the order of submission.
    next: u32,
    older: u32,
    newer: u32,
    /// Whether no earlier operation has the same key.
    is_first: bool,
}

/// The order of operations without an outcome, by index. The caller keeps the keys and passes a comparison.
#[derive(Debug)]
pub struct KeyOrder {
    entries: Vec<Entry>,
    /// Index of the earliest operation of each bucket; the length is a power of two.
    heads: Vec<u32>,
    oldest: u32,
    newest: u32,
}

/// A number that is equal for equal keys. It is not the hash under the server's seed, which is unknown before the
/// first session and changes when the server restarts. Keys chosen to collide only make a chain as long as the window.
#[inline]
fn mix(key: &[u8]) -> u64 {
    let word = |bytes: Option<&[u8; 8]>| bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let words = match key.len() {
        8.. => word(key.first_chunk()) ^ word(key.last_chunk()).rotate_left(29),
        _ => key.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    };
    words.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
}

impl KeyOrder {
    /// For at most `count` operations, numbered from 0.
    pub fn new(count: usize) -> KeyOrder {
        let none = Entry {
            bucket: 0,
            next: NONE,
            older: NONE,
            newer: NONE,
            is_first: true,
        };
        KeyOrder {
            entries: vec![none; count],
            heads: vec![NONE; (4 * count).next_power_of_two()],
            oldest: NONE,
            newest: NONE,
        }
    }

    /// Adds operation `at` on `key`; `same` compares the key of another operation with `key`. Returns whether `at` is
    /// the first operation of its key.
    #[inline]
    pub fn enter(&mut self, at: usize, key: &[u8], same: impl Fn(usize) -> bool) -> bool {
        let bucket = mix(key) as usize & (self.heads.len() - 1);
        let (mut last, mut is_first) = (NONE, true);
        let mut other = self.heads[bucket];
        while other != NONE {
            is_first = is_first && !same(other as usize);
            (last, other) = (other, self.entries[other as usize].next);
        }
        match last {
            NONE => self.heads[bucket] = at as u32,
            last => self.entries[last as usize].next = at as u32,
        }
        let older = std::mem::replace(&mut self.newest, at as u32);
        match older {
            NONE => self.oldest = at as u32,
            older => self.entries[older as usize].newer = at as u32,
        }
        self.entries[at] = Entry {
            bucket: bucket as u32,
            next: NONE,
            older,
            newer: NONE,
            is_first,
        };
        is_first
    }

    /// Removes operation `at`; `same` compares the key of another operation with that of `at`. Returns the operation
    /// that has become the first of that key.
    #[inline]
    pub fn leave(&mut self, at: usize, same: impl Fn(usize) -> bool) -> Option<usize> {
        let entry = self.entries[at];
        match entry.older {
            NONE => self.oldest = entry.newer,
            older => self.entries[older as usize].newer = entry.newer,
        }
        match entry.newer {
            NONE => self.newest = entry.older,
            newer => self.entries[newer as usize].older = entry.older,
        }
        self.unchain(at, entry);
        if !entry.is_first {
            return None;
        }
        let mut other = entry.next;
        while other != NONE {
            if same(other as usize) {
                self.entries[other as usize].is_first = true;
                return Some(other as usize);
            }
            other = self.entries[other as usize].next;
        }
        None
    }

    #[inline]
    fn unchain(&mut self, at: usize, entry: Entry) {
        let head = &mut self.heads[entry.bucket as usize];
        if *head == at as u32 {
            *head = entry.next;
            return;
        }
        let mut other = *head;
        while self.entries[other as usize].next != at as u32 {
            other = self.entries[other as usize].next;
        }
        self.entries[other as usize].next = entry.next;
    }

    /// Whether no earlier operation has the key of operation `at`.
    #[inline]
    pub fn is_first(&self, at: usize) -> bool {
        self.entries[at].is_first
    }

    /// The operation that was submitted first.
    #[inline]
    pub fn oldest(&self) -> Option<usize> {
        (self.oldest != NONE).then_some(self.oldest as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const COUNT: usize = 12;

    proptest! {
        /// Compared with a list in the order of submission.
        #[test]
        fn the_order_is_that_of_a_list(steps in proptest::collection::vec((0..COUNT, 0u8..6, 1usize..20), 0..200)) {
            let mut order = KeyOrder::new(COUNT);
            let mut keys: Vec<Vec<u8>> = vec![Vec::new(); COUNT];
            let mut list: Vec<usize> = Vec::new();
            for (at, key, len) in steps {
                if let Some(place) = list.iter().position(|&other| other == at) {
                    let is_first = order.is_first(at);
                    list.remove(place);
                    let next = list.iter().copied().find(|&other| keys[other] == keys[at]);
                    let expected = next.filter(|_| is_first);
                    prop_assert_eq!(order.leave(at, |other| keys[other] == keys[at]), expected);
                } else {
                    keys[at] = vec![key; len];
                    let is_first = !list.iter().any(|&other| keys[other] == keys[at]);
                    list.push(at);
                    prop_assert_eq!(order.enter(at, &keys[at], |other| keys[other] == keys[at]), is_first);
                }
                prop_assert_eq!(order.oldest(), list.first().copied());
                for (place, &at) in list.iter().enumerate() {
                    let is_first = !list[..place].iter().any(|&other| keys[other] == keys[at]);
                    prop_assert_eq!(order.is_first(at), is_first);
                }
            }
        }
    }
}
