//! Fits a profile to calibration rows, stage by stage, each parameter within its bounds.
//!
//! ```text
//! for each stage, in the order in which parameters can be distinguished:
//!     twice: for each parameter of the stage (each point of a curve):
//!         move it up or down by 12, 6, 3, 1 percent while that reduces the error of its rows
//!     the stage's parameters are final from here on
//! ```
//!
//! There is no global search: stages are independent by construction, and a parameter that only a later stage could
//! correct shows up as an error instead of being bent. A row's weight depends on how its value is known.

mod fit;
mod stages;
#[cfg(test)]
mod tests;

pub use fit::{Fit, fit};
pub use stages::{Method, Rows, Stage, StageError, Step, stages};

use crate::catalogue;
use crate::figure::Point;
use crate::output::{Errors, errors};
use crate::published::{Expected, Published};
use crate::run::{MakeClusters, Profiles, Row, RunOptions, row, run_points};
use std::sync::atomic::AtomicU64;

/// One value to fit to: a metric of a point that runs on the fitted profile, and its published value.
#[derive(Clone, Debug)]
pub struct Target {
    /// Name of the figure.
    pub figure: &'static str,
    /// The point to run.
    pub point: Point,
    /// Index in [`Point::metrics`] of the metric.
    pub metric: usize,
    /// The published value.
    pub published: Published,
}

/// All calibration rows to which `profile` can be fitted: those of points that run on it, one target per metric. Rows
/// are found by [`Point::series`], regardless of [`Point::against`]. Empty if no point names `profile`.
pub fn targets(profile: &str) -> Vec<Target> {
    let expected = Expected::calibration();
    let mut found = Vec::new();
    for figure in catalogue::all() {
        for point in (figure.points)()
            .into_iter()
            .filter(|point| point.profile == profile)
        {
            for (index, metric) in point.metrics.iter().enumerate() {
                let published = expected.of(figure.name, &point.series, point.x, metric.name());
                let Some(published) = published.cloned() else {
                    continue;
                };
                found.push(Target {
                    figure: figure.name,
                    metric: index,
                    published,
                    point: point.clone(),
                });
            }
        }
    }
    found
}

/// Runs the points of `targets` on machines of `profiles` and returns a row per target, in the same order. A point runs
/// once for all adjacent targets with its figure, series and x. Adds the number of finished runs to `progress`.
///
/// # Panics
/// As [`run_points`].
pub fn evaluate<M: MakeClusters>(
    make: &M,
    targets: &[Target],
    profiles: &Profiles,
    options: &RunOptions,
    progress: &AtomicU64,
) -> Vec<Row> {
    let expected = Expected::calibration();
    let mut points: Vec<Point> = Vec::new();
    let mut last = None;
    let places: Vec<usize> = targets
        .iter()
        .map(|target| {
            // Metrics of one point are adjacent: it is run once for all of them.
            let this = Some((target.figure, &target.point.series, target.point.x));
            if last != this {
                last = this;
                points.push(target.point.clone());
            }
            points.len() - 1
        })
        .collect();
    let outcomes = run_points(make, &points, profiles, options, progress);
    let rows = targets.iter().zip(places).map(|(target, place)| {
        let metric = target.point.metrics[target.metric];
        row(target.figure, &target.point, metric, &outcomes[place], &expected)
    });
    rows.collect()
}

/// Errors of the rows of a figure, or of all rates and latencies.
#[derive(Clone, Debug)]
pub struct Group {
    /// Name of the figure, followed by the metric unless it is throughput or latency; or `rates and latencies`.
    pub name: String,
    /// Errors of the rows of the group.
    pub errors: Errors,
}

/// Errors of `rows`, the result of [`evaluate`] for `targets`: a group per figure for its rates and latencies, a group
/// for each other metric of a figure, and last a group for all rates and latencies.
pub fn groups(targets: &[Target], rows: &[Row]) -> Vec<Group> {
    let name = |target: &Target| match target.point.metrics[target.metric].name() {
        "throughput" | "latency" => target.figure.to_string(),
        metric => format!("{} {metric}", target.figure),
    };
    let mut names: Vec<String> = Vec::new();
    for target in targets {
        if !names.contains(&name(target)) {
            names.push(name(target));
        }
    }
    let of = |wanted: &dyn Fn(&Target) -> bool| {
        let chosen = targets.iter().zip(rows).filter(|(target, _)| wanted(target));
        errors(chosen.map(|(_, row)| row))
    };
    let mut groups: Vec<Group> = names
        .iter()
        .map(|group| Group {
            name: group.clone(),
            errors: of(&|target| name(target) == *group),
        })
        .collect();
    groups.push(Group {
        name: "rates and latencies".to_string(),
        errors: of(&|target| name(target) == target.figure),
    });
    groups
}
