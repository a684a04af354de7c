//! [`Subject`]: a system as campaigns know it: its scenarios, its mistakes, and how one case of it is run.

use crate::case::Case;
use crate::outcome::Outcome;
use crate::scenario::Scenario;
use crate::shards::Sharded;
pub use drover_kv::Planted;
use drover_kv::{ShardedJob, ShardedSystem, System, SystemTable};
use drover_kv_herd::Herd;
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

/// A system that can be simulated: HERD, which has a runner of its own, and every [`Sharded`] one.
pub trait Subject: Copy + Debug + Send + Sync + 'static {
    /// The system's.
    const NAME: &'static str;
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

/// Does `job` with a system of a table. `None`: it cannot be simulated, because its services are not equal shards and it has
/// no runner here.
pub fn with<T: SystemTable, J: SubjectJob>(system: T, job: J) -> Option<J::Answer> {
    match system.sharded(AsShards(job)) {
        Ok(answer) => Some(answer),
        Err(AsShards(job)) if system.facts().name == Herd::FACTS.name => Some(job.run::<Herd>()),
        Err(_) => None,
    }
}

struct AsShards<J>(J);

impl<J: SubjectJob> ShardedJob for AsShards<J> {
    type Answer = J::Answer;

    fn run<S: ShardedSystem>(self) -> J::Answer {
        self.0.run::<Sharded<S>>()
    }
}
