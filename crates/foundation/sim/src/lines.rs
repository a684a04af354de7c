//! [`Lines`]: the cache lines that a core holds, and those in flight.

use crate::{AddressSpace, LastLevel, Ps};
use drover_base::Line;

/// Time that an access to a cache line keeps a core busy, by the cache level that holds the line. A core's
/// [`slowdown`](crate::CpuOptions::slowdown) multiplies it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LinePrices {
    /// Access to a line in the first-level cache (32 KiB, 8 ways), touched or prefetched recently. The wait for a
    /// prefetched line that is still in flight comes on top.
    pub hit: Ps,
    /// Access to a line in DRAM, when none of the other cases applies; also the time in which a prefetched line arrives
    /// from DRAM.
    pub miss: Ps,
    /// Access to a line outside the first-level cache whose predecessor in the same mapping is in it and was touched:
    /// the hardware has prefetched it.
    pub next: Ps,
    /// Access to a line in the last-level cache, unless `hit` or `next` applies. That cache holds exactly the ranges
    /// marked in [`LastLevel`]: in the RDMA simulator, whole regions registered for remote WRITE, from their
    /// registration on.
    pub last_level: Ps,
    /// Issue of a prefetch, without the wait for its line.
    pub prefetch: Ps,
    /// Maximum number of prefetched lines in flight from DRAM, clamped to 1 to 32; a prefetch beyond that waits.
    pub in_flight_max: usize,
}

impl Default for LinePrices {
    /// A server of 2012: 80 ns to DRAM, ten line-fill buffers (recalled from public measurements).
    fn default() -> LinePrices {
        LinePrices {
            hit: Ps::from_ns(1.0),
            miss: Ps::from_ns(80.0),
            next: Ps::from_ns(4.0),
            last_level: Ps::from_ns(20.0),
            prefetch: Ps::from_ns(2.5),
            in_flight_max: 10,
        }
    }
}

/// Sets of the first-level cache. The offset of a line in its page is the number of its set, as in the modelled
/// processors, so runs do not depend on where the system maps memory.
const SETS: usize = 64;
/// Lines per set: 32 KiB altogether.
const WAYS: usize = 8;
/// Upper bound of the lines in flight.
const IN_FLIGHT_MAX: usize = 32;

/// A line that is cached or in flight.
#[derive(Clone, Copy, Debug)]
struct Way {
    tag: usize,
    there_at: Ps,
    /// Whether it was touched, not only prefetched.
    touched: bool,
}

const EMPTY: Way = Way {
    tag: 0,
    there_at: Ps::ZERO,
    touched: false,
};

/// The first-level cache of a core with least-recently-used replacement. All other lines are in DRAM, which is right
/// for tables much larger than the last-level cache; lines that cards write are in the [last level](LastLevel).
///
/// Lines are found by their address. So that runs do not depend on where the system maps memory, lines of memory that
/// was unmapped are forgotten, and the first line of a mapping follows no other.
#[derive(Debug)]
pub(crate) struct Lines {
    prices: LinePrices,
    last_level: LastLevel,
    address_space: AddressSpace,
    /// Unmapped ranges whose lines are forgotten.
    unmapped_seen: usize,
    /// Sets, each with the most recently used line first. Empty until the first use: most cores of a cluster never
    /// touch a line.
    near: Vec<[Way; WAYS]>,
    /// Arrival times of the last prefetched lines: prefetch `n` in slot `n % IN_FLIGHT_MAX`.
    fills: [Ps; IN_FLIGHT_MAX],
    asked: usize,
    pub(crate) misses: u64,
}

impl Lines {
    pub(crate) fn new(prices: LinePrices, last_level: LastLevel, address_space: AddressSpace) -> Lines {
        Lines {
            unmapped_seen: address_space.unmapped_count(),
            address_space,
            prices: LinePrices {
                in_flight_max: prices.in_flight_max.clamp(1, IN_FLIGHT_MAX),
                ..prices
            },
            last_level,
            near: Vec::new(),
            fills: [Ps::ZERO; IN_FLIGHT_MAX],
            asked: 0,
            misses: 0,
        }
    }

    /// Cost of a touch at `now`.
    pub(crate) fn touch(&mut self, line: Line, now: Ps) -> Ps {
        self.forget_unmapped();
        let tag = line.0 >> 6;
        let hit = self.prices.hit;
        if let Some(way) = self.use_near(tag) {
            way.touched = true;
            return way.there_at.since(now) + hit;
        }
        let price = if self.follows_touched(tag) {
            self.prices.next
        } else if self.last_level.has(line.0) {
            self.prices.last_level
        } else {
            self.misses += 1;
            self.prices.miss
        };
        self.bring(tag, now, true);
        price
    }

