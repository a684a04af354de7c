//! RFP §4.4.3 and Table 3: the share of GETs, and skewed keys.

use super::rfp_systems::{Entry, JAKIRO, SYSTEMS};
use crate::figure::{Drawing, Figure, Metric, Point};
use crate::in_cluster::{InCluster, OF_CALLS};
use drover_simcluster::Popularity;

/// RFP §4.4.3 (bars): throughput by the share of GETs, with uniform and skewed keys. y 0 to 6 Mops.
pub const MIX: Figure = Figure {
    name: "rfp-mix",
    title: "Throughput by the share of GETs",
    source: "[RFP] section 4.4.3",
    x_axis: "GETs, %",
    y_axis: "throughput, Mops",
    drawing: Drawing::Curves,
    shape: "Jakiro 5.5 and ServerReply 2.1 Mops, whatever the mix",
    points: by_gets,
};

/// RFP Table 3, with what the text says about operations: READs of calls by the share of PUTs.
pub const TABLE_3: Figure = Figure {
    name: "rfp-table3",
    title: "Calls of Jakiro that READ more than once",
    source: "[RFP] Table 3",
    x_axis: "PUTs, %",
    y_axis: "as named",
    drawing: Drawing::Table(&[]),
    shape: "about one call in a thousand, with at most 4 to 9 READs",
    points: of_calls,
};

/// Ranks of the skewed distribution: the paper's number of keys.
const RANKS: u64 = 128_000_000;
const SKEWED: Popularity = Popularity::Zipf {
    exponent: 0.99,
    ranks: RANKS,
    exact: 0,
};

/// A point of both kinds of popularity.
fn both(entry: Entry, x: f64, change: impl Fn(&mut InCluster)) -> [Point; 2] {
    [("uniform", Popularity::Uniform), ("Zipf .99", SKEWED)].map(|(load, popularity)| {
        let point = entry.point(x, |plan| {
            plan.load.popularity = popularity;
            change(plan);
        });
        Point {
            series: format!("{} / {load}", entry.name),
            ..point
        }
    })
}

fn by_gets() -> Vec<Point> {
    let curve = |entry: &Entry| {
        let at = |gets: u64| both(*entry, gets as f64, |plan| plan.load.put_percent = 100 - gets);
        [5, 50, 95].map(at).concat()
    };
    SYSTEMS.iter().flat_map(curve).collect()
}

fn of_calls() -> Vec<Point> {
    let at = |puts: u64| both(JAKIRO, puts as f64, |plan| plan.load.put_percent = puts);
    let points = [5, 95].map(at).concat().into_iter();
    let shown = |point: Point| Point {
        metrics: OF_CALLS.into_iter().chain([Metric::Throughput]).collect(),
        ..point
    };
    points.map(shown).collect()
}
