//! RFP Fig. 13: the distribution of latencies where each system is fastest. x 0 to 1, y 0 to 60 us.

use super::rfp_systems::{PROFILE, SYSTEMS};
use crate::figure::{Drawing, Figure, Point};

/// RFP Fig. 13: time within which a fraction of the operations completes.
pub const FIGURE: Figure = Figure {
    name: "rfp-13",
    title: "Latency by fraction of operations",
    source: "[RFP] Fig. 13",
    x_axis: "fraction of operations",
    y_axis: "latency, us",
    drawing: Drawing::Curves,
    shape: "nearly all of Jakiro's below 7 us; ServerReply's from 3 to 57 us, Jakiro's beaten in the fastest 15 %",
    points,
};

fn points() -> Vec<Point> {
    let curve = SYSTEMS.iter().map(|entry| {
        let plan = entry.plan();
        plan.latencies_by_fraction(PROFILE, entry.name)
    });
    curve.flatten().collect()
}
