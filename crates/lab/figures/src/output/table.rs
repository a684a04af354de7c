//! [`table()`]: the values of a figure as a text table, their [`Errors`], and what is [judged](super::judged) of its curves.

use super::judged;
use super::text::{short, trimmed};
use crate::run::{FigureRun, Row};
use std::fmt::Write;

/// Statistics of the absolute relative errors of simulated values: |simulated / published - 1|, as fractions (0.1 is
/// 10 %). All are 0 if there is no value to compare.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Errors {
    /// Number of values compared: those that were both simulated and published.
    pub count: usize,
    /// Median of |simulated / published - 1|, a fraction; 0 without values.
    pub median: f64,
    /// Mean of |simulated / published - 1|, a fraction; 0 without values.
    pub mean: f64,
    /// Maximum of |simulated / published - 1|, a fraction; 0 without values.
    pub max: f64,
    /// Number of values that deviate by at most 10 % from the published ones.
    pub within_10: usize,
    /// Number of values that deviate by at most 20 % from the published ones.
    pub within_20: usize,
    /// Number of values within the [band](crate::figure::Metric::band) of their metric.
    pub in_band: usize,
}

/// Computes the errors of `rows`. Rows without a simulated or a published value are left out.
pub fn errors<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Errors {
    let mut found = Errors::default();
    let mut all: Vec<f64> = Vec::new();
    for row in rows {
        let Some(ratio) = row.ratio() else { continue };
        all.push((ratio - 1.0).abs());
        found.in_band += usize::from(row.in_band() == Some(true));
    }
    all.sort_by(f64::total_cmp);
    found.count = all.len();
    if let Some(&max) = all.last() {
        let n = all.len();
        found.median = (all[(n - 1) / 2] + all[n / 2]) / 2.0;
        found.mean = all.iter().sum::<f64>() / n as f64;
        found.max = max;
        found.within_10 = all.iter().filter(|error| **error <= 0.10).count();
        found.within_20 = all.iter().filter(|error| **error <= 0.20).count();
    }
    found
}

impl std::fmt::Display for Errors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} values: median {:.1} %, mean {:.1} %, max {:.0} %; {} within 10 %, {} within 20 %, {} in band",
            self.count,
            self.median * 100.0,
            self.mean * 100.0,
            self.max * 100.0,
            self.within_10,
            self.within_20,
            self.in_band
        )
    }
}

/// Returns the values of a figure as a text table, curve by curve, followed by a line of [`Errors`] over all of them, and by
/// a table of what came of the [claims](crate::judge) about its curves, if there are any.
pub fn table(result: &FigureRun) -> String {
    let figure = &result.figure;
    let mut out = format!("{}  {}  ({})\n", figure.name, figure.title, figure.source);
    let width = result
        .rows
        .iter()
        .map(|row| row.series.len())
        .max()
        .unwrap_or(0)
        .max(6);
    let _ = writeln!(
        out,
        "{:<width$} {:>8} {:>22} {:>10} {:>10} {:>7} {:>7}  {:<4} binding",
        "series", "x", "metric", "published", "simulated", "spread", "ratio", "band"
    );
    for row in sorted(result) {
        let number = |value: Option<f64>| value.map_or("-".to_string(), short);
        let band = match row.in_band() {
            Some(true) => "in",
            Some(false) => "MISS",
            None => "",
        };
        let metric = format!("{}, {}", row.metric.name(), row.metric.unit());
        let _ = writeln!(
            out,
            "{:<width$} {:>8} {metric:>22} {:>10} {:>10} {:>7} {:>7}  {band:<4} {}",
            row.series,
            trimmed(row.x),
            number(row.expected.as_ref().map(|expected| expected.value)),
            number(row.simulated),
            spread(row),
            row.ratio().map_or("-".to_string(), |ratio| format!("{ratio:.2}")),
            row.binding
        );
    }
    let _ = writeln!(out, "{}", errors(&result.rows));
    out.push_str(&judged::text(&result.judgements()));
    out
}

/// Distance between the minimum and the maximum over the seeds, relative to the mean.
pub(super) fn spread(row: &Row) -> String {
    let (low, high) = row.range;
    match row.simulated {
        Some(mean) if low < high && mean > 0.0 => format!("{:.1} %", 100.0 * (high - low) / mean),
        _ => String::new(),
    }
}

/// Rows by curve, in the order in which curves first appear, with x ascending.
pub(super) fn sorted(result: &FigureRun) -> Vec<&Row> {
    let mut curves: Vec<(&str, &str)> = Vec::new();
    for row in &result.rows {
        let curve = (row.series.as_str(), row.metric.name());
        if !curves.contains(&curve) {
            curves.push(curve);
        }
    }
    let place = |row: &Row| {
        curves
            .iter()
            .position(|curve| *curve == (row.series.as_str(), row.metric.name()))
    };
    let mut rows: Vec<&Row> = result.rows.iter().collect();
    rows.sort_by(|a, b| place(a).cmp(&place(b)).then(a.x.total_cmp(&b.x)));
    rows
}
