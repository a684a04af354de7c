//! HERD Fig. 14: throughput of each core under uniform and under skewed load, items of 48 B. x cores 1 to 6, y 0 to 6
//! Mops.

use super::herd;
use crate::figure::{Drawing, Figure, Job, Metric, Point, Work};
use crate::in_cluster::InCluster;
use drover_simcluster::Popularity;
use std::sync::Arc;

/// HERD Fig. 14: throughput of each core of HERD's server, uniform and skewed.
pub const FIGURE: Figure = Figure {
    name: "herd-14",
    title: "Throughput of each core, uniform and skewed",
    source: "[HERD] Fig. 14",
    x_axis: "core",
    y_axis: "throughput, Mops",
    drawing: Drawing::Curves,
    shape: "the busiest core has half as much again as the least busy, whereas the hottest key has 100,000 times the average",
    points,
};

/// Keys of the published workload.
const RANKS: u64 = 480_000_000;
const ZIPF: Popularity = Popularity::Zipf {
    exponent: 0.99,
    ranks: RANKS,
    exact: 0,
};

fn points() -> Vec<Point> {
    let curves = [("HERD / uniform", Popularity::Uniform), ("HERD / Zipf .99", ZIPF)];
    curves
        .into_iter()
        .flat_map(|(series, popularity)| {
            let mut plan = herd::published();
            plan.load.popularity = popularity;
            (0..plan.servers.shard_count).map(move |core| of_core(&plan, series, core))
        })
        .collect()
}

/// Point of one core; the last core's shows the imbalance.
fn of_core(plan: &InCluster, series: &'static str, core: usize) -> Point {
    let uneven = Metric::Named("busiest core over least busy", "ratio");
    let is_last = core + 1 == plan.servers.shard_count;
    let run = plan.clone();
    let work = move |job: &Job<'_>| {
        let mut outcome = run.run(job);
        outcome.mops = outcome.by_part.get(core).copied().unwrap_or_default();
        outcome
    };
    let mut metrics = vec![Metric::Throughput];
    if is_last {
        metrics.push(uneven);
    }
    Point {
        metrics,
        work: Work::Other(Arc::new(work)),
        ..plan.clone().point("apt", series, (core + 1) as f64)
    }
}
