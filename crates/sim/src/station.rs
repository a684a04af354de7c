//! [`Station`]: one server, first come, first served; the service time is decided when service starts.

use crate::Ps;
use std::collections::VecDeque;

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
/// arrive(item)   idle: the owner looks up what the service costs *now*, begins it and schedules its end
///                busy: the item waits
/// finish()       gives the item that was served and the next one, whose service begins now
/// ```
#[derive(Debug, Default)]
pub struct Station {
    queue: VecDeque<u32>,
    serving: Option<u32>,
    usage: Usage,
}

impl Station {
    /// Takes an item. True: nobody is served, so [`begin`](Station::begin) with it.
    #[inline]
    #[must_use]
    pub fn arrive(&mut self, item: u32) -> bool {
        let there = self.queue.len() as u64 + 1 + u64::from(self.serving.is_some());
        self.usage.high_water = self.usage.high_water.max(there);
        if self.serving.is_none() {
            return true;
        }
        self.queue.push_back(item);
        false
    }

    /// Begins to serve `item`, for `service`.
    #[inline]
    pub fn begin(&mut self, item: u32, service: Ps) {
        debug_assert!(self.serving.is_none(), "one at a time");
        self.serving = Some(item);
        self.usage.busy += service;
        self.usage.served += 1;
    }

    /// Ends a service: the item served, and the one to begin with now.
    ///
    /// # Panics
    /// If nobody is served.
    #[inline]
    pub fn finish(&mut self) -> (u32, Option<u32>) {
        let served = self.serving.take().expect("somebody is being served");
        (served, self.queue.pop_front())
    }

    /// Whether nobody is served.
    pub fn is_idle(&self) -> bool {
        self.serving.is_none()
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.queue.len()
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
        assert!(station.arrive(1));
        station.begin(1, Ps(10));
        assert!(!station.arrive(2) && !station.arrive(3));
        assert_eq!(station.finish(), (1, Some(2)));
        station.begin(2, Ps(5));
        assert_eq!(station.finish(), (2, Some(3)));
        station.begin(3, Ps(5));
        assert_eq!(station.finish(), (3, None));
        let usage = station.usage();
        assert_eq!((usage.busy, usage.served, usage.high_water), (Ps(20), 3, 3));
    }
}
