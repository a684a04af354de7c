//! All metrics of the server: `/metrics` is written from one table. `docs/metrics.md` lists the same metrics; a test
//! compares the two.

use super::exposition::{Exposition, Kind, Samples};
use super::process::{self, Process};
use super::sockets::SocketStats;
use drover_base::Spread;
use drover_kv::{Counter, CounterKind, Facts};
use drover_kv_herd::server::{Counters, Server, ServerStats, WorkerStats};
use drover_store::PartitionStats;
use drover_verbs::Provider;
use std::time::Duration;

/// All numbers of a server for the metrics, at one moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Numbers of HERD's workers, partitions and native clients.
    pub server: ServerStats,
    /// Maximum number of native clients.
    pub clients_max: usize,
    /// Counters of memcached clients.
    pub sockets: Sockets,
    /// Counters of a system whose row in the table of systems names them. If set, the other fields are not shown.
    pub service: Option<ServiceCounters>,
}

/// Counters of a running service. Their names are in [`facts`](ServiceCounters::facts).
#[derive(Clone, Debug)]
pub struct ServiceCounters {
    /// The system's row in the table of systems: its name and the names of its counters.
    pub facts: &'static Facts,
    /// Values of the counters, for each shard, in the order of `facts.counters`.
    pub shards: Vec<Vec<u64>>,
    /// Seconds since the service started.
    pub uptime_s: u64,
}

/// Counters of all memcached clients.
#[derive(Clone, Debug, Default)]
pub struct Sockets {
    /// Counters of connections, summed over all cores.
    pub connections: drover_net::Counters,
    /// Number of memcached commands that each core has executed, by core.
    pub operations: Vec<u64>,
    /// How long requests took, by the core that serves the connection.
    pub durations: Vec<Spread>,
    /// Number of commands by result, summed over all cores: (command, status, count).
    pub commands: Vec<(&'static str, &'static str, u64)>,
}