    /// Cost of a prefetch at `now`: high only when too many lines are in flight.
    pub(crate) fn prefetch(&mut self, line: Line, now: Ps) -> Ps {
        self.forget_unmapped();
        let tag = line.0 >> 6;
        let price = self.prices.prefetch;
        if self.use_near(tag).is_some() {
            return price;
        }
        if self.last_level.has(line.0) {
            // It occupies a fill buffer too briefly for others to wait for it.
            self.bring(tag, now + self.prices.last_level, false);
            return price;
        }
        // Lines arrive in the order of their prefetches, so a fill buffer is free when that line has arrived.
        let wait = match self.asked.checked_sub(self.prices.in_flight_max) {
            Some(before) => self.fills[before % IN_FLIGHT_MAX].since(now),
            None => Ps::ZERO,
        };
        let there_at = now + wait + self.prices.miss;
        self.fills[self.asked % IN_FLIGHT_MAX] = there_at;
        self.asked += 1;
        self.misses += 1;
        self.bring(tag, there_at, false);
        price + wait
    }

    /// The entry of the line if it is cached or in flight; makes it the most recently used of its set.
    fn use_near(&mut self, tag: usize) -> Option<&mut Way> {
        let set = self.near.get_mut(tag % SETS)?;
        let at = set.iter().position(|way| way.tag == tag)?;
        set[..=at].rotate_right(1);
        Some(&mut set[0])
    }

    /// Whether the line before this one, in the same mapping, was touched recently.
    fn follows_touched(&self, tag: usize) -> bool {
        let before = tag.wrapping_sub(1);
        let set = self.near.get(before % SETS);
        let has_touched = set.is_some_and(|set| set.iter().any(|way| way.tag == before && way.touched));
        // Mappings begin at pages.
        has_touched && (!tag.is_multiple_of(SETS) || !self.address_space.starts_at(tag << 6))
    }

    #[inline]
    fn forget_unmapped(&mut self) {
        if self.unmapped_seen != self.address_space.unmapped_count() {
            self.forget();
        }
    }

    /// Forgets the lines of memory that was unmapped since the last access.
    #[cold]
    fn forget(&mut self) {
        let seen = std::mem::replace(&mut self.unmapped_seen, self.address_space.unmapped_count());
        for set in &mut self.near {
            let stays = |way: &Way| !self.address_space.was_unmapped_since(seen, way.tag << 6);
            // The ways that become free are the next to be used.
            let mut kept = [EMPTY; WAYS];
            for (to, way) in kept.iter_mut().zip(set.iter().filter(|way| stays(way))) {
                *to = *way;
            }
            *set = kept;
        }
    }

