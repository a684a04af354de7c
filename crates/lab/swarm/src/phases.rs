//! Checks of a cluster after the end of the trouble, for any system.
//!
//! ```text
//! quiet        operations in flight end, within their deadline
//! ready        every client has its sessions again
//! probe        every client fills all its windows and reads every key; every operation gets an answer
//! read again   delayed messages have arrived, and have changed nothing
//! settle       nothing is in flight, no core is busy, no resource has leaked
//! ```

use crate::actors::{Fabric, Seated};
use crate::check::{DEADLINE_SLACK, Violation};
use crate::cluster::ClusterBase;
use crate::load::Load;
use crate::record::End;
use crate::wish::{Demand, Wish};
use drover_base::Ns;
use drover_kv::{KvClient, OpKind, Refusal};
use std::cell::Cell;

/// A cluster after the end of its trouble.
pub trait CalmCluster {
    /// Client type of the system.
    type Client: KvClient<Fabric> + 'static;

    /// The machines, and all running clients with the record of their operations.
    fn base(&self) -> &ClusterBase<Self::Client>;

    /// Whether every client has its sessions with running servers, and these have no other sessions.
    fn is_ready(&self) -> bool;

    /// Descriptions of why the cluster is not [ready](CalmCluster::is_ready), such as the last errors of clients.
    fn errors(&self) -> Vec<String>;

    /// Number of parts of the service (shards or partitions) at each of which `client` has a window.
    fn part_count(&self, client: &Self::Client) -> usize;

    /// Descriptions of sessions that do not match the running clients (left over, or missing), and of shards that are
    /// down.
    fn leaks(&self) -> Vec<String>;
}

/// Maximum time until operations are answered in a cluster without faults.
const PROBE_MAX: Ns = Ns::from_ms(200);
/// Time after which the last replies are forgotten.
const REST: Ns = Ns::from_ms(5);
/// For this time every core is checked to be idle, as often as this at most. Clients of memory nodes may be repairing what dead ones
/// have left: at each node one walk for all of them and a sweep, which waits for about a dozen renewals of all leases, 2.5 ms apart
/// meanwhile. So half a second is three times what four nodes take one after the other. A repair of each dead client by itself
/// took longer, and was a defect ...
const WATCHED: Ns = Ns::from_ms(10);
const WATCHES: usize = 50;
/// ... which means at most one step per this interval.
const REST_MIN: Ns = Ns::from_us(5);

/// Checks that all operations in flight end within `deadline`; adds a violation to `found` if not.
pub fn quiet(cluster: &impl CalmCluster, deadline: Ns, found: &mut Vec<Violation>) {
    let until = cluster.base().world.now() + deadline + DEADLINE_SLACK;
    // Entries that have ended are not checked again at every event.
    let ended = Cell::new(0);
    let pending = || {
        let record = cluster.base().record.borrow();
        let more = record.entries[ended.get()..].iter();
        ended.set(ended.get() + more.take_while(|entry| entry.end != End::Pending).count());
        ended.get() < record.entries.len()
    };
    if pending() && cluster.base().world.run_while(until, pending) {
        let record = cluster.base().record.borrow();
        let mut entries = record.entries.iter().enumerate();
        let first = entries.find(|(_, entry)| entry.end == End::Pending);
        let text = format!(
            "{} operations hang past their deadline; the first: {first:?}",
            record.count(|end| *end == End::Pending)
        );
        found.push(Violation::new("ends", text));
    }
}

/// Waits until every client has its sessions and returns true; after `longest`, adds a violation and returns false.
pub fn ready(cluster: &impl CalmCluster, longest: Ns, found: &mut Vec<Violation>) -> bool {
    let until = cluster.base().world.now() + longest;
    if !cluster.is_ready() && cluster.base().world.run_while(until, || !cluster.is_ready()) {
        let text = format!(
            "not every client has a session again, or servers have sessions without clients: {}",
            cluster.errors().join("; ")
        );
        found.push(Violation::new("ready", text));
        return false;
    }
    true
}

