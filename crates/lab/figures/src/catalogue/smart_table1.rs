//! SMART Table 1: a varying number of threads, 64 READs of 8 B each. x the milliseconds between changes, y 0 to 120
//! Mops.
//!
//! At each interval the published loop drew a new number of threads, 36 to 95, at random. This one draws them evenly,
//! so that few draws are enough. All times of the experiment are divided by [`FACTOR`]: the intervals and those of the
//! search for credits. A run has at least three intervals and two epochs of the search.

use super::smart3::batches;
use super::smart13::{FACTOR, throttled};
use crate::cluster::Doorbells;
use crate::figure::{Drawing, Figure, Point};
use crate::micro::{Bench, Changes, Tasks, Verb};
use drover_base::Ns;
use drover_rt::TunerOptions;

/// SMART Table 1: throughput with a changing number of threads, throttled and not.
pub const FIGURE: Figure = Figure {
    name: "smart-table-1",
    title: "Threads that come and go, everything 100 times as fast",
    source: "[SMART] Table 1",
    x_axis: "time between changes, ms",
    y_axis: "throughput, Mops",
    drawing: Drawing::Table(&[]),
    shape: "throttled near the card's limit whatever the interval, not throttled well below",
    points,
};

/// Requests per batch.
const DEPTH: usize = 64;
/// Minimum number of threads, and one more than the maximum.
const THREADS: [usize; 2] = [36, 96];
/// Number of parts of the range of threads, and the distance of two draws from the same part, which has no factor in
/// common with its size.
const PARTS: usize = 3;
const STRIDE: usize = 7;

/// Published intervals, milliseconds.
fn intervals() -> impl Iterator<Item = u64> {
    (3..=11).map(|n| 1 << n)
}

/// A run in which the number of threads changes every `interval` milliseconds of the published experiment.
fn tasks(interval: u64, is_throttled: bool) -> Tasks {
    let every = Ns(Ns::from_ms(interval).0 / FACTOR);
    let search = TunerOptions::PAPER.faster(FACTOR);
    let least = (search.search() + search.stable) * 2;
    let count = (least.0.div_ceil(every.0) as usize).next_multiple_of(PARTS);
    let all = batches(Verb::Read, THREADS[1] - 1, DEPTH, Doorbells::PerThread);
    let all = if is_throttled { throttled(all) } else { all };
    Tasks {
        changes: Some(Changes {
            every,
            threads: (0..count).map(drawn).collect(),
        }),
        ..all
    }
}

fn points() -> Vec<Point> {
    let mut points = Vec::new();
    for (name, is_throttled) in [("not throttled", false), ("throttled", true)] {
        for interval in intervals() {
            let bench = Bench::Tasks(tasks(interval, is_throttled));
            points.push(Point::throughput("cx6", name, interval as f64, bench));
        }
    }
    points
}

/// Number of threads in the `nth` interval: from each part of the range in turn, many first, at first from its middle.
fn drawn(nth: usize) -> usize {
    let size = (THREADS[1] - THREADS[0]) / PARTS;
    let (turn, part) = (nth / PARTS, PARTS - 1 - nth % PARTS);
    THREADS[0] + part * size + (size / 2 + turn * STRIDE) % size
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_drawn_evenly_from_the_whole_range() {
        let mut drawn: Vec<usize> = (0..THREADS[1] - THREADS[0]).map(drawn).collect();
        assert_eq!(drawn[..6], [86, 66, 46, 93, 73, 53]);
        drawn.sort_unstable();
        assert!(drawn.into_iter().eq(THREADS[0]..THREADS[1]));
    }
}
