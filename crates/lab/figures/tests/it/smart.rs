//! What SMART's figures show on simulated machines.

use crate::points::{mops, of_figure, run};
use drover_figures::figure::Work;
use drover_figures::micro::Bench;
use drover_figures::published::Expected;

#[test]
fn own_doorbells_are_worth_a_factor_of_four_with_96_threads() {
    let kinds = ["READ / doorbell per thread", "READ / queue pair per thread"];
    let all = run(of_figure("smart-3"), |point| {
        point.x == 96.0 && kinds.contains(&point.series.as_str())
    });
    let [own, dealt] = kinds.map(|series| mops(&all, series, 96.0));
    assert!(own >= 4.0 * dealt, "{own} and {dealt} Mops; published 5.8 times");
}

#[test]
fn throttling_keeps_the_rate_where_96_threads_ask_for_32_requests_each() {
    let kinds = [
        "96 threads / doorbell per thread / throttled",
        "96 threads / doorbell per thread",
    ];
    let all = run(of_figure("smart-13"), |point| {
        point.x == 32.0 && kinds.contains(&point.series.as_str())
    });
    let [throttled, free] = kinds.map(|series| mops(&all, series, 32.0));
    assert!(
        throttled >= 1.5 * free,
        "{throttled} and {free} Mops; published 1.99 times"
    );
}

/// A lock whose lines move with each post costs more than any doorbell.
#[test]
fn threads_that_share_a_queue_pair_are_slower_the_more_they_are() {
    let kinds = [
        "READ / one queue pair",
        "READ / queue pair per 4 threads",
        "READ / queue pair per 2 threads",
        "READ / queue pair per thread",
    ];
    let all = run(of_figure("smart-3"), |point| {
        [8.0, 32.0].contains(&point.x) && kinds.contains(&point.series.as_str())
    });
    for threads in [8.0, 32.0] {
        let rates = kinds.map(|series| mops(&all, series, threads));
        assert!(
            rates.is_sorted_by(|a, b| 2.0 * a < *b),
            "{rates:?} Mops with {threads} threads"
        );
    }
    let alone = mops(&all, kinds[0], 8.0);
    assert!(
        mops(&all, kinds[0], 32.0) < alone,
        "more threads, less: {alone} Mops with 8"
    );
}

#[test]
fn every_throttled_point_is_near_the_published_one() {
    let all = run(of_figure("smart-13"), |point| point.series.ends_with("throttled"));
    assert_eq!(all.len(), 22);
    let expected = Expected::calibration();
    for (point, outcome) in &all {
        let published = expected.of("smart-13", &point.series, point.x, "throughput");
        let ratio = outcome.mops / published.expect("a row").value;
        assert!(
            (0.85..=1.15).contains(&ratio),
            "{} at {}: {ratio}",
            point.series,
            point.x
        );
    }
}

#[test]
fn throttling_helps_however_often_threads_come_and_go() {
    let mut points = of_figure("smart-table-1");
    for point in &mut points {
        if let Work::Bench(bench) = &mut point.work {
            *bench = Bench::Short(Box::new(bench.clone()));
        }
    }
    let all = run(points, |_| true);
    for interval in (3..=11).map(|n| f64::from(1 << n)) {
        let [throttled, free] = ["throttled", "not throttled"].map(|series| mops(&all, series, interval));
        assert!(throttled > free, "{interval} ms: {throttled} and {free} Mops");
    }
}
