//! The card's caches: of queue pair contexts and of work requests.

use crate::profile;
use drover_verbs::QpKind;

/// The caches of a card.
#[derive(Debug)]
pub(crate) struct Caches {
    contexts: ContextCache,
    /// A smaller first-level cache for requesters' contexts, if the profile has one.
    near: Option<ContextCache>,
    pub(crate) wqes: WqeCache,
}

/// The entries of a queue pair in the caches of contexts, as requester and as responder. A UD queue pair has one
/// context for both directions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    requester: u32,
    responder: u32,
}

/// Where a requester's context was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Found {
    /// In the first-level cache; or in the larger one, if there is no first level.
    Near,
    /// Only in the larger cache.
    Cached,
    /// In the host's memory.
    Missed,
}

impl Caches {
    pub(super) fn new(contexts: &profile::Contexts, wqes: &profile::WqeCache) -> Caches {
        Caches {
            contexts: ContextCache::new(contexts.capacity),
            near: match contexts.near_entries {
                0 => None,
                entries => Some(ContextCache::new(entries as f64)),
            },
            wqes: WqeCache::new(wqes.sets, wqes.ways),
        }
    }

    /// Entries for the contexts of a new queue pair, with their weights.
    pub(crate) fn add(&mut self, kind: QpKind, out: f64, served: f64) -> Places {
        let mut add = |weight| {
            if let Some(near) = &mut self.near {
                near.add(1.0);
            }
            self.contexts.add(weight)
        };
        let requester = add(out);
        let responder = match kind {
            QpKind::Ud => requester,
            QpKind::Rc | QpKind::Uc => add(served),
        };
        Places { requester, responder }
    }

    /// Evicts the contexts of a queue pair that is destroyed.
    pub(crate) fn forget(&mut self, places: Places) {
        self.contexts.forget(places.requester);
        if places.responder != places.requester {
            self.contexts.forget(places.responder);
        }
    }

    /// Uses a requester's context.
    #[inline]
    pub(crate) fn touch_requester(&mut self, places: Places) -> Found {
        let near = self.near.as_mut();
        let is_near = near.is_none_or(|near| near.touch(places.requester));
        match (self.contexts.touch(places.requester), is_near) {
            (false, _) => Found::Missed,
            (true, false) => Found::Cached,
            (true, true) => Found::Near,
        }
    }

    /// Uses a responder's context; false if it had to be fetched.
    #[inline]
    pub(crate) fn touch_responder(&mut self, places: Places) -> bool {
        self.contexts.touch(places.responder)
    }

    /// Hits and misses of contexts.
    pub(crate) fn hits_and_misses(&self) -> (u64, u64) {
        (self.contexts.hits, self.contexts.misses)
    }
}

/// A cache of contexts with weights and least-recently-used replacement.
///
/// Entries are elements of a vector that their queue pairs refer to; a linked list through them keeps the order of use.
#[derive(Debug)]
struct ContextCache {
    entries: Vec<Entry>,
    newest: u32,
    oldest: u32,
    capacity: u64,
    used: u64,
    hits: u64,
    misses: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    newer: u32,
    older: u32,
    weight: u64,
    resident: bool,
}

const NOBODY: u32 = u32::MAX;
/// Scale of weights: fractions outside, whole numbers inside.
const UNIT: f64 = 1000.0;

impl ContextCache {
    fn new(capacity: f64) -> ContextCache {
        ContextCache {
            entries: Vec::new(),
            newest: NOBODY,
            oldest: NOBODY,
            capacity: (capacity * UNIT) as u64,
            used: 0,
            hits: 0,
            misses: 0,
        }
    }

    /// An entry for a context that is not cached yet.
    fn add(&mut self, weight: f64) -> u32 {
        self.entries.push(Entry {
            newer: NOBODY,
            older: NOBODY,
            weight: (weight * UNIT) as u64,
            resident: false,
        });
        self.entries.len() as u32 - 1
    }

    /// Uses a context; false if it had to be fetched.
    #[inline]
    fn touch(&mut self, at: u32) -> bool {
        if self.newest == at {
            self.hits += 1;
            return true;
        }
        let hit = self.entries[at as usize].resident;
        match hit {
            true => {
                self.hits += 1;
                self.unlink(at);
            }
            false => {
                self.misses += 1;
                self.make_space(self.entries[at as usize].weight);
                self.used += self.entries[at as usize].weight;
            }
        }
        self.link(at);
        hit
    }

