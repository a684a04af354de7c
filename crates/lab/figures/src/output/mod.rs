//! Output of the results of figures: CSV, drawing, text table, HTML report.

mod chart;
mod csv;
mod html;
mod judged;
mod svg;
mod table;
#[cfg(test)]
mod tests;

pub use chart::{Chart, Curve};
pub use csv::csv;
pub use html::{About, html};
pub use judged::judged_csv;
pub use svg::svg;
pub use table::{Errors, errors, table};

/// A number with a sensible number of decimals.
pub(crate) fn short(value: f64) -> String {
    match value.abs() {
        v if v >= 1000.0 => format!("{value:.0}"),
        v if v >= 100.0 => format!("{value:.1}"),
        v if v >= 10.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}
