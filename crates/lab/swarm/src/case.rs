//! [`Case`]: one run of a system: a scenario, a seed, and reductions of what the seed draws.

use crate::scenario::Scenario;
use crate::subject::{Planted, Subject, Trouble};
use drover_kv::ResultTransfer;

/// One run of a simulated system: the inputs that determine it completely.
#[derive(Clone, Debug)]
pub struct Case<S: Subject> {
    /// Scenario of the run.
    pub scenario: &'static Scenario<S::Trouble>,
    /// Seed of everything that the run draws.
    pub seed: u64,
    /// Kinds of trouble that are switched on: those that the seed draws in this scenario, or fewer.
    pub kinds: Vec<S::Trouble>,
    /// Number of operations per client; `None`: as the seed draws it.
    pub ops: Option<usize>,
    /// Number of clients; `None`: as the seed draws it.
    pub clients: Option<usize>,
    /// How results come to clients, in systems that know several ways.
    pub transfer: ResultTransfer,
    /// Deliberate mistake that the system makes, if any.
    pub planted: Option<&'static Planted<S::Mistake>>,
}

/// The system that `drover sim` runs by default.
const DEFAULT_SYSTEM: &str = "herd";

impl<S: Subject> Case<S> {
    /// The run of `scenario` with `seed`, without reductions or mistakes.
    pub fn new(scenario: &'static Scenario<S::Trouble>, seed: u64) -> Case<S> {
        Case {
            scenario,
            seed,
            kinds: scenario.kinds(seed),
            ops: None,
            clients: None,
            transfer: ResultTransfer::Auto,
            planted: None,
        }
    }

    /// Returns the arguments of `drover sim` that repeat this run, if `kinds` are some of those that the seed draws.
    pub fn arguments(&self) -> String {
        let mut text = String::new();
        if S::NAME != DEFAULT_SYSTEM {
            text += &format!("--system {} ", S::NAME);
        }
        text += &format!("--scenario {} --seed {}", self.scenario.name, self.seed);
        let drawn = self.scenario.kinds(self.seed);
        let without: Vec<&str> = drawn
            .iter()
            .filter(|kind| !self.kinds.contains(kind))
            .map(|kind| kind.name())
            .collect();
        if !without.is_empty() {
            text += &format!(" --without {}", without.join(","));
        }
        for (flag, number) in [("ops", self.ops), ("clients", self.clients)] {
            if let Some(number) = number {
                text += &format!(" --{flag} {number}");
            }
        }
        if self.transfer != ResultTransfer::Auto {
            text += &format!(" --transfer {}", self.transfer.name());
        }
        if let Some(planted) = self.planted {
            text += &format!(" --plant {}", planted.name);
        }
        text
    }
}
