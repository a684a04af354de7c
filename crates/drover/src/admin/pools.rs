//! Metrics of a memory node.

use super::exposition::{Exposition, Family, counter, gauge};
use drover_memnode::ClientState;
use drover_memnode::chunks::Fill;
use drover_memnode::header::Header;
use drover_memnode::node::NodeCounters;

/// What a memory node shows, at one moment.
#[derive(Clone, Debug)]
pub struct NodeSnapshot {
    /// Its header.
    pub header: Header,
    /// Number of clients in each state, in the order of [`ClientState::ALL`].
    pub clients: [u64; 4],
    /// Clients that are being shut out.
    pub fencing: u64,
    /// Most chunks of one client; `u32::MAX`: no limit.
    pub quota_chunks: u32,
    /// What it has done about its clients.
    pub counters: NodeCounters,
    /// Seconds since it started.
    pub uptime_s: u64,
}

const FAMILIES: &[Family<NodeSnapshot>] = &[
    gauge(
        "drover_uptime_seconds",
        "Seconds since the server started.",
        |node, out| {
            out.count(&[], node.uptime_s);
        },
    ),
    gauge(
        "drover_version",
        "Always 1; the version is the label.",
        |_, out| {
            out.count(&[("version", env!("CARGO_PKG_VERSION"))], 1);
        },
    ),
    gauge(
        "drover_pool_chunks",
        "Chunks of 16 KiB that the node has, its tables included.",
        |node, out| out.count(&[], node.header.supply.chunk_count.into()),
    ),
    gauge(
        "drover_pool_chunks_used",
        "Chunks in use, tables included.",
        |node, out| out.count(&[], node.header.supply.used().into()),
    ),
    gauge(
        "drover_pool_chunks_returned",
        "Chunks that were given back and not taken again.",
        |node, out| out.count(&[], node.header.supply.stack.count.into()),
    ),
    gauge(
        "drover_pool_chunks_reserve",
        "Chunks that only deletes and splits get.",
        |node, out| out.count(&[], node.header.supply.reserve().into()),
    ),
    gauge(
        "drover_pool_quota_chunks",
        "Most chunks of one client; none: no limit.",
        |node, out| {
            if node.quota_chunks != u32::MAX {
                out.count(&[], node.quota_chunks.into());
            }
        },
    ),
    gauge(
        "drover_pool_alarm",
        "Whether so many per cent of the chunks are in use, or more.",
        |node, out| {
            let fill = node.header.supply.fill();
            out.count(&[("percent", "80")], (fill >= Fill::High).into());
            out.count(&[("percent", "95")], (fill >= Fill::Critical).into());
        },
    ),
    gauge(
        "drover_pool_clients",
        "Clients of the node, by state.",
        |node, out| {
            for (state, count) in ClientState::ALL.into_iter().zip(node.clients).skip(1) {
                out.count(&[("state", state.name())], count);
            }
        },
    ),
    gauge(
        "drover_pool_clients_max",
        "Most clients, those that wait for repair included.",
        |node, out| out.count(&[], node.header.geometry.client_count.into()),
    ),
    gauge(
        "drover_pool_epoch",
        "Rises whenever a client was shut out.",
        |node, out| {
            out.count(&[], node.header.epoch);
        },
    ),
    gauge(
        "drover_pool_reclaim_epoch",
        "Rises as all clients let freed memory be used again; while it stands still, freed memory is in limbo.",
        |node, out| out.count(&[], node.header.reclaim),
    ),
    gauge(
        "drover_pool_sweep",
        "Whether memory of dead clients is being looked through.",
        |node, out| out.count(&[], node.header.sweep % 2),
    ),
    gauge(
        "drover_pool_fences_pending",
        "Clients that are being shut out and may still be inside a request.",
        |node, out| out.count(&[], node.fencing),
    ),
    counter(
        "drover_pool_entries_total",
        "Clients that were let in.",
        |node, out| {
            out.count(&[], node.counters.entered);
        },
    ),
    counter(
        "drover_pool_fences_total",
        "Clients that were shut out, those that left in order included.",
        |node, out| out.count(&[], node.counters.fenced),
    ),
    counter(
        "drover_pool_kills_total",
        "Processes that were ended because they were stopped inside a request.",
        |node, out| out.count(&[], node.counters.killed),
    ),
    counter(
        "drover_pool_leases_expired_total",
        "Clients that did not renew their lease in time.",
        |node, out| out.count(&[], node.counters.expired),
    ),
    counter(
        "drover_pool_repairs_total",
        "Clients whose remains were repaired.",
        |node, out| out.count(&[], node.counters.repaired),
    ),
];

/// Adds the metrics of a memory node to `out`.
pub fn add(out: &mut Exposition, node: &NodeSnapshot) {
    out.add_all(FAMILIES, node);
}

#[cfg(test)]
mod tests {
    use super::super::exposition::check_document;
    use super::*;

    #[test]
    fn the_document_lists_the_metrics_of_nodes() {
        check_document("## Memory nodes", "drover_pool_", FAMILIES);
    }
}
