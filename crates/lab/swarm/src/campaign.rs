//! Runs many cases on several threads, and reduces cases that fail.

use crate::case::Case;
use crate::check::Violation;
use crate::outcome::Outcome;
use crate::subject::{Subject, Trouble};
pub use drover_testkit::seeds::fresh_seed;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Runs a case and returns its outcome, which may contain violations.
///
/// # Errors
/// If the run panics, a violation of the rule `panic` with the message.
pub fn judge<S: Subject>(case: &Case<S>) -> Result<Outcome, Violation> {
    catch_unwind(AssertUnwindSafe(|| S::run(case))).map_err(|panic| {
        let text = match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
            (Some(text), _) => (*text).to_owned(),
            (_, Some(text)) => text.clone(),
            _ => "without a word".to_owned(),
        };
        Violation::new("panic", text)
    })
}

/// Runs a case and returns its first violation, if any; a panic counts as one.
pub fn wrong<S: Subject>(case: &Case<S>) -> Option<Violation> {
    match judge(case) {
        Ok(outcome) => outcome.violations.into_iter().next(),
        Err(violation) => Some(violation),
    }
}

/// A case that violates a rule.
#[derive(Clone, Debug)]
pub struct Finding<S: Subject> {
    /// The case that was run.
    pub case: Case<S>,
    /// First violation of the case.
    pub violation: Violation,
}

/// Results of a campaign. Cases that panicked count in `cases` and `findings` only.
#[derive(Clone, Debug)]
pub struct Tally<S: Subject> {
    /// Number of cases run.
    pub cases: u64,
    /// Number of operations that clients accepted in all cases.
    pub operations: u64,
    /// Number of simulated events in all cases.
    pub events: u64,
    /// Number of faults injected into messages in all cases.
    pub message_faults: u64,
    /// Number of operations with an indeterminate outcome in all cases.
    pub unknown: u64,
    /// Number of keys whose histories were checked for linearizability, with either result: summed over all cases, so
    /// that a key in two cases counts twice.
    pub judged: u64,
    /// Number of keys whose histories were not checked for linearizability, because too many of the key's operations
    /// ran at the same time: summed over all cases.
    pub unjudged: u64,
    /// Cases with a violation or a panic, sorted by seed.
    pub findings: Vec<Finding<S>>,
}

/// Runs `cases` on `jobs` threads (0 counts as 1) and adds up their results. Counts finished cases in `progress`, and
/// calls `on_finding` for each case with a violation. Other threads cannot finish their cases during such a call, so
/// calls come one at a time. If `stop_early`, starts no more cases after a finding, but finishes those that run.
pub fn search<S: Subject>(
    cases: &[Case<S>],
    jobs: usize,
    stop_early: bool,
    progress: &AtomicU64,
    on_finding: impl Fn(&Finding<S>) + Sync,
) -> Tally<S> {
    let next = AtomicU64::new(0);
    let stopped = AtomicBool::new(false);
    let tally = Mutex::new(Tally::default());
    let work = || {
        while !stopped.load(Ordering::Relaxed) {
            let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed) as usize) else {
                return;
            };
            let judged = judge(case);
            let mut tally = tally.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            if let Some(finding) = tally.add(case, judged) {
                on_finding(&finding);
                tally.findings.push(finding);
                stopped.store(stop_early, Ordering::Relaxed);
            }
            progress.fetch_add(1, Ordering::Relaxed);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(work);
        }
    });
    let mut tally = tally
        .into_inner()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    tally.findings.sort_by_key(|finding| finding.case.seed);
    tally
}

impl<S: Subject> Default for Tally<S> {
    fn default() -> Tally<S> {
        Tally {
            cases: 0,
            operations: 0,
            events: 0,
            message_faults: 0,
            unknown: 0,
            judged: 0,
            unjudged: 0,
            findings: Vec::new(),
        }
    }
}

impl<S: Subject> Tally<S> {
    fn add(&mut self, case: &Case<S>, judged: Result<Outcome, Violation>) -> Option<Finding<S>> {
        self.cases += 1;
        let violation = match judged {
            Err(violation) => Some(violation),
            Ok(outcome) => {
                self.operations += outcome.summary.asked as u64;
                self.events += outcome.summary.events;
                self.message_faults += outcome.summary.message_faults;
                self.unknown += outcome.summary.unknown as u64;
                self.judged += outcome.summary.judged as u64;
                self.unjudged += outcome.summary.unjudged as u64;
                outcome.violations.into_iter().next()
            }
        };
        violation.map(|violation| Finding {
            case: case.clone(),
            violation,
        })
    }
}

/// Reduces the case of a finding as long as its first violation is of the same rule: first fewer kinds of trouble, then
/// fewer operations and clients. Returns the smallest case found, after a few dozen runs.
pub fn shrink<S: Subject>(finding: &Finding<S>) -> Finding<S> {
    let mut least = finding.clone();
    let attempt = |case: Case<S>, least: &mut Finding<S>| -> bool {
        match wrong(&case) {
            Some(violation) if violation.rule == least.violation.rule => {
                *least = Finding { case, violation };
                true
            }
            _ => false,
        }
    };
    for kind in S::Trouble::ALL {
        if least.case.kinds.contains(kind) {
            let mut case = least.case.clone();
            case.kinds.retain(|other| other != kind);
            attempt(case, &mut least);
        }
    }
    loop {
        let (ops, clients) = S::sizes(&least.case);
        let fewer_clients = Case {
            clients: Some(clients.saturating_sub(1)),
            ..least.case.clone()
        };
        let fewer_ops = Case {
            ops: Some(ops * 2 / 3),
            ..least.case.clone()
        };
        let smaller = (clients > 1 && attempt(fewer_clients, &mut least))
            || (ops > 2 && attempt(fewer_ops, &mut least));
        if !smaller {
            return least;
        }
    }
}
