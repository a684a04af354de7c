//! All metrics of the server: `/metrics` is written from one table. `docs/metrics.md` lists the same metrics; a test
//! compares the two.

use super::cluster::{self, ClusterSnapshot};
use super::device;
use super::exposition::{Exposition, Family, Kind, Label, Samples, counter, gauge};
use super::members::{self, MemberSnapshot};
use super::pools::{self, NodeSnapshot};
use super::process::{self, Process};
use super::shards::{self, ShardsSnapshot};
use crate::auth::Failures;
use drover_base::Spread;
use drover_kv::{Counter, Metric, MetricFamily, ServiceStats, WorkerStats};
use drover_store::PartitionStats;
use drover_verbs::DeviceCounters;

const COMMANDS: MetricFamily = MetricFamily::COMMANDS;

/// Data for the metrics of a service, read at one moment; the process's own numbers are in [`Process`].
#[derive(Clone, Debug)]
pub enum Snapshot {
    /// Data of a system whose workers also host memcached clients (HERD), whether or not the server listens for them.
    Hosting(Box<HostingSnapshot>),
    /// Data of any other system.
    Shards(Box<ShardsSnapshot>),
    /// Data of a memory node.
    MemoryNode(Box<NodeSnapshot>),
}

/// Counters of the workers, partitions and clients of a hosting service (whose workers also host memcached clients).
#[derive(Clone, Debug, Default)]
pub struct HostingSnapshot {
    /// Descriptions of the system's counters: their names, and the metrics that they feed. The values are in
    /// [`service`](HostingSnapshot::service).
    pub counters: &'static [Counter],
    /// Counters of workers, partitions and native clients.
    pub service: ServiceStats,
    /// Maximum number of native clients at a time (`-c`).
    pub clients_max: usize,
    /// Counters of memcached clients.
    pub sockets: Sockets,
}

/// Counters of all memcached clients; empty and zero if the server listens for none.
#[derive(Clone, Debug, Default)]
pub struct Sockets {
    /// Counters of connections, summed over all cores.
    pub connections: drover_net::Counters,
    /// Number of memcached commands about keys (each key of a multiget counts), of `flush_all` and of `me`, by the core
    /// that executed them.
    pub operations: Vec<u64>,
    /// Distribution of how long requests took, by the core that serves the connection; see
    /// [`ConnTable::durations`](drover_net::ConnTable::durations).
    pub durations: Vec<Spread>,
    /// The commands of [`operations`](Sockets::operations) by result, summed over all cores: (command, status, count).
    pub commands: Vec<(&'static str, &'static str, u64)>,
}

