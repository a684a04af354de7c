use super::*;
use crate::published::Expected;
use drover_verbs_sim::profile::Profile;
use std::collections::BTreeSet;

/// Figures of whole systems, to whose published values no profile is fitted.
pub(crate) const END_TO_END: [&str; 23] = [
    "herd-7",
    "herd-9",
    "herd-10",
    "herd-11",
    "herd-12",
    "herd-13",
    "herd-14",
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
    "smart-5",
    "smart-5b",
    "smart-7",
    "smart-8",
    "smart-9",
    "smart-14",
];

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
    let of_verbs = [
        "herd-2",
        "herd-3",
        "herd-4",
        "herd-5",
        "herd-6",
        "herd-10-susitna",
        "herd-table-1",
        "rfp-3",
        "rfp-4",
        "rfp-5",
        "rfp-6",
        "smart-3",
        "smart-4",
        "smart-13",
        "smart-table-1",
        "atc-13",
    ];
    for name in of_verbs.iter().chain(&END_TO_END) {
        assert!(names.contains(name), "{name}");
    }
}

#[test]
fn claims_are_about_curves_that_exist() {
    let mut count = 0;
    for figure in all() {
        let points = (figure.points)();
        let exists = |curve: &str| points.iter().any(|point| point.series == curve);
        for claim in claims(figure.name) {
            let curves = match claim {
                Claim::Peaks(curves) | Claim::Order(curves) => curves,
                Claim::Ratio { of, over, .. } => vec![of, over],
            };
            assert!(curves.iter().all(|curve| exists(curve)), "{curves:?}");
            count += curves.len();
        }
    }
    assert!(count > 0);
}
