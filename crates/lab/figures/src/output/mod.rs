//! Output of the results of figures: CSV, drawing, text table, HTML report; and the charts, tables and pages that they are
//! made of, which know no figure.

mod chart;
mod crossed;
mod csv;
mod grid;
mod groups;
mod html;
mod judged;
mod legend;
mod marks;
mod page;
mod panels;
mod scale;
mod sheet;
mod table;
#[cfg(test)]
mod tests;
mod text;

pub use chart::{Chart, Curve, Dot};
pub use csv::csv;
pub use grid::{Cell, Grid};
pub use html::{About, html};
pub use judged::judged_csv;
pub use marks::CURVES_MAX;
pub use page::{Column, Page, Shown, Table};
pub use panels::svg;
pub use scale::XAxis;
pub use sheet::{Part, Sheet};
pub use table::{Errors, errors, table};
pub use text::{escape, short, trimmed};
