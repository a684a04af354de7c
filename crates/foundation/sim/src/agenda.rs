//! [`Agenda`]: entries ordered by time and then by creation, at a cost that does not grow with their number.
//!
//! ```text
//! slice of time     8 ns each
//!      cursor ------------------------------------------> 2048 slices on: 16 us
//!   +---------+---------+---------+---------+-- ... --+
//!   | current | chain   |         | chain   |         |    far: a heap of what comes later still
//!   +---------+---------+---------+---------+-- ... --+
//!     sorted    not sorted; one bit per slice: not empty
//! ```
//!
//! Most events in a cluster happen within microseconds of their creation, a few per slice. So an entry is chained to
//! its slice, and sorted among its few neighbours when the cursor gets there. A calendar queue `[Brown88]` whose year
//! has a fixed length.

use crate::{Event, Ps};

/// An event and its time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub(crate) at: Ps,
    /// Number of entries created before: entries of equal time leave in that order.
    pub(crate) sequence: u64,
    pub(crate) event: Event,
}

const _: () = assert!(size_of::<Entry>() == 24);

impl Entry {
    /// Sort key; smaller is earlier.
    #[inline]
    fn key(&self) -> u128 {
        u128::from(self.at.0) << 64 | u128::from(self.sequence)
    }

    #[inline]
    fn slice(&self) -> u64 {
        self.at.0 >> SLICE_BITS
    }
}

/// A slice is 8,192 ps: busy clusters have one or two events in it.
const SLICE_BITS: u32 = 13;
/// Number of slices with a chain of their own.
const SLICES: usize = 2048;
const WORDS: usize = SLICES / 64;

/// End of a chain.
const NONE: u32 = u32::MAX;

/// A link of a chain.
#[derive(Clone, Copy)]
struct Link {
    entry: Entry,
    next: u32,
}

/// Entries in three tiers: see the module documentation.
pub(crate) struct Agenda {
    /// Entries up to the end of the cursor's slice, latest first.
    current: Vec<Entry>,
    cursor: u64,
    /// Heads of the chains of later slices, by slice number modulo [`SLICES`].
    chains: Box<[u32; SLICES]>,
    /// One bit per slice: whether its chain is not empty.
    some: [u64; WORDS],
    /// One bit per word of `some`: whether the word is not zero.
    words: u32,
    links: Vec<Link>,
    free: Vec<u32>,
    far: Heap,
}

impl Agenda {
    pub(crate) fn new() -> Agenda {
        Agenda {
            current: Vec::new(),
            cursor: 0,
            chains: Box::new([NONE; SLICES]),
            some: [0; WORDS],
            words: 0,
            links: Vec::new(),
            free: Vec::new(),
            far: Heap::default(),
        }
    }

    /// Adds an entry of any time.
    #[inline]
    pub(crate) fn push(&mut self, entry: Entry) {
        let slice = entry.slice();
        if slice <= self.cursor {
            insert(&mut self.current, entry);
        } else if slice - self.cursor < SLICES as u64 {
            self.chain(slice, entry);
        } else {
            self.far.push(entry);
        }
    }

    /// Takes the next entry if it is no later than `limit`.
    #[inline]
    pub(crate) fn pop(&mut self, limit: Ps) -> Option<Entry> {
        if self.current.is_empty() && !self.advance(limit) {
            return None;
        }
        match self.current.last() {
            Some(next) if next.at <= limit => self.current.pop(),
            _ => None,
        }
    }

    /// Time of the next entry. Searches its slice.
    pub(crate) fn next_at(&self) -> Option<Ps> {
        if let Some(next) = self.current.last() {
            return Some(next.at);
        }
        let near = self.next_slice().and_then(|slice| {
            let link = |at: u32| self.links.get(at as usize);
            let first = link(self.chains[slice as usize % SLICES]);
            let chain = std::iter::successors(first, |this| link(this.next));
            chain.map(|link| link.entry.at).min()
        });
        let far = self.far.peek().map(|entry| entry.at);
        near.into_iter().chain(far).min()
    }

    pub(crate) fn len(&self) -> usize {
        self.current.len() + (self.links.len() - self.free.len()) + self.far.0.len()
    }

    #[inline]
    fn chain(&mut self, slice: u64, entry: Entry) {
        let place = slice as usize % SLICES;
        let next = std::mem::replace(&mut self.chains[place], NONE);
        let link = Link { entry, next };
        let at = match self.free.pop() {
            Some(at) => {
                self.links[at as usize] = link;
                at
            }
            None => {
                self.links.push(link);
                self.links.len() as u32 - 1
            }
        };
        self.chains[place] = at;
        self.some[place / 64] |= 1 << (place % 64);
        self.words |= 1 << (place / 64);
    }

    /// Moves the cursor to the next slice that has entries and makes them the current ones. It does not move to a slice
    /// that begins after `limit`: entries created until then would have to be inserted one by one.
    fn advance(&mut self, limit: Ps) -> bool {
        let near = self.next_slice().unwrap_or(u64::MAX);
        let far = self.far.peek().map_or(u64::MAX, Entry::slice);
        let slice = near.min(far);
        if slice > limit.0 >> SLICE_BITS || slice == u64::MAX {
            return false;
        }
        self.cursor = slice;
        if near == slice {
            self.unchain(slice as usize % SLICES);
        }
        while self.far.peek().is_some_and(|entry| entry.slice() == slice) {
            let entry = self.far.pop().expect("it was seen");
            insert(&mut self.current, entry);
        }
        true
    }

