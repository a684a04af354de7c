//! [`sheet`]: a figure as charts and tables. A chart has one metric and at most eight curves; more become small multiples
//! with the same axes.

use super::chart::{Chart, Curve, Dot};
use super::grid::{Cell, Grid};
use super::groups::{Group, groups};
use super::scale::XAxis;
use super::sheet::{Part, Sheet};
use super::table::{sorted, spread};
use super::text::{short, trimmed};
use crate::figure::{Drawing, Metric};
use crate::run::{FigureRun, Row};

/// What solid lines and upright values are, and dashed lines and values in italics.
const MEANING: [&str; 2] = ["published", "simulated"];

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
fn distinct<'a, T: PartialEq>(rows: &[&'a Row], key: impl Fn(&'a Row) -> T) -> Vec<T> {
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
        (!rows.is_empty()).then(|| curve(&name[group.prefix..], &rows))
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

fn curve(name: &str, rows: &[&Row]) -> Curve {
    let published = |row: &&Row| {
        Some(Dot {
            x: row.x,
            y: row.expected.as_ref()?.value,
            range: None,
            hint: hint(row),
        })
    };
    let simulated = |row: &&Row| {
        Some(Dot {
            x: row.x,
            y: row.simulated?,
            range: (row.range.0 < row.range.1).then_some(row.range),
            hint: hint(row),
        })
    };
    Curve {
        name: name.to_string(),
        solid: rows.iter().filter_map(published).collect(),
        dashed: rows.iter().filter_map(simulated).collect(),
    }
}

/// All that is known of a value.
fn hint(row: &Row) -> String {
    let mut hint = format!("{} at {}: {}", row.series, trimmed(row.x), row.metric.label());
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

/// A table: a row for each x and a column for each curve if it has one metric, or the other way round if that is narrower;
/// a row for each metric and curve if it has several.
fn grid(result: &FigureRun, rows: &[&Row]) -> Grid {
    let names = match result.figure.drawing {
        Drawing::Table(names) | Drawing::Steps(names) => names,
        _ => &[],
    };
    let x_name = |x: f64| {
        names
            .get(x as usize)
            .map_or_else(|| trimmed(x), |name| name.to_string())
    };
    let mut xs = distinct(rows, |row| row.x);
    xs.sort_by(f64::total_cmp);
    let series = distinct(rows, |row| row.series.as_str());
    let metrics = distinct(rows, |row| row.metric.name());
    let metric = match metrics[..] {
        [_] => result.figure.y_axis.to_string(),
        _ => String::new(),
    };
    let of_curve = |row: &Row| row.series.clone();
    let of_metric = |row: &Row| row.metric.label();
    let of_both = |row: &Row| format!("{}: {}", row.series, row.metric.label());
    let of_x = |row: &Row| x_name(row.x);
    let x_axis = result.figure.x_axis;
    match (xs.len(), metrics.len()) {
        (1, 1) => crossed(
            rows,
            &format!("{metric}; {x_axis} {}", x_name(xs[0])),
            "",
            of_curve,
            |_| "value".to_string(),
        ),
        (1, _) => crossed(
            rows,
            &format!("{x_axis} {}", x_name(xs[0])),
            "",
            of_metric,
            of_curve,
        ),
        (_, 1) if xs.len() > series.len() => crossed(rows, &metric, x_axis, of_x, of_curve),
        (_, 1) => crossed(rows, &format!("{metric}, by {x_axis}"), "", of_curve, of_x),
        _ => crossed(rows, &format!("by {x_axis}"), "", of_both, of_x),
    }
}

/// The table with a row and a column for each result of two functions.
fn crossed(
    rows: &[&Row],
    title: &str,
    corner: &str,
    row_of: impl Fn(&Row) -> String,
    column_of: impl Fn(&Row) -> String,
) -> Grid {
    let names = distinct(rows, &row_of);
    let mut by_x = rows.to_vec();
    by_x.sort_by(|a, b| a.x.total_cmp(&b.x));
    let columns = distinct(&by_x, &column_of);
    let cell_of = |name: &String, column: &String| {
        let row = rows
            .iter()
            .find(|row| row_of(row) == *name && column_of(row) == *column);
        row.map_or_else(Cell::default, |row| cell(row))
    };
    let cells_of = |name: String| {
        let cells = columns.iter().map(|column| cell_of(&name, column)).collect();
        (name, cells)
    };
    Grid {
        title: title.to_string(),
        corner: corner.to_string(),
        rows: names.into_iter().map(cells_of).collect(),
        columns,
        meaning: MEANING,
    }
}

fn cell(row: &Row) -> Cell {
    let text = |value: f64| match row.metric.unit() {
        "0/1" if value == 0.0 => "no".to_string(),
        "0/1" => "yes".to_string(),
        _ => short(value),
    };
    Cell {
        upright: row.expected.as_ref().map(|expected| text(expected.value)),
        italic: row.simulated.map(text),
        hint: hint(row),
    }
}
