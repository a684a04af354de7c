//! [`run`]: runs one case of any system: trouble, then checks.
//!
//! ```text
//! 0 .. horizon       clients submit operations while faults are injected
//! .. quiet           operations in flight end, within their deadline
//! .. ready           every client has its sessions again
//! .. probed          every client fills all its windows and reads every key; every operation gets an answer
//! .. read again      delayed messages have arrived, and have changed nothing
//! .. settled         nothing is in flight, no core is busy, no resource has leaked
//! ```

use crate::check::{self, Circumstances, Violation};
use crate::load::Load;
use crate::outcome::{Outcome, Summary};
use crate::phases::{self, CalmCluster};
use drover_base::Ns;
use drover_sim::Ps;
use std::fmt::Display;

/// A fault of a machine, core or client.
pub trait Fault: Copy + Display {
    /// Time for which the fault stops a core; zero if it stops none.
    fn stops_for(self) -> Ns;
}

/// A cluster to which faults happen.
pub trait TroubledCluster: CalmCluster {
    /// Faults of machines, cores and clients.
    type Fault: Fault;

    /// Lets `fault` happen now.
    fn afflict(&mut self, fault: Self::Fault);

    /// Ends the trouble: stops the injection of faults into messages, and disconnects peers that are no clients.
    fn calm_down(&mut self);

    /// Counters of running clients and servers, by name.
    fn counted(&self) -> Vec<(&'static str, u64)>;

    /// Number of updates that running servers have executed or refused; `None` if they do not count that.
    fn executed_updates(&self) -> Option<u64> {
        None
    }

    /// Whether the service has counted evictions; false if it does not count them.
    fn has_evicted(&self) -> bool {
        false
    }
}

/// Facts about a case that are the same for all its phases.
pub struct RunParams<'a> {
    /// Whether faults are injected that may make operations end indeterminate or refused as unavailable.
    pub troubled: bool,
    /// Virtual time at which the trouble ends; earlier if all operations have ended, later if a core is still stopped.
    pub horizon: Ns,
    /// Timeout of operations, from their submission.
    pub deadline: Ns,
    /// Maximum number of operations that a client may have in flight at each part of the service (shard or partition).
    pub window: usize,
    /// Load of each client.
    pub load: &'a Load,
    /// Whether the service may evict items; otherwise it may refuse them because it is full.
    pub evicts: bool,
    /// Whether items may disappear although there was neither a DELETE nor an eviction that the service counts.
    pub forgets: bool,
    /// Whether an update may become indeterminate only at its deadline.
    pub sends_again: bool,
    /// Longest time after its expiry at which an item may be read.
    pub expiry_lag: Ns,
    /// Maximum time until every client has its sessions again, once no operation is in flight after the trouble.
    pub ready_max: Ns,
    /// Time after which the service no longer executes requests that clients gave up; zero: it never executes them.
    pub ruled_out: Ns,
}

/// Time within which delayed messages arrive.
const SETTLE: Ns = Ns::from_ms(60);

/// Runs `cluster` with the faults of `plan`, then checks it and its record.
///
/// # Panics
/// If servers or clients panic.
pub fn run<C: TroubledCluster>(mut cluster: C, plan: &[(Ns, C::Fault)], params: &RunParams<'_>) -> Outcome {
    let (mut found, mut timeline) = (Vec::new(), Vec::new());
    for &(at, fault) in plan {
        cluster.base().world.run_until(at);
        timeline.push(format!("{at}: {fault}"));
        cluster.afflict(fault);
    }
    let base = cluster.base();
    base.world.run_while(params.horizon, || !base.is_done());
    cluster.calm_down();
    let base = cluster.base();
    let last_end = plan.iter().map(|&(at, fault)| at + fault.stops_for()).max();
    base.world.run_until(last_end.unwrap_or(Ns::ZERO));
    timeline.push(format!("{}: trouble ends", base.world.now()));
    let began = base.world.now();
    for seated in &base.seated {
        seated.asker.borrow_mut().closing = true;
    }
    phases::quiet(&cluster, params.deadline, &mut found);
    let is_ready = phases::ready(&cluster, params.ready_max, &mut found);
    let until_ready = base.world.now().since(began);
    if params.ruled_out > Ns::ZERO {
        base.world.run_for(params.ruled_out);
    }
    if cluster.has_evicted() && !params.evicts {
        let text = "a service that may not evict has evicted items";
        found.push(Violation::new("evicts", text));
    }
    let settled_at = Ps::from(base.world.now()).0;
    if is_ready {
        phases::probe(&cluster, params.window, params.load, &mut found);
        base.world.run_for(SETTLE);
        phases::read_again(&cluster, params.load, &mut found);
        phases::settle(&cluster, &mut found);
    }
    let circumstances = Circumstances {
        troubled: params.troubled,
        settled_at,
        may_be_full: !params.evicts,
        refused_above: params.load.values.refused_above,
        deadline: params.deadline,
        sends_again: params.sends_again,
        expiry_lag: params.expiry_lag,
        executed: cluster.executed_updates().filter(|_| params.sends_again),
        // A cache that counts no evictions must have all items.
        forgets: params.forgets || cluster.has_evicted(),
        hot_key: params.load.hot_key,
    };
    let verdict = check::check(&base.record.borrow(), circumstances);
    found.extend(verdict.violations);
    let summary = Summary {
        message_faults: base.message_faults(),
        counted: cluster.counted(),
        judged: verdict.judged,
        unjudged: verdict.unjudged,
        until_ready,
        ..Summary::of(&base.record.borrow(), &base.world)
    };
    Outcome {
        violations: found,
        summary,
        timeline,
        trace_hash: base.world.trace_hash(),
    }
}
