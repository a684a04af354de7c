//! Judgements of made-up curves.

use super::*;
use crate::published::{KnownFrom, Published};

/// Rows of a curve: x, published, simulated. Their binding part is `cpu`.
fn made_up(series: &str, metric: Metric, values: &[(f64, f64, f64)]) -> Vec<Row> {
    let row = |&(x, published, simulated): &(f64, f64, f64)| Row {
        series: series.to_string(),
        x,
        metric,
        expected: Some(Published {
            figure: "made-up".to_string(),
            series: series.to_string(),
            x,
            metric: metric.name().to_string(),
            unit: metric.unit().to_string(),
            value: published,
            known_from: KnownFrom::Data,
        }),
        simulated: Some(simulated),
        range: (simulated, simulated),
        binding: "cpu 99%".to_string(),
    };
    values.iter().map(row).collect()
}

fn rates(series: &str, values: &[(f64, f64, f64)]) -> Vec<Row> {
    made_up(series, Metric::Throughput, values)
}

/// The only judgement of `claim`.
fn the_one(rows: &[Row], claim: Claim) -> Judgement {
    let mut judgements = judge(rows, &[claim]);
    assert_eq!(judgements.len(), 1, "{judgements:?}");
    judgements.remove(0)
}

/// Judges the peak of a curve that is published with its peak at x = 2, of 0 to 4.
fn peak(simulated: [f64; 5]) -> Judgement {
    let published = [1.0, 2.0, 3.0, 2.0, 1.0];
    let value = |x: usize| (x as f64, published[x], simulated[x]);
    let rows = rates("a", &[0, 1, 2, 3, 4].map(value));
    the_one(&rows, Claim::Peaks(vec!["a".to_string()]))
}

#[test]
fn a_peak_may_be_one_step_away() {
    assert!(peak([1.0, 2.0, 9.0, 2.0, 1.0]).holds);
    assert!(peak([1.0, 9.0, 2.0, 1.0, 1.0]).holds);
    assert!(peak([1.0, 2.0, 3.0, 9.0, 1.0]).holds);
}

#[test]
fn a_peak_further_away_is_missed_unless_the_curve_is_flat() {
    let flat = peak([10.0, 9.7, 9.6, 9.5, 9.4]);
    assert!(flat.holds, "{flat:?}");
    let missed = peak([10.0, 9.7, 9.4, 9.3, 9.2]);
    assert!(!missed.holds);
    assert_eq!(missed.published, "at 2: 3.000");
    assert_eq!(missed.simulated, "at 0: 10.00; at 2 6 % lower");
    assert_eq!(missed.binding, "at 0: cpu 99%; at 2: cpu 99%");
}

/// Of three pairs of points one is a tie, in which any order will do; of the others one is in the wrong order.
#[test]
fn order_counts_where_published_values_differ() {
    let rows = [
        rates("a", &[(1.0, 100.0, 1.0), (2.0, 100.0, 1.0), (3.0, 100.0, 1.0)]),
        rates("b", &[(1.0, 114.0, 0.5), (2.0, 116.0, 2.0), (3.0, 80.0, 2.0)]),
    ]
    .concat();
    let order = || Claim::Order(vec!["a".to_string(), "b".to_string()]);
    let missed = the_one(&rows, order());
    assert_eq!((missed.curves.as_str(), missed.holds), ("a : b", false));
    assert_eq!(missed.published, "2 values differ");
    assert_eq!(missed.simulated, "1 in this order");
    assert_eq!(missed.binding, "at 3: cpu 99%, cpu 99%");
    assert!(the_one(&rows[..5], order()).holds, "without the last point");
}

/// Simulated values that are equal are in no order.
#[test]
fn equal_values_miss_a_published_order() {
    let rows = [rates("a", &[(1.0, 1.0, 1.0)]), rates("b", &[(1.0, 2.0, 1.0)])].concat();
    assert!(!the_one(&rows, Claim::Order(vec!["a".to_string(), "b".to_string()])).holds);
}

/// A latency is compared with a latency, and every pair of three curves is judged.
#[test]
fn order_is_judged_by_metric_and_pair() {
    let latency = Metric::Named("latency p50", "us");
    let rows = [
        rates("a", &[(1.0, 1.0, 1.0)]),
        made_up("a", latency, &[(1.0, 9.0, 9.0)]),
        rates("b", &[(1.0, 2.0, 2.0)]),
        made_up("b", latency, &[(1.0, 5.0, 5.0)]),
        rates("c", &[(1.0, 3.0, 3.0)]),
    ]
    .concat();
    let names = ["a", "b", "c"].map(str::to_string).to_vec();
    let judgements = judge(&rows, &[Claim::Order(names)]);
    assert_eq!(judgements.len(), 3);
    assert!(judgements.iter().all(|judgement| judgement.holds));
    assert_eq!(judgements[0].published, "2 values differ");
}

#[test]
fn a_ratio_may_differ_by_half() {
    let ratio = |simulated: f64| {
        let rows = [
            rates("fast", &[(96.0, 26.0, simulated)]),
            rates("slow", &[(96.0, 1.0, 1.0)]),
        ]
        .concat();
        let (of, over) = ("fast".to_string(), "slow".to_string());
        the_one(&rows, Claim::Ratio { of, over, x: 96.0 })
    };
    assert!(ratio(26.0 / 1.4).holds && ratio(26.0 * 1.4).holds);
    let missed = ratio(13.0);
    assert!(!missed.holds && !ratio(26.0 * 1.6).holds);
    assert_eq!(missed.simulated, "13.00; off by a factor of 2.00");
    assert_eq!(missed.binding, "at 96: cpu 99%, cpu 99%");
}

#[test]
fn what_is_not_published_is_not_judged() {
    let mut rows = rates("a", &[(1.0, 1.0, 1.0)]);
    rows[0].expected = None;
    let a = || "a".to_string();
    let claims = [
        Claim::Peaks(vec![a(), "unknown".to_string()]),
        Claim::Order(vec![a(), a()]),
        Claim::Ratio {
            of: a(),
            over: a(),
            x: 1.0,
        },
    ];
    assert_eq!(judge(&rows, &claims), Vec::new());
}
