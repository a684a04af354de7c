//! [`grid()`]: values of a figure as a table.

use super::grid::{Cell, Grid};
use super::panels::{MEANING, distinct, hint};
use super::text::short;
use crate::figure::Figure;
use crate::run::{FigureRun, Row};

/// A table: a row for each x and a column for each curve if it has one metric, or the other way round if that is narrower;
/// a row for each metric and curve if it has several.
pub(super) fn grid(result: &FigureRun, rows: &[&Row]) -> Grid {
    let figure = &result.figure;
    let mut xs = distinct(rows, |row| row.x);
    xs.sort_by(f64::total_cmp);
    let series = distinct(rows, |row| row.series.as_str());
    let metrics = distinct(rows, |row| row.metric.name());
    let all = distinct(&result.rows.iter().collect::<Vec<_>>(), |row| row.metric.name());
    let metric = match rows.first() {
        Some(row) if all.len() > 1 => row.metric.label(),
        _ => figure.y_axis.to_string(),
    };
    let of_curve = |row: &Row| row.series.clone();
    let of_metric = |row: &Row| row.metric.label();
    let of_both = |row: &Row| format!("{}: {}", row.series, row.metric.label());
    let of_x = |row: &Row| figure.x_text(row.x);
    let is_all = |_: &Row| "value".to_string();
    let x_axis = figure.x_axis;
    let only_x = format!(
        "{x_axis}: {}",
        xs.first().map_or(String::new(), |x| figure.x_text(*x))
    );
    let crossed = Crossed { result, rows };
    match (xs.len(), metrics.len()) {
        (1, 1) => crossed.grid(&format!("{metric} ({only_x})"), "", of_curve, is_all),
        (1, _) => crossed.grid(&only_x, "", of_metric, of_curve),
        (_, 1) if xs.len() > series.len() => crossed.grid(&metric, x_axis, of_x, of_curve),
        (_, 1) => crossed.grid(&format!("{metric}, by {x_axis}"), "", of_curve, of_x),
        _ => crossed.grid(&format!("by {x_axis}"), "", of_both, of_x),
    }
}

/// Rows that become a table.
struct Crossed<'a> {
    result: &'a FigureRun,
    rows: &'a [&'a Row],
}

impl Crossed<'_> {
    /// The table with a row and a column for each result of two functions.
    fn grid(
        &self,
        title: &str,
        corner: &str,
        row_of: impl Fn(&Row) -> String,
        column_of: impl Fn(&Row) -> String,
    ) -> Grid {
        let names = distinct(self.rows, &row_of);
        let mut by_x = self.rows.to_vec();
        by_x.sort_by(|a, b| a.x.total_cmp(&b.x));
        let columns = distinct(&by_x, &column_of);
        let cell_of = |name: &String, column: &String| {
            let mut rows = self.rows.iter();
            let row = rows.find(|row| row_of(row) == *name && column_of(row) == *column);
            row.map_or_else(Cell::default, |row| cell(&self.result.figure, row))
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
}

fn cell(figure: &Figure, row: &Row) -> Cell {
    let text = |value: f64| match row.metric.unit() {
        "0/1" if value == 0.0 => "no".to_string(),
        "0/1" => "yes".to_string(),
        _ => short(value),
    };
    Cell {
        upright: row.expected.as_ref().map(|expected| text(expected.value)),
        italic: row.simulated.map(text),
        hint: hint(figure, row),
    }
}
