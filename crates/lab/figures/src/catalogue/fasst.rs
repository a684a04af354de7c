//! FaSST Figs. 1 and 2: every machine READs from every other. y Mops per machine.

use super::parts::{alone, lean_loop};
use crate::figure::{Drawing, Figure, Point};
use crate::micro::{Bench, Issuers, Pacing, Posting, Targets, Verb, Verbs, Wiring};
use drover_verbs::QpKind;

/// FaSST Fig. 1: throughput of READs among all machines, by payload. Seven machines, because the published six also had
/// queue pairs with themselves.
pub const FIGURE_1: Figure = Figure {
    name: "fasst-1",
    title: "READs among machines by payload",
    source: "[FaSST] Fig. 1",
    x_axis: "payload, B",
    y_axis: "throughput per machine, Mops",
    drawing: Drawing::Curves,
    shape: "costs of asking and serving add up; the older card falls beyond 232 B",
    points: by_payload,
};

/// FaSST Fig. 2: throughput of READs among all machines, by the number of machines. Twelve machines run; further queue
/// pairs between them stand for further machines.
pub const FIGURE_2: Figure = Figure {
    name: "fasst-2",
    title: "READs among machines by emulated machines",
    source: "[FaSST] Fig. 2",
    x_axis: "emulated machines",
    y_axis: "throughput per machine, Mops",
    drawing: Drawing::Curves,
    shape: "the older card collapses from 176 queue pairs on, the newer one falls slowly",
    points: by_machines,
};

const CARDS: [(&str, usize); 2] = [("apt", 8), ("cib", 14)];

fn among(machines: usize, threads: usize, bytes: usize, queue_pairs: usize) -> Bench {
    Bench::Verbs(Verbs {
        issuers: Issuers {
            machines,
            processes: threads,
            threads: 1,
        },
        targets: Targets {
            machines: 0,
            processes: threads,
        },
        wiring: Wiring::AllToAll,
        queue_pairs,
        posting: Posting {
            random: true,
            ..Posting::paced(Pacing::Window(16))
        },
        ..alone(Verb::Read, QpKind::Rc, bytes, false)
    })
}

fn by_payload() -> Vec<Point> {
    let sizes = [8, 40, 72, 104, 136, 168, 200, 232, 264, 296, 328, 360, 384];
    let mut points = Vec::new();
    for (card, threads) in CARDS {
        for bytes in sizes {
            let bench = among(7, threads, bytes, 1);
            points.push(lean_loop(Point::throughput(
                card,
                format!("{card} READ"),
                bytes as f64,
                bench,
            )));
        }
    }
    points
}

fn by_machines() -> Vec<Point> {
    let mut points = Vec::new();
    for (card, threads) in CARDS {
        for times in 1..=9 {
            let bench = among(12, threads, 32, times);
            let x = (11 * times) as f64;
            points.push(lean_loop(Point::throughput(
                card,
                format!("{card} READ"),
                x,
                bench,
            )));
        }
    }
    points
}
