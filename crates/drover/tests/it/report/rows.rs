//! Rows of every figure without simulating it, which takes hours: true curves, positions, metrics and published values.
//! Simulated values are made up near the published ones; where there are none, within a usual range of their unit.

use drover_figures::catalogue;
use drover_figures::figure::{Figure, Metric, Point};
use drover_figures::published::Expected;
use drover_figures::run::{FigureRun, Row};

/// Names of resources as simulations report them, short and long.
const BINDING: [&str; 4] = [
    "rx 97%",
    "nodes' atomic lock 99%",
    "server core 3 100%",
    "to the server 88%",
];

/// Every figure with rows.
pub fn all() -> Vec<FigureRun> {
    let expected = expected();
    catalogue::all()
        .into_iter()
        .map(|figure| rows(figure, &expected))
        .collect()
}

/// All published values.
fn expected() -> Expected {
    let mut expected = Expected::calibration();
    for table in drover_heldout::ALL {
        expected.add(table).expect("our own tables are well-formed");
    }
    let listed = expected.list(drover_heldout::NOT_SIMULATED);
    listed.expect("our own table is well-formed");
    expected
}

fn rows(figure: Figure, expected: &Expected) -> FigureRun {
    let points = (figure.points)();
    let mut rows: Vec<Row> = Vec::new();
    for point in &points {
        for &metric in &point.metrics {
            rows.push(row(&figure, point, metric, expected, rows.len()));
        }
    }
    rows.extend(expected.listed(figure.name).map(|(published, why)| Row {
        series: published.series.clone(),
        x: published.x,
        metric: Metric::Throughput,
        expected: Some(published.clone()),
        simulated: None,
        range: (0.0, 0.0),
        binding: format!("not simulated: {why}"),
    }));
    FigureRun { figure, rows }
}

fn row(figure: &Figure, point: &Point, metric: Metric, expected: &Expected, index: usize) -> Row {
    let series = point.against.unwrap_or(&point.series);
    let published = expected.of(figure.name, series, point.x, metric.name()).cloned();
    // A golden ratio apart: spread evenly, and the same in every run.
    let share = (index as f64 * 0.618).fract();
    let simulated = match &published {
        Some(published) => published.value * (0.85 + 0.3 * share),
        None => usual(metric) * (0.05 + 0.95 * share),
    };
    Row {
        series: point.series.clone(),
        x: point.x,
        metric,
        expected: published,
        simulated: Some(simulated),
        range: (simulated * 0.97, simulated * 1.02),
        binding: BINDING[index % BINDING.len()].to_string(),
    }
}

/// A high value of a metric.
fn usual(metric: Metric) -> f64 {
    match metric.unit() {
        "Mops" | "M/s" => 60.0,
        "us" => 120.0,
        "%" => 100.0,
        "B" => 300.0,
        "1" => 9.0,
        _ => 1.0,
    }
}

/// Names of the figures with held-out values.
pub fn held_out() -> Vec<&'static str> {
    let rows = drover_heldout::ALL
        .into_iter()
        .flat_map(|table| table.lines().skip(1));
    let mut names: Vec<&str> = rows.filter_map(|row| row.split(',').next()).collect();
    names.dedup();
    names
}
