//! What is asked of a cluster when its trouble is over, whichever system runs in it.
//!
//! ```text
//! quiet        what is under way ends, within the deadline of operations
//! ready        every client has its sessions again
//! probe        every client fills all its windows, reads every key; everything is answered
//! read again   what was late has arrived, and has changed nothing
//! settle       nothing is under way, nobody is busy, nothing has leaked
//! ```

use crate::actors::{Fabric, Seated};
use crate::asker::Wish;
use crate::check::{DEADLINE_SLACK, Violation};
use crate::options::Load;
use crate::record::{End, Record};
use drover_base::Ns;
use drover_kv::{KvClient, OpKind, Refusal};
use drover_verbs_sim::World;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// A cluster whose trouble is over.
pub trait CalmCluster {
    /// A client of its system.
    type Client: KvClient<Fabric>;

    /// The machines.
    fn world(&self) -> &World;

    /// What was asked and answered.
    fn record(&self) -> &Rc<RefCell<Record>>;

    /// All clients that are up.
    fn seated(&self) -> &[Seated<Self::Client>];

    /// Whether every client has its sessions with servers that are up, and those know nobody else.
    fn is_ready(&self) -> bool;

    /// Why clients have no sessions.
    fn errors(&self) -> Vec<String>;

    /// With how many parts of its service `client` has a window each.
    fn part_count(&self, client: &Self::Client) -> usize;

    /// What servers hold that they should not.
    fn leaks(&self) -> Vec<String>;
}

/// Questions in a cluster where nothing goes wrong any more are answered within this.
const PROBE_MAX: Ns = Ns::from_ms(200);
/// The last replies have been forgotten within this.
const REST: Ns = Ns::from_ms(5);
/// For so long everybody is watched doing nothing ...
const WATCHED: Ns = Ns::from_ms(10);
/// ... with at most one step in this time.
const REST_MIN: Ns = Ns::from_us(5);

/// Everything under way must end.
pub fn quiet(cluster: &impl CalmCluster, deadline: Ns, found: &mut Vec<Violation>) {
    let until = cluster.world().now() + deadline + DEADLINE_SLACK;
    // What has ended stays ended: no look at it again with every event.
    let ended = Cell::new(0);
    let pending = || {
        let record = cluster.record().borrow();
        let more = record.entries[ended.get()..].iter();
        ended.set(ended.get() + more.take_while(|entry| entry.end != End::Pending).count());
        ended.get() < record.entries.len()
    };
    if pending() && cluster.world().run_while(until, pending) {
        let record = cluster.record().borrow();
        let mut entries = record.entries.iter().enumerate();
        let first = entries.find(|(_, entry)| entry.end == End::Pending);
        let text = format!(
            "{} operations hang past their deadline; the first: {first:?}",
            record.count(|end| *end == End::Pending)
        );
        found.push(Violation::new("ends", text));
    }
}

/// Everybody must have a session again, within `longest`.
pub fn ready(cluster: &impl CalmCluster, longest: Ns, found: &mut Vec<Violation>) -> bool {
    let until = cluster.world().now() + longest;
    if !cluster.is_ready() && cluster.world().run_while(until, || !cluster.is_ready()) {
        let text = format!(
            "not every client found its way back to the server, or sessions are left over: {}",
            cluster.errors().join("; ")
        );
        found.push(Violation::new("ready", text));
        return false;
    }
    true
}

/// All clients fill all windows and read every key: one that is stuck shows.
pub fn probe(cluster: &impl CalmCluster, window: usize, load: &Load, found: &mut Vec<Violation>) {
    let before = cluster.record().borrow().entries.len();
    for seated in cluster.seated() {
        let mut asker = seated.asker.borrow_mut();
        let fill = (window * cluster.part_count(&asker.client) * 2).max(8) as u64;
        let wish = |kind, key| Wish {
            kind,
            key,
            value_len: 16,
            ttl_s: 0,
        };
        let reads = (0..load.keys).map(|key| wish(OpKind::Get, key));
        // Keys of their own, so that nobody waits for anybody.
        let own = (u64::from(asker.id) + 1) << 32;
        let puts = (0..fill).map(|key| wish(OpKind::Put, own + key));
        asker.wishes.extend(reads.chain(puts));
        if load.large_percent > 0 {
            let value_len = load.large_bytes_max.min(load.refused_above) as usize;
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

/// One client reads every key once more: what is late has arrived, and has changed nothing.
pub fn read_again(cluster: &impl CalmCluster, load: &Load, found: &mut Vec<Violation>) {
    let before = cluster.record().borrow().entries.len();
    let Some(seated) = cluster.seated().first() else {
        return;
    };
    let read = |key| Wish {
        kind: OpKind::Get,
        key,
        value_len: 0,
        ttl_s: 0,
    };
    let reads = (0..load.keys).map(read);
    seated.asker.borrow_mut().wishes.extend(reads);
    seated.wake();
    answered(cluster, before, found);
}

/// All wishes are asked, and everything asked since `before` is answered.
fn answered(cluster: &impl CalmCluster, before: usize, found: &mut Vec<Violation>) {
    let missing = || {
        let is_busy = |seated: &&Seated<_>| !seated.asker.borrow().is_done();
        cluster.seated().iter().filter(is_busy).count()
    };
    let until = cluster.world().now() + PROBE_MAX;
    if missing() > 0 && cluster.world().run_while(until, || missing() > 0) {
        let text = format!("{} clients wait for answers though all is well", missing());
        found.push(Violation::new("probe", text));
    }
    let record = cluster.record().borrow();
    let may_be = |end: &End| {
        matches!(
            end,
            End::Answered(_) | End::Refused(_, Refusal::Full | Refusal::TableFull)
        )
    };
    let mut entries = record.entries[before..].iter();
    if let Some(entry) = entries.find(|entry| !may_be(&entry.end)) {
        let text = format!("an operation failed though all is well: {entry:?}");
        found.push(Violation::new("probe", text));
    }
}

/// Nothing is left over, and nobody is busy.
pub fn settle(cluster: &impl CalmCluster, found: &mut Vec<Violation>) {
    cluster.world().run_for(REST);
    let mut leak = |what: String| found.push(Violation::new("leak", what));
    for seated in cluster.seated() {
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
        let reports = cluster.world().cores().into_iter().map(|core| core.report());
        reports
            .map(|report| report.busy_steps + report.idle_steps)
            .collect()
    };
    let before = steps();
    cluster.world().run_for(WATCHED);
    for (n, (after, before)) in steps().into_iter().zip(before).enumerate() {
        if after - before > WATCHED.0 / REST_MIN.0 {
            leak(format!("core {n} makes {} steps for nothing", after - before));
        }
    }
}
