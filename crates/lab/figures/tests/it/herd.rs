//! The points that run real systems: what must hold at each of them, whatever was published.
#![allow(missing_docs, reason = "tests are named after what they show")]

use crate::points::{named, of_figure};
use drover_figures::figure::Point;
use drover_figures::in_cluster::{Form, InCluster};
use drover_figures::micro::Outcome;
use drover_figures::run::Profiles;
use drover_systems::System;
use drover_verbs_sim::Ablations;

fn run(points: &[Point]) -> Vec<Outcome> {
    let all = crate::points::run(points.to_vec(), |_| true);
    all.into_iter().map(|(_, outcome)| outcome).collect()
}

/// Every fourth of the points of HERD's figures that a system itself is run for; a search for a load is as good as
/// the runs it consists of.
fn some_points() -> Vec<Point> {
    let figures = ["herd-9", "herd-10", "herd-10-susitna", "herd-12", "herd-13"];
    let points = figures.into_iter().flat_map(of_figure);
    let is_real = |series: &str| {
        series.starts_with("HERD")
            || series.starts_with("window")
            || ["Pilaf", "FaRM-KV"].contains(&series.split(" / ").next().unwrap_or_default())
    };
    let ours = points.filter(|point| is_real(&point.series));
    ours.filter(|point| point.x < 450.0).step_by(4).collect()
}

#[test]
fn nothing_fails_nothing_is_missed_and_littles_law_holds() {
    let points = some_points();
    assert!(points.len() > 15, "only {}", points.len());
    for (point, outcome) in points.iter().zip(run(&points)) {
        let place = format!("{} at {}: {outcome:?}", point.series, point.x);
        assert!(outcome.mops > 1.0, "{place}");
        assert_eq!(named(&outcome, "failed"), 0.0, "{place}");
        assert!(named(&outcome, "hits") > 0.995, "{place}");
        let law = named(&outcome, "rate times latency over outstanding");
        // With a window per core, a client waits for space in the window of one core while others have some.
        let least = if point.series.ends_with("each core") {
            0.0
        } else {
            0.95
        };
        assert!((least..1.05).contains(&law), "{place}");
    }
}

/// A cluster whose tables are empty is noticed by the share of hits: the test above can fail.
#[test]
fn an_empty_table_is_noticed() {
    let profile = Profiles::builtin();
    let job = drover_figures::figure::Job {
        profile: profile.named("apt"),
        ablations: Ablations::default(),
        seed: 1,
        quick: true,
    };
    let mut setup = InCluster::published(Form::named("HERD")).setup(&job);
    setup.filled = false;
    let herd = System::named("herd").expect("in the table");
    assert!(drover_simcluster::run(&setup, herd, Some("HERD")).hit_share < 0.5);
}

#[test]
fn more_cores_do_more_and_skew_shows() {
    for form in ["HERD", "HERD in batches"] {
        let points = [1, 3].map(|cores| {
            let mut herd = InCluster::published(Form::named(form));
            herd.servers.shard_count = cores;
            herd.point("apt", "HERD", cores as f64)
        });
        let found = run(&points);
        assert!(found[1].mops > 2.5 * found[0].mops, "{form}: {found:?}");
    }
    let skewed = of_figure("herd-14").into_iter();
    let last: Vec<Point> = skewed.filter(|point| point.metrics.len() > 1).collect();
    let uneven = run(&last)
        .iter()
        .map(|o| named(o, "busiest core over least busy"))
        .collect::<Vec<_>>();
    assert!(uneven[0] < 1.15 && uneven[1] > 1.2, "{uneven:?}");
}
