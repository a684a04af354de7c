//! HERD Fig. 13: throughput by the cores of the server, items of 48 B. x 1 to 7, y 0 to 30 Mops.

use super::{emulations, herd, others};
use crate::figure::{Drawing, Figure, Point};

/// HERD Fig. 13: throughput of all systems, by the cores of the server.
pub const FIGURE: Figure = Figure {
    name: "herd-13",
    title: "Throughput by the cores of the server",
    source: "[HERD] Fig. 13",
    x_axis: "cores",
    y_axis: "throughput, Mops",
    drawing: Drawing::Curves,
    shape: "6.3 Mops for each core until, at five, the card is busy",
    points,
};

fn points() -> Vec<Point> {
    let herd = (1..=7).flat_map(|cores| herd::both(cores as f64, |plan| plan.servers.shard_count = cores));
    let beside = [emulations::by_cores(), others::by_cores()];
    herd.chain(beside.into_iter().flatten()).collect()
}
