//! HERD Fig. 10: throughput by the size of values, 95 % GETs, on two clusters. x 4 to 1024 B, y 0 to 30 Mops.

use super::{emulations, one_sided};
use crate::figure::{Figure, Point};
use crate::herd::Herd;
use crate::in_cluster::InCluster;
use drover_kv_herd::layout::TRAILER_BYTES;
use drover_kv_herd::layout::paper::VALUE_BYTES_MAX;

/// HERD Fig. 10, Apt: throughput of all systems by the size of values.
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

/// HERD Fig. 10, Susitna (PCIe 2.0, RoCE): throughput of all systems by the size of values.
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

/// Slot size in place of 1 KiB, so that a slot fits the MTU of RoCE.
const SHORT_SLOT: usize = 960;
/// Sizes at which one more line begins, and sizes on either side.
const VALUES: [usize; 17] = [
    4, 8, 16, 32, 56, 60, 64, 116, 120, 128, 144, 176, 192, 256, 512, 768, 1024,
];

/// Points of HERD. `longest` is the largest value that fits a slot; it stands for the published 1024 B.
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