    /// Evicts a context that is no longer used.
    fn forget(&mut self, at: u32) {
        if self.entries[at as usize].resident {
            self.unlink(at);
            self.used -= self.entries[at as usize].weight;
        }
    }

    fn make_space(&mut self, weight: u64) {
        while self.used + weight > self.capacity && self.oldest != NOBODY {
            self.forget(self.oldest);
        }
    }

    fn link(&mut self, at: u32) {
        let older = self.newest;
        let place = &mut self.entries[at as usize];
        (place.newer, place.older, place.resident) = (NOBODY, older, true);
        match older {
            NOBODY => self.oldest = at,
            older => self.entries[older as usize].newer = at,
        }
        self.newest = at;
    }

    fn unlink(&mut self, at: u32) {
        let Entry { newer, older, .. } = self.entries[at as usize];
        match newer {
            NOBODY => self.newest = older,
            newer => self.entries[newer as usize].older = older,
        }
        match older {
            NOBODY => self.oldest = newer,
            older => self.entries[older as usize].newer = newer,
        }
        self.entries[at as usize].resident = false;
    }
}

/// Work requests between their ingest and the engines: sets of FIFOs. An entry is identified by its set and by the
/// number of earlier entries of the set, so the cache stores only one counter per set.
#[derive(Debug)]
pub(crate) struct WqeCache {
    /// Number of entries ever inserted, per set.
    came: Vec<u64>,
    ways: u64,
    pub(crate) misses: u64,
}

impl WqeCache {
    pub(crate) fn new(sets: u64, ways: u64) -> WqeCache {
        WqeCache {
            came: vec![0; sets.max(1) as usize],
            ways,
            misses: 0,
        }
    }

    fn set(&self, hash: u64) -> usize {
        match self.came.len() {
            1 => 0,
            sets => (drover_base::mix(hash) % sets as u64) as usize,
        }
    }

    /// Inserts a request; returns the entry for [`check`](WqeCache::check).
    pub(crate) fn insert(&mut self, hash: u64) -> u64 {
        let set = self.set(hash);
        self.came[set] += 1;
        self.came[set]
    }

    /// Whether the request is still cached. If not, it is fetched again and `entry` changes.
    pub(crate) fn check(&mut self, hash: u64, entry: &mut u64) -> bool {
        let set = self.set(hash);
        if self.came[set] - *entry < self.ways {
            return true;
        }
        self.misses += 1;
        self.came[set] += 1;
        *entry = self.came[set];
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_context_leaves() {
        let mut cache = ContextCache::new(2.0);
        let [a, b, c] = [(); 3].map(|()| cache.add(1.0));
        assert_eq!(
            [cache.touch(a), cache.touch(b), cache.touch(a)],
            [false, false, true]
        );
        assert!(!cache.touch(c), "c takes the place of b");
        assert_eq!([cache.touch(a), cache.touch(b)], [true, false]);
        cache.forget(b);
        assert!(!cache.touch(c), "b took the place of c");
        assert_eq!((cache.hits, cache.misses, cache.used), (2, 5, 2000));
    }

    #[test]
    fn a_heavy_context_throws_out_several() {
        let mut cache = ContextCache::new(3.0);
        let light: Vec<u32> = (0..3).map(|_| cache.add(1.0)).collect();
        let heavy = cache.add(2.0);
        light.iter().for_each(|&at| assert!(!cache.touch(at)));
        assert!(!cache.touch(heavy));
        assert!(cache.touch(light[2]) && !cache.touch(light[0]));
    }

    #[test]
    fn requests_are_fetched_again_once_too_many_came_after_them() {
        let mut cache = WqeCache::new(1, 4);
        let mut first = cache.insert(0);
        for n in 1..4 {
            cache.insert(n);
        }
        assert!(cache.check(0, &mut first));
        cache.insert(4);
        assert!(!cache.check(0, &mut first), "five in a cache of four");
        assert!(cache.check(0, &mut first));
    }
}
