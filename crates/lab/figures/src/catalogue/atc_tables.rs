//! Design Guidelines Tables 4 and 5: single rates that bound all others.

use super::parts::{inbound, lean_loop, outbound};
use crate::figure::{Drawing, Figure, Point};
use crate::micro::{Bench, Pacing, Posting, Verb, Verbs};
use drover_verbs::QpKind;

/// Design Guidelines Table 4: out-bound limits of the newer card.
pub const TABLE_4: Figure = Figure {
    name: "atc-t4",
    title: "Out-bound limits of Connect-IB",
    source: "[A16] Table 4",
    x_axis: "payload, B",
    y_axis: "throughput, Mops",
    drawing: Drawing::Table(&[]),
    shape: "READ bound by the card, WRITE by MMIO",
    points: table_4,
};

/// Design Guidelines Table 5: throughput of datagrams with and without payload.
pub const TABLE_5: Figure = Figure {
    name: "atc-t5",
    title: "Datagrams with and without payload",
    source: "[A16] Table 5",
    x_axis: "payload",
    y_axis: "throughput, Mops",
    drawing: Drawing::Table(&["none", "some"]),
    shape: "a payload costs a third",
    points: table_5,
};

fn table_4() -> Vec<Point> {
    let mut read = outbound(Verb::Read, QpKind::Rc, 8, false, 14);
    read.posting.pacing = Pacing::Window(16);
    let write = outbound(Verb::Write, QpKind::Uc, 32, true, 14);
    vec![
        Point::throughput("cib", "cib outbound READ", 8.0, Bench::Verbs(read)),
        Point::throughput("cib", "cib outbound WRITE inline", 32.0, Bench::Verbs(write)),
    ]
}

fn table_5() -> Vec<Point> {
    let mut points = Vec::new();
    for (card, threads, gap_ns, list) in [("apt", 16, 600, 1), ("cib", 14, 220, 16)] {
        for bytes in [0, 16] {
            let x = if bytes == 0 { 0.0 } else { 1.0 };
            let mut recv = inbound(Verb::Send, QpKind::Ud, bytes, 16, 2);
            recv.posting.gap_ns = gap_ns;
            recv.targets.processes = threads;
            let send = Verbs {
                posting: Posting {
                    signal_every: if list == 1 { 4 } else { list },
                    list,
                    ..Posting::paced(Pacing::Window(if list == 1 { 8 } else { 2 * list }))
                },
                ..outbound(Verb::Send, QpKind::Ud, bytes, true, threads)
            };
            points.push(Point::throughput(
                card,
                format!("{card} RECV"),
                x,
                Bench::Verbs(recv),
            ));
            points.push(Point::throughput(
                card,
                format!("{card} SEND"),
                x,
                Bench::Verbs(send),
            ));
        }
    }
    points.into_iter().map(lean_loop).collect()
}
