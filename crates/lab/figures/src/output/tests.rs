use super::*;
use crate::catalogue;
use crate::figure::Metric;
use crate::published::Expected;
use crate::run::{FigureRun, Row};

/// Every published value of a figure, simulated a tenth too high.
fn result(name: &str) -> FigureRun {
    let figure = catalogue::all()
        .into_iter()
        .find(|figure| figure.name == name)
        .expect("a figure");
    let expected = Expected::calibration();
    let rows = expected.rows(name).map(|row| Row {
        series: row.series.clone(),
        x: row.x,
        metric: Metric::Throughput,
        expected: Some(row.clone()),
        simulated: Some(row.value * 1.1),
        range: (row.value, row.value * 1.2),
        binding: "tx 99%".to_string(),
    });
    let rows = rows.collect();
    FigureRun { figure, rows }
}

#[test]
fn the_columns_are_those_that_others_rely_on() {
    let text = csv(&result("herd-6"));
    let mut lines = text.lines();
    let header = "series,x,metric,unit,expected,simulated,ratio,in_band,binding_resource";
    assert_eq!(lines.next(), Some(header));
    assert_eq!(lines.clone().count(), 27);
    assert!(lines.all(|line| line.split(',').count() == 9));
    assert!(text.contains("inbound WRITE UC,1,throughput,Mops,6.884,7.5724,1.1000,true,tx 99%"));
}

#[test]
fn errors_are_counted() {
    let mut result = result("herd-6");
    let found = errors(&result.rows);
    assert_eq!((found.count, found.within_20, found.in_band), (27, 27, 27));
    assert!((found.median - 0.1).abs() < 1e-9);
    result.rows[0].simulated = Some(0.0);
    result.rows[1].expected = None;
    let found = errors(&result.rows);
    assert_eq!((found.count, found.in_band), (26, 25));
    assert!((found.max - 1.0).abs() < 1e-9);
}

#[test]
fn the_drawing_and_the_report_are_complete_and_escaped() {
    let mut result = result("herd-6");
    result.figure.title = "a < b & c";
    let drawing = svg(&result);
    assert!(drawing.starts_with("<svg") && drawing.ends_with("</svg>\n"));
    assert_eq!(
        drawing.matches("<polyline").count(),
        6 + 2,
        "curves, and lines in the legend"
    );
    assert!(drawing.contains("a &lt; b &amp; c") && !drawing.contains("NaN"));
    let about = About {
        commit: "abc".to_string(),
        profiles: vec![("apt".to_string(), "0123".to_string())],
        ..About::default()
    };
    let report = html(&[result], &about);
    assert!(report.contains("0123") && report.contains("</html>") && !report.contains("http-equiv"));
    assert!(
        !report.contains("src=") && !report.contains("<script") && !report.contains("<link"),
        "it needs no other file"
    );
    assert!(report.contains("binding: tx 99%"), "pointers show what binds");
}

#[test]
fn held_out_values_are_listed_one_by_one_hit_or_missed() {
    let mut result = result("rfp-4");
    result.rows[0].simulated = Some(1.0);
    let count = result.rows.len();
    let about = |heldout| About {
        heldout,
        ..About::default()
    };
    let cells = |text: &str, cell: &str| text.matches(cell).count();
    let report = html(&[result.clone()], &about(vec!["rfp-4"]));
    assert_eq!(cells(&report, "\">hit</td>"), count - 1);
    assert_eq!(cells(&report, "\">miss</td>"), 2, "among predictions and values");
    let fitted = html(&[result], &about(vec![]));
    assert_eq!(
        cells(&fitted, "\">hit</td>"),
        0,
        "what is fitted to is no prediction"
    );
}

#[test]
fn a_table_shows_misses() {
    let mut result = result("rfp-4");
    result.rows[0].simulated = Some(1.0);
    let text = table(&result);
    assert!(text.contains("MISS") && text.lines().count() == 13, "{text}");
}

#[test]
fn a_table_shows_how_far_seeds_are_apart() {
    let mut result = result("rfp-4");
    result.rows.truncate(2);
    let row = &mut result.rows[0];
    row.simulated = Some(10.0);
    row.range = (9.9, 10.2);
    let row = &mut result.rows[1];
    row.range = (5.0, 5.0);
    let text = table(&result);
    assert_eq!(text.matches("3.0 %").count(), 1, "{text}");
    assert!(text.contains("spread"), "{text}");
}

#[test]
fn judgements_are_in_all_outputs() {
    let judgement = |holds| crate::judge::Judgement {
        claim: "order",
        curves: "a : b".to_string(),
        published: "2 values differ".to_string(),
        simulated: "1 in this order".to_string(),
        holds,
        binding: "at 48: nodes' atomic lock 99%, cpu 90%".to_string(),
    };
    let judgements = [judgement(true), judgement(false)];
    let text = judged::text(&judgements);
    assert!(
        text.contains("MISS") && text.contains("1 of 2 claims about curves hold"),
        "{text}"
    );
    let lines = judged_csv(&judgements);
    assert!(lines.lines().all(|line| line.split(',').count() == 6), "{lines}");
    assert!(lines.contains("nodes' atomic lock 99%; cpu 90%"), "{lines}");
    let report = judged::html(&judgements);
    assert_eq!(report.matches("class=\"miss\"").count(), 1, "{report}");
    assert_eq!(
        (judged::text(&[]), judged::html(&[])),
        (String::new(), String::new())
    );
}

/// A figure whose values are all 1, simulated and published.
fn drawn(name: &str) -> String {
    let mut result = result("herd-6");
    result.figure = catalogue::all()
        .into_iter()
        .find(|figure| figure.name == name)
        .expect("a figure");
    let points = (result.figure.points)().into_iter();
    let rows = points.flat_map(|point| {
        let row = move |metric: &Metric| Row {
            series: point.series.clone(),
            x: point.x,
            metric: *metric,
            expected: None,
            simulated: Some(1.0),
            range: (1.0, 1.0),
            binding: "tx 99%".to_string(),
        };
        point.metrics.iter().map(row).collect::<Vec<_>>()
    });
    result.rows = rows.collect();
    svg(&result)
}

#[test]
fn each_metric_has_a_chart_and_no_chart_more_curves_than_can_be_told_apart() {
    let latencies = drawn("herd-11");
    assert_eq!(
        latencies.matches("class=\"chart\"").count(),
        8,
        "4 metrics of 13 systems"
    );
    let label = |text: &str| latencies.matches(&format!(">{text} (1 of 2)</text>")).count();
    assert_eq!((label("throughput, Mops"), label("latency mean, us")), (1, 1));
    assert!(latencies.contains("dashed, hollow: simulated"));
    assert!(!latencies.contains("solid, filled"), "nothing is published here");
}

#[test]
fn tables_are_drawn_as_tables() {
    let table = drawn("herd-table-1");
    assert_eq!(table.matches("class=\"chart\"").count(), 0);
    assert!(
        table.contains(">FAA</text>") && table.contains(">yes</text>"),
        "{table}"
    );
    let beside = drawn("herd-14");
    assert!(
        beside.contains(">busiest core over least busy (core: 6)</text>"),
        "a table of one metric among several has its name"
    );
}
