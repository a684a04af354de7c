//! Runs figures: every point of every figure is a task, run by the requested number of threads.
//!
//! A cluster stays on one thread, so points run in parallel, not clusters; the thread does not affect a point's result.

use crate::cluster::Clusters;
use crate::figure::{Figure, Job, Metric, Point, Work};
use crate::micro::{self, Outcome, Span};
use crate::published::{Expected, Published};
use drover_verbs_sim::Ablations;
use drover_verbs_sim::profile::Profile;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Options of runs.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Seeds per point; the mean is shown, with minimum and maximum.
    pub seeds: u64,
    /// The first seed.
    pub first_seed: u64,
    /// Use shorter spans.
    pub quick: bool,
    /// Number of threads.
    pub jobs: usize,
}

/// A simulated value with the published one.
#[derive(Clone, Debug)]
pub struct Row {
    /// Name of the curve.
    pub series: String,
    /// Position on the x axis.
    pub x: f64,
    /// Metric of the value.
    pub metric: Metric,
    /// The published value, if there is one.
    pub expected: Option<Published>,
    /// Mean over seeds; `None` if the cluster does not know the value.
    pub simulated: Option<f64>,
    /// Minimum and maximum over seeds.
    pub range: (f64, f64),
    /// The busiest part.
    pub binding: String,
}

impl Row {
    /// Simulated over published; one if both are zero.
    pub fn ratio(&self) -> Option<f64> {
        let (expected, simulated) = (self.expected.as_ref()?.value, self.simulated?);
        Some(if simulated == expected {
            1.0
        } else {
            simulated / expected
        })
    }

    /// Whether the ratio is within the band of its metric.
    pub fn in_band(&self) -> Option<bool> {
        let band = self.metric.band();
        self.ratio().map(|ratio| (ratio - 1.0).abs() <= band)
    }
}

/// Results of a figure.
#[derive(Clone)]
pub struct FigureRun {
    /// The figure.
    pub figure: Figure,
    /// Its values, in the order of its points.
    pub rows: Vec<Row>,
}

/// The profiles named by points.
#[derive(Clone, Debug)]
pub struct Profiles(BTreeMap<String, Profile>);

impl Profiles {
    /// The built-in profiles.
    pub fn builtin() -> Profiles {
        let load = |name: &&str| {
            (
                name.to_string(),
                Profile::named(name).expect("built in and tested"),
            )
        };
        Profiles(Profile::names().iter().map(load).collect())
    }

    /// Replaces the profile of the same name.
    pub fn replace(&mut self, profile: Profile) {
        self.0.insert(profile.name().to_string(), profile);
    }

    /// The profile `name`.
    pub fn named(&self, name: &str) -> &Profile {
        self.0.get(name).expect("points name profiles that exist")
    }

    /// The profile of `point`, with its changes.
    pub fn of(&self, point: &Point) -> Profile {
        let mut profile = self.named(point.profile).clone();
        for (path, value) in &point.changed {
            profile
                .set(path, 0, *value)
                .expect("points change parameters that exist");
        }
        profile
    }
}

/// Makes clusters under a profile.
pub trait MakeClusters: Sync {
    /// Type that makes the clusters.
    type Clusters: Clusters;
    /// Makes clusters whose machines have `profile`.
    fn under(&self, profile: &Profile) -> Self::Clusters;
    /// Limits removed from the machines, for work that makes its own clusters.
    fn ablations(&self) -> Ablations {
        Ablations::default()
    }
}

/// Runs one point.
pub fn run_point<M: MakeClusters>(
    make: &M,
    point: &Point,
    profile: &Profile,
    seed: u64,
    quick: bool,
) -> Outcome {
    match &point.work {
        Work::Bench(bench) => {
            let span = if quick { Span::QUICK } else { Span::FULL };
            micro::run(&make.under(profile), bench, span, seed)
        }
        Work::Other(work) => work(&Job {
            profile,
            ablations: make.ablations(),
            seed,
            quick,
        }),
    }
}

