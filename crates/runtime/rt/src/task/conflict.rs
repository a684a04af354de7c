//! [`Conflicts`]: how long an operation that lost a race waits, and how many tasks may race at once. *[SMART §4.3]*
//!
//! An operation whose CAS fails, or that finds a lock taken, tries again at once in the published systems; each attempt
//! costs requests that the card could have served others with. Here it waits first, for a random time below a limit,
//! and a pool lets only so many operations race at once. Both limits follow the *retry rate* p, the share of retries in
//! the attempts of the last period:
//!
//! ```text
//! p < low:   tasks_max below all tasks?  double it    else halve backoff_max, down to unit
//! p > high:  tasks_max above 1?          halve it     else double backoff_max, up to limit
//! ```
//! *(This order is that of the public code and of the paper's example; its text has it the other way round.)*
//!
//! Deviations from the public code: the rate is evaluated by time, also when nothing is retried, so that the limits
//! relax, and earlier if [`FINISHED_MAX`] operations have finished, which are evidence enough; `tasks_max` begins at the number of tasks, not at 64; all constants are times, not cycles.

use drover_base::{Ns, Rng};

/// Form of the wait before a retry. `t` is the smaller of the pool's current limit and `unit` times 2^k before the kth
/// retry of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Backoff {
    /// No wait.
    Off,
    /// A random time from 0 to `t`. *[SMART §4.3]*
    #[default]
    Random,
    /// `t` and a random time up to `unit` more. *[SMART, public code]*
    Stepped,
}

/// What operations that lose races do about it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ConflictOptions {
    /// Form of the wait before a retry.
    pub backoff: Backoff,
    /// Whether the longest wait follows the retry rate; if not, it is `limit`.
    pub dynamic_limit: bool,
    /// Whether the number of tasks inside a [`ConflictGuard`](super::ConflictGuard) at once is limited, following the
    /// retry rate.
    pub task_limit: bool,
    /// Unit of waits (`t_0`): about one round trip. *[SMART: 4096 cycles of 2.4 GHz]*
    pub unit: Ns,
    /// Longest limit of waits. *[SMART: 2^10 units]*
    pub limit: Ns,
    /// Retry rate below which the limits relax.
    pub low: f64,
    /// Retry rate above which they tighten.
    pub high: f64,
    /// Time between evaluations.
    pub period: Ns,
}

impl ConflictOptions {
    /// Retries follow at once, and any number of tasks may race.
    pub const OFF: ConflictOptions = ConflictOptions {
        backoff: Backoff::Off,
        dynamic_limit: false,
        task_limit: false,
        unit: Ns(1_707),
        limit: Ns(1_707 << 10),
        low: 0.1,
        high: 0.5,
        period: Ns::from_ms(1),
    };
}

impl Default for ConflictOptions {
    /// Everything is on, with the paper's constants.
    fn default() -> ConflictOptions {
        ConflictOptions {
            backoff: Backoff::Random,
            dynamic_limit: true,
            task_limit: true,
            ..ConflictOptions::OFF
        }
    }
}

/// Retries of operations, as counted when they end: 0, 1, .. and, in the last place, as many or more.
pub(super) const RETRY_CLASSES: usize = 9;

/// Finished operations after which a period ends early.
const FINISHED_MAX: u64 = 256;

/// Counters and limits of one pool's conflicts.
#[derive(Clone, Debug)]
pub(super) struct Conflicts {
    options: ConflictOptions,
    /// Most tasks inside at once; `u32::MAX`: all.
    tasks_max: u32,
    backoff_max: Ns,
    /// Since the last evaluation.
    retries: u64,
    finished: u64,
    evaluated: Ns,
    pub(super) retries_total: u64,
    pub(super) finished_by_retries: [u64; RETRY_CLASSES],
}

impl Conflicts {
    pub(super) fn new(options: ConflictOptions) -> Conflicts {
        let backoff_max = match options.dynamic_limit {
            true => options.unit,
            false => options.limit,
        };
        Conflicts {
            options,
            tasks_max: u32::MAX,
            backoff_max,
            retries: 0,
            finished: 0,
            evaluated: Ns::ZERO,
            retries_total: 0,
            finished_by_retries: [0; RETRY_CLASSES],
        }
    }

