//! [`Expected`]: items ordered by arrival time; and [`Alarm`], the one event that its owner needs.

use crate::{Event, Ps, Queue};
use std::collections::VecDeque;

/// A queue of items whose arrival times are known in advance. Items of equal time keep the order of insertion.
///
/// Almost all items are pushed in order, so a push usually compares with the last item only.
#[derive(Clone, Debug)]
pub struct Expected<T>(VecDeque<(Ps, T)>);

impl<T> Default for Expected<T> {
    fn default() -> Expected<T> {
        Expected(VecDeque::new())
    }
}

impl<T: Copy> Expected<T> {
    /// Adds `item`, which arrives at `at`.
    #[inline]
    pub fn push(&mut self, at: Ps, item: T) {
        match self.0.back() {
            Some(last) if last.0 > at => {
                let place = self.0.partition_point(|before| before.0 <= at);
                self.0.insert(place, (at, item));
            }
            _ => self.0.push_back((at, item)),
        }
    }

    /// The item that arrives first and its arrival time, whether past or future; `None` without items.
    #[inline]
    pub fn first(&self) -> Option<(Ps, T)> {
        self.0.front().copied()
    }

    /// Removes and returns the item that arrives first, with its arrival time, if that is not after `now`.
    #[inline]
    pub fn take(&mut self, now: Ps) -> Option<(Ps, T)> {
        match self.0.front() {
            Some(first) if first.0 <= now => self.0.pop_front(),
            _ => None,
        }
    }

    /// Number of items, arrived or not, that have not been taken.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no item, arrived or not.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of items that have arrived by `now` and have not been taken.
    pub fn there(&self, now: Ps) -> usize {
        self.0.partition_point(|item| item.0 <= now)
    }
}

/// Time of the one event at which the owner of a [`Station`](crate::Station) looks at the station next. If an earlier
/// time becomes known, a new event is scheduled and the old one still comes; [`rings`](Alarm::rings) tells the owner to
/// ignore it.
#[derive(Clone, Copy, Debug)]
pub struct Alarm(Ps);

impl Default for Alarm {
    fn default() -> Alarm {
        Alarm(Ps::MAX)
    }
}

impl Alarm {
    /// Schedules `event` at `at`, or now if that is past, unless the alarm is set to that time or an earlier one. Does
    /// nothing for [`Ps::MAX`].
    #[inline]
    pub fn set(&mut self, at: Ps, event: Event, queue: &mut Queue) {
        let at = at.max(queue.now());
        if at < self.0 {
            self.0 = at;
            queue.schedule(at, event);
        }
    }

    /// Whether the event that arrives at `now` is the one that counts. If so, call [`silence`](Alarm::silence) after
    /// handling it: until then the alarm cannot be set again.
    #[inline]
    pub fn rings(&self, now: Ps) -> bool {
        self.0 == now
    }

    /// Clears the alarm, so that it can be set again.
    #[inline]
    pub fn silence(&mut self) {
        self.0 = Ps::MAX;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_time_then_by_announcement() {
        let mut expected = Expected::default();
        for (at, item) in [(5, 'a'), (7, 'b'), (5, 'c'), (1, 'd'), (9, 'e')] {
            expected.push(Ps(at), item);
        }
        assert_eq!((expected.len(), expected.there(Ps(6))), (5, 3));
        let taken: String = std::iter::from_fn(|| expected.take(Ps(8)))
            .map(|(_, item)| item)
            .collect();
        assert_eq!(taken, "dacb");
        assert_eq!(expected.first(), Some((Ps(9), 'e')));
    }

    #[test]
    fn only_the_earliest_alarm_rings() {
        let (mut alarm, mut queue) = (Alarm::default(), Queue::default());
        let event = Event::new(Event::FIRST_KIND, 0, 0);
        for at in [5, 3, 4] {
            alarm.set(Ps(at), event, &mut queue);
        }
        assert_eq!(queue.waiting(), 2);
        assert!(alarm.rings(Ps(3)) && !alarm.rings(Ps(5)));
        alarm.set(Ps(9), event, &mut queue);
        assert_eq!(queue.waiting(), 2, "it rings already");
        alarm.silence();
        alarm.set(Ps(9), event, &mut queue);
        assert!(alarm.rings(Ps(9)));
    }
}
