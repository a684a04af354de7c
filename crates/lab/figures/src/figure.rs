//! [`Figure`] and [`Point`]: what a published figure shows, and how each of its points is run.

use crate::micro::{Bench, Outcome};
use std::fmt;
use std::sync::Arc;

/// A figure of ours: a published one, or a table.
#[derive(Clone)]
pub struct Figure {
    /// What `drover figure` calls it: `herd-3`.
    pub name: &'static str,
    /// One line.
    pub title: &'static str,
    /// Where it was published; a key of `docs/sources.md` with the figure's number.
    pub source: &'static str,
    /// Label of the x axis, with its unit.
    pub x_axis: &'static str,
    /// Label of the y axis, with its unit.
    pub y_axis: &'static str,
    /// Whether x doubles from tick to tick.
    pub x_doubles: bool,
    /// The shape to expect, in a sentence.
    pub shape: &'static str,
    /// Its points. Making them is cheap; running them is not.
    pub points: fn() -> Vec<Point>,
}

/// What of an [`Outcome`] a point shows.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Metric {
    /// Million operations per second.
    Throughput,
    /// The same, divided by the operations that make one request.
    Requests(f64),
    /// Mean latency in microseconds, times a factor.
    Latency(f64),
    /// Million cache lines of work requests fetched again per second.
    Refetched,
    /// Bytes read from the host per operation.
    HostBytes,
    /// Another number that the outcome of a point with work of its own carries.
    Named(&'static str, &'static str),
}

impl Metric {
    /// In tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Metric::Throughput | Metric::Requests(_) => "throughput",
            Metric::Latency(_) => "latency",
            Metric::Refetched => "pcie_reads",
            Metric::HostBytes => "host bytes per request",
            Metric::Named(name, _) => name,
        }
    }

    /// Its unit.
    pub fn unit(self) -> &'static str {
        match self {
            Metric::Throughput | Metric::Requests(_) => "Mops",
            Metric::Latency(_) => "us",
            Metric::Refetched => "M/s",
            Metric::HostBytes => "B",
            Metric::Named(_, unit) => unit,
        }
    }

    /// How far from one the ratio of simulated to published may be.
    pub fn band(self) -> f64 {
        if self.unit() == "us" { 0.20 } else { 0.15 }
    }

    /// Its value in `outcome`; `None` if the cluster could not tell.
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

/// How a point comes by its outcome.
#[derive(Clone)]
pub enum Work {
    /// A microbenchmark.
    Bench(Bench),
    /// Something else: a key-value system, say. It is given a profile, a seed, and whether to be quick.
    Other(Other),
}

/// Work that only its maker knows.
pub type Other = Arc<dyn Fn(&Job<'_>) -> Outcome + Send + Sync>;

/// What work of its own is given.
pub struct Job<'a> {
    /// The machines.
    pub profile: &'a drover_verbs_sim::profile::Profile,
    /// What they are relieved of.
    pub ablations: drover_verbs_sim::Ablations,
    /// For whatever is drawn.
    pub seed: u64,
    /// Rather soon than exactly.
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
    /// Its curve.
    pub series: String,
    /// The published curve that it is held against, if not the one of the same name.
    pub against: Option<&'static str>,
    /// Where on the axis.
    pub x: f64,
    /// What it shows; several, if one run answers several questions.
    pub metrics: Vec<Metric>,
    /// Name of the profile.
    pub profile: &'static str,
    /// Parameters that its set-up had different from the profile's machines.
    pub changed: Vec<(&'static str, f64)>,
    /// What is run.
    pub work: Work,
}

impl Point {
    /// A point that shows the throughput of a microbenchmark.
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

    /// The same point showing `metric` instead.
    pub fn showing(self, metric: Metric) -> Point {
        Point {
            metrics: vec![metric],
            ..self
        }
    }

    /// The same point on machines with another value of `path`.
    pub fn with(mut self, path: &'static str, value: f64) -> Point {
        self.changed.push((path, value));
        self
    }
}
