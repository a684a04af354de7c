//! [`Tuner`]: finds the limit of outstanding requests with which most requests end per time. *[SMART, Algorithm 1]*
//!
//! ```text
//! epoch: for each candidate { set it; wait `sample`; rate = requests ended / time that passed }
//!        choose; wait `stable`; next epoch
//! ```
//! Deviations from the paper: the candidate of the last epoch stays unless another is better by more than
//! `hysteresis`; if all candidates reach the same rate, the load is the limit and not the card, so the largest is
//! chosen, which holds nobody up; a sample in which nothing ended says nothing and is not scored; and "unlimited" is a
//! candidate *(as in the public code)*, because a few threads need more than the paper's largest.
//!
//! It does no I/O and reads no clock.

use drover_base::Ns;

/// No limit.
const UNLIMITED: u32 = u32::MAX;
const CANDIDATES: usize = 5;

/// Constants of a [`Tuner`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TunerOptions {
    /// Limits to try, in ascending order. *[SMART: 4, 6, 8, 10, 12]*
    pub candidates: [u32; CANDIDATES],
    /// Factor on the rate without a limit when it is compared with the others, 1.05 *[SMART, public code]*; `None`:
    /// not a candidate, as in the paper's figures.
    pub unlimited: Option<f64>,
    /// Time for which each candidate is tried. *[SMART: 8 ms]*
    pub sample: Ns,
    /// Time between epochs. *[SMART: 60 samples]*
    pub stable: Ns,
    /// A candidate must be better than the present one by this part of its rate to replace it.
    pub hysteresis: f64,
}

impl TunerOptions {
    /// The options of the paper's figures: without the candidate "unlimited".
    pub const PAPER: TunerOptions = TunerOptions {
        candidates: [4, 6, 8, 10, 12],
        unlimited: None,
        sample: Ns::from_ms(8),
        stable: Ns::from_ms(480),
        hysteresis: 0.02,
    };

    /// Time of the samples at the start of each epoch.
    pub fn search(&self) -> Ns {
        self.sample * self.candidate_count() as u64
    }

    fn candidate_count(&self) -> usize {
        CANDIDATES + usize::from(self.unlimited.is_some())
    }

    /// These options with all times divided by `factor`, for simulations of short times.
    pub fn faster(self, factor: u64) -> TunerOptions {
        let factor = factor.max(1);
        TunerOptions {
            sample: Ns(self.sample.0 / factor).max(Ns(1)),
            stable: Ns(self.stable.0 / factor).max(Ns(1)),
            ..self
        }
    }
}

impl Default for TunerOptions {
    fn default() -> TunerOptions {
        TunerOptions {
            unlimited: Some(1.05),
            ..TunerOptions::PAPER
        }
    }
}

/// Result of an epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Choice {
    /// Nothing ended in any sample: the limit stays.
    Idle,
    /// All candidates reached the same rate: the load is the limit, and the largest candidate is chosen.
    LoadBound,
    /// The present candidate stays: no other is better by more than the hysteresis.
    Kept,
    /// Another candidate is better.
    Changed,
}

/// The state of the search.
#[derive(Clone, Debug)]
pub struct Tuner {
    options: TunerOptions,
    phase: Phase,
    /// Begin of the phase, and requests ended until then.
    since: (Ns, u64),
    wake_at: Ns,
    /// Requests per nanosecond of each candidate in this epoch.
    rates: [Option<f64>; CANDIDATES + 1],
    chosen: Option<usize>,
    last: Option<Choice>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Before the first call.
    New,
    Sampling(usize),
    Stable,
}

impl Tuner {
    /// Creates a tuner that begins with its first [`advance`](Tuner::advance).
    pub fn new(options: TunerOptions) -> Tuner {
        Tuner {
            options,
            phase: Phase::New,
            since: (Ns::ZERO, 0),
            wake_at: Ns::ZERO,
            rates: [None; CANDIDATES + 1],
            chosen: None,
            last: None,
        }
    }

