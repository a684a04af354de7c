//! [`ShardedSystem`]: a system whose services are equal shards, for callers that run shards and clients as actors of
//! their own: simulations, mostly.

use crate::{ConnectOptions, Shard, ShardPlan, System};
use drover_rt::control::Dial;
use drover_verbs::Provider;
use std::fmt::Debug;
use std::rc::Rc;

/// A system whose services are equal shards: no threads are needed to run it.
pub trait ShardedSystem: System<Plan = ShardPlan> {
    /// One shard of a service.
    type Shard<P: Provider>: Shard<P>;
    /// A way in which its clients can be told to be wrong: tests that search for wrong answers prove with it that they
    /// would find some.
    type Mistake: Copy + Debug + Send + Sync + 'static;

    /// What [`ServiceClient::open`](crate::ServiceClient::open) makes, but wrong in the way of `mistake`.
    fn open_mistaken<P: Provider>(
        ctx: Rc<P::Context>,
        dials: Vec<Dial>,
        options: &ConnectOptions,
        mistake: Self::Mistake,
    ) -> Self::Client<P>;
}
