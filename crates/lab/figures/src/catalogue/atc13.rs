//! Design Guidelines Fig. 13: windows of 8 B, waiting for all of each. x 1 to 512 per thread, y 0 to 110 Mops.

use super::parts::outbound;
use crate::figure::{Drawing, Figure, Metric, Point};
use crate::micro::{Bench, Pacing, Posting, Verb, Verbs};
use drover_verbs::QpKind;

/// Design Guidelines Fig. 13: throughput and refetched cache lines, by window. On `apt` sixteen threads post: with
/// fourteen, the published rates would need READs faster than HERD's Fig. 2 shows them.
pub const FIGURE: Figure = Figure {
    name: "atc-13",
    title: "Windows, and work requests that the card fetches again",
    source: "[A16] Fig. 13",
    x_axis: "requests per thread and window",
    y_axis: "Mops, or million cache lines per second",
    drawing: Drawing::LogCurves,
    shape: "READ falls once windows exceed the card's cache of work requests, and the card reads cache lines again",
    points,
};

fn points() -> Vec<Point> {
    let mut points = Vec::new();
    let every = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];
    let some = [1, 16, 32, 64, 128, 256, 512];
    for (card, threads, windows) in [("apt", 16, &every[..]), ("cib", 14, &some[..])] {
        for (name, verb, inline) in [("READ", Verb::Read, false), ("WRITE", Verb::Write, true)] {
            for &window in windows {
                let bench = Bench::Verbs(Verbs {
                    posting: Posting {
                        signal_every: 0,
                        ..Posting::paced(Pacing::Batch(window))
                    },
                    ..outbound(verb, QpKind::Rc, 8, inline, threads)
                });
                let mut point = Point::throughput(card, format!("{card} {name}"), window as f64, bench);
                point.metrics.push(Metric::Refetched);
                points.push(super::parts::lean_loop(point));
            }
        }
    }
    points
}
