//! [`Figure`] and [`Point`]: a published figure, and how each of its points is run.

use crate::micro::{Bench, Outcome};
use std::fmt;
use std::sync::Arc;

/// A figure: a published one (or a table), or one of ours.
#[derive(Clone)]
pub struct Figure {
    /// Name in `drover figure`, such as `herd-3`.
    pub name: &'static str,
    /// Title, one line.
    pub title: &'static str,
    /// Source: a key of `docs/sources.md` with the figure's number.
    pub source: &'static str,
    /// Label of the x axis, with its unit.
    pub x_axis: &'static str,
    /// Label of the y axis, with its unit.
    pub y_axis: &'static str,
    /// Whether x doubles from tick to tick.
    pub x_doubles: bool,
    /// Expected shape, in a sentence.
    pub shape: &'static str,
    /// Makes the points. That is cheap; running them is not.
    pub points: fn() -> Vec<Point>,
}

/// Quantity of an [`Outcome`] that a point shows.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Metric {
    /// Million operations per second.
    Throughput,
    /// Million requests per second: throughput divided by the operations per request.
    Requests(f64),
    /// Mean latency in microseconds, times a factor.
    Latency(f64),
    /// Million cache lines of work requests per second that the card fetched again.
    Refetched,
    /// Bytes read from the host per operation.
    HostBytes,
    /// A named number in the outcome of other work, with its unit.
    Named(&'static str, &'static str),
}

impl Metric {
    /// Name in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Metric::Throughput | Metric::Requests(_) => "throughput",
            Metric::Latency(_) => "latency",
            Metric::Refetched => "pcie_reads",
            Metric::HostBytes => "host bytes per request",
            Metric::Named(name, _) => name,
        }
    }

    /// Unit of the metric.
    pub fn unit(self) -> &'static str {
        match self {
            Metric::Throughput | Metric::Requests(_) => "Mops",
            Metric::Latency(_) => "us",
            Metric::Refetched => "M/s",
            Metric::HostBytes => "B",
            Metric::Named(_, unit) => unit,
        }
    }

    /// Maximum deviation of the ratio simulated / published from one.
    pub fn band(self) -> f64 {
        if self.unit() == "us" { 0.20 } else { 0.15 }
    }

    /// Value in `outcome`; `None` if the cluster does not know it.
    pub fn of(self, outcome: &Outcome) -> Option<f64> {
        match self {
            Metric::Throughput => Some(outcome.mops),
            Metric::Requests(each) => Some(outcome.mops / each),
            Metric::Latency(factor) => Some(outcome.latency_us * factor),
            Metric::Refetched => outcome.refetched,
            Metric::HostBytes => outcome.host_bytes,
            Metric::Named(name, _) => outcome
                .named
                .iter()
                .find(|(n, _)| *n == name)
                .map(|(_, value)| *value),
        }
    }
}

/// Work that produces the outcome of a point.
#[derive(Clone)]
pub enum Work {
    /// A microbenchmark.
    Bench(Bench),
    /// Other work, such as a key-value system. It gets a profile, a seed, and whether to be quick.
    Other(Other),
}

/// Work as a function.
pub type Other = Arc<dyn Fn(&Job<'_>) -> Outcome + Send + Sync>;

/// Input of other work.
pub struct Job<'a> {
    /// Profile of the machines.
    pub profile: &'a drover_verbs_sim::profile::Profile,
    /// Limits removed from the machines.
    pub ablations: drover_verbs_sim::Ablations,
    /// Seed of all random choices.
    pub seed: u64,
    /// Prefer a short run to an exact one.
    pub quick: bool,
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Work::Bench(bench) => bench.fmt(f),
            Work::Other(_) => f.write_str("Other"),
        }
    }
}

/// One point of one curve.
#[derive(Clone, Debug)]
pub struct Point {
    /// Name of the curve.
    pub series: String,
    /// Published curve to compare with, if it has another name.
    pub against: Option<&'static str>,
    /// Position on the x axis.
    pub x: f64,
    /// Metrics of the point; several, if one run yields several.
    pub metrics: Vec<Metric>,
    /// Name of the profile.
    pub profile: &'static str,
    /// Parameters in which the set-up differed from the profile's machines.
    pub changed: Vec<(&'static str, f64)>,
    /// Work to run.
    pub work: Work,
}

impl Point {
    /// A point with the throughput of a microbenchmark.
    pub fn throughput(profile: &'static str, series: impl Into<String>, x: f64, bench: Bench) -> Point {
        Point {
            series: series.into(),
            against: None,
            x,
            metrics: vec![Metric::Throughput],
            profile,
            changed: Vec::new(),
            work: Work::Bench(bench),
        }
    }

    /// This point with `metric` instead.
    pub fn showing(self, metric: Metric) -> Point {
        Point {
            metrics: vec![metric],
            ..self
        }
    }

    /// This point on machines with another value of `path`.
    pub fn with(mut self, path: &'static str, value: f64) -> Point {
        self.changed.push((path, value));
        self
    }
}
