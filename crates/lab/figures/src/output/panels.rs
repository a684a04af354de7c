//! [`sheet`]: a figure as charts and tables. A chart has one metric and at most eight curves; more become small multiples
//! with the same axes.

use super::chart::{Chart, Curve, Dot};
use super::crossed::grid;
use super::groups::{Group, groups};
use super::scale::XAxis;
use super::sheet::{Part, Sheet};
use super::table::{sorted, spread};
use super::text::short;
use crate::figure::{Drawing, Figure, Metric};
use crate::run::{FigureRun, Row};

/// What solid lines and upright values are, and dashed lines and values in italics.
pub(super) const MEANING: [&str; 2] = ["published", "simulated"];

/// Returns the drawing of a figure as an SVG document.
pub fn svg(result: &FigureRun) -> String {
    sheet(result).svg()
}

/// Returns the charts and tables of a figure.
pub fn sheet(result: &FigureRun) -> Sheet {
    let figure = &result.figure;
    let rows = sorted(result);
    let (curves, values): (Vec<&Row>, Vec<&Row>) = match figure.drawing {
        Drawing::Table(_) => (Vec::new(), rows),
        _ => rows.iter().partition(|row| has_curves(row.metric, &rows)),
    };
    let mut parts: Vec<Part> = charts(result, &curves).into_iter().map(Part::Chart).collect();
    if !values.is_empty() {
        parts.push(Part::Grid(grid(result, &values)));
    }
    Sheet {
        title: format!("{}: {} ({})", figure.name, figure.title, figure.source),
        parts,
    }
}

/// Whether the values of a metric have several x: one x makes no curve.
fn has_curves(metric: Metric, rows: &[&Row]) -> bool {
    let mut xs = rows
        .iter()
        .filter(|row| row.metric.name() == metric.name())
        .map(|row| row.x);
    let first = xs.next();
    xs.any(|x| Some(x) != first)
}

/// The distinct results of `key`, in their order.
pub(super) fn distinct<'a, T: PartialEq>(rows: &[&'a Row], key: impl Fn(&'a Row) -> T) -> Vec<T> {
    let mut found = Vec::new();
    for row in rows {
        let key = key(row);
        if !found.contains(&key) {
            found.push(key);
        }
    }
    found
}

fn charts(result: &FigureRun, rows: &[&Row]) -> Vec<Chart> {
    let groups = groups(&distinct(rows, |row| row.series.as_str()));
    let metrics = distinct(rows, |row| row.metric.name());
    let mut charts = Vec::new();
    for metric in &metrics {
        let rows: Vec<&Row> = rows
            .iter()
            .copied()
            .filter(|row| row.metric.name() == *metric)
            .collect();
        let mut of_metric: Vec<Chart> = groups
            .iter()
            .map(|group| chart(result, &rows, group, metrics.len() == 1))
            .filter(|chart| !chart.curves.is_empty())
            .collect();
        let y_least = of_metric.iter().map(Chart::y_max).fold(0.0, f64::max);
        of_metric.iter_mut().for_each(|chart| chart.y_least = y_least);
        charts.append(&mut of_metric);
    }
    charts
}

fn chart(result: &FigureRun, rows: &[&Row], group: &Group<'_>, is_only: bool) -> Chart {
    let figure = &result.figure;
    let curves = group.series.iter().filter_map(|name| {
        let rows: Vec<&Row> = rows.iter().copied().filter(|row| row.series == *name).collect();
        (!rows.is_empty()).then(|| curve(figure, &name[group.prefix..], &rows))
    });
    let what = match rows.first() {
        Some(row) if !is_only => row.metric.label(),
        _ => figure.y_axis.to_string(),
    };
    Chart {
        y_axis: what + &group.title,
        x_axis: figure.x_axis.to_string(),
        x: match figure.drawing {
            Drawing::LogCurves => XAxis::Log,
            Drawing::Steps(names) => XAxis::Steps(names.iter().map(|name| name.to_string()).collect()),
            Drawing::Curves | Drawing::Table(_) => XAxis::Linear,
        },
        meaning: MEANING,
        curves: curves.collect(),
        ..Chart::default()
    }
}

fn curve(figure: &Figure, name: &str, rows: &[&Row]) -> Curve {
    let published = |row: &&Row| {
        Some(Dot {
            x: row.x,
            y: row.expected.as_ref()?.value,
            range: None,
            hint: hint(figure, row),
        })
    };
    let simulated = |row: &&Row| {
        Some(Dot {
            x: row.x,
            y: row.simulated?,
            range: (row.range.0 < row.range.1).then_some(row.range),
            hint: hint(figure, row),
        })
    };
    Curve {
        name: name.to_string(),
        solid: rows.iter().filter_map(published).collect(),
        dashed: rows.iter().filter_map(simulated).collect(),
    }
}

/// All that is known of a value.
pub(super) fn hint(figure: &Figure, row: &Row) -> String {
    let mut hint = format!(
        "{} at {}: {}",
        row.series,
        figure.x_text(row.x),
        row.metric.label()
    );
    if let Some(expected) = &row.expected {
        hint += &format!("\npublished {}", short(expected.value));
    }
    if let Some(simulated) = row.simulated {
        hint += &format!("\nsimulated {}", short(simulated));
        if let Some(ratio) = row.ratio() {
            hint += &format!(", {ratio:.2} of the published value");
        }
        let spread = spread(row);
        if !spread.is_empty() {
            hint += &format!("\nspread over seeds {spread}");
        }
    }
    hint + &format!("\nbinding: {}", row.binding)
}
