//! SMART Fig. 4: 8 B, a doorbell per thread. x 1 to 32 outstanding per thread, y 0 to 120 Mops.

use super::smart3::batches;
use crate::cluster::Doorbells;
use crate::figure::{Drawing, Figure, Metric, Point};
use crate::micro::{Bench, Verb};

/// SMART Fig. 4: throughput by threads and by requests outstanding per thread.
pub const FIGURE: Figure = Figure {
    name: "smart-4",
    title: "Threads and requests outstanding per thread",
    source: "[SMART] Fig. 4",
    x_axis: "requests outstanding per thread",
    y_axis: "throughput, Mops",
    drawing: Drawing::Curves,
    shape: "rises with both to the card's limit; beyond 768 outstanding falls, as work requests leave the card's cache",
    points,
};

/// SMART section 3.2: bytes that the card reads from its host's memory per request, with 96 threads.
pub const BYTES: Figure = Figure {
    name: "smart-4b",
    title: "What the card reads from its host per request, 96 threads",
    source: "[SMART] section 3.2",
    x_axis: "requests outstanding per thread",
    y_axis: "bytes per request",
    drawing: Drawing::Curves,
    shape: "doubles once work requests are fetched again",
    points: bytes,
};

fn points() -> Vec<Point> {
    let mut points = Vec::new();
    for (name, verb) in [("READ", Verb::Read), ("WRITE", Verb::Write)] {
        for threads in (12..=96).step_by(12) {
            for depth in [1, 4, 8, 16, 24, 32] {
                let bench = Bench::Tasks(batches(verb, threads, depth, Doorbells::PerThread));
                points.push(Point::throughput(
                    "cx6",
                    format!("{name} / {threads} threads"),
                    depth as f64,
                    bench,
                ));
            }
        }
    }
    points
}

fn bytes() -> Vec<Point> {
    let point = |depth: usize| {
        let bench = Bench::Tasks(batches(Verb::Read, 96, depth, Doorbells::PerThread));
        Point::throughput("cx6", "READ / 96 threads", depth as f64, bench).showing(Metric::HostBytes)
    };
    [8, 32].map(point).into()
}