    /// The next slice with a chain: a search among 32 words, most of which the summary word rules out.
    #[inline]
    fn next_slice(&self) -> Option<u64> {
        let first = (self.cursor + 1) as usize % SLICES;
        let (word, bit) = (first / 64, first % 64);
        let rest = self.some[word] >> bit;
        if rest != 0 {
            return Some(self.cursor + 1 + u64::from(rest.trailing_zeros()));
        }
        if self.words == 0 {
            return None;
        }
        // Starts at the following word; the current word comes last, for its lower bits.
        let skipped = self.words.rotate_right(word as u32 + 1).trailing_zeros() as usize;
        let word = (word + 1 + skipped) % WORDS;
        let place = word * 64 + self.some[word].trailing_zeros() as usize;
        Some(self.cursor + 1 + (place.wrapping_sub(first) % SLICES) as u64)
    }

    #[inline]
    fn unchain(&mut self, place: usize) {
        let mut at = std::mem::replace(&mut self.chains[place], NONE);
        self.some[place / 64] &= !(1 << (place % 64));
        if self.some[place / 64] == 0 {
            self.words &= !(1 << (place / 64));
        }
        while at != NONE {
            let Link { entry, next } = self.links[at as usize];
            self.free.push(at);
            insert(&mut self.current, entry);
            at = next;
        }
    }
}

const _: () = assert!(WORDS == u32::BITS as usize);

/// Inserts an entry into a short sorted list, latest first.
#[inline]
fn insert(sorted: &mut Vec<Entry>, entry: Entry) {
    let mut at = sorted.len();
    sorted.push(entry);
    while at > 0 && sorted[at - 1].key() < entry.key() {
        sorted[at] = sorted[at - 1];
        at -= 1;
    }
    sorted[at] = entry;
}

/// A heap with four children per node: half as deep as the usual one, and siblings share cache lines.
#[derive(Default)]
struct Heap(Vec<Entry>);

const CHILDREN: usize = 4;

impl Heap {
    #[inline]
    fn peek(&self) -> Option<&Entry> {
        self.0.first()
    }

    fn push(&mut self, entry: Entry) {
        let mut at = self.0.len();
        self.0.push(entry);
        while at > 0 {
            let parent = (at - 1) / CHILDREN;
            if self.0[parent].key() < entry.key() {
                break;
            }
            self.0[at] = self.0[parent];
            at = parent;
        }
        self.0[at] = entry;
    }

    fn pop(&mut self) -> Option<Entry> {
        let last = self.0.pop()?;
        let Some(&first) = self.0.first() else {
            return Some(last);
        };
        let (mut at, key) = (0, last.key());
        while let Some(earliest) = self.earliest_child(at) {
            if key < self.0[earliest].key() {
                break;
            }
            self.0[at] = self.0[earliest];
            at = earliest;
        }
        self.0[at] = last;
        Some(first)
    }

    fn earliest_child(&self, at: usize) -> Option<usize> {
        let first = CHILDREN * at + 1;
        let end = self.0.len().min(first + CHILDREN);
        (first..end).min_by_key(|&child| self.0[child].key())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// Operations of the test: time passes, entries are created at distances from a picosecond to a second, and entries
    /// are taken up to some time.
    #[derive(Clone, Debug)]
    enum Do {
        Push { after: u64 },
        Pop { within: u64 },
        Peek,
    }

    fn anything() -> impl Strategy<Value = Do> {
        let distance = (0u32..40, any::<u64>()).prop_map(|(bits, n)| n & ((1 << bits) - 1));
        prop_oneof![
            distance.clone().prop_map(|after| Do::Push { after }),
            distance.prop_map(|within| Do::Pop { within }),
            Just(Do::Peek),
        ]
    }

    fn event(arg: u64) -> Event {
        Event::new(Event::FIRST_KIND, 0, arg as u32)
    }

    proptest! {
        #[test]
        fn order_is_that_of_a_map(script in prop::collection::vec(anything(), 1..400)) {
            let (mut agenda, mut model) = (Agenda::new(), BTreeMap::new());
            let mut now = 0;
            for (sequence, step) in (0u64..).zip(script) {
                match step {
                    Do::Push { after } => {
                        let (at, event) = (Ps(now + after), event(sequence));
                        agenda.push(Entry { at, sequence, event });
                        model.insert((at, sequence), event);
                    }
                    Do::Pop { within } => {
                        let limit = Ps(now + within);
                        let expected = model.first_key_value().map(|(key, event)| (*key, *event));
                        let expected = expected.filter(|(key, _)| key.0 <= limit);
                        let popped = agenda.pop(limit);
                        prop_assert_eq!(popped.map(|e| ((e.at, e.sequence), e.event)), expected);
                        // If no entry is due, time passes without a call to the agenda.
                        now = popped.map_or(limit, |entry| entry.at).0;
                        model.remove(&expected.map_or((Ps::MAX, 0), |(key, _)| key));
                    }
                    Do::Peek => {
                        let expected = model.first_key_value().map(|(key, _)| key.0);
                        prop_assert_eq!(agenda.next_at(), expected);
                    }
                }
                prop_assert_eq!(agenda.len(), model.len());
            }
        }
    }

    #[test]
    fn slices_around_the_end_of_the_year() {
        let mut agenda = Agenda::new();
        let slice = 1 << SLICE_BITS;
        let year = SLICES as u64;
        let times = [year + 5, 1, year, year - 1, 3 * year, 0, 2 * year - 1].map(|n| n * slice);
        for (sequence, at) in (0u64..).zip(times) {
            agenda.push(Entry {
                at: Ps(at),
                sequence,
                event: event(0),
            });
        }
        let mut sorted = times;
        sorted.sort_unstable();
        let popped: Vec<u64> = std::iter::from_fn(|| agenda.pop(Ps::MAX).map(|entry| entry.at.0)).collect();
        assert_eq!(popped, sorted);
    }
}
