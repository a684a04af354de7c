//! Judgements of curves as text, CSV and HTML.

use super::chart::escape;
use crate::judge::Judgement;
use std::fmt::Write;

/// Names of the columns.
const COLUMNS: [&str; 6] = [
    "claim",
    "curves",
    "published",
    "simulated",
    "holds",
    "binding_resource",
];

/// Returns the judgements as a text table that ends with the number of claims that hold; without judgements, nothing.
pub(super) fn text(judgements: &[Judgement]) -> String {
    if judgements.is_empty() {
        return String::new();
    }
    let rows: Vec<[&str; 6]> = judgements.iter().map(cells).collect();
    let mut widths = [0; 5];
    for row in [COLUMNS].iter().chain(&rows) {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut out = String::new();
    for row in [COLUMNS].iter().chain(&rows) {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths) {
            let _ = write!(line, "{cell:<width$}  ");
        }
        line.push_str(row[5]);
        let _ = writeln!(out, "{}", line.trim_end());
    }
    let _ = writeln!(out, "{}", summary(judgements));
    out
}

/// Returns the judgements as CSV: a header, then a line for each; texts are not quoted, and their commas are semicolons.
pub fn judged_csv(judgements: &[Judgement]) -> String {
    let mut out = COLUMNS.join(",") + "\n";
    for row in judgements.iter().map(cells) {
        let _ = writeln!(out, "{}", row.map(|cell| cell.replace(',', ";")).join(","));
    }
    out
}

/// Returns the judgements as an HTML table, missed ones marked; without judgements, nothing.
pub(super) fn html(judgements: &[Judgement]) -> String {
    if judgements.is_empty() {
        return String::new();
    }
    let line = |tag: &str, row: [&str; 6]| {
        row.map(|cell| format!("<{tag}>{}</{tag}>", escape(cell)))
            .concat()
    };
    let mut out = format!(
        "<p>{}.</p><table><tr>{}</tr>\n",
        summary(judgements),
        line("th", COLUMNS)
    );
    for judgement in judgements {
        let class = if judgement.holds { "" } else { " class=\"miss\"" };
        let _ = writeln!(out, "<tr{class}>{}</tr>", line("td", cells(judgement)));
    }
    out.push_str("</table>\n");
    out
}

fn cells(judgement: &Judgement) -> [&str; 6] {
    [
        judgement.claim,
        &judgement.curves,
        &judgement.published,
        &judgement.simulated,
        if judgement.holds { "yes" } else { "MISS" },
        &judgement.binding,
    ]
}

fn summary(judgements: &[Judgement]) -> String {
    let holds = judgements.iter().filter(|judgement| judgement.holds).count();
    format!("{holds} of {} claims about curves hold", judgements.len())
}