    /// When to call [`advance`](Tuner::advance) next.
    pub fn wake_at(&self) -> Ns {
        self.wake_at
    }

    /// Result of the last epoch; `None` before its end.
    pub fn last_choice(&self) -> Option<Choice> {
        self.last
    }

    /// The limit chosen by the last epoch that chose one; `u32::MAX`: none.
    pub fn chosen(&self) -> Option<u32> {
        self.chosen.map(|index| self.candidate(index))
    }

    /// Ends the phase if its time is over; `ended` is the number of requests that have ended since any fixed time.
    /// Returns the limit to apply.
    pub fn advance(&mut self, now: Ns, ended: u64) -> u32 {
        if now >= self.wake_at {
            match self.phase {
                Phase::New => self.sample(0, now, ended),
                Phase::Stable => {
                    self.rates = [None; CANDIDATES + 1];
                    self.sample(0, now, ended);
                }
                Phase::Sampling(index) => {
                    self.rates[index] = self.rate(now, ended);
                    match index + 1 < self.candidate_count() {
                        true => self.sample(index + 1, now, ended),
                        false => {
                            self.last = Some(self.choose());
                            self.begin(Phase::Stable, now, ended, self.options.stable);
                        }
                    }
                }
            }
        }
        match self.phase {
            Phase::Sampling(index) => self.candidate(index),
            _ => self.candidate(self.chosen.unwrap_or(self.candidate_count() - 1)),
        }
    }

    fn sample(&mut self, index: usize, now: Ns, ended: u64) {
        self.begin(Phase::Sampling(index), now, ended, self.options.sample);
    }

    fn begin(&mut self, phase: Phase, now: Ns, ended: u64, time: Ns) {
        (self.phase, self.since, self.wake_at) = (phase, (now, ended), now + time);
    }

    /// Requests per nanosecond since the phase began, by the time that has really passed: timers are late. `None` if
    /// nothing ended.
    fn rate(&self, now: Ns, ended: u64) -> Option<f64> {
        let (count, time) = (ended.saturating_sub(self.since.1), now.since(self.since.0).0);
        (count > 0 && time > 0).then(|| count as f64 / time as f64)
    }

    fn candidate_count(&self) -> usize {
        self.options.candidate_count()
    }

    fn candidate(&self, index: usize) -> u32 {
        self.options.candidates.get(index).copied().unwrap_or(UNLIMITED)
    }

    /// Rate of a candidate, as it is compared with the others.
    fn score(&self, index: usize) -> Option<f64> {
        let factor = match index {
            CANDIDATES => self.options.unlimited.unwrap_or(1.0),
            _ => 1.0,
        };
        self.rates[index].map(|rate| rate * factor)
    }

    fn choose(&mut self) -> Choice {
        let count = self.candidate_count();
        let rates = || self.rates[..count].iter().flatten().copied();
        let Some(best) = (0..count)
            .filter(|&index| self.rates[index].is_some())
            .max_by(|&a, &b| self.score(a).partial_cmp(&self.score(b)).expect("no rate is NaN"))
        else {
            return Choice::Idle;
        };
        let (least, most) = (rates().fold(f64::INFINITY, f64::min), rates().fold(0.0, f64::max));
        if rates().count() == count && most <= least * (1.0 + self.options.hysteresis) {
            self.chosen = Some(count - 1);
            return Choice::LoadBound;
        }
        let score_of = |index: usize| self.score(index).unwrap_or(0.0);
        let present = self.chosen.filter(|&index| self.rates[index].is_some());
        match present {
            Some(present) if score_of(best) <= score_of(present) * (1.0 + self.options.hysteresis) => {
                Choice::Kept
            }
            // Its sample was empty, so it is not known to be worse.
            None if self.chosen.is_some() => Choice::Kept,
            _ => {
                self.chosen = Some(best);
                Choice::Changed
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
