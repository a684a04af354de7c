//! [`Station`]: one server, first come, first served; the service time is decided when service starts.

use crate::{Expected, Ps};

/// Counters of the work of a simulated resource since its creation; [`since`](Usage::since) gives those of an interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// Time spent serving. A [`Station`] counts a service in full when it begins.
    pub busy: Ps,
    /// Number of items whose service has begun.
    pub served: u64,
    /// Largest number of items present when a service begins, including the item whose service ends at that moment;
    /// zero for resources that do not count it, such as a [`Pipe`](crate::Pipe).
    pub high_water: u64,
}

impl Usage {
    /// Usage since the copy `earlier` was taken. Only `high_water` stays that of all time.
    pub fn since(&self, earlier: &Usage) -> Usage {
        Usage {
            busy: self.busy - earlier.busy,
            served: self.served - earlier.served,
            high_water: self.high_water,
        }
    }
}

/// A resource that serves items one at a time, in the order of arrival, such as a processing unit of a card; items that
/// have arrived wait in its queue. An item is a number that the owner interprets.
///
/// ```text
/// expect(at, item)  an item will arrive at that time
/// next_at()         when the next service begins: the owner sets its [`Alarm`](crate::Alarm) to it
/// take(now)         the item whose service begins now: the owner decides what it costs *now*
/// serve(now, time)  begins that service, which takes `time`
/// ```
/// No work is needed between two services, so an item costs its owner one event, however long it waits.
#[derive(Debug, Default)]
pub struct Station {
    queue: Expected<u32>,
    free_at: Ps,
    usage: Usage,
}

impl Station {
    /// Announces `item`, which arrives at `at`.
    #[inline]
    pub fn expect(&mut self, at: Ps, item: u32) {
        self.queue.push(at, item);
    }

    /// Time at which the next service begins: when the first item has arrived and the server is free. A later call of
    /// [`expect`](Station::expect) with an earlier arrival can make it earlier. `None` if no items are waiting or
    /// expected.
    #[inline]
    pub fn next_at(&self) -> Option<Ps> {
        self.queue.first().map(|first| first.0.max(self.free_at))
    }

    /// Takes the item whose service begins now; `None` if the server is busy or no item has arrived. After `Some`, the
    /// caller calls [`serve`](Station::serve) with the same `now`.
    #[inline]
    pub fn take(&mut self, now: Ps) -> Option<u32> {
        if self.free_at > now {
            return None;
        }
        if self.queue.len() as u64 >= self.usage.high_water {
            self.note_high_water(now);
        }
        self.queue.take(now).map(|(_, item)| item)
    }

    fn note_high_water(&mut self, now: Ps) {
        let served_until_now = self.free_at == now && self.usage.served > 0;
        let there = self.queue.there(now) as u64 + u64::from(served_until_now);
        self.usage.high_water = self.usage.high_water.max(there);
    }

    /// Serves the item just [taken](Station::take) from `now` on, for `time`. Returns the end of the service.
    ///
    /// # Panics
    /// In debug builds, if the server is still busy at `now`.
    #[inline]
    pub fn serve(&mut self, now: Ps, time: Ps) -> Ps {
        debug_assert!(self.free_at <= now, "one at a time");
        self.free_at = now + time;
        self.usage.busy += time;
        self.usage.served += 1;
        self.free_at
    }

    /// End of the service that began last: a next one can begin then. Zero if none has begun.
    #[inline]
    pub fn free_at(&self) -> Ps {
        self.free_at
    }

    /// Usage so far; a service in progress counts in full.
    pub fn usage(&self) -> Usage {
        self.usage
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_come_first_served() {
        let mut station = Station::default();
        station.expect(Ps(2), 2);
        station.expect(Ps(0), 1);
        station.expect(Ps(4), 3);
        assert_eq!(station.next_at(), Some(Ps(0)));
        assert_eq!(station.take(Ps(0)), Some(1));
        assert_eq!(station.serve(Ps(0), Ps(10)), Ps(10));
        assert_eq!((station.take(Ps(4)), station.next_at()), (None, Some(Ps(10))));
        assert_eq!(station.take(Ps(10)), Some(2));
        station.serve(Ps(10), Ps(5));
        assert_eq!(station.take(Ps(15)), Some(3));
        station.serve(Ps(15), Ps(5));
        assert_eq!((station.take(Ps(20)), station.next_at()), (None, None));
        let usage = station.usage();
        assert_eq!((usage.busy, usage.served, usage.high_water), (Ps(20), 3, 3));
    }

    #[test]
    fn who_is_not_there_yet_is_not_served() {
        let mut station = Station::default();
        station.expect(Ps(5), 1);
        assert_eq!((station.take(Ps(4)), station.next_at()), (None, Some(Ps(5))));
        assert_eq!(station.take(Ps(5)), Some(1));
    }
}