/// Lets all clients read every key and fill all their windows with PUTs, and checks that every operation gets an answer
/// (PUTs may find the server full) within 200 ms: this exposes a client that is stuck.
pub fn probe(cluster: &impl CalmCluster, window: usize, load: &Load, found: &mut Vec<Violation>) {
    let before = cluster.base().record.borrow().entries.len();
    for seated in &cluster.base().seated {
        let mut asker = seated.asker.borrow_mut();
        let fill = (window * cluster.part_count(&asker.client) * 2).max(8) as u64;
        let wish = |kind, key| Wish {
            kind,
            key,
            value_len: 16,
            ttl_s: 0,
            demand: Demand::Nothing,
        };
        let reads = (0..load.keys).map(|key| wish(OpKind::Get, key));
        // Each client has its own keys, so that no operation waits for that of another client.
        let own = (u64::from(asker.id) + 1) << 32;
        let puts = (0..fill).map(|key| wish(OpKind::Put, own + key));
        asker.wishes.extend(reads.chain(puts));
        if load.values.large_percent > 0 {
            let value_len = load.values.large_bytes_max.min(load.values.refused_above) as usize;
            asker.wishes.push_back(Wish {
                value_len,
                ..wish(OpKind::Put, own)
            });
        }
        drop(asker);
        seated.wake();
    }
    answered(cluster, before, found);
}

/// Lets one client read every key once more, after delayed messages have arrived, and checks that it gets answers. If
/// those messages have changed something, the check of the record finds it.
pub fn read_again(cluster: &impl CalmCluster, load: &Load, found: &mut Vec<Violation>) {
    let before = cluster.base().record.borrow().entries.len();
    let Some(seated) = cluster.base().seated.first() else {
        return;
    };
    let read = |key| Wish {
        kind: OpKind::Get,
        key,
        value_len: 0,
        ttl_s: 0,
        demand: Demand::Nothing,
    };
    let reads = (0..load.keys).map(read);
    seated.asker.borrow_mut().wishes.extend(reads);
    seated.wake();
    answered(cluster, before, found);
}

/// Checks that all wishes are submitted, and that everything submitted since `before` is answered.
fn answered(cluster: &impl CalmCluster, before: usize, found: &mut Vec<Violation>) {
    let missing = || {
        let is_busy = |seated: &&Seated<_>| !seated.asker.borrow().is_done();
        cluster.base().seated.iter().filter(is_busy).count()
    };
    let until = cluster.base().world.now() + PROBE_MAX;
    if missing() > 0 && cluster.base().world.run_while(until, || missing() > 0) {
        let text = format!("{} clients wait for answers without any fault", missing());
        found.push(Violation::new("probe", text));
    }
    let record = cluster.base().record.borrow();
    let may_be = |end: &End| {
        matches!(
            end,
            End::Answered(_) | End::Refused(_, Refusal::Full | Refusal::TableFull)
        )
    };
    let mut entries = record.entries[before..].iter();
    if let Some(entry) = entries.find(|entry| !may_be(&entry.end)) {
        let text = format!("an operation failed although no fault is active: {entry:?}");
        found.push(Violation::new("probe", text));
    }
}

/// Checks that no operation is in flight, no resource has leaked, and every core comes to rest: it takes at most one step per
/// 5 us. Clients of memory nodes may have something to do first: they repair what dead ones have left.
pub fn settle(cluster: &impl CalmCluster, found: &mut Vec<Violation>) {
    cluster.base().world.run_for(REST);
    let mut leak = |what: String| found.push(Violation::new("leak", what));
    for seated in &cluster.base().seated {
        let asker = seated.asker.borrow();
        if asker.client.in_flight() > 0 {
            leak(format!(
                "client {} has {} operations under way",
                asker.id,
                asker.client.in_flight()
            ));
        }
    }
    cluster.leaks().into_iter().for_each(&mut leak);
    let steps = || -> Vec<u64> {
        let reports = cluster.base().world.cores().into_iter().map(|core| core.report());
        reports
            .map(|report| report.busy_steps + report.idle_steps)
            .collect()
    };
    let mut busy = Vec::new();
    for _ in 0..WATCHES {
        let before = steps();
        cluster.base().world.run_for(WATCHED);
        let steps = steps().into_iter().zip(before).enumerate();
        let counts = steps.map(|(core, (after, before))| (core, after - before));
        busy = counts
            .filter(|(_, steps)| *steps > WATCHED.0 / REST_MIN.0)
            .collect();
        if busy.is_empty() {
            break;
        }
    }
    for (core, steps) in busy {
        leak(format!("core {core} is busy without work: {steps} steps"));
    }
}