/// Runs `points`, counting finished runs in `progress`. Returns the outcomes in the order of points, one per seed.
pub fn run_points<M: MakeClusters>(
    make: &M,
    points: &[Point],
    profiles: &Profiles,
    options: &RunOptions,
    progress: &AtomicU64,
) -> Vec<Vec<Outcome>> {
    let seeds = options.seeds.max(1) as usize;
    let next = AtomicUsize::new(0);
    let done: Vec<Mutex<Outcome>> = (0..points.len() * seeds).map(|_| Mutex::default()).collect();
    let work = || {
        loop {
            let task = next.fetch_add(1, Ordering::Relaxed);
            let Some(slot) = done.get(task) else { break };
            let point = &points[task / seeds];
            let seed = options.first_seed + (task % seeds) as u64;
            let outcome = run_point(make, point, &profiles.of(point), seed, options.quick);
            *slot.lock().expect("no thread panics with the lock") = outcome;
            progress.fetch_add(1, Ordering::Relaxed);
        }
    };
    std::thread::scope(|scope| {
        (1..options.jobs.max(1)).for_each(|_| drop(scope.spawn(work)));
        work();
    });
    let mut outcomes = done
        .into_iter()
        .map(|slot| slot.into_inner().expect("no thread panics with the lock"));
    points
        .iter()
        .map(|_| outcomes.by_ref().take(seeds).collect())
        .collect()
}

/// Runs figures, with all points in parallel.
pub fn run_figures<M: MakeClusters>(
    make: &M,
    figures: &[Figure],
    profiles: &Profiles,
    expected: &Expected,
    options: &RunOptions,
    progress: &AtomicU64,
) -> Vec<FigureRun> {
    let points: Vec<Vec<Point>> = figures.iter().map(|figure| (figure.points)()).collect();
    let flat: Vec<Point> = points.concat();
    let mut outcomes = run_points(make, &flat, profiles, options, progress).into_iter();
    let rows = |(figure, points): (&Figure, Vec<Point>)| FigureRun {
        figure: figure.clone(),
        rows: points
            .iter()
            .flat_map(|point| {
                let outcomes = outcomes.next().expect("one per point");
                point
                    .metrics
                    .iter()
                    .map(move |metric| row(figure.name, point, *metric, &outcomes, expected))
                    .collect::<Vec<_>>()
            })
            .collect(),
    };
    figures.iter().zip(points).map(rows).collect()
}

/// Number of runs of the figures, for a progress bar.
pub fn run_count(figures: &[Figure], options: &RunOptions) -> u64 {
    figures
        .iter()
        .map(|figure| (figure.points)().len() as u64 * options.seeds.max(1))
        .sum()
}

/// The row of one metric of one point over its seeds.
pub fn row(figure: &str, point: &Point, metric: Metric, outcomes: &[Outcome], expected: &Expected) -> Row {
    let values: Vec<f64> = outcomes.iter().filter_map(|outcome| metric.of(outcome)).collect();
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let published_series = point.against.unwrap_or(&point.series);
    let range = values
        .iter()
        .fold((f64::MAX, f64::MIN), |(low, high), v| (low.min(*v), high.max(*v)));
    Row {
        series: point.series.clone(),
        x: point.x,
        metric,
        expected: expected
            .of(figure, published_series, point.x, metric.name())
            .cloned(),
        simulated: (!values.is_empty()).then_some(mean),
        range,
        binding: binding(outcomes),
    }
}

/// The busiest part in the first seed's run, with its busy fraction.
fn binding(outcomes: &[Outcome]) -> String {
    match outcomes.first().and_then(|outcome| outcome.binding.as_ref()) {
        Some((name, share)) => format!("{name} {:.0}%", share * 100.0),
        None => "unknown".to_string(),
    }
}
