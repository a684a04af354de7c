//! [`Subject`]: a system that campaigns can run: its scenarios, its planted mistakes, and how to run a case.

use crate::case::Case;
use crate::outcome::Outcome;
use crate::scenario::Scenario;
use drover_kv::System;
use drover_kv_farm::Farm;
use drover_kv_herd::Herd;
use drover_kv_pilaf::Pilaf;
use drover_systems::System as SystemName;
use std::fmt::Debug;

/// The kinds of trouble of a system; a seed switches each of them on or off as a whole.
pub trait Trouble: Copy + Ord + Debug + Send + Sync + 'static {
    /// All kinds, in the order in which seeds draw them.
    const ALL: &'static [Self];

    /// Name of the kind on the command line.
    fn name(self) -> &'static str;

    /// The kind called `name`.
    fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name)
    }
}

/// A mistake that a campaign must find.
#[derive(Debug)]
pub struct Planted<M> {
    /// Name on the command line.
    pub name: &'static str,
    /// What the mistake is.
    pub about: &'static str,
    /// The scenario that must find it.
    pub scenario: &'static str,
    /// The mistake.
    pub mistake: M,
}

/// A system that can be simulated.
pub trait Subject: System + Copy + Debug {
    /// Kinds of faults and of tight limits.
    type Trouble: Trouble;
    /// Deliberate mistakes of the system.
    type Mistake: Copy + Debug + Send + Sync + 'static;
    /// All scenarios; the first is the default one.
    const SCENARIOS: &'static [Scenario<Self::Trouble>];
    /// All mistakes that can be planted.
    const PLANTED: &'static [Planted<Self::Mistake>];

    /// Number of operations per client, and of clients, in `case`.
    fn sizes(case: &Case<Self>) -> (usize, usize);

    /// Runs a case.
    fn run(case: &Case<Self>) -> Outcome;

    /// The scenario called `name`.
    fn scenario(name: &str) -> Option<&'static Scenario<Self::Trouble>> {
        Self::SCENARIOS.iter().find(|scenario| scenario.name == name)
    }

    /// The mistake called `name`.
    fn planted(name: &str) -> Option<&'static Planted<Self::Mistake>> {
        Self::PLANTED.iter().find(|planted| planted.name == name)
    }
}

/// A job that is generic over subjects.
pub trait SubjectJob {
    /// Result of the job.
    type Answer;

    /// Runs the job with `S`.
    fn run<S: Subject>(self) -> Self::Answer;
}

/// Runs `job` with a system of the table.
pub fn with<J: SubjectJob>(system: SystemName, job: J) -> J::Answer {
    match system {
        SystemName::Herd => job.run::<Herd>(),
        SystemName::Pilaf => job.run::<Pilaf>(),
        SystemName::Farm => job.run::<Farm>(),
    }
}
