//! Design Guidelines Fig. 14: FAA of random counters. x 1 to 4096 counters, y 0 to 60 Mops.

use super::parts::inbound;
use crate::figure::{Drawing, Figure, Point};
use crate::micro::{Bench, Pacing, Posting, Verb, Verbs};
use drover_verbs::QpKind;

/// Design Guidelines Fig. 14: throughput of in-bound FAA, by the number of counters.
pub const FIGURE: Figure = Figure {
    name: "atc-14",
    title: "In-bound FAA of random counters",
    source: "[A16] Fig. 14",
    x_axis: "counters",
    y_axis: "throughput, Mops",
    drawing: Drawing::LogCurves,
    shape: "flat on the older card; rising with the counters on the newer one",
    points,
};

fn points() -> Vec<Point> {
    let all: Vec<usize> = (0..13).map(|power| 1 << power).collect();
    let mut points = Vec::new();
    for (card, counters) in [("apt", &[1, 16, 256, 4096][..]), ("cib", &all)] {
        for &words in counters {
            let bench = Bench::Verbs(Verbs {
                words,
                posting: Posting::paced(Pacing::Window(4)),
                ..inbound(Verb::FetchAdd, QpKind::Rc, 8, 10, 7)
            });
            points.push(Point::throughput(
                card,
                format!("{card} FAA"),
                words as f64,
                bench,
            ));
        }
    }
    points
}
