//! [`html`]: all figures of a run in one self-contained file.

use super::page::{Column, Page, Shown, Table};
use super::panels::sheet;
use super::table::{sorted, spread};
use super::text::{escape, short};
use super::{errors, judged};
use crate::figure::Figure;
use crate::run::{FigureRun, Row};

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

/// Returns the report of a run as an HTML document with the drawings and tables of all figures.
pub fn html(results: &[FigureRun], about: &About) -> String {
    let mut page = Page::new("Published figures, simulated");
    page.paragraph(&format!(
        "Commit {}, {}. Everything here ran in the simulator; nothing was measured on hardware. Solid lines and filled \
         marks are published values, dashed lines and hollow marks simulated ones. Point at a mark, or see the tables, for \
         the resource that binds.",
        about.commit, about.seeds
    ));
    let (heldout, fitted): (Vec<&FigureRun>, Vec<&FigureRun>) = results
        .iter()
        .partition(|result| about.heldout.contains(&result.figure.name));
    summary(
        &mut page,
        "Calibration rows: what profiles are fitted to",
        &fitted,
    );
    summary(&mut page, "Held-out rows: predictions, hits and misses", &heldout);
    predictions(&mut page, &heldout);
    profiles(&mut page, about);
    results.iter().for_each(|result| figure(&mut page, result));
    page.finish()
}

fn profiles(page: &mut Page, about: &About) {
    page.heading("profiles", "Profiles");
    let mut table = Table::new(&[Column("profile", Shown::Text), Column("hash", Shown::Text)]);
    for (name, hash) in &about.profiles {
        table.row(&[escape(name), format!("<code>{}</code>", escape(hash))], false);
    }
    page.html(&table.finish());
    if !about.leaks.is_empty() {
        page.paragraph(&format!(
            "Chosen after a held-out value was seen, so not predictions: {}.",
            about.leaks.join("; ")
        ));
    }
}

/// Columns of the errors of several figures.
const SUMMARY: [Column; 8] = [
    Column("figure", Shown::Text),
    Column("values", Shown::Number),
    Column("median", Shown::Number),
    Column("mean", Shown::Wide),
    Column("max", Shown::Number),
    Column("within 10 %", Shown::Wide),
    Column("within 20 %", Shown::Wide),
    Column("in band", Shown::Number),
];

fn summary(page: &mut Page, title: &str, results: &[&FigureRun]) {
    if results.is_empty() {
        return;
    }
    page.heading(
        if title.starts_with("Held") {
            "held-out"
        } else {
            "calibration"
        },
        title,
    );
    let mut table = Table::new(&SUMMARY);
    let compared = |result: &&&FigureRun| result.rows.iter().any(|row| row.ratio().is_some());
    for result in results.iter().filter(compared) {
        table.row(&summary_of(&link(result.figure.name), result.rows.iter()), false);
    }
    table.row(
        &summary_of("all", results.iter().flat_map(|result| &result.rows)),
        false,
    );
    page.html(&table.finish());
}

fn link(figure: &str) -> String {
    format!("<a href=\"#{figure}\">{figure}</a>")
}

fn summary_of<'a>(name: &str, rows: impl Iterator<Item = &'a Row>) -> [String; 8] {
    let found = errors(rows);
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    [
        name.to_string(),
        found.count.to_string(),
        percent(found.median),
        percent(found.mean),
        percent(found.max),
        found.within_10.to_string(),
        found.within_20.to_string(),
        found.in_band.to_string(),
    ]
}

/// Every held-out value and its prediction, hit or missed.
fn predictions(page: &mut Page, results: &[&FigureRun]) {
    if results.is_empty() {
        return;
    }
    let columns = [&[Column("figure", Shown::Text)], &VALUES[..]].concat();
    let mut table = Table::new(&columns);
    for result in results {
        let figure = &result.figure;
        for row in result.rows.iter().filter(|row| row.ratio().is_some()) {
            let cells = [&[link(figure.name)], &cells(figure, row, ["hit", "miss"])[..]].concat();
            table.row(&cells, row.in_band() == Some(false));
        }
    }
    page.folded("Every prediction", &table.finish());
}

/// Columns of values.
const VALUES: [Column; 9] = [
    Column("series", Shown::Text),
    Column("x", Shown::Number),
    Column("metric", Shown::Text),
    Column("published", Shown::Number),
    Column("simulated", Shown::Number),
    Column("spread", Shown::Wide),
    Column("ratio", Shown::Number),
    Column("in band", Shown::Text),
    Column("binding resource", Shown::Text),
];

fn cells(figure: &Figure, row: &Row, [inside, outside]: [&str; 2]) -> [String; 9] {
    let number = |value: Option<f64>| value.map_or("-".to_string(), short);
    [
        escape(&row.series),
        figure.x_text(row.x),
        escape(&row.metric.label()),
        number(row.expected.as_ref().map(|expected| expected.value)),
        number(row.simulated),
        spread(row),
        row.ratio().map_or("-".to_string(), |ratio| format!("{ratio:.2}")),
        row.in_band()
            .map_or("", |is_inside| if is_inside { inside } else { outside })
            .to_string(),
        escape(&row.binding),
    ]
}

fn figure(page: &mut Page, result: &FigureRun) {
    let figure = &result.figure;
    page.heading(figure.name, &format!("{}: {}", figure.name, figure.title));
    page.paragraph(&format!("{}. Expected shape: {}.", figure.source, figure.shape));
    page.html(&sheet(result).html());
    let found = errors(&result.rows);
    if found.count > 0 {
        page.paragraph(&found.to_string());
    }
    let missed = result.rows.iter().filter(|row| row.in_band() == Some(false));
    let first = result.rows.first().map(|row| row.metric.name());
    let is_only = result.rows.iter().all(|row| Some(row.metric.name()) == first);
    let missed: Vec<String> = missed.map(|row| miss(figure, row, is_only)).collect();
    if !missed.is_empty() {
        page.warning(&format!("Missed: {}.", missed.join("; ")));
    }
    page.html(&judged::html(&result.judgements()));
    let mut table = Table::new(&VALUES);
    for row in sorted(result) {
        table.row(&cells(figure, row, ["in", "miss"]), row.in_band() == Some(false));
    }
    page.folded("Values, and the resource that binds", &table.finish());
}

/// A missed value; `is_only`: the figure has no other metrics.
fn miss(figure: &Figure, row: &Row, is_only: bool) -> String {
    let metric = if is_only {
        String::new()
    } else {
        format!(", {},", row.metric.name())
    };
    format!(
        "{}{metric} at {} ({:.2})",
        row.series,
        figure.x_text(row.x),
        row.ratio().unwrap_or(f64::NAN)
    )
}
