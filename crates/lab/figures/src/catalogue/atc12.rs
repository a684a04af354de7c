//! Design Guidelines Fig. 12: verbs into one machine, two generations of cards. x 8 to 250 B, y 0 to 130 Mops.

use super::parts::inbound;
use crate::figure::{Drawing, Figure, Point};
use crate::micro::{Bench, Verb};
use drover_verbs::QpKind;

/// Design Guidelines Fig. 12: in-bound throughput of two cards, by payload.
pub const FIGURE: Figure = Figure {
    name: "atc-12",
    title: "In-bound WRITE and READ of two cards",
    source: "[A16] Fig. 12",
    x_axis: "payload, B",
    y_axis: "throughput, Mops",
    drawing: Drawing::LogCurves,
    shape: "the newer card serves READ as fast as WRITE, to 64 B; then its link is full",
    points,
};

fn points() -> Vec<Point> {
    let mut points = Vec::new();
    for (card, processes, gap_ns, sizes) in [
        ("apt", 2, 650, &[8, 16, 32, 64, 128, 250][..]),
        ("cib", 4, 430, &[8, 32, 64, 128, 250]),
    ] {
        for &bytes in sizes {
            let mut write = inbound(Verb::Write, QpKind::Uc, bytes, 16, processes);
            write.posting.gap_ns = gap_ns;
            let read = inbound(Verb::Read, QpKind::Rc, bytes, 16, processes);
            for (verb, bench) in [("WRITE", write), ("READ", read)] {
                let series = format!("{card} {verb}");
                points.push(Point::throughput(card, series, bytes as f64, Bench::Verbs(bench)));
            }
        }
    }
    points.into_iter().map(super::parts::lean_loop).collect()
}
