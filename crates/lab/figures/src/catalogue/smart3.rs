//! SMART Fig. 3: 8 B, 8 outstanding per thread, by allocation of doorbells. x 1 to 96 threads, y 0 to 120 Mops.

use crate::cluster::Doorbells;
use crate::figure::{Drawing, Figure, Point};
use crate::micro::{Bench, Shared, Tasks, Verb};

/// SMART Fig. 3: throughput by threads, queue pairs per thread and allocation of doorbells.
pub const FIGURE: Figure = Figure {
    name: "smart-3",
    title: "Threads of one process: queue pairs shared or one each, doorbells dealt by the driver or one each",
    source: "[SMART] Fig. 3",
    x_axis: "threads",
    y_axis: "throughput, Mops",
    drawing: Drawing::Curves,
    shape: "shared queue pairs far below; with shared doorbells highest at 32 threads, then falling; with own ones rising to the card's limit",
    points,
};

/// Thread counts on the x axis, those of the paper's artifact.
pub const THREADS: [usize; 13] = [1, 8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96];

/// Queue pairs that threads share, and how many threads share one.
const SHARED: [(&str, usize); 3] = [
    ("one queue pair", usize::MAX),
    ("queue pair per 4 threads", 4),
    ("queue pair per 2 threads", 2),
];

/// A benchmark in which tasks on `threads` threads post batches of 8-byte requests, one per post, without a limit of
/// outstanding requests.
pub fn batches(verb: Verb, threads: usize, batch: usize, doorbells: Doorbells) -> Tasks {
    Tasks {
        verb,
        threads,
        batch,
        doorbells,
        tuner: None,
        changes: None,
    }
}

/// As [`batches`] of 8 with the driver's doorbells, with a queue pair for each `threads_per_queue` threads and no tasks.
fn sharing(verb: Verb, threads: usize, threads_per_queue: usize) -> Bench {
    Bench::Shared(Shared {
        tasks: batches(verb, threads, 8, Doorbells::Driver),
        threads_per_queue,
    })
}

fn points() -> Vec<Point> {
    let mut points = Vec::new();
    for (name, verb) in [("READ", Verb::Read), ("WRITE", Verb::Write)] {
        for (kind, sharers) in SHARED {
            for threads in THREADS {
                let (series, bench) = (format!("{name} / {kind}"), sharing(verb, threads, sharers));
                points.push(Point::throughput("cx6", series, threads as f64, bench));
            }
        }
        for (kind, doorbells) in [
            ("queue pair per thread", Doorbells::Driver),
            ("doorbell per thread", Doorbells::PerThread),
        ] {
            for threads in THREADS {
                let bench = Bench::Tasks(batches(verb, threads, 8, doorbells));
                points.push(Point::throughput(
                    "cx6",
                    format!("{name} / {kind}"),
                    threads as f64,
                    bench,
                ));
            }
        }
    }
    points
}
