//! [`ShardedSystem`]: a system whose services are equal shards, for callers that run shards and clients as actors of
//! their own: simulations, mostly.

use crate::{ConnectOptions, Shard, ShardPlan, System, TableShape};
use drover_rt::control::Dial;
use drover_verbs::Provider;
use std::fmt::Debug;
use std::rc::Rc;

/// A system whose services are equal shards: no threads are needed to run it. Test beds, simulated clusters and campaigns
/// need to know no more of a system than this.
pub trait ShardedSystem: System<Plan = ShardPlan> {
    /// One shard of a service.
    type Shard<P: Provider>: Shard<P>;
    /// A way in which its clients can be told to be wrong: tests that search for wrong answers prove with it that they
    /// would find some.
    type Mistake: Copy + Debug + Send + Sync + 'static;

    /// Mistakes that campaigns must find.
    const PLANTED: &'static [Planted<Self::Mistake>];

    /// Whether tables grow while they are served, up to [`entry_count_max`](ShardPlan::entry_count_max).
    const TABLES_GROW: bool;

    /// Tables that its services can have, each with what figures call the system then. The first is the usual one.
    const TABLES: &'static [(&'static str, TableShape)];

    /// About the memory that the record of such an item takes, bytes: for who has to give a shard enough for so many.
    fn record_bytes(key_bytes: usize, value_bytes: usize) -> usize;

    /// What [`ServiceClient::open`](crate::ServiceClient::open) makes, but wrong in the way of `mistake`.
    fn open_mistaken<P: Provider>(
        ctx: Rc<P::Context>,
        dials: Vec<Dial>,
        options: &ConnectOptions,
        mistake: Self::Mistake,
    ) -> Self::Client<P>;
}

/// A mistake that a campaign of simulations must find.
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

/// Something to do with a system of shards, whichever it is.
pub trait ShardedJob {
    /// What comes of it.
    type Answer;

    /// Does it with system `S`.
    fn run<S: ShardedSystem>(self) -> Self::Answer;
}
