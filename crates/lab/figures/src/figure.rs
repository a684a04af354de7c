//! [`Figure`] and [`Point`]: a published figure, and how each of its points is run.

use crate::micro::{Bench, Outcome};
use crate::output::trimmed;
use std::fmt;
use std::sync::Arc;

/// Description of a figure or table, published or our own: its labels and how to compute its points. It holds no
/// results; those are in a [`FigureRun`](crate::run::FigureRun).
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
    /// How the values are drawn.
    pub drawing: Drawing,
    /// Expected shape of the curves, as a phrase that reports print; nothing checks it.
    pub shape: &'static str,
    /// Returns the points of all curves, not yet run. This is cheap; running them is not.
    pub points: fn() -> Vec<Point>,
}

impl Figure {
    /// Text of a value of the x axis: the name of the step that it is the index of, or a number.
    pub fn x_text(&self, x: f64) -> String {
        let names = match self.drawing {
            Drawing::Steps(names) | Drawing::Table(names) => names,
            Drawing::Curves | Drawing::LogCurves => &[],
        };
        names
            .get(x as usize)
            .map_or_else(|| trimmed(x), |name| name.to_string())
    }
}

/// How the values of a figure are drawn.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Drawing {
    /// Curves over a linear x axis.
    Curves,
    /// Curves over a logarithmic x axis.
    LogCurves,
    /// Curves over steps with these names; x is the index of one.
    Steps(&'static [&'static str]),
    /// A table, as in the source. If there are names, x is the index of one.
    Table(&'static [&'static str]),
}

/// Quantity that a point shows: which number of the [`Outcome`] of its run, and in which unit.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Metric {
    /// Throughput in million operations per second.
    Throughput,
    /// Throughput in million requests per second; the number is the operations per request.
    Requests(f64),
    /// [Mean latency](Outcome::latency_us) in microseconds, multiplied by the number.
    Latency(f64),
    /// [Cache lines of work requests](Outcome::refetched) that the card of the machine of interest had to fetch again,
    /// in millions per second.
    Refetched,
    /// [Bytes](Outcome::host_bytes) that the card of the machine of interest read from host memory, per operation.
    HostBytes,
    /// The number in [`Outcome::named`] that has the name in the first text; the second text is its unit.
    Named(&'static str, &'static str),
}

impl Metric {
    /// Name of the metric in tables and files; `Throughput` and `Requests` have the same.
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

    /// Name and unit, as labels have them; a unit of counts and fractions is left out.
    pub fn label(self) -> String {
        match (self, self.unit()) {
            (Metric::Refetched, unit) => format!("cache lines fetched again, {unit}"),
            (_, "1" | "0/1" | "fraction" | "ratio") => self.name().to_string(),
            (_, unit) => format!("{}, {unit}", self.name()),
        }
    }

    /// Maximum deviation from 1 of the ratio simulated / published that counts as agreement: 0.2 for metrics in
    /// microseconds, 0.15 for all others.
    pub fn band(self) -> f64 {
        if self.unit() == "us" { 0.20 } else { 0.15 }
    }

    /// Value of the metric in `outcome`; `None` if the run did not measure it.
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

/// What to run for a point; the run returns an [`Outcome`].
#[derive(Clone)]
pub enum Work {
    /// A microbenchmark.
    Bench(Bench),
    /// A function that runs anything else, such as a key-value system.
    Other(Other),
}

/// Function of a [`Work::Other`].
pub type Other = Arc<dyn Fn(&Job<'_>) -> Outcome + Send + Sync>;

/// Input of a [`Work::Other`] function, for one run with one seed.
pub struct Job<'a> {
    /// Profile of the machines; includes the [changes](Point::changed) of the point.
    pub profile: &'a drover_verbs_sim::profile::Profile,
    /// Limits of the hardware that the simulation leaves out.
    pub ablations: drover_verbs_sim::Ablations,
    /// Seed of all random choices.
    pub seed: u64,
    /// Whether to make a shorter, less exact run.
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

/// How to produce one point of a curve: what to run and on which machines, where x is, and which results are its y
/// values. It holds no results.
#[derive(Clone, Debug)]
pub struct Point {
    /// Name of the curve.
    pub series: String,
    /// Name of the published curve to compare with; `None`: the same as `series`.
    pub against: Option<&'static str>,
    /// Position on the x axis.
    pub x: f64,
    /// Metrics of the run to show: each gives one y value.
    pub metrics: Vec<Metric>,
    /// Name of the profile of the machines, which must exist.
    pub profile: &'static str,
    /// Parameters of the profile that have other values for this point: path and new value of each.
    pub changed: Vec<(&'static str, f64)>,
    /// What to run for the y values.
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

    /// Shows only `metric` instead of the metrics so far.
    pub fn showing(self, metric: Metric) -> Point {
        Point {
            metrics: vec![metric],
            ..self
        }
    }

    /// Adds a change of the profile parameter `path` to `value`, for this point only.
    pub fn with(mut self, path: &'static str, value: f64) -> Point {
        self.changed.push((path, value));
        self
    }
}
