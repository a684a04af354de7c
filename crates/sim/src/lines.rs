//! [`Lines`]: which cache lines a core has near, and which are on their way.

use crate::Ps;
use drover_base::Line;

/// What touching memory costs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LinePrices {
    /// A line touched a moment ago.
    pub hit: Ps,
    /// A line from DRAM, at random.
    pub miss: Ps,
    /// The line after one touched a moment ago: the core fetches ahead.
    pub next: Ps,
    /// Asking for a line ahead of time.
    pub prefetch: Ps,
    /// How many lines can be on their way at once; who asks for one more waits. At most 32.
    pub in_flight_max: usize,
}

impl Default for LinePrices {
    /// A server of 2012: 80 ns to DRAM, ten line-fill buffers (recalled from public measurements).
    fn default() -> LinePrices {
        LinePrices {
            hit: Ps::from_ns(1.0),
            miss: Ps::from_ns(80.0),
            next: Ps::from_ns(4.0),
            prefetch: Ps::from_ns(2.5),
            in_flight_max: 10,
        }
    }
}

/// Lines near: as many as there are lines in a page.
const NEAR: usize = 64;
/// Lines asked for ahead of time that are remembered: those on their way, and as many again that have come.
const FILLS_MAX: usize = 32;

/// The last lines touched, and the last ones asked for. Everything else is in DRAM: right for tables much larger than
/// the last-level cache.
///
/// Only the offset of a line in its page chooses its place, so runs do not depend on where the system maps memory.
#[derive(Debug)]
pub(crate) struct Lines {
    prices: LinePrices,
    near: [usize; NEAR],
    fills: [(usize, Ps); FILLS_MAX],
    /// How many were asked for so far: number `n` is in place `n % FILLS_MAX`.
    asked: usize,
    pub(crate) misses: u64,
}

impl Lines {
    pub(crate) fn new(prices: LinePrices) -> Lines {
        Lines {
            prices: LinePrices {
                in_flight_max: prices.in_flight_max.clamp(1, FILLS_MAX),
                ..prices
            },
            near: [0; NEAR],
            fills: [(0, Ps::ZERO); FILLS_MAX],
            asked: 0,
            misses: 0,
        }
    }

    /// What a touch at `now` costs.
    pub(crate) fn touch(&mut self, line: Line, now: Ps) -> Ps {
        let tag = line.0 >> 6;
        if self.near[tag % NEAR] == tag {
            return self.prices.hit;
        }
        self.near[tag % NEAR] = tag;
        match self.arrival(tag) {
            Some(at) => at.since(now) + self.prices.hit,
            None if self.near[tag.wrapping_sub(1) % NEAR] == tag.wrapping_sub(1) => self.prices.next,
            None => {
                self.misses += 1;
                self.prices.miss
            }
        }
    }

    /// What asking for a line at `now` costs: more than a little only when too many are on their way.
    pub(crate) fn prefetch(&mut self, line: Line, now: Ps) -> Ps {
        let tag = line.0 >> 6;
        let price = self.prices.prefetch;
        if self.near[tag % NEAR] == tag || self.arrival(tag).is_some() {
            return price;
        }
        // Lines come in the order in which they were asked for, so there is room when that one has come.
        let wait = match self.asked.checked_sub(self.prices.in_flight_max) {
            Some(before) => self.fills[before % FILLS_MAX].1.since(now),
            None => Ps::ZERO,
        };
        self.fills[self.asked % FILLS_MAX] = (tag, now + wait + self.prices.miss);
        self.asked += 1;
        self.misses += 1;
        price + wait
    }

    /// When a line that was asked for is there.
    fn arrival(&self, tag: usize) -> Option<Ps> {
        let fills = &self.fills[..self.asked.min(FILLS_MAX)];
        fills.iter().find(|fill| fill.0 == tag).map(|fill| fill.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(n: usize) -> Line {
        Line((1 << 20) + n * 64)
    }

    /// Lines that are not in a row.
    fn apart(n: usize) -> Line {
        line(2 * n)
    }

    fn ns(n: f64) -> Ps {
        Ps::from_ns(n)
    }

    #[test]
    fn a_line_touched_twice_is_near() {
        let mut lines = Lines::new(LinePrices::default());
        assert_eq!(lines.touch(line(1), Ps::ZERO), ns(80.0));
        assert_eq!(lines.touch(line(1), Ps::ZERO), ns(1.0));
        assert_eq!(lines.misses, 1);
    }

    #[test]
    fn lines_in_a_row_cost_one_miss() {
        let mut lines = Lines::new(LinePrices::default());
        let all: Vec<Ps> = (0..4).map(|n| lines.touch(line(n), Ps::ZERO)).collect();
        assert_eq!(all, [80.0, 4.0, 4.0, 4.0].map(ns));
    }

    #[test]
    fn a_prefetch_in_time_hides_the_miss() {
        let mut lines = Lines::new(LinePrices::default());
        assert_eq!(lines.prefetch(line(1), ns(0.0)), ns(2.5));
        assert_eq!(lines.touch(line(1), ns(30.0)), ns(51.0));
        lines.prefetch(apart(2), ns(100.0));
        assert_eq!(lines.touch(apart(2), ns(300.0)), ns(1.0));
    }

    #[test]
    fn lines_that_have_come_stay_while_others_are_asked_for() {
        let mut lines = Lines::new(LinePrices::default());
        let asked = |lines: &mut Lines, from: usize, at: f64| {
            for n in from..from + 8 {
                lines.prefetch(apart(n), ns(at));
            }
        };
        asked(&mut lines, 0, 0.0);
        asked(&mut lines, 8, 300.0);
        let touched: Vec<Ps> = (0..8).map(|n| lines.touch(apart(n), ns(320.0))).collect();
        assert_eq!(touched, [ns(1.0); 8]);
    }

    #[test]
    fn the_eleventh_prefetch_waits() {
        let mut lines = Lines::new(LinePrices::default());
        let mut now = Ps::ZERO;
        for n in 0..10 {
            let took = lines.prefetch(apart(n), now);
            assert_eq!(took, ns(2.5));
            now += took;
        }
        assert_eq!(lines.prefetch(apart(10), now), ns(2.5 + 80.0 - 25.0));
    }
}
