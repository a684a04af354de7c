//! Figures on simulated machines: they stay as near to what was published as they once came on every machine.

use drover_figures::catalogue;
use drover_figures::figure::Figure;
use drover_figures::output::{csv, errors};
use drover_figures::published::Expected;
use drover_figures::run::{FigureRun, Profiles, RunOptions, run_figures};
use drover_figures::sim::Simulated;
use drover_verbs_sim::Ablations;
use std::sync::atomic::AtomicU64;

fn figure(name: &str) -> Figure {
    catalogue::all()
        .into_iter()
        .find(|figure| figure.name == name)
        .expect("a figure")
}

fn run(name: &str, simulated: &Simulated, jobs: usize, seed: u64) -> FigureRun {
    let options = RunOptions {
        seeds: 1,
        first_seed: seed,
        quick: true,
        jobs,
    };
    let progress = AtomicU64::new(0);
    let (profiles, expected) = (Profiles::builtin(), Expected::calibration());
    let found = run_figures(
        simulated,
        &[figure(name)],
        &profiles,
        &expected,
        &options,
        &progress,
    );
    found.into_iter().next().expect("one figure")
}

fn whole(name: &str) -> FigureRun {
    run(name, &Simulated::default(), 1, 1)
}

/// The value of one point.
fn at(run: &FigureRun, series: &str, x: f64) -> f64 {
    let row = run
        .rows
        .iter()
        .find(|row| row.series == series && row.x == x)
        .expect("a point");
    row.simulated.expect("simulated")
}

#[test]
fn stairs_and_flats_out_of_one_machine_are_within_their_bands() {
    let found = whole("herd-4");
    let errors = errors(&found.rows);
    assert_eq!(errors.count, errors.in_band, "{}", csv(&found));
    assert!(errors.median < 0.02, "{errors}");
}

#[test]
fn latencies_are_within_their_bands() {
    let errors = errors(&whole("herd-2").rows);
    assert_eq!(errors.count, errors.in_band, "{errors}");
}

#[test]
fn threads_and_seeds_of_the_run_change_little_or_nothing() {
    let one = csv(&run("rfp-4", &Simulated::default(), 1, 1));
    assert_eq!(
        one,
        csv(&run("rfp-4", &Simulated::default(), 2, 1)),
        "the same seed on two threads"
    );
    let other = run("rfp-4", &Simulated::default(), 1, 2);
    for (a, b) in whole("rfp-4").rows.iter().zip(&other.rows) {
        let ratio = a.simulated.expect("simulated") / b.simulated.expect("simulated");
        assert!((0.98..1.02).contains(&ratio), "{} at {}: {ratio}", a.series, a.x);
    }
}

#[test]
fn without_locks_threads_of_a_process_do_not_slow_each_other_down() {
    let freed = Simulated {
        ablations: Ablations {
            locks: true,
            ..Ablations::default()
        },
    };
    let (locked, free) = (whole("rfp-3"), run("rfp-3", &freed, 1, 1));
    let out = "out-bound WRITE";
    assert!(at(&locked, out, 16.0) < 0.7 * at(&locked, out, 4.0));
    assert!(at(&free, out, 16.0) > 3.0 * at(&free, out, 4.0));
}

#[test]
fn each_kind_of_queue_pair_has_the_verbs_of_the_published_table() {
    let found = whole("herd-table-1");
    let errors = errors(&found.rows);
    assert_eq!((errors.count, errors.in_band), (9, 9), "{}", csv(&found));
    let atomics = ["RC", "UC", "UD"].map(|kind| at(&found, kind, 3.0));
    assert_eq!(atomics, [1.0, 0.0, 0.0]);
}
