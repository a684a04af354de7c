//! HERD Fig. 10: throughput by the size of values, 95 % GETs, on two clusters. x 4 to 1024 B, y 0 to 30 Mops.

use super::emulations;
use crate::figure::{Figure, Point};
use crate::herd::Herd;
use drover_kv_herd::layout::paper;

/// On Apt.
pub const FIGURE: Figure = Figure {
    name: "herd-10",
    title: "Throughput by the size of values",
    source: "[HERD] Fig. 10, Apt",
    x_axis: "value, B",
    y_axis: "throughput, Mops",
    x_doubles: true,
    shape: "HERD stays at 26 Mops as long as a reply needs two lines, then falls by steps; for long values all do alike",
    points: || [herd("apt", 144), emulations::by_value("apt")].concat(),
};

/// On Susitna, with RoCE.
pub const SUSITNA: Figure = Figure {
    name: "herd-10-susitna",
    title: "Throughput by the size of values, PCIe 2.0 and RoCE",
    source: "[HERD] Fig. 10, Susitna",
    x_axis: "value, B",
    y_axis: "throughput, Mops",
    x_doubles: true,
    shape: "as on Apt, lower, and HERD best up to 32 B",
    points: || [herd("susitna_roce", 192), emulations::by_value("susitna_roce")].concat(),
};

/// Where a line more begins, and on either side of it.
const VALUES: [usize; 17] = [
    4, 8, 16, 32, 56, 60, 64, 116, 120, 128, 144, 176, 192, 256, 512, 768, 1024,
];

fn herd(profile: &'static str, inline_bytes_max: usize) -> Vec<Point> {
    let points = VALUES.map(|value| {
        let mut herd = Herd {
            inline_bytes_max,
            ..Herd::published()
        };
        // A slot of 1 KiB has room for 1000 B beside key and length `[HERD §4.3]`.
        herd.load.value_bytes = value.min(paper::VALUE_BYTES_MAX);
        herd.point(profile, "HERD", value as f64)
    });
    points.into()
}
