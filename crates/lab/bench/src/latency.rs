//! [`Latency`]: a histogram of latencies, its summary, and its text format for other tools.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// Histogram of latencies from 1 ns to a minute, exact to three significant digits. Recording costs about 5 ns.
/// Serialized as a list of pairs: nanoseconds, and number of latencies recorded with that value.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(into = "Vec<(u64, u64)>", from = "Vec<(u64, u64)>")]
pub struct Latency {
    histogram: Histogram<u64>,
}

/// Mean and percentiles of latencies, microseconds.
#[derive(Clone, Copy, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct LatencyUs {
    /// Mean latency, microseconds.
    pub mean: f64,
    /// Median latency, microseconds.
    pub p50: f64,
    /// 95th percentile of the latency, microseconds.
    pub p95: f64,
    /// 99th percentile of the latency, microseconds.
    pub p99: f64,
    /// 99.9th percentile of the latency, microseconds.
    pub p999: f64,
}

/// Minimum, maximum and standard deviation of latencies, microseconds.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub struct SpreadUs {
    /// Minimum latency, microseconds.
    pub min: f64,
    /// Maximum latency, microseconds.
    pub max: f64,
    /// Standard deviation of the latency, microseconds.
    pub stdev: f64,
}

const LONGEST_NS: u64 = 60_000_000_000;

impl Default for Latency {
    fn default() -> Latency {
        Latency::new()
    }
}

impl From<Latency> for Vec<(u64, u64)> {
    fn from(latency: Latency) -> Vec<(u64, u64)> {
        let recorded = latency.histogram.iter_recorded();
        recorded
            .map(|step| (step.value_iterated_to(), step.count_at_value()))
            .collect()
    }
}

impl From<Vec<(u64, u64)>> for Latency {
    fn from(counts: Vec<(u64, u64)>) -> Latency {
        let mut latency = Latency::new();
        for (ns, count) in counts {
            latency.histogram.saturating_record_n(ns, count);
        }
        latency
    }
}

impl Latency {
    /// An empty histogram.
    pub fn new() -> Latency {
        let histogram = Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("constant bounds are valid");
        Latency { histogram }
    }

    /// Records the latency of one operation, in nanoseconds; more than a minute counts as a minute.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.histogram.saturating_record(ns);
    }

    /// Adds the latencies of another thread or sample.
    pub fn merge(&mut self, other: &Latency) {
        self.histogram
            .add(&other.histogram)
            .expect("all latencies have the same bounds");
    }

    /// Number of recorded latencies.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Mean and percentiles, microseconds; zeros if nothing was recorded.
    pub fn summary(&self) -> LatencyUs {
        let quantile = |q| self.histogram.value_at_quantile(q) as f64 / 1e3;
        LatencyUs {
            mean: self.histogram.mean() / 1e3,
            p50: quantile(0.50),
            p95: quantile(0.95),
            p99: quantile(0.99),
            p999: quantile(0.999),
        }
    }

    /// Minimum, maximum and standard deviation, microseconds; zeros if nothing was recorded.
    pub fn spread(&self) -> SpreadUs {
        let us = |ns: u64| ns as f64 / 1e3;
        match self.count() {
            0 => SpreadUs::default(),
            _ => SpreadUs {
                min: us(self.histogram.min()),
                max: us(self.histogram.max()),
                stdev: self.histogram.stdev() / 1e3,
            },
        }
    }

    /// The percentile distribution in the format of HdrHistogram's tools; values in microseconds.
    pub fn to_hdr_text(&self) -> String {
        let mut out = String::from("       Value     Percentile TotalCount 1/(1-Percentile)\n\n");
        for step in self.histogram.iter_quantiles(5) {
            let (quantile, value) = (step.quantile_iterated_to(), step.value_iterated_to() as f64 / 1e3);
            let count = self.histogram.count_between(0, step.value_iterated_to());
            let _ = write!(out, "{value:12.3} {quantile:2.12} {count:10}");
            if quantile < 1.0 {
                let _ = write!(out, " {:14.2}", 1.0 / (1.0 - quantile));
            }
            out.push('\n');
        }
        let (mean, deviation) = (self.histogram.mean() / 1e3, self.histogram.stdev() / 1e3);
        let (max, count) = (self.histogram.max() as f64 / 1e3, self.histogram.len());
        let _ = writeln!(out, "#[Mean    = {mean:12.3}, StdDeviation   = {deviation:12.3}]");
        let _ = writeln!(out, "#[Max     = {max:12.3}, Total count    = {count:12}]");
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(range: std::ops::RangeInclusive<u64>) -> Latency {
        let mut latency = Latency::new();
        range.for_each(|us| latency.record(us * 1000));
        latency
    }

    fn near(got: f64, want: f64) -> bool {
        (got - want).abs() <= want * 0.002
    }

    #[test]
    fn percentiles_of_a_ramp() {
        let summary = of(1..=10_000).summary();
        assert!(near(summary.mean, 5000.5), "{summary:?}");
        assert!(near(summary.p50, 5000.0), "{summary:?}");
        assert!(near(summary.p95, 9500.0), "{summary:?}");
        assert!(near(summary.p99, 9900.0), "{summary:?}");
        assert!(near(summary.p999, 9990.0), "{summary:?}");
    }

    #[test]
    fn spread_of_a_ramp() {
        let spread = of(1..=10_000).spread();
        assert!(near(spread.min, 1.0) && near(spread.max, 10_000.0), "{spread:?}");
        assert!(near(spread.stdev, 2886.75), "{spread:?}");
        assert_eq!(Latency::new().spread(), SpreadUs::default());
    }

    #[test]
    fn merging_two_halves_gives_the_whole() {
        let mut low = of(1..=500);
        low.merge(&of(501..=1000));
        assert_eq!(low.count(), 1000);
        assert_eq!(low.summary(), of(1..=1000).summary());
    }

    #[test]
    fn an_empty_one_is_zeros_and_a_huge_latency_is_kept() {
        assert_eq!(Latency::new().summary(), LatencyUs::default());
        let mut latency = Latency::new();
        latency.record(u64::MAX);
        assert_eq!(latency.count(), 1);
    }

    #[test]
    fn the_text_ends_at_the_whole_count() {
        let text = of(1..=1000).to_hdr_text();
        let last = text.lines().rev().nth(2).expect("lines");
        let columns: Vec<&str> = last.split_whitespace().collect();
        assert_eq!(columns[1..3], ["1.000000000000", "1000"], "{text}");
        assert!(text.contains("Total count    =         1000"), "{text}");
    }
}
