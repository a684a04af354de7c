//! Services of equal shards, of any system: shards and clients as actors in a simulated cluster.
//!
//! Any [`ShardedSystem`] can be simulated: [`Sharded`] makes it a [`Subject`]. Kinds of trouble and **the fault
//! model** are in [`kind`], sizes in [`mod@options`], scenarios in [`scenario`]. The checks are those of every system:
//! the rules of [`check`](crate::check), and the phases after the trouble.

mod cluster;
mod faults;
pub mod kind;
pub mod options;
pub mod scenario;

use crate::case::Case;
use crate::outcome::Outcome;
use crate::run::{self, RunParams};
use crate::scenario::Scenario;
use crate::subject::{Planted, Subject};
use cluster::Cluster;
use drover_base::Ns;
use drover_kv::{MistakenJob, ShardedSystem};
use faults::plan;
use kind::Kind;
use options::Options;
use std::fmt;
use std::marker::PhantomData;

/// Maximum time to reconnect: a handshake without an answer times out after two seconds, the next attempt begins at
/// most 100 ms later, and takes well under another 100 ms.
const READY_MAX: Ns = Ns::from_ms(2_200);

/// The options of a case.
fn options<S: ShardedSystem>(case: &Case<Sharded<S>>) -> Options {
    let mut options = Options::draw::<S>(case.seed, &case.kinds);
    options.load.ops = case.ops.unwrap_or(options.load.ops);
    options.clients = case.clients.unwrap_or(options.clients);
    options.connect.transfer = case.transfer;
    options
}

/// The [`Subject`] of campaigns for the system of shards `S`.
pub struct Sharded<S>(PhantomData<fn() -> S>);

impl<S> Copy for Sharded<S> {}

impl<S> Clone for Sharded<S> {
    fn clone(&self) -> Sharded<S> {
        *self
    }
}

impl<S: ShardedSystem> fmt::Debug for Sharded<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "shards of {}", S::FACTS.name)
    }
}

impl<S: ShardedSystem> Subject for Sharded<S> {
    const NAME: &'static str = S::FACTS.name;
    type Trouble = Kind;
    type Mistake = S::Mistake;
    const SCENARIOS: &'static [Scenario<Kind>] = scenario::ALL;
    const PLANTED: &'static [Planted<S::Mistake>] = S::PLANTED;

    fn sizes(case: &Case<Self>) -> (usize, usize) {
        let options = options(case);
        (options.load.ops, options.clients)
    }

    fn run(case: &Case<Self>) -> Outcome {
        let run = Run {
            options: options(case),
            seed: case.seed,
            troubled: case.kinds.iter().any(|kind| kind.is_trouble()),
        };
        match case.planted {
            Some(planted) => S::mistaken(planted.mistake, run),
            None => run.run::<S>(None),
        }
    }
}

/// A run of a case of any system of shards.
struct Run {
    options: Options,
    seed: u64,
    troubled: bool,
}

impl MistakenJob for Run {
    type Answer = Outcome;

    fn run<S: ShardedSystem>(self, mistake: Option<S::Mistake>) -> Outcome {
        let Run {
            options,
            seed,
            troubled,
        } = self;
        let cluster = Cluster::<S>::new(&options, seed, mistake);
        let params = RunParams {
            troubled,
            horizon: options.machines.horizon,
            deadline: options.connect.deadline,
            window: options.connect.window,
            load: &options.load,
            evicts: options.plan.evicts,
            forgets: options.forgets(),
            sends_again: S::FACTS.offers.sends_again && !options.loses_servers(),
            expiry_lag: Ns::from_s(u64::from(S::FACTS.offers.expiry_lag_s)),
            ready_max: READY_MAX,
            // Connections are reliable: no request arrives after its session.
            ruled_out: Ns::ZERO,
        };
        run::run(cluster, &plan(&options, seed), &params)
    }
}
