//! RFP Figs. 3 to 6: synchronous threads of one process, which share one doorbell. y 0 to 12 Mops.

use super::parts::alone;
use crate::figure::{Drawing, Figure, Metric, Point};
use crate::micro::{Bench, Count, Issuers, Pacing, Posting, Targets, Verb, Verbs, Wiring};
use drover_verbs::QpKind;

/// RFP Fig. 3: throughput of in-bound READ and out-bound WRITE, by number of server threads.
pub const FIGURE_3: Figure = Figure {
    name: "rfp-3",
    title: "In-bound READ against out-bound WRITE, 32 B",
    source: "[RFP] Fig. 3",
    x_axis: "server threads",
    y_axis: "throughput, Mops",
    drawing: Drawing::Curves,
    shape: "in-bound flat at 11.3; out-bound highest with 4 threads, then falling",
    points: by_server_threads,
};

/// RFP Fig. 4: throughput of in-bound READ, by number of client threads.
pub const FIGURE_4: Figure = Figure {
    name: "rfp-4",
    title: "In-bound READ of 32 B by client threads",
    source: "[RFP] Fig. 4",
    x_axis: "client threads on 7 machines",
    y_axis: "throughput, Mops",
    drawing: Drawing::Curves,
    shape: "rises to 28 threads, then falls to a plateau",
    points: by_client_threads,
};

/// RFP Fig. 5: throughput of in-bound READ and out-bound WRITE, by payload.
pub const FIGURE_5: Figure = Figure {
    name: "rfp-5",
    title: "In-bound READ and out-bound WRITE by payload",
    source: "[RFP] Fig. 5",
    x_axis: "payload, B",
    y_axis: "throughput, Mops",
    drawing: Drawing::LogCurves,
    shape: "flat to 256 B, together where the link is full",
    points: by_payload,
};

/// RFP Fig. 6: throughput of requests that need several READs, by their number.
pub const FIGURE_6: Figure = Figure {
    name: "rfp-6",
    title: "Requests made of several READs",
    source: "[RFP] Fig. 6",
    x_axis: "READs per request",
    y_axis: "throughput, Mops",
    drawing: Drawing::Curves,
    shape: "one over x: the READs themselves stay at 11.3",
    points: by_reads,
};

fn out(threads: usize, bytes: usize) -> Bench {
    Bench::Verbs(Verbs {
        issuers: Issuers {
            machines: 1,
            processes: 1,
            threads,
        },
        targets: Targets {
            machines: 7,
            processes: 1,
        },
        wiring: Wiring::AllToAll,
        posting: Posting {
            random: true,
            ..Posting::paced(Pacing::Window(1))
        },
        ..alone(Verb::Write, QpKind::Rc, bytes, bytes <= 256)
    })
}

fn into(threads: usize, bytes: usize) -> Bench {
    Bench::Verbs(Verbs {
        issuers: Issuers {
            machines: 7,
            processes: 1,
            threads,
        },
        count: Count::Served,
        ..alone(Verb::Read, QpKind::Rc, bytes, false)
    })
}

fn by_server_threads() -> Vec<Point> {
    let mut points = Vec::new();
    for threads in [1, 2, 4, 6, 8, 10, 12, 14, 16] {
        let x = threads as f64;
        points.push(Point::throughput("rfp", "out-bound WRITE", x, out(threads, 32)));
        // The server's threads are idle here.
        points.push(Point::throughput("rfp", "in-bound READ", x, into(4, 32)));
    }
    points
}

fn by_client_threads() -> Vec<Point> {
    let point = |n: usize| Point::throughput("rfp", "in-bound READ", (7 * n) as f64, into(n, 32));
    (1..=10).map(point).collect()
}

fn by_payload() -> Vec<Point> {
    let mut points = Vec::new();
    for bytes in [32, 64, 128, 256, 512, 1024, 2048, 4096] {
        let x = bytes as f64;
        points.push(Point::throughput("rfp", "in-bound READ", x, into(4, bytes)));
        points.push(Point::throughput("rfp", "out-bound WRITE", x, out(4, bytes)));
    }
    points
}

fn by_reads() -> Vec<Point> {
    let point = |reads: usize| {
        let point = Point::throughput("rfp", "requests", reads as f64, into(4, 32));
        point.showing(Metric::Requests(reads as f64))
    };
    (2..=15).map(point).collect()
}
