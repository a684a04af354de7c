//! SMART Fig. 13: gain from doorbells per thread and from fewer outstanding requests. READ of 8 B, y 0 to 120 Mops.

use super::smart3::{THREADS, batches};
use crate::cluster::Doorbells;
use crate::figure::{Figure, Point};
use crate::micro::{Pacing, Verb};

/// SMART Fig. 13: throughput with doorbells per thread and with throttling. Throttling uses the share of the card's 768
/// requests at which SMART's search settles, not the search itself.
pub const FIGURE: Figure = Figure {
    name: "smart-13",
    title: "Own doorbells, and throttling of outstanding requests",
    source: "[SMART] Fig. 13",
    x_axis: "threads, or requests outstanding per thread",
    y_axis: "throughput, Mops",
    x_doubles: false,
    shape: "each brings a step; throttled stays at the card's limit",
    points,
};

/// Total requests of all threads that fit in the card's cache.
const CREDITS: usize = 768;

/// Maximum outstanding requests per thread when `threads` threads share the 768 that fit in the card's cache; at most
/// `depth`.
pub fn share(threads: usize, depth: usize) -> usize {
    (CREDITS / threads).min(depth)
}

fn points() -> Vec<Point> {
    let mut points = Vec::new();
    for (name, doorbells, throttled) in [
        ("queue pair per thread", Doorbells::Driver, false),
        ("doorbell per thread", Doorbells::PerThread, false),
        ("doorbell per thread / throttled", Doorbells::PerThread, true),
    ] {
        let mut add = |panel: &str, x: usize, threads: usize, depth: usize| {
            let pacing = match throttled {
                false => Pacing::Batch(depth),
                true => Pacing::Throttled {
                    batch: depth,
                    credits: share(threads, depth),
                },
            };
            let bench = batches(Verb::Read, threads, pacing, doorbells);
            points.push(Point::throughput(
                "cx6",
                format!("{panel} / {name}"),
                x as f64,
                bench,
            ));
        };
        THREADS
            .iter()
            .for_each(|&threads| add("depth 16", threads, threads, 16));
        let depths = [1, 4, 8, 12, 16, 20, 24, 28, 32];
        depths
            .iter()
            .for_each(|&depth| add("96 threads", depth, 96, depth));
    }
    points
}
