//! [`csv`]: the values of a figure as CSV.

use crate::run::FigureRun;
use std::fmt::Write;

/// Names of the columns.
const HEADER: &str = "series,x,metric,unit,expected,simulated,ratio,in_band,binding_resource\n";

/// Returns the values of a figure as CSV: a header, then a line per value. Fields of unknown values are empty; texts
/// are not quoted.
pub fn csv(result: &FigureRun) -> String {
    let mut out = HEADER.to_string();
    for row in &result.rows {
        let number = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.4}"));
        let _ = writeln!(
            out,
            "{},{},{},{},{},{},{},{},{}",
            row.series,
            row.x,
            row.metric.name(),
            row.metric.unit(),
            row.expected
                .as_ref()
                .map_or(String::new(), |expected| expected.value.to_string()),
            number(row.simulated),
            number(row.ratio()),
            row.in_band().map_or(String::new(), |inside| inside.to_string()),
            row.binding,
        );
    }
    out
}
