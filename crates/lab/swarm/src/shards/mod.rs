//! Services of equal shards, of any system: shards and clients as actors in a simulated cluster.
//!
//! A system takes part by being a [`ShardedSystem`]: [`Sharded`] makes a subject of it. Kinds of trouble and **the fault
//! model** are in [`kind`], sizes in [`options`], scenarios in [`scenario`]. The checks are those of every system:
//! [`check`], and the phases after the trouble.

mod cluster;
mod faults;
pub mod kind;
pub mod options;
pub mod scenario;

use crate::case::Case;
use crate::check::{self, Circumstances, Violation};
use crate::outcome::{Outcome, Summary};
use crate::phases::{self, CalmCluster};
use crate::scenario::Scenario;
use crate::subject::{Planted, Subject};
use cluster::Cluster;
use drover_base::Ns;
use drover_kv::ShardedSystem;
use drover_sim::Ps;
use faults::{Fault, last_end, plan};
use kind::Kind;
use options::Options;
use std::fmt;
use std::marker::PhantomData;

/// Maximum time to reconnect: a handshake without an answer times out after two seconds, the next attempt begins at
/// most 100 ms later, and takes well under another 100 ms.
const READY_MAX: Ns = Ns::from_ms(2_200);
/// Time within which delayed messages arrive.
const SETTLE: Ns = Ns::from_ms(60);

/// The options of a case.
fn options<S: ShardedSystem>(case: &Case<Sharded<S>>) -> Options {
    let mut options = Options::draw::<S>(case.seed, &case.kinds);
    options.load.ops = case.ops.unwrap_or(options.load.ops);
    options.clients = case.clients.unwrap_or(options.clients);
    options
}

/// Runs a case: trouble, then checks.
fn run<S: ShardedSystem>(case: &Case<Sharded<S>>) -> Outcome {
    let options = options(case);
    let mistake = case.planted.map(|planted| planted.mistake);
    let plan = plan(&options, case.seed);
    let mut cluster = Cluster::<S>::new(&options, case.seed, mistake);
    let (mut found, mut timeline) = (Vec::new(), Vec::new());
    for &(at, fault) in &plan {
        cluster.world().run_until(at);
        timeline.push(format!("{at}: {fault}"));
        afflict(&mut cluster, fault, options.load.ops);
    }
    let is_done = |cluster: &Cluster<S>| {
        cluster
            .seated()
            .iter()
            .all(|seated| seated.asker.borrow().is_done())
    };
    let horizon = options.machines.horizon;
    cluster.world().run_while(horizon, || !is_done(&cluster));
    cluster.calm_down();
    cluster.world().run_until(last_end(&plan));
    timeline.push(format!("{}: trouble ends", cluster.world().now()));
    let began = cluster.world().now();
    for seated in cluster.seated() {
        seated.asker.borrow_mut().closing = true;
    }
    phases::quiet(&cluster, options.connect.deadline, &mut found);
    let is_ready = phases::ready(&cluster, READY_MAX, &mut found);
    let until_ready = cluster.world().now().since(began);
    let evicted = |cluster: &Cluster<S>| {
        cluster
            .counted()
            .iter()
            .any(|&(name, count)| name == "evictions" && count > 0)
    };
    if evicted(&cluster) && !options.plan.evicts {
        let text = "a service that may not evict has evicted items";
        found.push(Violation::new("evicts", text));
    }
    let mut circumstances = Circumstances {
        troubled: case.kinds.iter().any(|kind| kind.is_trouble()),
        settled_at: Ps::from(cluster.world().now()).0,
        may_be_full: !options.plan.evicts,
        refused_above: options.load.values.refused_above,
        deadline: options.connect.deadline,
        forgets: options.forgets(),
    };
    if is_ready {
        phases::probe(&cluster, options.connect.window, &options.load, &mut found);
        cluster.world().run_for(SETTLE);
        phases::read_again(&cluster, &options.load, &mut found);
        phases::settle(&cluster, &mut found);
    }
    // A cache that reports no evictions must have all items.
    circumstances.forgets |= evicted(&cluster);
    let verdict = check::check(&cluster.record().borrow(), circumstances);
    found.extend(verdict.violations);
    let summary = Summary {
        message_faults: cluster.fault_counts().total(),
        counted: cluster.counted(),
        judged: verdict.judged,
        unjudged: verdict.unjudged,
        until_ready,
        ..Summary::of(&cluster.record().borrow(), cluster.world())
    };
    Outcome {
        violations: found,
        summary,
        timeline,
        trace_hash: cluster.world().trace_hash(),
    }
}

fn afflict<S: ShardedSystem>(cluster: &mut Cluster<S>, fault: Fault, ops: usize) {
    match fault {
        Fault::Crash(whose) => cluster.crash(whose),
        Fault::Restart(whose) => cluster.restart(whose),
        Fault::Stall {
            machine,
            core_index,
            time,
        } => cluster.stall(machine, core_index, time),
        Fault::Arrival { machine } => cluster.seat(machine, ops),
    }
}

/// A system of shards as a subject of campaigns.
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
        run(case)
    }
}
