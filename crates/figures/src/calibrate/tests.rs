//! The fit against a room whose answer is known, and the table of stages against the rows there are.

use super::*;
use crate::figure::{Metric, Other, Work};
use crate::micro::Outcome;
use crate::published::KnownFrom;
use crate::room::{BusyTimes, Room, RoomOptions, Rooms, Thread};
use drover_base::{Actor, Ns};
use drover_verbs::loopback::{Loopback, LoopbackContext, LoopbackCpu};
use drover_verbs_sim::profile::Profile;
use std::sync::Arc;

/// Points bring their own work here; no room is ever asked.
struct Nobody;

impl MakeRooms for Nobody {
    type Rooms = Nobody;
    fn under(&self, _: &Profile) -> Nobody {
        Nobody
    }
}

impl Rooms for Nobody {
    type Room = Nobody;
    fn room(&self, _: &RoomOptions) -> Nobody {
        Nobody
    }
}

impl Room for Nobody {
    type Provider = Loopback;
    fn context(&mut self, _: Thread) -> &LoopbackContext {
        unreachable!("no room is needed")
    }
    fn spawn(&mut self, _: Thread, _: Box<dyn Actor<LoopbackCpu>>) {}
    fn run_until(&mut self, _: Ns) {}
    fn busy(&self, _: usize) -> Option<BusyTimes> {
        None
    }
    fn counter(&self, _: usize, _: &str) -> Option<u64> {
        None
    }
}

/// A rate of one per `tx.read_ns`.
fn target(mops: f64) -> Target {
    let work: Other = Arc::new(|job| Outcome {
        mops: 1e3 / job.profile.parameters().tx.read_ns,
        ..Outcome::default()
    });
    let published = Expected::calibration()
        .of("herd-4", "READ RC", 32.0, "throughput")
        .expect("a row")
        .clone();
    Target {
        figure: "herd-4",
        metric: 0,
        point: Point {
            against: None,
            series: published.series.clone(),
            x: published.x,
            metrics: vec![Metric::Throughput],
            profile: "apt",
            changed: Vec::new(),
            work: Work::Other(work),
        },
        published: Published {
            value: mops,
            known_from: KnownFrom::Plot,
            ..published
        },
    }
}

fn options() -> RunOptions {
    RunOptions {
        seeds: 1,
        first_seed: 1,
        quick: true,
        jobs: 1,
    }
}

#[test]
fn a_parameter_goes_where_its_rows_want_it() {
    let expected = Expected::calibration()
        .of("herd-4", "READ RC", 32.0, "throughput")
        .expect("a row")
        .value;
    let mut profiles = Profiles::builtin();
    let mut start = profiles.named("apt").clone();
    start.set("tx.read_ns", 0, 33.0).expect("a parameter");
    let elsewhere = start.parameters().pio.line_ns;
    profiles.replace(start);
    let stage = stages("apt").into_iter().next().expect("a stage");
    let progress = AtomicU64::new(0);
    let mut work = Fit {
        make: &Nobody,
        profiles,
        name: "apt",
        targets: vec![target(expected)],
        options: options(),
        progress: &progress,
    };
    let mut losses = Vec::new();
    fit(&mut work, &[stage], |_, before, after| {
        losses.push((before, after))
    });
    let found = work.profile().parameters().tx.read_ns;
    assert!(
        (found * expected / 1e3 - 1.0).abs() < 0.01,
        "{found} ns for {expected} Mops"
    );
    assert_eq!(
        work.profile().parameters().pio.line_ns,
        elsewhere,
        "it has no rows here"
    );
    assert!(losses[0].1 < losses[0].0 / 100.0, "{losses:?}");
    assert!(
        work.profile()
            .entry("tx.read_ns")
            .expect("there")
            .source
            .contains("herd-4")
    );
}

#[test]
fn every_step_names_a_parameter_and_has_rows() {
    for name in Profile::names() {
        let (profile, targets) = (Profile::named(name).expect("built in"), targets(name));
        for stage in stages(name) {
            for step in stage.steps {
                let entry = profile
                    .entry(step.path)
                    .unwrap_or_else(|| panic!("{name}: {}", step.path));
                let count = entry.value.numbers().len();
                assert!(
                    step.index.is_none_or(|index| index < count),
                    "{name}: {} {:?}",
                    step.path,
                    step.index
                );
                for rows in &step.rows {
                    assert!(
                        targets.iter().any(|target| rows.take(target)),
                        "{name}: {} {rows:?}",
                        step.path
                    );
                }
            }
        }
    }
}

#[test]
fn only_calibration_rows_are_targets() {
    let names: Vec<&str> = Profile::names()
        .iter()
        .flat_map(|name| targets(name))
        .map(|t| t.figure)
        .collect();
    for heldout in [
        "herd-7", "herd-9", "herd-10", "herd-11", "herd-12", "herd-13", "herd-14",
    ] {
        assert!(!names.contains(&heldout));
    }
    assert!(names.len() > 500);
}
