//! [`Queue`]: what is going to happen, in the order of time and then of making.

use crate::Ps;
use drover_base::mix;

/// Something that happens. What the numbers mean is the business of whoever made it; kinds below
/// [`Event::FIRST_KIND`] are the simulator's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// What.
    pub kind: u16,
    /// To which of several alike.
    pub unit: u16,
    /// With what.
    pub arg: u32,
}

impl Event {
    /// The first kind that models may use.
    pub const FIRST_KIND: u16 = 16;

    /// An event of `kind`.
    pub const fn new(kind: u16, unit: u16, arg: u32) -> Event {
        Event { kind, unit, arg }
    }

    fn word(self) -> u64 {
        u64::from(self.kind) << 48 | u64::from(self.unit) << 32 | u64::from(self.arg)
    }
}

/// 24 bytes, so that a heap of thousands stays near.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Entry {
    at: Ps,
    /// Made how manyth: events of one time run in that order.
    sequence: u64,
    event: Event,
}

const _: () = assert!(size_of::<Entry>() == 24);

impl Entry {
    /// Smaller is earlier.
    #[inline]
    fn key(&self) -> u128 {
        u128::from(self.at.0) << 64 | u128::from(self.sequence)
    }
}

/// A heap with four children per node: half as deep as the usual one, and siblings share cache lines.
#[derive(Default)]
struct Heap(Vec<Entry>);

const CHILDREN: usize = 4;

impl Heap {
    fn peek(&self) -> Option<&Entry> {
        self.0.first()
    }

    #[inline]
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

    #[inline]
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

    #[inline(always)]
    fn earliest_child(&self, at: usize) -> Option<usize> {
        let first = CHILDREN * at + 1;
        let children = self.0.get(first..self.0.len().min(first + CHILDREN))?;
        let (mut best, mut key) = (0, children.first()?.key());
        for (n, child) in children.iter().enumerate().skip(1) {
            if child.key() < key {
                (best, key) = (n, child.key());
            }
        }
        Some(first + best)
    }
}

/// Events to come. Allocates only while it grows.
#[derive(Default)]
pub struct Queue {
    heap: Heap,
    now: Ps,
    made: u64,
    taken: u64,
    hash: u64,
}

impl Queue {
    /// The time of the event that is being handled.
    #[inline]
    pub fn now(&self) -> Ps {
        self.now
    }

    /// Lets `event` happen at `at`; what should have happened already happens now.
    #[inline]
    pub fn schedule(&mut self, at: Ps, event: Event) {
        let entry = Entry {
            at: at.max(self.now),
            sequence: self.made,
            event,
        };
        self.made += 1;
        self.heap.push(entry);
    }

    /// Takes the next event that happens no later than `limit`, and moves the clock there.
    #[inline]
    pub(crate) fn take(&mut self, limit: Ps) -> Option<Event> {
        let next = self.heap.peek()?;
        if next.at > limit {
            return None;
        }
        let Entry { at, event, .. } = self.heap.pop()?;
        self.now = at;
        self.taken += 1;
        self.hash = mix(self.hash ^ at.0.rotate_left(17) ^ event.word());
        Some(event)
    }

    /// Moves the clock on to `at` when nothing happens before.
    pub(crate) fn pass(&mut self, at: Ps) {
        debug_assert!(self.heap.peek().is_none_or(|next| next.at > at));
        self.now = self.now.max(at);
    }

    /// How many events have been taken.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// When the next one happens.
    pub fn next_at(&self) -> Option<Ps> {
        self.heap.peek().map(|next| next.at)
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.heap.0.len()
    }

    /// A hash over the time and content of all events taken, in order.
    pub fn hash(&self) -> u64 {
        self.hash
    }
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Queue({} events wait at {})", self.heap.0.len(), self.now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(arg: u32) -> Event {
        Event::new(Event::FIRST_KIND, 0, arg)
    }

    fn drain(queue: &mut Queue, limit: Ps) -> Vec<u32> {
        std::iter::from_fn(|| queue.take(limit).map(|event| event.arg)).collect()
    }

    #[test]
    fn by_time_then_by_making() {
        let mut queue = Queue::default();
        for (at, arg) in [(5, 1), (3, 2), (5, 3), (9, 4), (3, 5)] {
            queue.schedule(Ps(at), event(arg));
        }
        assert_eq!(drain(&mut queue, Ps(5)), [2, 5, 1, 3]);
        assert_eq!((queue.now(), queue.waiting()), (Ps(5), 1));
    }

    #[test]
    fn many_events_come_in_order() {
        let mut queue = Queue::default();
        let mut expected = Vec::new();
        for n in 0..2_000u32 {
            let at = drover_base::mix(u64::from(n)) % 500;
            queue.schedule(Ps(1_000 + at), event(n));
            expected.push((at, n));
        }
        expected.sort_unstable();
        let order: Vec<u32> = expected.iter().map(|(_, n)| *n).collect();
        assert_eq!(drain(&mut queue, Ps::MAX), order);
    }

    #[test]
    fn the_past_is_now() {
        let mut queue = Queue::default();
        queue.schedule(Ps(10), event(1));
        drain(&mut queue, Ps(10));
        queue.schedule(Ps(3), event(2));
        assert_eq!(drain(&mut queue, Ps(10)), [2]);
        assert_eq!(queue.now(), Ps(10));
    }

    #[test]
    fn the_hash_sees_time_order_and_content() {
        let hash = |events: &[(u64, u32)]| {
            let mut queue = Queue::default();
            for &(at, arg) in events {
                queue.schedule(Ps(at), event(arg));
            }
            drain(&mut queue, Ps::MAX);
            queue.hash()
        };
        assert_eq!(hash(&[(1, 1), (2, 2)]), hash(&[(2, 2), (1, 1)]));
        assert_ne!(hash(&[(1, 1), (2, 2)]), hash(&[(1, 1), (3, 2)]));
        assert_ne!(hash(&[(1, 1), (2, 2)]), hash(&[(1, 1), (2, 3)]));
        assert_ne!(hash(&[(1, 1), (1, 2)]), hash(&[(1, 2), (1, 1)]));
    }
}