const FAMILIES: &[Family<HostingSnapshot>] = &[
    gauge(
        "drover_uptime_seconds",
        "Seconds since the server started.",
        |all, out| out.count(&[], all.service.uptime_s),
    ),
    gauge(
        "drover_version",
        "Always 1; the version is the label.",
        |_, out| out.count(&[("version", env!("CARGO_PKG_VERSION"))], 1),
    ),
    counter(COMMANDS.name, COMMANDS.help, add_commands),
    Family {
        name: "drover_command_duration_seconds",
        kind: Kind::Histogram,
        help: "How long requests were with a worker; see below.",
        add: add_durations,
    },
    gauge(
        "drover_current_items",
        "Items held, with expired ones that nothing has met yet.",
        |all, out| per_partition(all, out, |p| p.items),
    ),
    counter("drover_items_total", "Items stored.", |all, out| {
        per_partition(all, out, PartitionStats::puts)
    }),
    gauge("drover_current_bytes", "Bytes of the items held.", |all, out| {
        per_partition(all, out, |p| p.bytes)
    }),
    gauge(
        "drover_limit_bytes",
        "Bytes of memory for items and their index.",
        |all, out| per_partition(all, out, |p| p.bytes_max),
    ),
    counter(
        "drover_items_evicted_total",
        "Items that made space for others.",
        |all, out| {
            per_reason(
                all,
                out,
                &[
                    ("bucket_full", |p| p.evicted_bucket_full),
                    ("log_wrapped", |p| p.evicted_log_wrapped),
                ],
            )
        },
    ),
    counter(
        "drover_items_reclaimed_total",
        "Items removed because their time was over.",
        |all, out| per_partition(all, out, |p| p.expired + p.reclaimed),
    ),
    counter("drover_items_refused_total", "Items not stored.", |all, out| {
        per_reason(all, out, &[("full", |p| p.full), ("too_large", |p| p.too_large)])
    }),
    counter(
        "drover_items_renewed_total",
        "Items kept beyond their turn to be evicted, because they had been used.",
        |all, out| per_partition(all, out, |p| p.renewed),
    ),
    gauge(
        "drover_current_connections",
        "Clients connected.",
        add_current_connections,
    ),
    counter(
        "drover_connections_total",
        "Clients that ever connected.",
        add_connections,
    ),
    counter(
        "drover_connections_closed_total",
        "Connections of sockets that were closed for this reason.",
        |all, out| {
            let sockets = &all.sockets.connections;
            out.count(&[("reason", "idle")], sockets.idle_kicks);
            out.count(&[("reason", "memory")], sockets.shed);
        },
    ),
    counter(
        "drover_accept_pauses_total",
        "Times that accepting stopped for this reason.",
        |all, out| {
            let sockets = &all.sockets.connections;
            out.count(&[("reason", "connections")], sockets.listen_disabled);
            out.count(&[("reason", "system")], sockets.accept_failures);
        },
    ),
    counter(
        "drover_yields_total",
        "Times a connection had more requests than one turn may have.",
        |all, out| out.count(&[], all.sockets.connections.yields),
    ),
    counter(
        "drover_connections_refused_total",
        "Connections turned away because there were too many.",
        |all, out| out.count(&[], all.sockets.connections.rejected),
    ),
    gauge(
        "drover_max_connections",
        "Most native clients at a time.",
        |all, out| out.count(&[], all.clients_max as u64),
    ),
    counter(
        "drover_read_bytes_total",
        "Bytes that came over sockets.",
        |all, out| out.count(&[], all.sockets.connections.bytes_read),
    ),
    counter(
        "drover_written_bytes_total",
        "Bytes that went over sockets.",
        |all, out| out.count(&[], all.sockets.connections.bytes_written),
    ),
    counter(
        "drover_worker_busy_seconds_total",
        "Time in which a worker had something to do.",
        |all, out| per_worker(all, out, |w| w.run.busy.to_duration().as_secs_f64()),
    ),
    counter(
        "drover_poll_empty_total",
        "Rounds in which a worker found nothing to do.",
        |all, out| per_worker(all, out, |w| w.run.idle_rounds as f64),
    ),
    counter(
        "drover_worker_sleeps_total",
        "Times that a worker went to sleep.",
        |all, out| per_worker(all, out, |w| w.run.parks as f64),
    ),
    counter(
        "drover_worker_operations_total",
        "Operations requested from a worker, by native clients and over its sockets.",
        add_operations,
    ),
    counter(
        "drover_worker_restarts_total",
        "Restarts after a panic, each with an empty partition.",
        |all, out| per_worker(all, out, |w| w.restarts as f64),
    ),
];

/// Families that are about sockets alone in a process whose items are another service's.
const OF_SOCKETS: &[&str] = &[
    COMMANDS.name,
    "drover_command_duration_seconds",
    "drover_current_connections",
    "drover_connections_total",
    "drover_connections_closed_total",
    "drover_accept_pauses_total",
    "drover_yields_total",
    "drover_connections_refused_total",
    "drover_read_bytes_total",
    "drover_written_bytes_total",
];

/// Adds the counters of a gateway's sockets.
pub fn add_sockets(out: &mut Exposition, sockets: &Sockets) {
    let all = HostingSnapshot {
        sockets: sockets.clone(),
        ..HostingSnapshot::default()
    };
    for family in FAMILIES.iter().filter(|family| OF_SOCKETS.contains(&family.name)) {
        out.add_all(std::slice::from_ref(family), &all);
    }
}

/// What the process is a part of besides its own service.
#[derive(Clone, Debug, Default)]
pub struct Memberships {
    /// A pool of memory nodes.
    pub pool: Option<MemberSnapshot>,
    /// A service of several members.
    pub cluster: Option<ClusterSnapshot>,
}

/// Formats all metrics as the text of `/metrics`. Without a snapshot (the workers did not answer) the text has only
/// `drover_up 0` and the numbers of the process and its device.
pub fn render(
    snapshot: Option<&Snapshot>,
    card: Option<&DeviceCounters>,
    memberships: &Memberships,
    process: &Process,
    failures: Failures,
) -> String {
    let mut out = Exposition::default();
    out.family("drover_up", Kind::Gauge, "Whether all workers answer.")
        .count(&[], snapshot.is_some().into());
    match snapshot {
        None => {}
        Some(Snapshot::Shards(shards)) => shards::add(&mut out, shards),
        Some(Snapshot::MemoryNode(node)) => pools::add(&mut out, node),
        Some(Snapshot::Hosting(hosting)) => {
            out.add_all(FAMILIES, &**hosting);
            add_counters(hosting, &mut out);
        }
    }
    if let Some(counters) = card {
        device::add(&mut out, counters);
    }
    if let Some(member) = &memberships.pool {
        members::add(&mut out, member);
    }
    if let Some(member) = &memberships.cluster {
        cluster::add(&mut out, member);
    }
    let mut wrong = out.family(
        "drover_auth_failures_total",
        Kind::Counter,
        "Wrong users or passwords.",
    );
    wrong.count(&[("listener", "native")], failures.native);
    wrong.count(&[("listener", "memcached")], failures.memcached);
    wrong.count(&[("listener", "admin")], failures.admin);
    process::add(&mut out, process);
    out.finish()
}

