use super::*;
use crate::published::Expected;
use drover_verbs_sim::profile::Profile;
use std::collections::BTreeSet;

#[test]
fn every_calibration_row_has_its_point() {
    let expected = Expected::calibration();
    for figure in all() {
        let points = (figure.points)();
        let key = |series: &str, x: f64, metric: &str| (series.to_string(), x.to_bits(), metric.to_string());
        let ours: BTreeSet<_> = points
            .iter()
            .flat_map(|point| {
                point
                    .metrics
                    .iter()
                    .map(|metric| key(&point.series, point.x, metric.name()))
            })
            .collect();
        assert_eq!(
            ours.len(),
            points.iter().map(|point| point.metrics.len()).sum::<usize>(),
            "{}: twice the same",
            figure.name
        );
        let missing: Vec<_> = expected
            .rows(figure.name)
            .filter(|row| !ours.contains(&key(&row.series, row.x, &row.metric)))
            .collect();
        assert!(missing.is_empty(), "{}: no point for {missing:?}", figure.name);
    }
}

#[test]
fn names_differ_and_profiles_exist() {
    let figures = all();
    let names: BTreeSet<_> = figures.iter().map(|figure| figure.name).collect();
    assert_eq!(names.len(), figures.len());
    for figure in figures {
        for point in (figure.points)() {
            let mut profile = Profile::named(point.profile).expect("a profile");
            for (path, value) in point.changed {
                profile.set(path, 0, value).expect("a parameter");
            }
        }
    }
}

#[test]
fn no_series_breaks_the_columns_of_a_file() {
    for figure in all() {
        assert!(
            (figure.points)().iter().all(|point| !point.series.contains(',')),
            "{}",
            figure.name
        );
    }
}

/// Figures that other code selects by name.
#[test]
fn the_figures_that_were_promised_are_there() {
    let names: BTreeSet<_> = all().iter().map(|figure| figure.name).collect();
    let herd = [2, 3, 4, 5, 6, 9, 10, 11, 12, 13, 14].map(|n| format!("herd-{n}"));
    let others = [
        "herd-10-susitna",
        "herd-table-1",
        "rfp-3",
        "rfp-4",
        "rfp-5",
        "rfp-6",
        "rfp-9",
        "rfp-10",
        "rfp-12",
        "rfp-13",
        "rfp-14",
        "rfp-15",
        "rfp-17",
        "rfp-18",
        "rfp-mix",
        "rfp-table3",
        "smart-3",
        "smart-4",
        "smart-13",
        "smart-table-1",
        "atc-13",
    ];
    for name in herd.iter().map(String::as_str).chain(others) {
        assert!(names.contains(name), "{name}");
    }
}
