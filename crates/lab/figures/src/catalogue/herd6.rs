//! HERD Fig. 6: all to all, 32 B, a random peer per request. x 1 to 16 processes per side, y 0 to 40 Mops.

use super::parts::alone;
use crate::figure::{Drawing, Figure, Point};
use crate::micro::{Bench, Count, Issuers, Pacing, Posting, Targets, Verb, Verbs, Wiring};
use drover_verbs::QpKind;

/// HERD Fig. 6: throughput of all-to-all communication, by processes.
pub const FIGURE: Figure = Figure {
    name: "herd-6",
    title: "All-to-all communication of 32 B",
    source: "[HERD] Fig. 6",
    x_axis: "server processes = client processes",
    y_axis: "throughput, Mops",
    drawing: Drawing::Curves,
    shape: "in-bound WRITE and out-bound datagrams stay; out-bound WRITE falls as queue pairs leave the card's cache",
    points,
};

fn points() -> Vec<Point> {
    let mut points = Vec::new();
    for n in [1, 2, 4, 6, 8, 10, 12, 14, 16] {
        for (series, bench) in [
            ("inbound WRITE UC", inbound(n)),
            ("outbound WRITE UC", outbound(Verb::Write, QpKind::Uc, n)),
            ("outbound SEND UD", outbound(Verb::Send, QpKind::Ud, n)),
        ] {
            points.push(Point::throughput("apt", series, n as f64, Bench::Verbs(bench)));
        }
    }
    points
}

fn inbound(n: usize) -> Verbs {
    Verbs {
        issuers: Issuers {
            machines: n,
            processes: 1,
            threads: 1,
        },
        targets: Targets {
            machines: 1,
            processes: n,
        },
        wiring: Wiring::AllToAll,
        posting: at_random(16),
        count: Count::Served,
        ..alone(Verb::Write, QpKind::Uc, 32, true)
    }
}

fn outbound(verb: Verb, kind: QpKind, n: usize) -> Verbs {
    Verbs {
        issuers: Issuers {
            machines: 1,
            processes: n,
            threads: 1,
        },
        targets: Targets {
            machines: n,
            processes: 1,
        },
        wiring: Wiring::AllToAll,
        posting: at_random(8),
        ..alone(verb, kind, 32, true)
    }
}

fn at_random(window: usize) -> Posting {
    Posting {
        random: true,
        ..Posting::paced(Pacing::Window(window))
    }
}
