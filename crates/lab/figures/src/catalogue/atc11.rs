//! Design Guidelines Fig. 11: datagrams out of one machine, posted singly or in lists of 16. y 0 to 110 Mops.

use super::parts::{alone, outbound};
use crate::figure::{Drawing, Figure, Point};
use crate::micro::{Bench, Pacing, Posting, Targets, Verb, Verbs, Wiring};
use drover_verbs::QpKind;

/// Design Guidelines Fig. 11a: throughput of out-bound datagrams by payload, with all cores.
pub const FIGURE: Figure = Figure {
    name: "atc-11",
    title: "Out-bound datagrams, singly and in lists",
    source: "[A16] Fig. 11a",
    x_axis: "payload, B",
    y_axis: "throughput, Mops",
    drawing: Drawing::Curves,
    shape: "stairs of 64 B, lists above single posts",
    points,
};

/// Design Guidelines Fig. 11b: throughput of datagrams of one core, by number of queue pairs.
pub const ONE_CORE: Figure = Figure {
    name: "atc-11b",
    title: "Datagrams of one core by queue pairs",
    source: "[A16] Fig. 11b",
    x_axis: "queue pairs",
    y_axis: "throughput, Mops",
    drawing: Drawing::Curves,
    shape: "lists on one queue pair no faster than single posts; twice as fast on two",
    points: one_core,
};

/// Requests per list.
const LIST: usize = 16;

/// Lists whose last request is signaled.
fn in_lists(window: usize) -> Posting {
    Posting {
        signal_every: LIST,
        list: LIST,
        ..Posting::paced(Pacing::Window(window))
    }
}

fn points() -> Vec<Point> {
    let mut points = Vec::new();
    for bytes in [8, 60, 61, 124, 125, 188, 189, 252, 253, 256] {
        let single = outbound(Verb::Send, QpKind::Ud, bytes, true, 14);
        let lists = Verbs {
            posting: in_lists(2 * LIST),
            ..single.clone()
        };
        for (series, bench) in [("cib single", single), ("cib batch 16", lists)] {
            points.push(Point::throughput(
                "cib",
                series,
                bytes as f64,
                Bench::Verbs(bench),
            ));
        }
    }
    points
}

fn one_core() -> Vec<Point> {
    let single = Verbs {
        targets: Targets {
            machines: 4,
            processes: 1,
        },
        wiring: Wiring::AllToAll,
        posting: Posting {
            signal_every: 8,
            ..Posting::paced(Pacing::Window(16))
        },
        ..alone(Verb::Send, QpKind::Ud, 60, true)
    };
    let lists = |queue_pairs: usize| Verbs {
        queue_pairs,
        posting: in_lists(3 * queue_pairs * LIST),
        ..single.clone()
    };
    let mut points = Vec::new();
    for (card, names) in [
        ("apt", ["apt single", "apt batch 16"]),
        ("cib", ["cib single", "cib batch 16"]),
    ] {
        points.push(Point::throughput(
            card,
            names[0],
            1.0,
            Bench::Verbs(single.clone()),
        ));
        for queue_pairs in [1, 2, 4] {
            let bench = Bench::Verbs(lists(queue_pairs));
            points.push(Point::throughput(card, names[1], queue_pairs as f64, bench));
        }
    }
    points.into_iter().map(super::parts::lean_loop).collect()
}
