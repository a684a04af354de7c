//! PRISM Fig. 1: latency of 512 B between two machines on a direct cable of 25 Gb/s. y 0 to 3 us.

use super::parts::alone;
use crate::figure::{Drawing, Figure, Metric, Point};
use crate::micro::{Bench, Verb};
use drover_verbs::QpKind;

/// PRISM Fig. 1: latency of READ and WRITE. Operations that no card on sale has are omitted.
pub const FIGURE: Figure = Figure {
    name: "prism-1",
    title: "Latency of READ and WRITE over Ethernet",
    source: "[PRISM] Fig. 1",
    x_axis: "payload, B",
    y_axis: "latency, us",
    drawing: Drawing::Curves,
    shape: "READ 0.6 us later than WRITE",
    points,
};

/// Direct cable, nanoseconds: without the switch's 0.3 us each way.
const DIRECT_WIRE_NS: f64 = 50.0;

fn points() -> Vec<Point> {
    let point = |(series, verb)| {
        let bench = Bench::Verbs(alone(verb, QpKind::Rc, 512, false));
        let point = Point::throughput("prism", series, 512.0, bench).showing(Metric::Latency(1.0));
        point
            .with("link.bytes_per_ns", 3.125)
            .with("latency.wire_ns", DIRECT_WIRE_NS)
    };
    [("READ", Verb::Read), ("WRITE", Verb::Write)].map(point).into()
}
