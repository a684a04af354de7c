//! SMART Fig. 13: gain from doorbells per thread and from fewer outstanding requests. READ of 8 B, y 0 to 120 Mops.

use super::smart3::{THREADS, batches};
use crate::cluster::Doorbells;
use crate::figure::{Drawing, Figure, Point};
use crate::micro::{Bench, Tasks, Verb};
use drover_rt::TunerOptions;

/// SMART Fig. 13: throughput with doorbells per thread and with throttling.
pub const FIGURE: Figure = Figure {
    name: "smart-13",
    title: "Own doorbells, and throttling by a search that is 100 times as fast",
    source: "[SMART] Fig. 13",
    x_axis: "threads, or requests outstanding per thread",
    y_axis: "throughput, Mops",
    drawing: Drawing::Curves,
    shape: "each brings a step; throttled stays at the card's limit",
    points,
};

/// One point of Fig. 13 with the times of the paper: 40 ms of search and a time of 480 ms. Takes half a minute.
pub const UNSCALED: Figure = Figure {
    name: "smart-13-unscaled",
    title: "Throttling by a search with the paper's times",
    shape: "as the same point of smart-13",
    points: unscaled,
    ..FIGURE
};

/// Factor by which simulations shorten the times of the search and the intervals of Table 1. A sample of the search is
/// then 80 us, about eight times as long as all outstanding requests of 96 threads take.
pub const FACTOR: u64 = 100;

/// `tasks` throttled as in the paper, by a search that is [`FACTOR`] times as fast.
pub fn throttled(tasks: Tasks) -> Tasks {
    Tasks {
        tuner: Some(TunerOptions::PAPER.faster(FACTOR)),
        ..tasks
    }
}

fn points() -> Vec<Point> {
    let mut points = Vec::new();
    for (name, doorbells, is_throttled) in [
        ("queue pair per thread", Doorbells::Driver, false),
        ("doorbell per thread", Doorbells::PerThread, false),
        ("doorbell per thread / throttled", Doorbells::PerThread, true),
    ] {
        let mut add = |panel: &str, x: usize, threads: usize, depth: usize| {
            let tasks = batches(Verb::Read, threads, depth, doorbells);
            let tasks = if is_throttled { throttled(tasks) } else { tasks };
            points.push(Point::throughput(
                "cx6",
                format!("{panel} / {name}"),
                x as f64,
                Bench::Tasks(tasks),
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

fn unscaled() -> Vec<Point> {
    let (threads, depth) = (96, 32);
    let tasks = Tasks {
        tuner: Some(TunerOptions::PAPER),
        ..batches(Verb::Read, threads, depth, Doorbells::PerThread)
    };
    let series = "96 threads / doorbell per thread / throttled";
    vec![Point::throughput(
        "cx6",
        series,
        depth as f64,
        Bench::Tasks(tasks),
    )]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_say_by_how_much_times_are_shortened() {
        for figure in [FIGURE, super::super::smart_table1::FIGURE] {
            assert!(
                figure.title.contains(&format!(" {FACTOR} times as fast")),
                "{}",
                figure.title
            );
        }
    }
}