struct Family {
    name: &'static str,
    kind: Kind,
    help: &'static str,
    add: fn(&Snapshot, &mut Samples<'_>),
}

const fn counter(name: &'static str, help: &'static str, add: fn(&Snapshot, &mut Samples<'_>)) -> Family {
    let kind = Kind::Counter;
    Family {
        name,
        kind,
        help,
        add,
    }
}

const fn gauge(name: &'static str, help: &'static str, add: fn(&Snapshot, &mut Samples<'_>)) -> Family {
    let kind = Kind::Gauge;
    Family {
        name,
        kind,
        help,
        add,
    }
}

const FAMILIES: &[Family] = &[
    gauge(
        "drover_uptime_seconds",
        "Seconds since the server started.",
        |all, out| out.count(&[], all.server.uptime_s),
    ),
    gauge(
        "drover_version",
        "Always 1; the version is the label.",
        |_, out| out.count(&[("version", env!("CARGO_PKG_VERSION"))], 1),
    ),
    counter(
        "drover_commands_total",
        "Commands of all clients, by result.",
        add_commands,
    ),
    Family {
        name: "drover_command_duration_seconds",
        kind: Kind::Histogram,
        help: "How long requests were with a worker; see below.",
        add: add_durations,
    },
    gauge(
        "drover_current_items",
        "Items held, in cache mode with those overwritten but not yet met.",
        |all, out| per_partition(all, out, |p| p.items),
    ),
    counter("drover_items_total", "Items stored.", |all, out| {
        per_partition(all, out, PartitionStats::puts)
    }),
    gauge(
        "drover_current_bytes",
        "Bytes of item memory in use.",
        |all, out| per_partition(all, out, |p| p.bytes),
    ),
    gauge("drover_limit_bytes", "Bytes of item memory.", |all, out| {
        per_partition(all, out, |p| p.bytes_max)
    }),
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
        |all, out| per_partition(all, out, |p| p.expired),
    ),
    counter("drover_items_refused_total", "Items not stored.", |all, out| {
        per_reason(all, out, &[("full", |p| p.full), ("too_large", |p| p.too_large)])
    }),
    counter(
        "drover_items_renewed_total",
        "Items that a GET saved from being overwritten soon.",
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
    counter(
        "drover_requests_refused_total",
        "Native requests refused.",
        |all, out| {
            by_reason(
                all,
                out,
                &[
                    ("bad_request", |c| c.refused.bad_requests),
                    ("wrong_partition", |c| c.refused.wrong_partition),
                    ("stale_epoch", |c| c.refused.stale_epoch),
                ],
            )
        },
    ),
    counter(
        "drover_requests_dropped_total",
        "Native requests that got no answer.",
        |all, out| {
            by_reason(
                all,
                out,
                &[
                    ("checksum", |c| c.irregular.crc_dropped),
                    ("stray", |c| c.irregular.stray_datagrams),
                    ("superseded", |c| c.irregular.ignored),
                ],
            )
        },
    ),
    counter(
        "drover_retransmits_total",
        "Requests that a native client sent again.",
        |all, out| out.count(&[], all.server.total(|w| w.counters.irregular.retransmits)),
    ),
    counter(
        "drover_replies_total",
        "Replies to native clients.",
        |all, out| {
            by_status(
                all,
                out,
                &[
                    ("posted", |c| c.replies.posted),
                    ("failed", |c| c.replies.failed),
                    ("deferred", |c| c.replies.deferred),
                ],
            )
        },
    ),
    counter(
        "drover_doorbells_total",
        "Lists of replies handed to the fabric.",
        |all, out| out.count(&[], all.server.total(|w| w.counters.replies.doorbells)),
    ),
    counter(
        "drover_bulk_operations_total",
        "Operations whose value moved through bulk memory.",
        |all, out| out.count(&[], all.server.total(|w| w.counters.operations.bulk_ops)),
    ),
];

/// Formats all metrics as the text of `/metrics`. Without a snapshot (the workers did not answer) it reports that, and
/// the process's numbers.
pub fn render(snapshot: Option<&Snapshot>, process: &Process) -> String {
    let mut out = Exposition::default();
    out.family("drover_up", Kind::Gauge, "Whether all workers answer.")
        .count(&[], snapshot.is_some().into());
    match snapshot.map(|snapshot| (snapshot, &snapshot.service)) {
        None => {}
        Some((_, Some(service))) => add_service(&mut out, service),
        Some((snapshot, None)) => {
            for family in FAMILIES {
                (family.add)(snapshot, &mut out.family(family.name, family.kind, family.help));
            }
        }
    }
    process::add(&mut out, process);
    out.finish()
}

/// Adds every counter of the service's row, per shard: `drover_NAME_total`, or `drover_current_NAME` for an amount.
fn add_service(out: &mut Exposition, service: &ServiceCounters) {
    let facts = service.facts;
    out.family(
        "drover_uptime_seconds",
        Kind::Gauge,
        "Seconds since the server started.",
    )
    .count(&[], service.uptime_s);
    out.family(
        "drover_version",
        Kind::Gauge,
        "Always 1; the version is the label.",
    )
    .count(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    out.family("drover_system", Kind::Gauge, "Always 1; the system is the label.")
        .count(&[("system", facts.name)], 1);
    for (index, counter) in facts.counters.iter().enumerate() {
        let kind = match counter.kind {
            CounterKind::Events => Kind::Counter,
            CounterKind::Amount => Kind::Gauge,
        };
        let name = metric_of(counter);
        let mut samples = out.family(&name, kind, counter.help);
        for (shard, values) in service.shards.iter().enumerate() {
            if let Some(value) = values.get(index) {
                samples.count(&[("shard", &shard.to_string())], *value);
            }
        }
    }
}

/// Name of the metric that shows a service's counter: `drover_NAME_total`, or `drover_current_NAME` for an amount.
pub fn metric_of(counter: &Counter) -> String {
    match counter.kind {
        CounterKind::Events => format!("drover_{}_total", counter.name),
        CounterKind::Amount => format!("drover_current_{}", counter.name),
    }
}

fn add_operations(all: &Snapshot, out: &mut Samples<'_>) {
    for (index, worker) in all.server.workers.iter().enumerate() {
        let c = &worker.counters;
        let of_sockets = all.sockets.operations.get(index).copied().unwrap_or(0);
        let count = c.operations.total() + of_sockets;
        out.count(&[("worker", &index.to_string())], count);
    }
}

fn add_durations(all: &Snapshot, out: &mut Samples<'_>) {
    for (index, worker) in all.server.workers.iter().enumerate() {
        let index = index.to_string();
        out.spread(&[("transport", "native"), ("worker", &index)], &worker.durations);
    }
    for (index, durations) in all.sockets.durations.iter().enumerate() {
        let index = index.to_string();
        out.spread(&[("transport", "sockets"), ("worker", &index)], durations);
    }
}

fn per_partition(all: &Snapshot, out: &mut Samples<'_>, field: fn(&PartitionStats) -> u64) {
    for (index, worker) in all.server.workers.iter().enumerate() {
        out.count(&[("partition", &index.to_string())], field(&worker.partition));
    }
}

type Reason<T> = (&'static str, fn(&T) -> u64);

fn per_reason(all: &Snapshot, out: &mut Samples<'_>, reasons: &[Reason<PartitionStats>]) {
    for (index, worker) in all.server.workers.iter().enumerate() {
        for (reason, field) in reasons {
            let labels = [("partition", index.to_string()), ("reason", reason.to_string())];
            let labels = labels.each_ref().map(|(name, value)| (*name, value.as_str()));
            out.count(&labels, field(&worker.partition));
        }
    }
}

fn per_worker(all: &Snapshot, out: &mut Samples<'_>, field: fn(&WorkerStats) -> f64) {
    for (index, worker) in all.server.workers.iter().enumerate() {
        out.add(&[("worker", &index.to_string())], field(worker));
    }
}

fn by_reason(all: &Snapshot, out: &mut Samples<'_>, reasons: &[Reason<Counters>]) {
    for (reason, field) in reasons {
        out.count(&[("reason", reason)], all.server.total(|w| field(&w.counters)));
    }
}

fn by_status(all: &Snapshot, out: &mut Samples<'_>, statuses: &[Reason<Counters>]) {
    for (status, field) in statuses {
        out.count(&[("status", status)], all.server.total(|w| field(&w.counters)));
    }
}

/// Name, status and counter field.
type Command = (&'static str, &'static str, fn(&Counters) -> u64);

/// Native operations are counted under memcached's names and added to those of socket clients.
fn add_commands(all: &Snapshot, out: &mut Samples<'_>) {
    let native: [Command; 5] = [
        ("get", "hit", |c| c.operations.get_hits),
        ("get", "miss", |c| c.operations.get_misses()),
        ("set", "done", |c| c.operations.puts),
        ("delete", "hit", |c| c.operations.delete_hits),
        ("delete", "miss", |c| {
            c.operations.deletes - c.operations.delete_hits
        }),
    ];
    let of_sockets = |command, status| {
        let same = |row: &&(&str, &str, u64)| (row.0, row.1) == (command, status);
        all.sockets.commands.iter().find(same).map_or(0, |row| row.2)
    };
    for (command, status, field) in native {
        let count = all.server.total(|w| field(&w.counters)) + of_sockets(command, status);
        out.count(&[("command", command), ("status", status)], count);
    }
    let is_native = |command, status| native.iter().any(|row| (row.0, row.1) == (command, status));
    for (command, status, count) in &all.sockets.commands {
        if !is_native(command, status) {
            out.count(&[("command", command), ("status", status)], *count);
        }
    }
}

fn add_current_connections(all: &Snapshot, out: &mut Samples<'_>) {
    let datagrams = all.server.datagram_clients as u64;
    out.count(&[("transport", "slots")], all.server.clients as u64 - datagrams);
    out.count(&[("transport", "datagrams")], datagrams);
    out.count(&[("transport", "sockets")], all.sockets.connections.current);
}

fn add_connections(all: &Snapshot, out: &mut Samples<'_>) {
    out.count(&[("transport", "native")], all.server.clients_total);
    out.count(&[("transport", "sockets")], all.sockets.connections.total);
}

/// A HERD server and its memcached clients, as a [`Source`](super::Source).
pub struct Whole<'a, P: Provider> {
    /// The server: workers and native clients.
    pub server: &'a Server<P>,
    /// Maximum number of native clients.
    pub clients_max: usize,
    /// Counters of memcached clients; `None` if the server has no listener for them.
    pub front: Option<&'a SocketStats>,
}

impl<P: Provider> super::Source for Whole<'_, P> {
    fn snapshot(&self, patience: Duration) -> Result<Snapshot, String> {
        Ok(Snapshot {
            server: self.server.ask(patience).map_err(|silence| silence.to_string())?,
            clients_max: self.clients_max,
            sockets: self.front.map(SocketStats::read).unwrap_or_default(),
            service: None,
        })
    }
}
