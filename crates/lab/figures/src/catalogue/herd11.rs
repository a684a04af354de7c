//! HERD Fig. 11: latency (mean, bars from the 5th to the 95th percentile) at a throughput. x 0 to 26 Mops, y 0 to 14
//! us.

use super::{emulations, herd, others};
use crate::figure::{Drawing, Figure, Point};

/// HERD Fig. 11: latency of all systems, by throughput.
pub const FIGURE: Figure = Figure {
    name: "herd-11",
    title: "Latency and throughput, items of 48 B, 5 % PUTs",
    source: "[HERD] Fig. 11",
    x_axis: "throughput, Mops",
    y_axis: "latency, us",
    drawing: Drawing::Curves,
    shape: "HERD: 3.3 us with one client, 5 us at 26 Mops; systems with two READs per GET take longer at 10",
    points,
};

fn points() -> Vec<Point> {
    let rates = [1.17, 4.74, 9.5, 18.0, 22.0, 26.0];
    let published = rates.map(|mops| herd::published().latencies_at("apt", "HERD", mops));
    let batches = rates.map(|mops| Point {
        against: Some("HERD"),
        ..herd::in_batches().latencies_at("apt", "HERD in batches", mops)
    });
    let herd = published.into_iter().chain(batches);
    let beside = [emulations::by_rate(), others::by_rate()];
    herd.chain(beside.into_iter().flatten()).collect()
}
