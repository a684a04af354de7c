//! [`Grid`]: values in rows and columns, as a table of a page and as a drawing.

use super::chart::LINE;
use super::scale::SIZE;
use super::text::{BOLD, END, ITALIC_END, START, escape, label, width};
use std::fmt::Write;

/// Space at both sides of a text in a cell of a drawing.
const PAD: f64 = 8.0;

/// A table of values. Every cell has up to two: a published one, and below it in italics the simulated one.
#[derive(Clone, Default, Debug)]
pub struct Grid {
    /// What the values are; stands above.
    pub title: String,
    /// Heading of the rows' names.
    pub corner: String,
    /// Headings of the columns of values.
    pub columns: Vec<String>,
    /// Rows: name, and a cell for each column.
    pub rows: Vec<(String, Vec<Cell>)>,
    /// What upright values are, and values in italics.
    pub meaning: [&'static str; 2],
}

/// A cell of a [`Grid`]; without values it is empty.
#[derive(Clone, Default, Debug)]
pub struct Cell {
    /// The upright value.
    pub upright: Option<String>,
    /// The value in italics.
    pub italic: Option<String>,
    /// Text that a pointer on the cell shows.
    pub hint: String,
}

impl Cell {
    fn lines(&self) -> impl Iterator<Item = (&str, bool)> {
        let upright = self.upright.as_deref().map(|text| (text, false));
        upright
            .into_iter()
            .chain(self.italic.as_deref().map(|text| (text, true)))
    }
}

impl Grid {
    /// What kinds of values mean, as far as there are any.
    fn note(&self) -> String {
        let cells = || self.rows.iter().flat_map(|(_, cells)| cells);
        let kinds = [
            (
                "upright",
                self.meaning[0],
                cells().any(|cell| cell.upright.is_some()),
            ),
            (
                "italics",
                self.meaning[1],
                cells().any(|cell| cell.italic.is_some()),
            ),
        ];
        let notes = kinds
            .into_iter()
            .filter(|(_, meaning, has)| *has && !meaning.is_empty());
        let notes: Vec<String> = notes
            .map(|(kind, meaning, _)| format!("{kind}: {meaning}"))
            .collect();
        notes.join("; ")
    }

    /// Returns the table for a page.
    pub(super) fn html(&self) -> String {
        let mut out = format!(
            "<p class=\"title\">{}</p><div class=\"scroll\"><table class=\"grid\"><thead><tr><th>{}</th>",
            escape(&self.title),
            escape(&self.corner)
        );
        for column in &self.columns {
            let _ = write!(out, "<th>{}</th>", escape(column));
        }
        out.push_str("</tr></thead><tbody>\n");
        for (name, cells) in &self.rows {
            let _ = write!(out, "<tr><th scope=\"row\">{}</th>", escape(name));
            for cell in cells {
                let _ = write!(out, "<td title=\"{}\">", escape(&cell.hint));
                let lines = cell.lines().map(|(text, is_italic)| match is_italic {
                    true => format!("<i>{}</i>", escape(text)),
                    false => format!("<b>{}</b>", escape(text)),
                });
                let _ = write!(out, "{}</td>", lines.collect::<Vec<_>>().join("<br>"));
            }
            out.push_str("</tr>\n");
        }
        let _ = writeln!(
            out,
            "</tbody></table></div><p class=\"note\">{}</p>",
            escape(&self.note())
        );
        out
    }

    /// Adds the table to a drawing from a position on; returns its width and height.
    pub(super) fn svg(&self, out: &mut String, (left, top): (f64, f64)) -> (f64, f64) {
        let ends = self.ends(left);
        let mut y = top + LINE;
        label(out, "cell", BOLD, (left, y), &self.title);
        y += LINE;
        label(out, "cell", START, (left, y), &self.corner);
        for (column, end) in self.columns.iter().zip(&ends[1..]) {
            label(out, "cell", END, (*end, y), column);
        }
        let right = ends.last().copied().unwrap_or(left);
        for (name, cells) in &self.rows {
            let _ = writeln!(
                out,
                "<line x1=\"{left:.1}\" x2=\"{right:.1}\" y1=\"{0:.1}\" y2=\"{0:.1}\" stroke=\"#ccc\"/>",
                y + 5.0
            );
            label(out, "cell", START, (left, y + LINE), name);
            let lines = cells
                .iter()
                .map(|cell| cell.lines().count())
                .max()
                .unwrap_or(1)
                .max(1);
            for (cell, end) in cells.iter().zip(&ends[1..]) {
                for (nth, (value, is_italic)) in cell.lines().enumerate() {
                    let style = if is_italic { ITALIC_END } else { END };
                    label(out, "cell", style, (*end, y + LINE * (nth + 1) as f64), value);
                }
            }
            y += LINE * lines as f64;
        }
        y += LINE + 4.0;
        label(out, "cell", START, (left, y), &self.note());
        let widest = [&self.title, &self.note()].map(|text| width(text, SIZE));
        ((right - left).max(widest[0]).max(widest[1]), y + LINE / 2.0 - top)
    }

    /// Right ends of the columns, that of the names first.
    fn ends(&self, left: f64) -> Vec<f64> {
        let names = self.rows.iter().map(|(name, _)| name).chain([&self.corner]);
        let mut end = left + names.map(|name| width(name, SIZE)).fold(0.0, f64::max);
        let mut ends = vec![end];
        for (index, column) in self.columns.iter().enumerate() {
            let cells = self.rows.iter().filter_map(|(_, cells)| cells.get(index));
            let values = cells.flat_map(|cell| cell.lines().map(|(text, _)| width(text, SIZE)));
            end += 2.0 * PAD + values.fold(width(column, SIZE), f64::max);
            ends.push(end);
        }
        ends
    }
}
