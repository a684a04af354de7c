//! HERD Table 1: verbs supported by each kind of queue pair. x the verb, y whether it is supported.

use crate::figure::{Drawing, Figure, Metric, Point, Work};
use crate::micro::{Bench, SUPPORTED, Trial, Verb};
use drover_verbs::QpKind;

/// HERD Table 1: verbs supported by each kind of queue pair. We added FAA: the published table has no atomics.
pub const FIGURE: Figure = Figure {
    name: "herd-table-1",
    title: "Verbs of each kind of queue pair, tried",
    source: "[HERD] Table 1",
    x_axis: "verb",
    y_axis: "supported",
    drawing: Drawing::Table(&["SEND", "WRITE", "READ", "FAA"]),
    shape: "RC has all, UC all but READ and atomics, UD nothing but SEND",
    points,
};

/// In the order of x.
const VERBS: [Verb; 4] = [Verb::Send, Verb::Write, Verb::Read, Verb::FetchAdd];

fn points() -> Vec<Point> {
    let mut points = Vec::new();
    for (name, kind) in [("RC", QpKind::Rc), ("UC", QpKind::Uc), ("UD", QpKind::Ud)] {
        for (x, verb) in VERBS.into_iter().enumerate() {
            points.push(Point {
                against: None,
                series: name.to_string(),
                x: x as f64,
                metrics: vec![Metric::Named(SUPPORTED, "0/1")],
                profile: "apt",
                changed: Vec::new(),
                work: Work::Bench(Bench::Trial(Trial { verb, kind })),
            });
        }
    }
    points
}
