//! What tests of points share: short runs on simulated machines.

use drover_figures::catalogue;
use drover_figures::figure::{Metric, Point};
use drover_figures::micro::Outcome;
use drover_figures::run::{Profiles, RunOptions, run_points};
use drover_figures::sim::Simulated;
use std::sync::atomic::AtomicU64;

/// The points of the figure called `figure`.
pub fn of_figure(figure: &str) -> Vec<Point> {
    let found = catalogue::all().into_iter().find(|f| f.name == figure);
    (found.expect("a figure").points)()
}

/// The outcomes of those `points` that `wanted` wants, in short runs with seed 1.
pub fn run(points: Vec<Point>, wanted: impl Fn(&Point) -> bool) -> Vec<(Point, Outcome)> {
    let points: Vec<Point> = points.into_iter().filter(wanted).collect();
    let options = RunOptions {
        seeds: 1,
        first_seed: 1,
        quick: true,
        jobs: 2,
    };
    let (profiles, progress) = (Profiles::builtin(), AtomicU64::new(0));
    let outcomes = run_points(&Simulated::default(), &points, &profiles, &options, &progress);
    let outcomes = outcomes.into_iter().map(|mut seeds| seeds.remove(0));
    let all: Vec<(Point, Outcome)> = points.into_iter().zip(outcomes).collect();
    for (point, outcome) in &all {
        println!("{} at {}: {outcome:?}", point.series, point.x);
    }
    all
}

/// The rate of one point.
pub fn mops(all: &[(Point, Outcome)], series: &str, x: f64) -> f64 {
    let mut all = all.iter();
    let found = all.find(|(point, _)| point.series == series && point.x == x);
    found.expect("a point").1.mops
}

/// What an outcome says under `name`.
pub fn named(outcome: &Outcome, name: &'static str) -> f64 {
    Metric::Named(name, "").of(outcome).expect("it is measured")
}
