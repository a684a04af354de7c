//! Metrics of a memory node.

use super::exposition::{Exposition, Kind, Samples};
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

struct Family {
    name: &'static str,
    kind: Kind,
    help: &'static str,
    add: fn(&NodeSnapshot, &mut Samples<'_>),
}

const fn amount(name: &'static str, help: &'static str, add: fn(&NodeSnapshot, &mut Samples<'_>)) -> Family {
    let kind = Kind::Gauge;
    Family {
        name,
        kind,
        help,
        add,
    }
}

const fn events(name: &'static str, help: &'static str, add: fn(&NodeSnapshot, &mut Samples<'_>)) -> Family {
    let kind = Kind::Counter;
    Family {
        name,
        kind,
        help,
        add,
    }
}

const FAMILIES: &[Family] = &[
    amount(
        "drover_uptime_seconds",
        "Seconds since the server started.",
        |node, out| {
            out.count(&[], node.uptime_s);
        },
    ),
    amount(
        "drover_version",
        "Always 1; the version is the label.",
        |_, out| {
            out.count(&[("version", env!("CARGO_PKG_VERSION"))], 1);
        },
    ),
    amount(
        "drover_pool_chunks",
        "Chunks of 16 KiB that the node has, its tables included.",
        |node, out| out.count(&[], node.header.supply.chunk_count.into()),
    ),
    amount(
        "drover_pool_chunks_used",
        "Chunks in use, tables included.",
        |node, out| out.count(&[], node.header.supply.used().into()),
    ),
    amount(
        "drover_pool_chunks_returned",
        "Chunks that were given back and not taken again.",
        |node, out| out.count(&[], node.header.supply.stack.count.into()),
    ),
    amount(
        "drover_pool_chunks_reserve",
        "Chunks that only deletes and splits get.",
        |node, out| out.count(&[], node.header.supply.reserve().into()),
    ),
    amount(
        "drover_pool_quota_chunks",
        "Most chunks of one client; none: no limit.",
        |node, out| {
            if node.quota_chunks != u32::MAX {
                out.count(&[], node.quota_chunks.into());
            }
        },
    ),
    amount(
        "drover_pool_alarm",
        "Whether so many per cent of the chunks are in use, or more.",
        |node, out| {
            let fill = node.header.supply.fill();
            out.count(&[("percent", "80")], (fill >= Fill::High).into());
            out.count(&[("percent", "95")], (fill >= Fill::Critical).into());
        },
    ),
    amount(
        "drover_pool_clients",
        "Clients of the node, by state.",
        |node, out| {
            for (state, count) in ClientState::ALL.into_iter().zip(node.clients).skip(1) {
                out.count(&[("state", state.name())], count);
            }
        },
    ),
    amount(
        "drover_pool_clients_max",
        "Most clients, those that wait for repair included.",
        |node, out| out.count(&[], node.header.geometry.client_count.into()),
    ),
    amount(
        "drover_pool_epoch",
        "Rises whenever a client was shut out.",
        |node, out| {
            out.count(&[], node.header.epoch);
        },
    ),
    amount(
        "drover_pool_reclaim_epoch",
        "Rises as all clients let freed memory be used again; while it stands still, freed memory is in limbo.",
        |node, out| out.count(&[], node.header.reclaim),
    ),
    amount(
        "drover_pool_sweep",
        "Whether memory of dead clients is being looked through.",
        |node, out| out.count(&[], node.header.sweep % 2),
    ),
    amount(
        "drover_pool_fences_pending",
        "Clients that are being shut out and may still be inside a request.",
        |node, out| out.count(&[], node.fencing),
    ),
    events(
        "drover_pool_entries_total",
        "Clients that were let in.",
        |node, out| {
            out.count(&[], node.counters.entered);
        },
    ),
    events(
        "drover_pool_fences_total",
        "Clients that were shut out, those that left in order included.",
        |node, out| out.count(&[], node.counters.fenced),
    ),
    events(
        "drover_pool_kills_total",
        "Processes that were ended because they were stopped inside a request.",
        |node, out| out.count(&[], node.counters.killed),
    ),
    events(
        "drover_pool_leases_expired_total",
        "Clients that did not renew their lease in time.",
        |node, out| out.count(&[], node.counters.expired),
    ),
    events(
        "drover_pool_repairs_total",
        "Clients whose remains were repaired.",
        |node, out| out.count(&[], node.counters.repaired),
    ),
];

/// Adds the metrics of a memory node to `out`.
pub fn add(out: &mut Exposition, node: &NodeSnapshot) {
    for family in FAMILIES {
        (family.add)(node, &mut out.family(family.name, family.kind, family.help));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_lists_the_metrics_of_nodes() {
        let (_, text) = include_str!("../../../../docs/metrics.md")
            .split_once("## Memory nodes")
            .expect("a part about memory nodes");
        let listed: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("- `drover_pool_"))
            .collect();
        let own = FAMILIES
            .iter()
            .filter(|family| family.name.starts_with("drover_pool_"));
        let told: Vec<String> = own
            .map(|family| {
                let kind = match family.kind {
                    Kind::Counter => "counter",
                    Kind::Gauge | Kind::Histogram => "gauge",
                };
                format!("- `{}` ({kind}): {}", family.name, family.help)
            })
            .collect();
        assert!(listed == told, "docs/metrics.md should have\n{}", told.join("\n"));
    }
}
