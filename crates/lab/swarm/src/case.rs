//! [`Case`]: what to run: a system, a scenario, a seed, and what is left of that.

use crate::scenario::Scenario;
use crate::subject::{Planted, Subject, Trouble};

/// What to run.
#[derive(Clone, Debug)]
pub struct Case<S: Subject> {
    /// The scenario.
    pub scenario: &'static Scenario<S::Trouble>,
    /// The seed.
    pub seed: u64,
    /// Those of the scenario's kinds that are left.
    pub kinds: Vec<S::Trouble>,
    /// Other than drawn: operations per client.
    pub ops: Option<usize>,
    /// Other than drawn: clients.
    pub clients: Option<usize>,
    /// A mistake.
    pub planted: Option<&'static Planted<S::Mistake>>,
}

/// The system that `drover sim` plays unless it is told another one.
const DEFAULT_SYSTEM: &str = "herd";

impl<S: Subject> Case<S> {
    /// What `seed` makes of `scenario`.
    pub fn new(scenario: &'static Scenario<S::Trouble>, seed: u64) -> Case<S> {
        Case {
            scenario,
            seed,
            kinds: scenario.kinds(seed),
            ops: None,
            clients: None,
            planted: None,
        }
    }

    /// Arguments of `drover sim` that run it again.
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
        if let Some(planted) = self.planted {
            text += &format!(" --plant {}", planted.name);
        }
        text
    }
}
