//! HERD Fig. 9: throughput of items of 48 B by the share of PUTs. x 5, 50, 100 %, y 0 to 30 Mops.

use super::{emulations, herd, others};
use crate::figure::{Drawing, Figure, Point};

/// HERD Fig. 9: throughput of all systems, by the share of PUTs.
pub const FIGURE: Figure = Figure {
    name: "herd-9",
    title: "Throughput of items of 48 B by the share of PUTs",
    source: "[HERD] Fig. 9",
    x_axis: "PUTs, %",
    y_axis: "throughput, Mops",
    drawing: Drawing::Curves,
    shape: "HERD does 26 Mops for any mix; systems with READs do 10 to 17, and more only with more PUTs",
    points,
};

fn points() -> Vec<Point> {
    let herd = [5, 50, 100]
        .into_iter()
        .flat_map(|put_percent| herd::both(put_percent as f64, |plan| plan.load.put_percent = put_percent));
    let beside = [emulations::by_put_share(), others::by_put_share()];
    herd.chain(beside.into_iter().flatten()).collect()
}
