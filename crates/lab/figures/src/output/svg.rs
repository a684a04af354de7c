//! [`svg`]: the values of a figure as a drawing. Solid lines with dots are simulated, dashed lines with rings are
//! published.

use super::chart::{Chart, Curve, trimmed};
use super::short;
use super::table::sorted;
use crate::run::{FigureRun, Row};

/// Returns the drawing of a figure as an SVG document.
pub fn svg(result: &FigureRun) -> String {
    let figure = &result.figure;
    let rows = sorted(result);
    let curves = rows.chunk_by(|a, b| a.series == b.series && a.metric.name() == b.metric.name());
    let chart = Chart {
        title: format!("{}: {} ({}), simulated", figure.name, figure.title, figure.source),
        x_axis: figure.x_axis.to_string(),
        y_axis: figure.y_axis.to_string(),
        x_doubles: figure.x_doubles,
        x_text: trimmed,
        curves: curves.map(curve).collect(),
    };
    chart.svg()
}

fn curve(rows: &[&Row]) -> Curve {
    let first = rows[0];
    let published = |row: &&Row| Some((row.x, row.expected.as_ref()?.value));
    // Bars from the minimum to the maximum over the seeds.
    let ranged = |row: &&&Row| row.simulated.is_some() && row.range.0 < row.range.1;
    Curve {
        name: match first.metric.name() {
            "throughput" | "latency" => first.series.clone(),
            metric => format!("{} ({metric})", first.series),
        },
        hint: first.simulated.map_or(String::new(), short),
        solid: rows
            .iter()
            .filter_map(|row| Some((row.x, row.simulated?)))
            .collect(),
        dashed: rows.iter().filter_map(published).collect(),
        bars: rows
            .iter()
            .filter(ranged)
            .map(|row| (row.x, row.range.0, row.range.1))
            .collect(),
    }
}
