//! SMART Table 1: a varying number of threads, 64 READs of 8 B each. x the milliseconds between changes, y 0 to 120
//! Mops.
//!
//! At each interval the published loop drew a new number of threads, 36 to 95. A card settles within a tenth of a
//! millisecond, so a value here is the mean of the rates at a few numbers of threads, drawn from equal parts of that
//! range; values differ only by the draws. The search for credits, which takes time after each change, is not run:
//! throttled threads use their share of the card's capacity.

use super::smart3::batches;
use super::smart13::share;
use crate::cluster::Doorbells;
use crate::figure::{Figure, Point};
use crate::micro::{Bench, Pacing, Verb};

/// SMART Table 1: throughput with a changing number of threads, throttled and not.
pub const FIGURE: Figure = Figure {
    name: "smart-table-1",
    title: "Threads that come and go",
    source: "[SMART] Table 1",
    x_axis: "time between changes, ms",
    y_axis: "throughput, Mops",
    x_doubles: true,
    shape: "throttled near the card's limit whatever the interval, not throttled well below",
    points,
};

/// Requests per batch.
const DEPTH: usize = 64;
/// Minimum number of threads.
const THREADS_MIN: usize = 36;
/// Number of parts of the range of threads, and size of each.
const PARTS: [usize; 2] = [3, 20];

fn points() -> Vec<Point> {
    let mut points = Vec::new();
    for (name, throttled) in [("not throttled", false), ("throttled", true)] {
        for interval in (3..=11).map(|n| 1u64 << n) {
            let benches = drawn(interval).map(|threads| {
                let pacing = match throttled {
                    false => Pacing::Batch(DEPTH),
                    true => Pacing::Throttled {
                        batch: DEPTH,
                        credits: share(threads, DEPTH),
                    },
                };
                batches(Verb::Read, threads, pacing, Doorbells::PerThread)
            });
            let bench = Bench::Mean(benches.into());
            points.push(Point::throughput("cx6", name, interval as f64, bench));
        }
    }
    points
}

/// Numbers of threads for an interval, one from each part of the range; deterministic.
fn drawn(interval: u64) -> [usize; PARTS[0]] {
    std::array::from_fn(|part| {
        let draw = drover_base::mix(interval * PARTS[0] as u64 + part as u64) as usize;
        THREADS_MIN + part * PARTS[1] + draw % PARTS[1]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_drawn_from_each_part_of_the_range() {
        for interval in [8, 2048] {
            let [few, some, many] = drawn(interval);
            assert!((36..56).contains(&few) && (56..76).contains(&some) && (76..96).contains(&many));
        }
    }
}
