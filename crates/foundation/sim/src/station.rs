//! [`Station`]: one server, first come, first served; the service time is decided when service starts.

use crate::{Expected, Ps};

/// How much a resource was used. Subtract an earlier copy to see one interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// Time spent serving.
    pub busy: Ps,
    /// Items served.
    pub served: u64,
    /// Most items there at once, the one in service among them.
    pub high_water: u64,
}

impl Usage {
    /// What came after `earlier` (the high-water mark is that of all time).
    pub fn since(&self, earlier: &Usage) -> Usage {
        Usage {
            busy: self.busy - earlier.busy,
            served: self.served - earlier.served,
            high_water: self.high_water,
        }
    }
}

/// A server with a queue of items, each a number that its owner understands.
///
/// ```text
/// expect(at, item)  it will be there at that time
/// next_at()         when the next service begins: the owner's [`Alarm`](crate::Alarm) wants to know
/// take(now)         the item whose service begins now: the owner looks up what it costs *now*
/// serve(now, time)  says so, and until when
/// ```
/// Between two services there is nothing to do, so an item costs its owner one event, however long it waits.
#[derive(Debug, Default)]
pub struct Station {
    queue: Expected<u32>,
    free_at: Ps,
    usage: Usage,
}

impl Station {
    /// `item` will be there at `at`.
    #[inline]
    pub fn expect(&mut self, at: Ps, item: u32) {
        self.queue.push(at, item);
    }

    /// When the next service begins, as far as is known: never too late.
    #[inline]
    pub fn next_at(&self) -> Option<Ps> {
        self.queue.first().map(|first| first.0.max(self.free_at))
    }

    /// The item whose service begins now, if one does.
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

    /// The service of what was [taken](Station::take) takes `time`. Returns when it ends.
    #[inline]
    pub fn serve(&mut self, now: Ps, time: Ps) -> Ps {
        debug_assert!(self.free_at <= now, "one at a time");
        self.free_at = now + time;
        self.usage.busy += time;
        self.usage.served += 1;
        self.free_at
    }

    /// From when on it is idle, if nobody comes.
    #[inline]
    pub fn free_at(&self) -> Ps {
        self.free_at
    }

    /// How much it was used.
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
