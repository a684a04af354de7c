//! The fit against a cluster with a known answer, and the table of stages against the existing rows.

use super::*;
use crate::cluster::{BusyTimes, Cluster, ClusterOptions, Clusters, Thread};
use crate::figure::{Metric, Other, Work};
use crate::micro::Outcome;
use crate::published::KnownFrom;
use drover_base::{Actor, Ns};
use drover_verbs_sim::profile::Profile;
use drover_verbs_suite::loopback::{Loopback, LoopbackContext, LoopbackCpu};
use std::sync::Arc;

/// Points have their own work here; no cluster is used.
struct Nobody;

impl MakeClusters for Nobody {
    type Clusters = Nobody;
    fn under(&self, _: &Profile) -> Nobody {
        Nobody
    }
}

impl Clusters for Nobody {
    type Cluster = Nobody;
    fn cluster(&self, _: &ClusterOptions) -> Nobody {
        Nobody
    }
}

impl Cluster for Nobody {
    type Provider = Loopback;
    fn context(&mut self, _: Thread) -> &LoopbackContext {
        unreachable!("no cluster is needed")
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

/// A target with a rate of one per `tx.read_ns`.
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

#[test]
fn a_table_of_stages_is_read_line_by_line() {
    let table = "# about\n\n[apt] one stage\npio.line_ns  climb  herd-4: SEND UD @ 4..240 + herd-3 @ 8\n\
                 rx.write_uc_ns[3] scan herd-2: READ\n   + herd-2: WRITE @ 1.5\n";
    let found = super::stages::parse(table).expect("well-formed");
    let [stage] = &found[..] else { panic!("{found:?}") };
    assert_eq!(
        (stage.profile, stage.name, stage.steps.len()),
        ("apt", "one stage", 2)
    );
    let [line, curve] = &stage.steps[..] else {
        unreachable!()
    };
    assert_eq!(
        (line.path, line.index, line.method),
        ("pio.line_ns", None, Method::Climb)
    );
    assert_eq!(
        (curve.path, curve.index, curve.method),
        ("rx.write_uc_ns", Some(3), Method::Scan)
    );
    assert_eq!((line.rows.len(), curve.rows.len()), (2, 2));
    assert_eq!(
        (line.source().as_str(), curve.source().as_str()),
        ("herd-4, herd-3", "herd-2")
    );
}

#[test]
fn a_malformed_stage_is_named() {
    for (table, line) in [
        ("pio.line_ns climb herd-4", 1),
        ("[apt]", 1),
        ("[apt] a\npio.line_ns guess herd-4", 2),
        ("[apt] a\n\npio.line_ns climb", 3),
        ("[apt] a\npio.line_ns climb herd-4 @ four", 2),
        ("[apt] a\nrx.write_uc_ns[x] climb herd-4", 2),
        ("[apt] a\n + herd-4", 2),
        ("[apt] a\npio.line_ns climb herd-4\n herd-3", 3),
    ] {
        let found = super::stages::parse(table).map_err(|error| error.line);
        assert_eq!(found.expect_err(table), line, "{table}");
    }
}

#[test]
fn a_scan_ends_where_a_climb_does() {
    let fitted = |method| {
        let mut profiles = Profiles::builtin();
        let mut start = profiles.named("apt").clone();
        start.set("tx.read_ns", 0, 33.0).expect("a parameter");
        profiles.replace(start);
        let mut stage = stages("apt").into_iter().next().expect("a stage");
        stage.steps.iter_mut().for_each(|step| step.method = method);
        let mut work = Fit {
            make: &Nobody,
            profiles,
            name: "apt",
            targets: vec![target(22.0)],
            options: options(),
            progress: &AtomicU64::new(0),
        };
        fit(&mut work, &[stage], |_, _, _| {});
        work.profile().parameters().tx.read_ns
    };
    let (climbed, scanned) = (fitted(Method::Climb), fitted(Method::Scan));
    assert!(
        (climbed / scanned - 1.0).abs() < 0.01,
        "{climbed} and {scanned} ns"
    );
}

#[test]
fn metrics_of_one_point_share_its_run() {
    let mut elsewhere = target(30.0);
    elsewhere.point.x += 1.0;
    let progress = AtomicU64::new(0);
    let all = [target(20.0), target(25.0), elsewhere];
    let rows = evaluate(&Nobody, &all, &Profiles::builtin(), &options(), &progress);
    assert_eq!(rows.len(), 3);
    assert_eq!(progress.into_inner(), 2, "two points, three rows");
    assert!(rows.iter().all(|row| row.simulated == rows[0].simulated));
}
