//! [`html`]: all figures of a run in one self-contained file.

use super::chart::escape;
use super::{csv, errors, judged, short, svg, table};
use crate::run::{FigureRun, Row};
use std::fmt::Write;

/// Facts about a run that its report shows.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// Commit that the program was built from.
    pub commit: String,
    /// Text that names the seeds and other options of the run.
    pub seeds: String,
    /// Name and content hash of every profile used.
    pub profiles: Vec<(String, String)>,
    /// Everything chosen after a held-out value was seen, so that such values are no predictions: parameters as
    /// `profile: parameter`, other choices as texts.
    pub leaks: Vec<String>,
    /// Names of the figures whose published values no profile was fitted to.
    pub heldout: Vec<&'static str>,
}

const STYLE: &str = "body{font-family:sans-serif;max-width:1000px;margin:2em auto;padding:0 1em}\
table{border-collapse:collapse}td,th{padding:2px 10px;text-align:right;border-bottom:1px solid #ddd}\
td:first-child,th:first-child{text-align:left}.miss{color:#b00}pre{font-size:11px;overflow-x:auto}";

/// Returns the report of a run as an HTML document with drawings, tables and CSV of all figures.
pub fn html(results: &[FigureRun], about: &About) -> String {
    let mut out = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>drover: published figures, \
         simulated</title><style>{STYLE}</style></head><body><h1>Published figures, simulated</h1>\n"
    );
    let _ = writeln!(
        out,
        "<p>Commit {}, {}. Everything here ran in the simulator; nothing was measured on hardware.</p>",
        escape(&about.commit),
        escape(&about.seeds)
    );
    profiles(&mut out, about);
    let (heldout, fitted): (Vec<&FigureRun>, Vec<&FigureRun>) = results
        .iter()
        .partition(|result| about.heldout.contains(&result.figure.name));
    summary(&mut out, "Calibration rows: what profiles are fitted to", &fitted);
    summary(&mut out, "Held-out rows: predictions, hits and misses", &heldout);
    predictions(&mut out, &heldout);
    results.iter().for_each(|result| figure(&mut out, result));
    out.push_str("</body></html>\n");
    out
}

fn profiles(out: &mut String, about: &About) {
    out.push_str("<h2>Profiles</h2><table><tr><th>profile</th><th>hash</th></tr>\n");
    for (name, hash) in &about.profiles {
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td><code>{hash}</code></td></tr>",
            escape(name)
        );
    }
    out.push_str("</table>\n");
    if !about.leaks.is_empty() {
        let leaks = escape(&about.leaks.join("; "));
        let _ = writeln!(
            out,
            "<p>Chosen after a held-out value was seen, so not predictions: {leaks}.</p>"
        );
    }
}

fn summary(out: &mut String, title: &str, results: &[&FigureRun]) {
    if results.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "<h2>{title}</h2><table><tr><th>figure</th><th>values</th><th>median</th><th>mean</th><th>max</th>\
         <th>within 10 %</th><th>within 20 %</th><th>in band</th></tr>"
    );
    let all: Vec<&Row> = results.iter().flat_map(|result| &result.rows).collect();
    for result in results {
        let name = result.figure.name;
        line(
            out,
            &format!("<a href=\"#{name}\">{name}</a>"),
            result.rows.iter().collect(),
        );
    }
    line(out, "all", all);
    out.push_str("</table>\n");
}

fn line(out: &mut String, name: &str, rows: Vec<&Row>) {
    let found = errors(rows);
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let _ = writeln!(
        out,
        "<tr><td>{name}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
        found.count,
        percent(found.median),
        percent(found.mean),
        percent(found.max),
        found.within_10,
        found.within_20,
        found.in_band
    );
}

/// Every held-out value and its prediction, hit or missed.
fn predictions(out: &mut String, results: &[&FigureRun]) {
    if results.is_empty() {
        return;
    }
    out.push_str(
        "<table><tr><th>figure, series, x</th><th>metric</th><th>published</th><th>simulated</th><th>least to \
         greatest</th><th>ratio</th><th>in band</th><th>binding</th></tr>\n",
    );
    for result in results {
        for row in result.rows.iter().filter(|row| row.ratio().is_some()) {
            prediction(out, result.figure.name, row);
        }
    }
    out.push_str("</table>\n");
}

fn prediction(out: &mut String, figure: &str, row: &Row) {
    let (class, band) = match row.in_band() {
        Some(true) => ("", "hit"),
        _ => (" class=\"miss\"", "miss"),
    };
    let number = |value: Option<f64>| value.map_or("-".to_string(), short);
    let _ = writeln!(
        out,
        "<tr{class}><td><a href=\"#{figure}\">{figure}</a>, {}, {}</td><td>{}, {}</td><td>{}</td><td>{}</td>\
         <td>{} to {}</td><td>{:.2}</td><td>{band}</td><td>{}</td></tr>",
        escape(&row.series),
        row.x,
        row.metric.name(),
        row.metric.unit(),
        number(row.expected.as_ref().map(|expected| expected.value)),
        number(row.simulated),
        short(row.range.0),
        short(row.range.1),
        row.ratio().unwrap_or(f64::NAN),
        escape(&row.binding),
    );
}

fn figure(out: &mut String, result: &FigureRun) {
    let figure = &result.figure;
    let _ = writeln!(
        out,
        "<h2 id=\"{0}\">{0}: {1}</h2><p>{2}. Expected shape: {3}.</p>\n{4}",
        figure.name,
        escape(figure.title),
        escape(figure.source),
        escape(figure.shape),
        svg(result)
    );
    let misses: Vec<String> = result
        .rows
        .iter()
        .filter(|row| row.in_band() == Some(false))
        .map(miss)
        .collect();
    let _ = writeln!(out, "<p>{}</p>", errors(&result.rows));
    if !misses.is_empty() {
        let _ = writeln!(
            out,
            "<p class=\"miss\">Missed: {}.</p>",
            escape(&misses.join("; "))
        );
    }
    out.push_str(&judged::html(&result.judgements()));
    let _ = writeln!(
        out,
        "<details><summary>Table</summary><pre>{}</pre></details>\
         <details><summary>CSV</summary><pre>{}</pre></details>",
        escape(&table(result)),
        escape(&csv(result))
    );
}

fn miss(row: &Row) -> String {
    format!(
        "{} at {} ({:.2})",
        row.series,
        row.x,
        row.ratio().unwrap_or(f64::NAN)
    )
}
