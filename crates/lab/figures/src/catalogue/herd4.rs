//! HERD Fig. 4: verbs out of one machine to many, by payload. x 4 to 256 B, y 0 to 40 Mops.

use super::parts::outbound;
use crate::figure::{Drawing, Figure, Point};
use crate::micro::{Bench, Verb};
use drover_verbs::QpKind;

/// HERD Fig. 4: out-bound throughput of one machine, by payload.
pub const FIGURE: Figure = Figure {
    name: "herd-4",
    title: "Out-bound throughput of one machine",
    source: "[HERD] Fig. 4",
    x_axis: "payload, B",
    y_axis: "throughput, Mops",
    drawing: Drawing::Curves,
    shape: "stairs of 64 B for inline WRITE (first step at 28 B) and SEND (at 60 B); READ flat at 22 Mops",
    points,
};

/// Sizes at both ends of each step of the curve.
const WRITE_STAIRS: [usize; 10] = [4, 28, 32, 88, 92, 148, 152, 208, 212, 256];
const SEND_STAIRS: [usize; 10] = [4, 60, 64, 120, 124, 180, 184, 240, 244, 256];
const SIZES: [usize; 9] = [4, 32, 64, 96, 128, 160, 192, 224, 256];

fn points() -> Vec<Point> {
    let curve = |series: &'static str, verb, kind, inline, sizes: &[usize]| -> Vec<Point> {
        let point = |&bytes: &usize| {
            let bench = Bench::Verbs(outbound(verb, kind, bytes, inline, 16));
            Point::throughput("apt", series, bytes as f64, bench)
        };
        sizes.iter().map(point).collect()
    };
    [
        curve("WRITE UC inline", Verb::Write, QpKind::Uc, true, &WRITE_STAIRS),
        curve("SEND UD inline", Verb::Send, QpKind::Ud, true, &SEND_STAIRS),
        curve("WRITE UC", Verb::Write, QpKind::Uc, false, &SIZES),
        curve("READ RC", Verb::Read, QpKind::Rc, false, &SIZES),
    ]
    .concat()
}
