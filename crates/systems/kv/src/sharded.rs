//! [`ShardedSystem`]: a system whose services consist of equal shards, for callers that run shards and clients as
//! their own actors, such as test beds.

use crate::{ConnectOptions, ServiceClient, Shard, ShardPlan, System, TableShape};
use drover_control::Dial;
use drover_verbs::Provider;
use std::fmt::Debug;
use std::rc::Rc;

/// A system whose services consist of equal shards that can also run without threads, as actors. Test beds and campaigns
/// need no more of a system than this.
pub trait ShardedSystem: System<Plan = ShardPlan> {
    /// One shard of a service.
    type Shard<P: Provider>: Shard<P>;
    /// A deliberate mistake of a client. A test that searches for wrong answers plants one, to prove that it would
    /// find them.
    type Mistake: Copy + Debug + Send + Sync + 'static;

    /// Mistakes that campaigns of simulations must find.
    const PLANTED: &'static [Planted<Self::Mistake>];

    /// Kinds of table that the system's services can have, each with the name of its curve in figures. The first is the
    /// usual one.
    const TABLES: &'static [(&'static str, TableShape)];

    /// Approximate bytes of memory that the record of an item takes, rounded up generously: for callers that size a
    /// shard for a number of items.
    fn record_bytes(key_bytes: usize, value_bytes: usize) -> usize;

    /// As [`ServiceClient::open`], but the client makes `mistake`, if that is one of clients alone.
    fn open_mistaken<P: Provider>(
        ctx: Rc<P::Context>,
        dials: Vec<Dial>,
        options: &ConnectOptions,
        mistake: Self::Mistake,
    ) -> Self::Client<P> {
        let _ = mistake;
        <Self::Client<P> as ServiceClient<P>>::open(ctx, dials, options)
    }

    /// Runs `job` with this system, whose clients are to make `mistake`, or with a variant of it that makes it anyway, if
    /// servers make it, too.
    fn mistaken<J: MistakenJob>(mistake: Self::Mistake, job: J) -> J::Answer
    where
        Self: Sized,
    {
        job.run::<Self>(Some(mistake))
    }
}

/// A mistake that a campaign of simulations must find.
#[derive(Debug)]
pub struct Planted<M> {
    /// Name of the mistake on the command line of `drover sim`.
    pub name: &'static str,
    /// One sentence that describes the mistake.
    pub about: &'static str,
    /// Name of the scenario that must find the mistake.
    pub scenario: &'static str,
    /// The mistake.
    pub mistake: M,
}

/// A job that is generic over systems of shards that make a mistake.
pub trait MistakenJob {
    /// Result of the job.
    type Answer;

    /// Runs the job with system `S`, whose clients make `mistake`; `None`: the system itself makes one.
    fn run<S: ShardedSystem>(self, mistake: Option<S::Mistake>) -> Self::Answer;
}

/// A job that is generic over systems of shards.
pub trait ShardedJob {
    /// Result of the job.
    type Answer;

    /// Runs the job with system `S`.
    fn run<S: ShardedSystem>(self) -> Self::Answer;
}
