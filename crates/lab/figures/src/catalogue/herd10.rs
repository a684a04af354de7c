//! HERD Fig. 10: throughput by the size of values, 95 % GETs, on two clusters. x 4 to 1024 B, y 0 to 30 Mops.

use super::{emulations, one_sided};
use crate::figure::{Figure, Point};
use crate::herd::Herd;
use crate::in_cluster::InCluster;
use drover_kv_herd::layout::TRAILER_BYTES;
use drover_kv_herd::layout::paper::VALUE_BYTES_MAX;

/// On Apt.
pub const FIGURE: Figure = Figure {
    name: "herd-10",
    title: "Throughput by the size of values",
    source: "[HERD] Fig. 10, Apt",
    x_axis: "value, B",
    y_axis: "throughput, Mops",
    x_doubles: true,
    shape: "HERD stays at 26 Mops as long as a reply needs two lines, then falls by steps; for long values all do alike",
    points: || {
        [
            herd("apt", 144, VALUE_BYTES_MAX),
            emulations::by_value("apt"),
            one_sided::by_value("apt"),
        ]
        .concat()
    },
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
    points: || {
        [
            herd("susitna_roce", 192, SHORT_SLOT - TRAILER_BYTES),
            emulations::by_value("susitna_roce"),
            one_sided::by_value("susitna_roce"),
        ]
        .concat()
    },
};

/// Slot size within RoCE's MTU, for a slot of 1 KiB.
const SHORT_SLOT: usize = 960;
/// Sizes at which one more line begins, and sizes on either side.
const VALUES: [usize; 17] = [
    4, 8, 16, 32, 56, 60, 64, 116, 120, 128, 144, 176, 192, 256, 512, 768, 1024,
];

/// `longest`: published as 1024 B; the largest value that fits a slot.
fn herd(profile: &'static str, inline_bytes_max: usize, longest: usize) -> Vec<Point> {
    let points = VALUES.map(|value| {
        let mut herd = Herd {
            inline_bytes_max,
            ..Herd::published()
        };
        herd.load.value_bytes = value.min(longest);
        herd.point(profile, "HERD", value as f64)
    });
    points.into()
}
