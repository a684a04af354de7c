//! [`ShardedSystem`]: a system whose services consist of equal shards, for callers that run shards and clients as
//! their own actors, such as simulations.

use crate::{ConnectOptions, Shard, ShardPlan, System};
use drover_rt::control::Dial;
use drover_verbs::Provider;
use std::fmt::Debug;
use std::rc::Rc;

/// A system whose services consist of equal shards; they run without threads.
pub trait ShardedSystem: System<Plan = ShardPlan> {
    /// One shard of a service.
    type Shard<P: Provider>: Shard<P>;
    /// A deliberate mistake of a client. A test that searches for wrong answers plants one, to prove that it would
    /// find them.
    type Mistake: Copy + Debug + Send + Sync + 'static;

    /// As [`ServiceClient::open`](crate::ServiceClient::open), but the client makes `mistake`.
    fn open_mistaken<P: Provider>(
        ctx: Rc<P::Context>,
        dials: Vec<Dial>,
        options: &ConnectOptions,
        mistake: Self::Mistake,
    ) -> Self::Client<P>;
}
