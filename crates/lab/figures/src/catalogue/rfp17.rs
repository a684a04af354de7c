//! RFP Figs. 17 and 18: sizes of values, and of the first READ. y 0 to 6 Mops.

use super::rfp_systems::{JAKIRO, curves};
use crate::figure::{Drawing, Figure, Point};
use crate::in_cluster::InCluster;

/// RFP Fig. 17: throughput by the size of values, with F = 640.
pub const FIGURE_17: Figure = Figure {
    name: "rfp-17",
    title: "Throughput by the size of values, F = 640",
    source: "[RFP] Fig. 17",
    x_axis: "value, B",
    y_axis: "throughput, Mops",
    drawing: Drawing::LogCurves,
    shape: "Jakiro flat to 512 B, then halving with each doubling; all alike from 4 KiB on",
    points: by_value,
};

/// RFP Fig. 18: throughput of Jakiro by the size of values, with several sizes of the first READ.
pub const FIGURE_18: Figure = Figure {
    name: "rfp-18",
    title: "Throughput of Jakiro by the size of values and of the first READ",
    source: "[RFP] Fig. 18",
    x_axis: "value, B",
    y_axis: "throughput, Mops",
    drawing: Drawing::LogCurves,
    shape: "each curve falls by a third where values exceed F; a larger F costs small values",
    points: by_first_read,
};

/// Size of the first READ where values have many sizes. `[RFP §4.4.3]`
const FIRST_BYTES: usize = 640;
/// Memory of all values: with long ones there are fewer keys, which still exceed the caches of a core.
const VALUES_BYTES: u64 = 16 << 20;

fn sized(plan: &mut InCluster, value_bytes: usize, first_bytes: usize) {
    (plan.load.value_bytes, plan.trial.slot_value_bytes) = (value_bytes, value_bytes);
    plan.load.keys = plan.load.keys.min(VALUES_BYTES / value_bytes as u64);
    if let Some(fetch) = &mut plan.fetch {
        fetch.first_bytes = first_bytes;
    }
}

fn by_value() -> Vec<Point> {
    curves(&[32, 64, 128, 256, 512, 1024, 2048, 4096, 8192], |plan, bytes| {
        sized(plan, bytes, FIRST_BYTES);
    })
}

fn by_first_read() -> Vec<Point> {
    let mut points = Vec::new();
    for first_bytes in [256, 512, 640, 768, 1024] {
        for bytes in [32, 256, 384, 512, 640, 768, 1024, 2048] {
            let point = JAKIRO.point(bytes as f64, |plan| sized(plan, bytes, first_bytes));
            points.push(Point {
                series: format!("F = {first_bytes}"),
                ..point
            });
        }
    }
    points
}