    pub(super) fn tasks_max(&self) -> u32 {
        self.tasks_max
    }

    pub(super) fn backoff_max(&self) -> Ns {
        self.backoff_max
    }

    /// Notes a retry, which is the `nth` of its operation, from 1; returns the time to wait before it.
    #[inline]
    pub(super) fn retry(&mut self, nth: u32, rng: &mut Rng) -> Ns {
        self.retries += 1;
        self.retries_total += 1;
        let unit = self.options.unit.0;
        let most = unit.saturating_mul(1 << nth.min(32)).min(self.backoff_max.0);
        match self.options.backoff {
            Backoff::Off => Ns::ZERO,
            Backoff::Random => Ns(rng.below(most.max(1))),
            Backoff::Stepped => Ns(most + rng.below(unit.max(1))),
        }
    }

    /// Notes the end of an operation after `retries` retries. Returns whether the period is over.
    #[inline]
    pub(super) fn finish(&mut self, retries: u32) -> bool {
        self.finished += 1;
        self.finished_by_retries[(retries as usize).min(RETRY_CLASSES - 1)] += 1;
        self.finished >= FINISHED_MAX
    }

    /// Time of the next evaluation.
    pub(super) fn evaluate_at(&self) -> Ns {
        self.evaluated + self.options.period
    }

    /// Begins the first period.
    pub(super) fn start(&mut self, now: Ns) {
        self.evaluated = now;
    }

    /// Evaluates the periods that have ended by `now`, in a pool of `task_count` tasks of which `inside` hold a slot.
    pub(super) fn evaluate(&mut self, now: Ns, task_count: u32, inside: u32) {
        let periods = now.since(self.evaluated).0 / self.options.period.0.max(1);
        if periods == 0 && self.finished < FINISHED_MAX {
            return;
        }
        let attempts = self.retries + self.finished;
        if attempts == 0 && inside > 0 {
            // All of them wait for longer than a period: no evidence for anything.
            self.evaluated = now;
            return;
        }
        self.evaluated = now;
        // No attempt at all means no retry.
        let rate = match attempts {
            0 => 0.0,
            _ => self.retries as f64 / attempts as f64,
        };
        (self.retries, self.finished) = (0, 0);
        if rate > self.options.high {
            self.tighten(task_count);
        } else if rate < self.options.low {
            // A pool that slept through several periods catches up: nothing was retried in them.
            (0..periods.clamp(1, 64)).for_each(|_| self.relax(task_count));
        }
    }

    fn relax(&mut self, task_count: u32) {
        if self.tasks_max < task_count {
            let doubled = self.tasks_max.saturating_mul(2);
            self.tasks_max = if doubled >= task_count { u32::MAX } else { doubled };
        } else if self.options.dynamic_limit {
            self.tasks_max = u32::MAX;
            self.backoff_max = Ns(self.backoff_max.0 / 2).max(self.options.unit);
        }
    }

