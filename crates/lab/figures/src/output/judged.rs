//! Judgements of curves as text, CSV and HTML.

use super::page::{Column, Shown, Table};
use super::text::escape;
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

/// The same, as headings of a page.
const HEADINGS: [&str; 6] = [
    "claim",
    "curves",
    "published",
    "simulated",
    "holds",
    "binding resource",
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
    let mut table = Table::new(&HEADINGS.map(|name| Column(name, Shown::Text)));
    for judgement in judgements {
        table.row(&cells(judgement).map(escape), !judgement.holds);
    }
    format!("<p>{}.</p>{}", summary(judgements), table.finish())
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
