//! RFP's systems in its set-up, in short runs. Nothing is compared with a published rate here.
#![allow(missing_docs, reason = "tests are named after what they show")]

use drover_figures::catalogue;
use drover_figures::figure::Point;
use drover_figures::micro::Outcome;
use drover_figures::run::{Profiles, RunOptions, run_points};
use drover_figures::sim::Simulated;
use std::sync::atomic::AtomicU64;

/// The outcomes of those points of a figure that `wanted` wants.
fn run(figure: &str, wanted: impl Fn(&Point) -> bool) -> Vec<(Point, Outcome)> {
    let figure = catalogue::all().into_iter().find(|f| f.name == figure);
    let mut points = (figure.expect("a figure").points)();
    points.retain(wanted);
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
        assert_eq!((named(outcome, "failed"), named(outcome, "hits")), (0.0, 1.0));
    }
    all
}

fn named(outcome: &Outcome, name: &str) -> f64 {
    let mut all = outcome.named.iter();
    let found = all.find(|(other, _)| *other == name);
    found.expect("it is measured").1
}

#[test]
fn jakiro_beats_a_server_that_waits_with_any_number_of_threads() {
    let rates = |series: &str| {
        let found = run("rfp-12", |point| point.series == series);
        found
            .into_iter()
            .map(|(point, outcome)| (point.x, outcome.mops))
            .collect::<Vec<_>>()
    };
    let (jakiro, waits) = (rates("Jakiro"), rates("ServerReply"));
    assert_eq!(jakiro.len(), 9);
    for ((cores, jakiro), (same, waits)) in jakiro.into_iter().zip(waits) {
        assert_eq!(cores, same);
        assert!(jakiro > waits, "{cores} threads: {jakiro} and {waits} Mops");
    }
}

/// At most one change of modes: Jakiro fetches, and from some time per call on it has results pushed.
#[test]
fn jakiro_changes_from_fetching_to_pushing_as_calls_take_longer() {
    let pushed: Vec<f64> = run("rfp-15", |point| {
        point.series == "Jakiro" && [1.0, 12.0].contains(&point.x)
    })
    .iter()
    .map(|(_, outcome)| named(outcome, "pushed results"))
    .collect();
    assert!(pushed[0] < 0.05 && pushed[1] > 0.5, "{pushed:?}");
}