    fn tighten(&mut self, task_count: u32) {
        let tasks_max = self.tasks_max.min(task_count);
        if self.options.task_limit && tasks_max > 1 {
            self.tasks_max = tasks_max / 2;
        } else if self.options.dynamic_limit {
            self.backoff_max = (self.backoff_max * 2).min(self.options.limit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Ns = Ns::from_ms(1);

    /// Runs a period in a pool of 8 tasks, `retries` of 100 attempts being retries; returns both limits.
    fn period(conflicts: &mut Conflicts, retries: u64) -> (u32, u64) {
        (conflicts.retries, conflicts.finished) = (retries, 100 - retries);
        let now = conflicts.evaluate_at();
        conflicts.evaluate(now, 8, 1);
        (
            conflicts.tasks_max(),
            conflicts.backoff_max().0 / conflicts.options.unit.0,
        )
    }

    #[test]
    fn the_task_limit_comes_before_the_backoff_limit() {
        let mut conflicts = Conflicts::new(ConflictOptions::default());
        let tightened: Vec<_> = (0..5).map(|_| period(&mut conflicts, 60)).collect();
        assert_eq!(tightened, [(4, 1), (2, 1), (1, 1), (1, 2), (1, 4)]);
        assert_eq!(
            period(&mut conflicts, 30),
            (1, 4),
            "between the rates nothing changes"
        );
        let relaxed: Vec<_> = (0..5).map(|_| period(&mut conflicts, 5)).collect();
        assert_eq!(
            relaxed,
            [(2, 4), (4, 4), (u32::MAX, 4), (u32::MAX, 2), (u32::MAX, 1)]
        );
    }

    #[test]
    fn smart_defect_n_max_starts_at_64_with_8_coroutines() {
        let mut conflicts = Conflicts::new(ConflictOptions::default());
        assert_eq!(period(&mut conflicts, 60).0, 4, "the first halving has an effect");
    }

    #[test]
    fn smart_defect_retry_rate_frozen_after_the_last_retry() {
        let mut conflicts = Conflicts::new(ConflictOptions::default());
        (0..14).for_each(|_| _ = period(&mut conflicts, 60));
        assert_eq!(
            (conflicts.tasks_max(), conflicts.backoff_max()),
            (1, Ns(1_707 << 10))
        );
        // Nothing is retried any more, nor even attempted, and the pool sleeps meanwhile.
        let now = conflicts.evaluated + PERIOD * 20;
        conflicts.evaluate(now, 8, 0);
        assert_eq!(
            (conflicts.tasks_max(), conflicts.backoff_max()),
            (u32::MAX, Ns(1_707))
        );
    }

    #[test]
    fn many_operations_end_a_period_early() {
        let mut conflicts = Conflicts::new(ConflictOptions::default());
        let mut evaluate_after = |finished: u64| {
            conflicts.retries = 600;
            let is_over = (0..finished).filter(|_| conflicts.finish(2)).count() > 0;
            let now = conflicts.evaluated + Ns(1);
            conflicts.evaluate(now, 8, 1);
            (is_over, conflicts.tasks_max())
        };
        assert_eq!(evaluate_after(FINISHED_MAX - 1), (false, u32::MAX));
        assert_eq!(evaluate_after(1), (true, 4));
        assert_eq!(evaluate_after(FINISHED_MAX - 1), (false, 4), "a new period");
    }

    #[test]
    fn periods_spent_waiting_are_no_evidence() {
        let mut conflicts = Conflicts::new(ConflictOptions::default());
        period(&mut conflicts, 60);
        let now = conflicts.evaluated + PERIOD * 3;
        conflicts.evaluate(now, 8, 2);
        assert_eq!(conflicts.tasks_max(), 4);
    }

    #[test]
    fn each_part_can_be_switched_off() {
        let options = ConflictOptions {
            task_limit: false,
            ..ConflictOptions::default()
        };
        let mut conflicts = Conflicts::new(options);
        assert_eq!(period(&mut conflicts, 60), (u32::MAX, 2));
        let options = ConflictOptions {
            dynamic_limit: false,
            ..ConflictOptions::default()
        };
        let mut conflicts = Conflicts::new(options);
        let tightened: Vec<_> = (0..4).map(|_| period(&mut conflicts, 60)).collect();
        assert_eq!(tightened, [(4, 1024), (2, 1024), (1, 1024), (1, 1024)]);
        let mut conflicts = Conflicts::new(ConflictOptions::OFF);
        assert_eq!(period(&mut conflicts, 60), (u32::MAX, 1024));
        let mut rng = Rng::new(1, 2, 3);
        assert_eq!(conflicts.retry(9, &mut rng), Ns::ZERO);
    }

    #[test]
    fn waits_grow_with_each_retry_up_to_the_limit() {
        let mut rng = Rng::new(7, 7, 7);
        for backoff in [Backoff::Random, Backoff::Stepped] {
            let options = ConflictOptions {
                backoff,
                dynamic_limit: false,
                ..ConflictOptions::default()
            };
            let mut conflicts = Conflicts::new(options);
            for nth in 1..40 {
                let most = options.unit.0.saturating_mul(1 << nth).min(options.limit.0);
                let waits: Vec<u64> = (0..200).map(|_| conflicts.retry(nth, &mut rng).0).collect();
                let (least, longest) = (waits.iter().min().copied(), waits.iter().max().copied());
                let (least, longest) = (least.expect("200"), longest.expect("200"));
                match backoff {
                    Backoff::Random => {
                        assert!(least < most / 10 && longest < most && longest > most / 10 * 9)
                    }
                    _ => assert!(least >= most && longest < most + options.unit.0),
                }
            }
        }
    }
}
