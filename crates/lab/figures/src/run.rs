//! Runs figures: every point with every seed is a task, and the requested number of threads runs the tasks.
//!
//! A cluster stays on one thread: points run in parallel, clusters do not. Threads do not affect results.

use crate::catalogue;
use crate::cluster::Clusters;
use crate::figure::{Figure, Job, Metric, Point, Work};
use crate::judge::{Judgement, judge};
use crate::micro::{self, Outcome, Span};
use crate::published::{Expected, Published};
use drover_verbs_sim::Ablations;
use drover_verbs_sim::profile::Profile;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Options of runs: how many, how long, on how many threads.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Number of seeds with which each point runs; results show mean, minimum and maximum. 0 counts as 1.
    pub seeds: u64,
    /// The first seed; the others are the numbers after it.
    pub first_seed: u64,
    /// Whether to use shorter warm-ups and measured spans.
    pub quick: bool,
    /// Number of threads that run points. 0 counts as 1.
    pub jobs: usize,
}

/// Result of one metric of one point: the simulated value and the published one.
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
    /// Mean of the simulated values over all seeds, in the metric's unit; `None` if the runs did not measure it.
    pub simulated: Option<f64>,
    /// Minimum and maximum of the simulated values over all seeds; meaningless if `simulated` is `None`.
    pub range: (f64, f64),
    /// Name and busy percentage of the busiest part in the first seed's run (as in [`Outcome::binding`]), `unknown`, or why
    /// nothing was simulated.
    pub binding: String,
}

impl Row {
    /// Simulated value divided by the published one (1 if both are 0); `None` if either is missing.
    pub fn ratio(&self) -> Option<f64> {
        let (expected, simulated) = (self.expected.as_ref()?.value, self.simulated?);
        Some(if simulated == expected {
            1.0
        } else {
            simulated / expected
        })
    }

    /// Whether the ratio is within the [band](Metric::band) of its metric; `None` if there is no ratio.
    pub fn in_band(&self) -> Option<bool> {
        let band = self.metric.band();
        self.ratio().map(|ratio| (ratio - 1.0).abs() <= band)
    }
}

/// Results of a run of a figure, next to its published values.
#[derive(Clone)]
pub struct FigureRun {
    /// Description of the figure.
    pub figure: Figure,
    /// Values of the figure in the order of its points, one per metric of a point; then those that were published and that
    /// nothing simulates.
    pub rows: Vec<Row>,
}

impl FigureRun {
    /// Judges the [claims](catalogue::claims) about the figure's curves.
    pub fn judgements(&self) -> Vec<Judgement> {
        judge(&self.rows, &catalogue::claims(self.figure.name))
    }
}

/// A set of hardware profiles by name, in which [`Point::profile`] is looked up.
#[derive(Clone, Debug)]
pub struct Profiles(BTreeMap<String, Profile>);

impl Profiles {
    /// All built-in profiles.
    pub fn builtin() -> Profiles {
        let load = |name: &&str| {
            (
                name.to_string(),
                Profile::named(name).expect("built in and tested"),
            )
        };
        Profiles(Profile::names().iter().map(load).collect())
    }

    /// Adds `profile`; replaces the one with the same name if there is one.
    pub fn replace(&mut self, profile: Profile) {
        self.0.insert(profile.name().to_string(), profile);
    }

    /// The profile called `name`.
    ///
    /// # Panics
    /// If there is none.
    pub fn named(&self, name: &str) -> &Profile {
        self.0.get(name).expect("points name profiles that exist")
    }

    /// A copy of the profile that `point` names, with the point's [changes](Point::changed). Of a parameter with
    /// several numbers, the first is changed.
    ///
    /// # Panics
    /// If the profile, or a parameter that the point changes, does not exist.
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

/// Makes, for any profile, a [creator of clusters](Clusters) with that hardware.
pub trait MakeClusters: Sync {
    /// Type that creates the clusters of one profile.
    type Clusters: Clusters;
    /// Returns a creator of clusters whose machines have `profile`.
    fn under(&self, profile: &Profile) -> Self::Clusters;
    /// Limits of the hardware that the simulation leaves out, for [work](Work::Other) that creates its own clusters; by
    /// default none.
    fn ablations(&self) -> Ablations {
        Ablations::default()
    }
}

/// Runs one point once, on machines of `profile`, which must include the [changes](Point::changed) of the point:
/// [`Profiles::of`] makes it.
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

/// Runs `points` with all seeds of `options`, in parallel; adds 1 to `progress` per finished run. Returns for each
/// point, in order, its outcomes, one per seed.
///
/// # Panics
/// If a point names an unknown profile or parameter, or a run panics.
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

/// Runs all points of `figures` in parallel and joins the results with the published values in `expected`. Adds 1 to
/// `progress` per finished run.
///
/// # Panics
/// As [`run_points`].
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
            .chain(expected.listed(figure.name).map(not_simulated))
            .collect(),
    };
    figures.iter().zip(points).map(rows).collect()
}

/// Number of runs that [`run_figures`] makes with these arguments, for a progress bar.
pub fn run_count(figures: &[Figure], options: &RunOptions) -> u64 {
    figures
        .iter()
        .map(|figure| (figure.points)().len() as u64 * options.seeds.max(1))
        .sum()
}

/// The row of a published rate that nothing simulates, and of the reason.
fn not_simulated((published, why): &(Published, String)) -> Row {
    Row {
        series: published.series.clone(),
        x: published.x,
        metric: Metric::Throughput,
        expected: Some(published.clone()),
        simulated: None,
        range: (0.0, 0.0),
        binding: format!("not simulated: {why}"),
    }
}

/// Builds the row of `metric` of `point` from its outcomes, one per seed, and the published value of `figure` in
/// `expected`.
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
