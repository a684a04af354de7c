//! Moves parameters until their rows stop improving.

use super::{Method, Stage, Step, Target, evaluate};
use crate::figure::Work;
use crate::micro::Bench;
use crate::run::{MakeClusters, Profiles, Row, RunOptions};
use drover_verbs_sim::profile::{Profile, Tag};
use std::sync::atomic::AtomicU64;

/// Relative changes to try, coarse to fine.
const MOVES: [f64; 4] = [0.12, 0.06, 0.03, 0.01];
/// Changes that short runs can judge.
const LONG: [f64; 2] = [MOVES[0], MOVES[1]];
const FINE: [f64; 2] = [MOVES[2], MOVES[3]];
/// Number of passes over the steps of a stage.
const ROUNDS: usize = 2;
/// Maximum number of moves in one direction at one size.
const STEPS_MAX: usize = 6;
/// Cap on a row's error: a larger error comes from a mechanism that the model lacks, not from a parameter, and must not
/// distort the other rows. Natural logarithm of the ratio.
const OFF_MAX: f64 = 0.35;
/// Minimum gain; a smaller one counts as none.
const GAIN_MIN: f64 = 1e-4;

/// Length of runs.
#[derive(Clone, Copy)]
enum Runs {
    Whole,
    Short,
}

/// The moves of a method, in order, and the runs that judge them.
fn phases(method: Method, round: usize) -> &'static [(&'static [f64], Runs)] {
    match (method, round) {
        (Method::Climb, _) => &[(&MOVES, Runs::Whole)],
        (Method::Scan, 0) => &[(&LONG, Runs::Short), (&FINE, Runs::Whole)],
        (Method::Scan, _) => &[(&FINE, Runs::Whole)],
    }
}

/// A copy of the target with a short run.
fn short(target: &Target) -> Target {
    let mut target = target.clone();
    if let Work::Bench(bench) = target.point.work {
        target.point.work = Work::Bench(Bench::Short(Box::new(bench)));
    }
    target
}

/// The inputs of [`fit`] and its state: the profiles, one of which is fitted, the rows to fit it to, and how points are
/// run.
pub struct Fit<'a, M> {
    /// Creates the clusters that points run in.
    pub make: &'a M,
    /// All profiles that points may run on; the fit replaces the one called `name`.
    pub profiles: Profiles,
    /// Name of the profile to fit, which must be in `profiles`: [`fit`] and [`profile`](Fit::profile) panic otherwise.
    pub name: &'a str,
    /// Rows to fit to; [`targets`](super::targets) returns all of a profile.
    pub targets: Vec<Target>,
    /// Seeds, lengths and threads of the runs; the long moves of [`Method::Scan`] use shorter runs.
    pub options: RunOptions,
    /// Counter that is incremented for each finished run.
    pub progress: &'a AtomicU64,
}

/// Fits the parameters of all `stages` in order, changing [`Fit::profiles`]. Calls `tell` after each stage with the
/// loss of the stage's rows before and after it: the weighted mean of (100 ln(simulated / published))², roughly the
/// squared deviation in percent, each deviation capped at 35 %; 0 means exact.
///
/// # Panics
/// If the profile does not exist, a stage names a parameter or point that it does not have, or a run panics.
pub fn fit<M: MakeClusters>(fit: &mut Fit<'_, M>, stages: &[Stage], mut tell: impl FnMut(&Stage, f64, f64)) {
    for stage in stages {
        let before = fit.stage_loss(stage);
        for round in 0..ROUNDS {
            let moved = stage
                .steps
                .iter()
                .filter(|step| fit.step(stage, step, round))
                .count();
            // Another pass would find the same.
            if moved == 0 {
                break;
            }
        }
        tell(stage, before, fit.stage_loss(stage));
    }
}

