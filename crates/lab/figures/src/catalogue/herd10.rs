//! HERD Fig. 10: throughput by the size of values, 95 % GETs, on two clusters. x 4 to 1024 B, y 0 to 30 Mops.

use super::{emulations, herd, others};
use crate::figure::{Drawing, Figure, Point};

/// HERD Fig. 10, Apt: throughput of all systems by the size of values.
pub const FIGURE: Figure = Figure {
    name: "herd-10",
    title: "Throughput by the size of values",
    source: "[HERD] Fig. 10, Apt",
    x_axis: "value, B",
    y_axis: "throughput, Mops",
    drawing: Drawing::LogCurves,
    shape: "HERD stays at 26 Mops as long as a reply needs two lines, then falls by steps; for long values all do alike",
    points: || {
        [
            by_value("apt", 144, LONGEST),
            emulations::by_value("apt"),
            others::by_value("apt"),
        ]
        .concat()
    },
};

/// HERD Fig. 10, Susitna (PCIe 2.0, RoCE): throughput of all systems by the size of values.
pub const SUSITNA: Figure = Figure {
    name: "herd-10-susitna",
    title: "Throughput by the size of values, PCIe 2.0 and RoCE",
    source: "[HERD] Fig. 10, Susitna",
    x_axis: "value, B",
    y_axis: "throughput, Mops",
    drawing: Drawing::LogCurves,
    shape: "as on Apt, lower, and HERD best up to 32 B",
    points: || {
        [
            by_value("susitna_roce", 192, LONGEST_IN_SHORT_SLOT),
            emulations::by_value("susitna_roce"),
            others::by_value("susitna_roce"),
        ]
        .concat()
    },
};

/// Longest value of a slot of 1 KiB `[HERD §4.3]`.
const LONGEST: usize = 1000;
/// Longest value of a slot of 960 bytes, which fits the MTU of RoCE: 24 bytes are key hash and commit word.
const LONGEST_IN_SHORT_SLOT: usize = 960 - 24;
/// Sizes at which one more line begins, and sizes on either side.
const VALUES: [usize; 17] = [
    4, 8, 16, 32, 56, 60, 64, 116, 120, 128, 144, 176, 192, 256, 512, 768, 1024,
];

/// Points of HERD. `longest` is the largest value that fits a slot; it stands for the published 1024 B.
fn by_value(profile: &'static str, inline_bytes_max: usize, longest: usize) -> Vec<Point> {
    let points = VALUES.map(|value| {
        let mut plan = herd::published();
        plan.servers.inline_bytes_max = inline_bytes_max;
        plan.load.value_bytes = value.min(longest);
        plan.point(profile, "HERD", value as f64)
    });
    points.into()
}