/// Adds the families that only the system's counters feed, each in the order of the counters.
fn add_counters(all: &HostingSnapshot, out: &mut Exposition) {
    let metrics = || all.counters.iter().filter_map(|counter| counter.metric);
    let mut added = vec![COMMANDS];
    for Metric { family, .. } in metrics() {
        if added.contains(&family) {
            continue;
        }
        let mut samples = out.family(family.name, Kind::Counter, family.help);
        for (labels, count) in all.fed(family) {
            samples.count(labels, count);
        }
        added.push(family);
    }
}

impl HostingSnapshot {
    /// Labels and values of the system's counters that feed `family`.
    fn fed(&self, family: MetricFamily) -> impl Iterator<Item = (&'static [Label<'static>], u64)> {
        let counters = self.counters.iter().enumerate();
        counters.filter_map(move |(index, counter)| {
            let metric = counter.metric.filter(|metric| metric.family == family)?;
            Some((metric.labels, self.service.counter(index)))
        })
    }
}

fn add_operations(all: &HostingSnapshot, out: &mut Samples<'_>) {
    for (index, worker) in all.service.workers.iter().enumerate() {
        let of_sockets = all.sockets.operations.get(index).copied().unwrap_or(0);
        out.count(&[("worker", &index.to_string())], worker.operations + of_sockets);
    }
}

fn add_durations(all: &HostingSnapshot, out: &mut Samples<'_>) {
    for (index, worker) in all.service.workers.iter().enumerate() {
        let index = index.to_string();
        out.spread(&[("transport", "native"), ("worker", &index)], &worker.durations);
    }
    for (index, durations) in all.sockets.durations.iter().enumerate() {
        let index = index.to_string();
        out.spread(&[("transport", "sockets"), ("worker", &index)], durations);
    }
}

fn per_partition(all: &HostingSnapshot, out: &mut Samples<'_>, field: fn(&PartitionStats) -> u64) {
    for (index, worker) in all.service.workers.iter().enumerate() {
        out.count(&[("partition", &index.to_string())], field(&worker.partition));
    }
}

type Reason<T> = (&'static str, fn(&T) -> u64);

fn per_reason(all: &HostingSnapshot, out: &mut Samples<'_>, reasons: &[Reason<PartitionStats>]) {
    for (index, worker) in all.service.workers.iter().enumerate() {
        for (reason, field) in reasons {
            let labels = [("partition", index.to_string()), ("reason", reason.to_string())];
            let labels = labels.each_ref().map(|(name, value)| (*name, value.as_str()));
            out.count(&labels, field(&worker.partition));
        }
    }
}

fn per_worker(all: &HostingSnapshot, out: &mut Samples<'_>, field: fn(&WorkerStats) -> f64) {
    for (index, worker) in all.service.workers.iter().enumerate() {
        out.add(&[("worker", &index.to_string())], field(worker));
    }
}

fn labels_of<'a>(command: &'a str, status: &'a str) -> [Label<'a>; 2] {
    [("command", command), ("status", status)]
}

/// Commands of native clients are added to those of socket clients.
fn add_commands(all: &HostingSnapshot, out: &mut Samples<'_>) {
    let of_sockets = |labels: &[Label<'_>]| {
        let mut rows = all.sockets.commands.iter();
        let same = rows.find(|(command, status, _)| labels_of(command, status) == *labels);
        same.map_or(0, |(_, _, count)| *count)
    };
    for (labels, count) in all.fed(COMMANDS) {
        out.count(labels, count + of_sockets(labels));
    }
    for (command, status, count) in &all.sockets.commands {
        let labels = labels_of(command, status);
        if all.fed(COMMANDS).all(|(native, _)| *native != labels) {
            out.count(&labels, *count);
        }
    }
}

fn add_current_connections(all: &HostingSnapshot, out: &mut Samples<'_>) {
    let datagrams = all.service.datagram_clients as u64;
    out.count(&[("transport", "slots")], all.service.clients as u64 - datagrams);
    out.count(&[("transport", "datagrams")], datagrams);
    out.count(&[("transport", "sockets")], all.sockets.connections.current);
}

fn add_connections(all: &HostingSnapshot, out: &mut Samples<'_>) {
    out.count(&[("transport", "native")], all.service.clients_total);
    out.count(&[("transport", "sockets")], all.sockets.connections.total);
}