    /// Replaces the least recently used line of the set.
    fn bring(&mut self, tag: usize, there_at: Ps, touched: bool) {
        self.near.resize(SETS, [EMPTY; WAYS]);
        let set = &mut self.near[tag % SETS];
        set.rotate_right(1);
        set[0] = Way {
            tag,
            there_at,
            touched,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(n: usize) -> Line {
        Line((1 << 20) + n * 64)
    }

    /// Lines that are not adjacent.
    fn apart(n: usize) -> Line {
        line(2 * n)
    }

    fn lines_of(last_level: LastLevel) -> Lines {
        Lines::new(LinePrices::default(), last_level, AddressSpace::default())
    }

    fn ns(n: f64) -> Ps {
        Ps::from_ns(n)
    }

    #[test]
    fn a_line_touched_twice_is_near() {
        let mut lines = lines_of(LastLevel::default());
        assert_eq!(lines.touch(line(1), Ps::ZERO), ns(80.0));
        assert_eq!(lines.touch(line(1), Ps::ZERO), ns(1.0));
        assert_eq!(lines.misses, 1);
    }

    #[test]
    fn lines_in_a_row_cost_one_miss() {
        let mut lines = lines_of(LastLevel::default());
        let all: Vec<Ps> = (0..4).map(|n| lines.touch(line(n), Ps::ZERO)).collect();
        assert_eq!(all, [80.0, 4.0, 4.0, 4.0].map(ns));
    }

    #[test]
    fn what_cards_write_is_in_the_last_level() {
        let cache = LastLevel::default();
        let mut lines = lines_of(cache.clone());
        let bytes = apart(0).0..apart(20).0;
        cache.hold(bytes.clone());
        assert_eq!(lines.touch(apart(1), Ps::ZERO), ns(20.0));
        for n in 2..20 {
            assert_eq!(
                lines.prefetch(apart(n), Ps::ZERO),
                ns(2.5),
                "line {n} takes no buffer"
            );
        }
        assert_eq!(lines.touch(apart(2), ns(50.0)), ns(1.0));
        assert_eq!(lines.touch(apart(20), Ps::ZERO), ns(80.0), "outside");
        assert_eq!(lines.misses, 1);
        cache.release(&bytes);
        assert_eq!(lines.touch(line(0), Ps::ZERO), ns(80.0), "given back");
    }

    #[test]
    fn a_prefetch_in_time_hides_the_miss() {
        let mut lines = lines_of(LastLevel::default());
        assert_eq!(lines.prefetch(line(1), ns(0.0)), ns(2.5));
        assert_eq!(lines.touch(line(1), ns(30.0)), ns(51.0));
        lines.prefetch(apart(2), ns(100.0));
        assert_eq!(lines.touch(apart(2), ns(300.0)), ns(1.0));
    }

    #[test]
    fn lines_that_have_come_stay_while_others_are_asked_for() {
        let mut lines = lines_of(LastLevel::default());
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

    /// Batches prefetch three lines per request for some thirty requests: all of them stay.
    #[test]
    fn a_hundred_lines_stay_and_the_ninth_of_a_set_pushes_one_out() {
        let mut lines = lines_of(LastLevel::default());
        for n in 0..100 {
            lines.prefetch(apart(n), ns(1000.0 * n as f64));
        }
        for n in 0..100 {
            assert_eq!(lines.touch(apart(n), ns(1e6)), ns(1.0), "line {n}");
        }
        let of_one_set = |n: usize| line(1001 + n * SETS);
        for n in 0..9 {
            lines.touch(of_one_set(n), ns(2e6));
        }
        assert_eq!(lines.touch(of_one_set(8), ns(2e6)), ns(1.0));
        assert_eq!(
            lines.touch(of_one_set(0), ns(2e6)),
            ns(80.0),
            "least recently used"
        );
    }

    #[test]
    fn the_eleventh_prefetch_waits() {
        let mut lines = lines_of(LastLevel::default());
        let mut now = Ps::ZERO;
        for n in 0..10 {
            let took = lines.prefetch(apart(n), now);
            assert_eq!(took, ns(2.5));
            now += took;
        }
        assert_eq!(lines.prefetch(apart(10), now), ns(2.5 + 80.0 - 25.0));
    }

    /// The next owner of an address gets cold memory. Other lines stay, and those forgotten are the first to be
    /// replaced.
    #[test]
    fn lines_of_memory_that_was_unmapped_are_forgotten() {
        let space = AddressSpace::default();
        let mut lines = Lines::new(LinePrices::default(), LastLevel::default(), space.clone());
        let of_one_set = |n: usize| line(1001 + n * SETS);
        for n in 0..WAYS {
            lines.touch(of_one_set(n), Ps::ZERO);
        }
        let gone = of_one_set(3).0 & !4095;
        space.unmapped(gone..gone + 4096);
        space.mapped(&(gone..gone + 4096));
        assert_eq!(lines.touch(of_one_set(3), Ps::ZERO), ns(80.0), "another line");
        assert_eq!(lines.touch(of_one_set(3), Ps::ZERO), ns(1.0));
        for n in (0..WAYS).filter(|&n| n != 3) {
            assert_eq!(lines.touch(of_one_set(n), Ps::ZERO), ns(1.0), "line {n} stays");
        }
    }

    /// The system decides which mappings are neighbours, so a walk ends with its mapping.
    #[test]
    fn the_first_line_of_a_mapping_follows_no_other() {
        let space = AddressSpace::default();
        let mut lines = Lines::new(LinePrices::default(), LastLevel::default(), space.clone());
        let (page, next) = (line(SETS).0, line(2 * SETS).0);
        assert!(page.is_multiple_of(4096));
        space.mapped(&(next..next + 4096));
        lines.touch(Line(page - 64), Ps::ZERO);
        assert_eq!(lines.touch(Line(page), Ps::ZERO), ns(4.0), "of one mapping");
        lines.touch(Line(next - 64), Ps::ZERO);
        assert_eq!(lines.touch(Line(next), Ps::ZERO), ns(80.0), "of another one");
        space.unmapped(next..next + 4096);
        lines.touch(Line(next - 64), Ps::ZERO);
        assert_eq!(
            lines.touch(Line(next), Ps::ZERO),
            ns(4.0),
            "no mapping begins there now"
        );
    }
}
