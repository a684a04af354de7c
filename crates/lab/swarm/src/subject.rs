//! [`Subject`]: a system that campaigns can run: its scenarios, its planted mistakes, and how to run a case.

use crate::case::Case;
use crate::herd;
use crate::outcome::Outcome;
use crate::scenario::Scenario;
use crate::shards::Sharded;
pub use drover_kv::Planted;
use drover_kv::{ShardedJob, ShardedSystem, SystemTable};
use drover_systems::System;
use std::fmt::Debug;

/// A kind of trouble of a system, usually a variant of an enum; a seed switches each kind on or off as a whole.
pub trait Trouble: Copy + Ord + Debug + Send + Sync + 'static {
    /// All kinds, in the order in which seeds draw them.
    const ALL: &'static [Self];

    /// Name of the kind on the command line.
    fn name(self) -> &'static str;

    /// Returns the kind called `name` on the command line; `None` if there is none.
    fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name)
    }
}

/// Defines an enum of kinds of trouble, which implements [`Trouble`]. Each variant has its name on the command line;
/// the order of the variants is that in which seeds draw them.
macro_rules! troubles {
    ($(#[$meta:meta])* pub enum $Kind:ident { $($(#[$about:meta])* $Variant:ident = $name:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        #[repr(u8)]
        pub enum $Kind {
            $($(#[$about])* $Variant,)+
        }

        impl Trouble for $Kind {
            const ALL: &'static [$Kind] = &[$($Kind::$Variant,)+];

            fn name(self) -> &'static str {
                match self {
                    $($Kind::$Variant => $name,)+
                }
            }
        }
    };
}

pub(crate) use troubles;

/// A system that can be simulated: every [`WorkerSystem`](crate::workers::WorkerSystem), and every [`Sharded`] system.
pub trait Subject: Copy + Debug + Send + Sync + 'static {
    /// Name of the system on the command line.
    const NAME: &'static str;
    /// Kinds of faults and of tight limits.
    type Trouble: Trouble;
    /// Deliberate mistakes that the system can be made to make.
    type Mistake: Copy + Debug + Send + Sync + 'static;
    /// All scenarios of the system; the first is the default.
    const SCENARIOS: &'static [Scenario<Self::Trouble>];
    /// All mistakes that campaigns must find.
    const PLANTED: &'static [Planted<Self::Mistake>];

    /// Returns the number of operations per client and the number of clients with which `case` starts.
    fn sizes(case: &Case<Self>) -> (usize, usize);

    /// Runs `case` and checks the run. Panics if the system does.
    fn run(case: &Case<Self>) -> Outcome;

    /// Returns the scenario called `name`; `None` if there is none.
    fn scenario(name: &str) -> Option<&'static Scenario<Self::Trouble>> {
        Self::SCENARIOS.iter().find(|scenario| scenario.name == name)
    }

    /// Returns the planted mistake called `name`; `None` if there is none.
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

/// Runs `job` with `system` as a subject. `None`: the system cannot be simulated, because its services neither consist
/// of equal shards nor have a module here.
pub fn with<T: SystemTable, J: SubjectJob>(system: T, job: J) -> Option<J::Answer> {
    let name = system.facts().name;
    match system.sharded(AsShards(job)) {
        Ok(answer) => Some(answer),
        Err(AsShards(job)) => herd::with(name, job).ok(),
    }
}

/// Runs the case `seed` of the scenario called `scenario` of `system`; `None` if it has no such scenario. Here all systems are
/// compiled as subjects, so that programs which run cases need not compile them again.
pub fn run(system: System, scenario: &str, seed: u64) -> Option<Outcome> {
    with(system, Play { scenario, seed }).flatten()
}

struct Play<'a> {
    scenario: &'a str,
    seed: u64,
}

impl SubjectJob for Play<'_> {
    type Answer = Option<Outcome>;

    fn run<S: Subject>(self) -> Option<Outcome> {
        let scenario = S::scenario(self.scenario)?;
        Some(S::run(&Case::new(scenario, self.seed)))
    }
}

struct AsShards<J>(J);

impl<J: SubjectJob> ShardedJob for AsShards<J> {
    type Answer = J::Answer;

    fn run<S: ShardedSystem>(self) -> J::Answer {
        self.0.run::<Sharded<S>>()
    }
}
