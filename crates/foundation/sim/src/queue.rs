//! [`Queue`]: future events, ordered by time and then by creation.

use crate::Ps;
use crate::agenda::{Agenda, Entry};
use drover_base::mix;

/// An event. Its creator defines what `unit` and `arg` mean; kinds below [`Event::FIRST_KIND`] belong to the simulator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// Kind of the event; each model numbers its own from [`Event::FIRST_KIND`].
    pub kind: u16,
    /// Index of the model's unit (one card of several, for example) that the event is for.
    pub unit: u16,
    /// Argument of the event, for example the index of an operation.
    pub arg: u32,
}

impl Event {
    /// The first kind that models may use.
    pub const FIRST_KIND: u16 = 16;

    /// Creates an event with these fields; [`Queue::schedule`] gives it a time.
    pub const fn new(kind: u16, unit: u16, arg: u32) -> Event {
        Event { kind, unit, arg }
    }

    fn word(self) -> u64 {
        u64::from(self.kind) << 48 | u64::from(self.unit) << 32 | u64::from(self.arg)
    }
}

/// Future events, ordered by time and then by creation. Allocates only while it grows.
pub struct Queue {
    agenda: Agenda,
    now: Ps,
    made: u64,
    taken: u64,
    hash: u64,
}

impl Default for Queue {
    fn default() -> Queue {
        Queue {
            agenda: Agenda::new(),
            now: Ps::ZERO,
            made: 0,
            taken: 0,
            hash: 0,
        }
    }
}

impl Queue {
    /// The time of the event that is being handled; between runs, the time until which the simulation has run. That is
    /// the time of the last event if the run ended early.
    #[inline]
    pub fn now(&self) -> Ps {
        self.now
    }

    /// Schedules `event` at `at`, or now if that is past.
    #[inline]
    pub fn schedule(&mut self, at: Ps, event: Event) {
        let entry = Entry {
            at: at.max(self.now),
            sequence: self.made,
            event,
        };
        self.made += 1;
        self.agenda.push(entry);
    }

    /// Takes the next event that happens no later than `limit`, and moves the clock to its time.
    #[inline]
    pub(crate) fn take(&mut self, limit: Ps) -> Option<Event> {
        let Entry { at, event, .. } = self.agenda.pop(limit)?;
        self.now = at;
        self.taken += 1;
        self.hash = mix(self.hash ^ at.0.rotate_left(17) ^ event.word());
        Some(event)
    }

    /// Moves the clock on to `at` if no event happens before.
    pub(crate) fn pass(&mut self, at: Ps) {
        debug_assert!(self.next_at().is_none_or(|next| next > at));
        self.now = self.now.max(at);
    }

    /// Number of events that have happened, including those that their receivers ignored.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Time of the next scheduled event; `None` if there is none.
    pub fn next_at(&self) -> Option<Ps> {
        self.agenda.next_at()
    }

    /// Number of scheduled events that have not happened yet.
    pub fn waiting(&self) -> usize {
        self.agenda.len()
    }

    /// A hash over the time, kind, unit and argument of all events that have happened, in order.
    pub fn hash(&self) -> u64 {
        self.hash
    }
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Queue({} events wait at {})", self.waiting(), self.now)
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
