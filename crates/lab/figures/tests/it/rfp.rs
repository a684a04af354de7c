//! RFP's systems in its set-up, in short runs. Nothing is compared with a published rate here.
#![allow(missing_docs, reason = "tests are named after what they show")]

use crate::points::{mops, named, of_figure};
use drover_figures::figure::Point;
use drover_figures::in_cluster::OF_MODES;
use drover_figures::micro::Outcome;

/// The outcomes of those points of a figure that `wanted` wants.
fn run(figure: &str, wanted: impl Fn(&Point) -> bool) -> Vec<(Point, Outcome)> {
    let all = crate::points::run(of_figure(figure), wanted);
    for (_, outcome) in &all {
        assert_eq!((named(outcome, "failed"), named(outcome, "hits")), (0.0, 1.0));
    }
    all
}

#[test]
fn jakiro_beats_a_server_that_waits_with_any_number_of_threads() {
    let found = run("rfp-12", |point| {
        ["Jakiro", "ServerReply"].contains(&point.series.as_str())
    });
    for cores in [1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0] {
        let [jakiro, waits] = ["Jakiro", "ServerReply"].map(|series| mops(&found, series, cores));
        assert!(jakiro > waits, "{cores} threads: {jakiro} and {waits} Mops");
    }
}

/// All threads of RDMA-Memcached serve all keys, and wait for each other: for locks of items, and of the doorbell.
#[test]
fn threads_of_rdma_memcached_do_more_together_but_not_in_proportion() {
    let found = run("rfp-12", |point| {
        point.series == "RDMA-Memcached" && [1.0, 4.0, 16.0].contains(&point.x)
    });
    let [one, four, sixteen] = [1.0, 4.0, 16.0].map(|cores| mops(&found, "RDMA-Memcached", cores));
    assert!(
        four > 1.2 * one && sixteen < 12.0 * one,
        "{one}, {four} and {sixteen} Mops"
    );
}

/// At most one change of modes: Jakiro fetches, and from some time per call on it has results pushed.
#[test]
fn jakiro_changes_from_fetching_to_pushing_as_calls_take_longer() {
    let found = run("rfp-15", |point| {
        point.series == "Jakiro" && [1.0, 12.0].contains(&point.x)
    });
    let pushed: Vec<f64> = found
        .iter()
        .map(|(_, outcome)| named(outcome, OF_MODES[0].name()))
        .collect();
    assert!(pushed[0] < 0.05 && pushed[1] > 0.5, "{pushed:?}");
}
