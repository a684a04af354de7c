//! HERD Fig. 3: verbs into one machine from many, by payload. x 4 to 1024 B, y 0 to 40 Mops.

use super::parts::{SIZES, inbound};
use crate::figure::{Drawing, Figure, Point};
use crate::micro::{Bench, Verb};
use drover_verbs::QpKind;

/// HERD Fig. 3: in-bound throughput of one machine, by payload.
pub const FIGURE: Figure = Figure {
    name: "herd-3",
    title: "In-bound throughput of one machine",
    source: "[HERD] Fig. 3",
    x_axis: "payload, B",
    y_axis: "throughput, Mops",
    drawing: Drawing::LogCurves,
    shape: "WRITE flat at 35 Mops to 128 B, READ at 26 to 64 B, all one curve from 512 B on, where the link is full",
    points,
};

fn points() -> Vec<Point> {
    let mut points = Vec::new();
    for bytes in SIZES {
        let x = bytes as f64;
        let mut unacknowledged = inbound(Verb::Write, QpKind::Uc, bytes, 16, 2);
        unacknowledged.posting.gap_ns = 650;
        points.push(Point::throughput(
            "apt",
            "WRITE UC",
            x,
            Bench::Verbs(unacknowledged),
        ));
        let acknowledged = inbound(Verb::Write, QpKind::Rc, bytes, 16, 2);
        points.push(Point::throughput(
            "apt",
            "WRITE RC",
            x,
            Bench::Verbs(acknowledged),
        ));
        if bytes != 8 {
            let read = inbound(Verb::Read, QpKind::Rc, bytes, 16, 2);
            points.push(Point::throughput("apt", "READ RC", x, Bench::Verbs(read)));
        }
    }
    points
}
