//! [`Sheet`]: the charts and tables of one figure, as one drawing and as a part of a page.

use super::chart::{Chart, LINE, WIDTH};
use super::grid::Grid;
use super::legend;
use super::scale::SIZE;
use super::text::{escape, wrapped};
use std::fmt::Write;

/// Space around the parts of a drawing.
const MARGIN: f64 = 12.0;

/// Charts and tables that belong together.
#[derive(Clone, Default, Debug)]
pub struct Sheet {
    /// Title, one line.
    pub title: String,
    /// What it consists of.
    pub parts: Vec<Part>,
}

/// A part of a [`Sheet`].
#[derive(Clone, Debug)]
pub enum Part {
    /// Curves.
    Chart(Chart),
    /// A table.
    Grid(Grid),
}

impl Sheet {
    /// Returns the parts for a page: as many side by side as there is space for, each chart above its legend.
    pub fn html(&self) -> String {
        let mut out = "<div class=\"parts\">\n".to_string();
        for part in &self.parts {
            let inside = match part {
                Part::Chart(chart) => chart.draw("").0 + &legend::html(&chart.legend()),
                Part::Grid(grid) => grid.html(),
            };
            let _ = writeln!(out, "<figure>{inside}</figure>");
        }
        out.push_str("</div>\n");
        out
    }

    /// Returns all parts as one SVG document, at most two side by side.
    pub fn svg(&self) -> String {
        let mut parts = String::new();
        let columns = self.parts.len().clamp(1, 2);
        let mut right = columns as f64 * (WIDTH + MARGIN) + MARGIN;
        let title = wrapped(&self.title, TITLE, right - 2.0 * MARGIN);
        let mut top = MARGIN + title.len() as f64 * TITLE_LINE;
        for row in self.parts.chunks(columns) {
            let (mut left, mut height) = (MARGIN, 0.0f64);
            for part in row {
                let size = drawn(&mut parts, part, (left, top));
                height = height.max(size.1);
                left += size.0 + MARGIN;
            }
            right = right.max(left);
            top += height + LINE;
        }
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {right:.0} {top:.0}\" font-family=\"sans-serif\" \
             font-size=\"{SIZE}\"><rect width=\"{right:.0}\" height=\"{top:.0}\" fill=\"white\"/>\n"
        );
        for (nth, text) in title.iter().enumerate() {
            let _ = writeln!(
                out,
                "<text x=\"{MARGIN}\" y=\"{:.1}\" font-size=\"{TITLE}\">{}</text>",
                MARGIN + TITLE + nth as f64 * TITLE_LINE,
                escape(text)
            );
        }
        out + &parts + "</svg>\n"
    }
}

/// Size of the title's font, and height of its lines.
const TITLE: f64 = 15.0;
const TITLE_LINE: f64 = 22.0;

/// Draws a part at a position and returns its width and height.
fn drawn(out: &mut String, part: &Part, (left, top): (f64, f64)) -> (f64, f64) {
    let chart = match part {
        Part::Grid(grid) => {
            let (wide, high) = grid.svg(out, (left, top));
            return (wide.max(WIDTH), high);
        }
        Part::Chart(chart) => chart,
    };
    let height = chart.draw("").1;
    let place = format!("x=\"{left:.1}\" y=\"{top:.1}\" width=\"{WIDTH}\" height=\"{height:.0}\"");
    out.push_str(&chart.draw(&place).0);
    let below = (left + MARGIN, top + height + LINE / 2.0);
    let legend = legend::svg(out, &chart.legend(), below, WIDTH - 2.0 * MARGIN);
    (WIDTH, height + LINE / 2.0 + legend)
}

impl Chart {
    /// Returns a sheet with this chart alone.
    pub fn titled(self, title: impl Into<String>) -> Sheet {
        Sheet {
            title: title.into(),
            parts: vec![Part::Chart(self)],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::text::width;
    use super::*;

    #[test]
    fn a_wide_table_widens_the_drawing() {
        let grid = Grid {
            columns: vec!["a column with a very long heading".to_string(); 6],
            ..Grid::default()
        };
        let text = Sheet {
            title: "wide".to_string(),
            parts: vec![Part::Grid(grid)],
        }
        .svg();
        let least = 6.0 * width("a column with a very long heading", SIZE);
        let wide: f64 = text
            .split_once("viewBox=\"0 0 ")
            .and_then(|(_, rest)| rest.split(' ').next()?.parse().ok())
            .expect("a width");
        assert!(wide > least, "{wide} {least}");
    }
}