impl<M: MakeClusters> Fit<'_, M> {
    /// The profile as fitted so far.
    ///
    /// # Panics
    /// If [`profiles`](Fit::profiles) has none called [`name`](Fit::name).
    pub fn profile(&self) -> &Profile {
        self.profiles.named(self.name)
    }

    fn stage_loss(&self, stage: &Stage) -> f64 {
        let mut rows: Vec<&Target> = Vec::new();
        for step in &stage.steps {
            let new = self.rows_of(step).into_iter();
            rows.extend(
                new.filter(|target| !rows.iter().any(|known| std::ptr::eq(*known, *target)))
                    .collect::<Vec<_>>(),
            );
        }
        self.loss(&rows)
    }

    fn rows_of(&self, step: &Step) -> Vec<&Target> {
        let wanted = |target: &&Target| step.rows.iter().any(|rows| rows.take(target));
        self.targets.iter().filter(wanted).collect()
    }

    fn loss(&self, targets: &[&Target]) -> f64 {
        let owned: Vec<Target> = targets.iter().map(|target| (*target).clone()).collect();
        let rows = evaluate(self.make, &owned, &self.profiles, &self.options, self.progress);
        loss(&rows)
    }

    /// Fits the numbers of a step; returns whether any changed.
    fn step(&mut self, stage: &Stage, step: &Step, round: usize) -> bool {
        let entry = self
            .profile()
            .entry(step.path)
            .expect("stages name parameters that exist");
        let count = entry.value.numbers().len();
        let indices: Vec<usize> = match step.index {
            Some(index) => vec![index],
            None => (0..count).collect(),
        };
        let mut moved = false;
        for index in indices {
            moved |= self.search(stage, step, index, round);
        }
        moved
    }

    /// Searches the best value of one number; returns whether it changed.
    fn search(&mut self, stage: &Stage, step: &Step, index: usize, round: usize) -> bool {
        let targets: Vec<Target> = self.rows_of(step).into_iter().cloned().collect();
        if targets.is_empty() {
            return false;
        }
        let start = self.number(step.path, index);
        let mut best = start;
        for &(moves, runs) in phases(step.method, round) {
            let targets: Vec<Target> = match runs {
                Runs::Whole => targets.clone(),
                Runs::Short => targets.iter().map(short).collect(),
            };
            best = self.climb(step, index, &targets.iter().collect::<Vec<_>>(), moves);
        }
        if best != start {
            let source = format!("fit, stage \"{}\": {}", stage.name, step.source());
            let mut profile = self.profile().clone();
            profile.set_source(step.path, Tag::Fitted, &source);
            self.profiles.replace(profile);
        }
        best != start
    }

    /// Moves one number by `moves` while that helps, and returns it.
    fn climb(&mut self, step: &Step, index: usize, targets: &[&Target], moves: &[f64]) -> f64 {
        let mut best = (self.number(step.path, index), self.loss(targets));
        for size in moves {
            for direction in [1.0 + size, 1.0 / (1.0 + size)] {
                let mut steps = 0;
                while steps < STEPS_MAX
                    && self.try_number(step, index, best.0 * direction, targets, &mut best)
                {
                    steps += 1;
                }
                if steps > 0 {
                    break;
                }
            }
        }
        self.set(step.path, index, best.0);
        best.0
    }

    /// Returns whether `number` is better than `best`, which it then replaces.
    fn try_number(
        &mut self,
        step: &Step,
        index: usize,
        number: f64,
        targets: &[&Target],
        best: &mut (f64, f64),
    ) -> bool {
        self.set(step.path, index, number);
        let number = self.number(step.path, index);
        if number == best.0 {
            return false;
        }
        let loss = self.loss(targets);
        if loss >= best.1 - GAIN_MIN {
            return false;
        }
        *best = (number, loss);
        true
    }

    fn number(&self, path: &str, index: usize) -> f64 {
        self.profile()
            .entry(path)
            .expect("looked at before")
            .value
            .numbers()[index]
    }

    fn set(&mut self, path: &str, index: usize, number: f64) {
        let mut profile = self.profile().clone();
        // Files store four decimals; round to what would be read back.
        let number = if profile.is_count(path) {
            number.round()
        } else {
            (number * 1e4).round() / 1e4
        };
        profile.set(path, index, number).expect("looked at before");
        self.profiles.replace(profile);
    }
}

/// Mean of the squared logarithms of ratios, each in units of its published value's error.
pub(super) fn loss(rows: &[Row]) -> f64 {
    let mut sum = 0.0;
    let mut weights = 0.0;
    for row in rows {
        let Some(expected) = &row.expected else { continue };
        let off = match row.simulated {
            Some(simulated) if simulated > 0.0 => (simulated / expected.value).ln().abs().min(OFF_MAX),
            _ => OFF_MAX,
        };
        let weight = (0.03 / expected.known_from.error()).powi(2);
        sum += weight * (off * 100.0).powi(2);
        weights += weight;
    }
    if weights > 0.0 { sum / weights } else { 0.0 }
}
