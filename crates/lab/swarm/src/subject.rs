//! [`Subject`]: a system as campaigns know it: its scenarios, its mistakes, and how one case of it is run.

use crate::case::Case;
use crate::outcome::Outcome;
use crate::scenario::Scenario;
use drover_kv::System;
use drover_kv_farm::Farm;
use drover_kv_herd::Herd;
use drover_kv_pilaf::Pilaf;
use drover_systems::System as SystemName;
use std::fmt::Debug;

/// Kinds of trouble, each of which a seed switches on or off as a whole.
pub trait Trouble: Copy + Ord + Debug + Send + Sync + 'static {
    /// All of them, in the order in which seeds draw them.
    const ALL: &'static [Self];

    /// As it is typed.
    fn name(self) -> &'static str;

    /// The kind of this name.
    fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name)
    }
}

/// A mistake that a campaign must find.
#[derive(Debug)]
pub struct Planted<M> {
    /// As it is typed.
    pub name: &'static str,
    /// What is wrong then.
    pub about: &'static str,
    /// The scenario in which it is searched for.
    pub scenario: &'static str,
    /// How it is made.
    pub mistake: M,
}

/// A system that can be simulated.
pub trait Subject: System + Copy + Debug {
    /// What may go wrong, and how tight things may be.
    type Trouble: Trouble;
    /// What may be wrong with it on purpose.
    type Mistake: Copy + Debug + Send + Sync + 'static;
    /// All scenarios; the first is the default one.
    const SCENARIOS: &'static [Scenario<Self::Trouble>];
    /// All mistakes that can be planted.
    const PLANTED: &'static [Planted<Self::Mistake>];

    /// Operations per client, and clients, that `case` has.
    fn sizes(case: &Case<Self>) -> (usize, usize);

    /// Runs it.
    fn run(case: &Case<Self>) -> Outcome;

    /// The scenario of this name.
    fn scenario(name: &str) -> Option<&'static Scenario<Self::Trouble>> {
        Self::SCENARIOS.iter().find(|scenario| scenario.name == name)
    }

    /// The mistake of this name.
    fn planted(name: &str) -> Option<&'static Planted<Self::Mistake>> {
        Self::PLANTED.iter().find(|planted| planted.name == name)
    }
}

/// Something to do with a subject, whichever it is.
pub trait SubjectJob {
    /// What comes of it.
    type Answer;

    /// Does it with `S`.
    fn run<S: Subject>(self) -> Self::Answer;
}

/// Does `job` with a system of the table: each of them can be simulated.
pub fn with<J: SubjectJob>(system: SystemName, job: J) -> J::Answer {
    match system {
        SystemName::Herd => job.run::<Herd>(),
        SystemName::Pilaf => job.run::<Pilaf>(),
        SystemName::Farm => job.run::<Farm>(),
    }
}
