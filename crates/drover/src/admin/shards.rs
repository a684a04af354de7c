//! Metrics of a service of shards: every counter of the system's row, under its own name.

use super::exposition::{Exposition, Kind};
use super::metrics::{self, Sockets};
use drover_kv::{Counter, CounterKind, Facts};

/// Values of the counters of a running service whose workers do not host memcached clients; a gateway beside them may. The counters' names are in
/// [`facts`](ShardsSnapshot::facts).
#[derive(Clone, Debug)]
pub struct ShardsSnapshot {
    /// The system's row in the table of systems: its name and the names of its counters.
    pub facts: &'static Facts,
    /// For each shard, the values of its counters, in the order of the names in `facts`.
    pub shards: Vec<Vec<u64>>,
    /// Seconds since the service started.
    pub uptime_s: u64,
    /// Counters of the memcached clients of the gateway beside the shards, if there is one.
    pub sockets: Option<Sockets>,
}

/// Adds the metrics of `service` to `out`: the uptime, the version, the system's name, and every counter of the system
/// per shard, `drover_NAME_total` or, for an amount, `drover_current_NAME`; then those of the gateway's sockets.
pub fn add(out: &mut Exposition, service: &ShardsSnapshot) {
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
    if let Some(sockets) = &service.sockets {
        metrics::add_sockets(out, sockets);
    }
}

/// Name of a counter's metric: `drover_NAME_total` if it counts events, `drover_current_NAME` if it is an amount.
pub fn metric_of(counter: &Counter) -> String {
    match counter.kind {
        CounterKind::Events => format!("drover_{}_total", counter.name),
        CounterKind::Amount => format!("drover_current_{}", counter.name),
    }
}
