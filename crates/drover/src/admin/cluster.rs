//! Metrics of a member of a service of several.

use super::exposition::{Exposition, Family, counter, gauge};
use drover_base::Ns;
use drover_member::MemberStatus;

/// What a member shows, at one moment.
#[derive(Clone, Debug, Default)]
pub struct ClusterSnapshot {
    /// The member, as its control thread has it.
    pub status: MemberStatus,
    /// What its cores did about keys of other members.
    pub forwarding: Forwarding,
    /// Time for which its cores were held until keepers of copies had their changes, of all cores together.
    pub held: Ns,
}

/// Requests about keys of other members, since the member started, of all its cores.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Forwarding {
    /// Sent to other members.
    pub forwarded: u64,
    /// Of other members, that were served or answered "elsewhere".
    pub served: u64,
    /// That were answered "elsewhere".
    pub elsewhere: u64,
    /// That had to wait for a member that serves their key.
    pub parked: u64,
    /// That no member served in time.
    pub gave_up: u64,
    /// Whose member was lost before it answered.
    pub lost: u64,
}

const FAMILIES: &[Family<ClusterSnapshot>] = &[
    gauge(
        "drover_cluster_registered",
        "Whether the member is registered under a lease.",
        |all, out| out.count(&[], all.status.id.is_some().into()),
    ),
    gauge(
        "drover_cluster_lease_left_seconds",
        "Time until the member stops serving, unless its lease is renewed; none: it serves on whatever happens to etcd.",
        |all, out| {
            if all.status.lease_left < Ns::MAX {
                out.add(&[], all.status.lease_left.to_duration().as_secs_f64());
            }
        },
    ),
    gauge(
        "drover_cluster_epoch",
        "Epoch of the newest map of shards that the member knows.",
        |all, out| out.count(&[], all.status.epoch.0),
    ),
    gauge(
        "drover_cluster_last_change_seconds",
        "Seconds since the map that the member knows has changed; none: it knows no map.",
        |all, out| {
            if let Some(since) = all.status.since_change {
                out.add(&[], since.to_duration().as_secs_f64());
            }
        },
    ),
    gauge(
        "drover_cluster_shards",
        "Shards of the member, by what happens to them.",
        |all, out| {
            let shards = all.status.shards;
            out.count(&[("state", "served")], shards.served as u64);
            out.count(&[("state", "arriving")], shards.arriving as u64);
            out.count(&[("state", "leaving")], shards.leaving as u64);
            out.count(&[("state", "void")], shards.void as u64);
        },
    ),
    gauge(
        "drover_cluster_copies_kept",
        "Shards of other members of which the member keeps a copy.",
        |all, out| out.count(&[], all.status.shards.kept as u64),
    ),
    gauge(
        "drover_cluster_shards_with_copy",
        "Shards of the member of which another member keeps a complete copy.",
        |all, out| out.count(&[], all.status.shards.copied as u64),
    ),
    gauge(
        "drover_cluster_registry_failures",
        "Requests to etcd without an answer since the last answer.",
        |all, out| out.count(&[], all.status.registry.failures),
    ),
    counter(
        "drover_cluster_requests_total",
        "Requests of memcached clients about keys of other members, by what became of them.",
        |all, out| {
            let it = all.forwarding;
            out.count(&[("result", "forwarded")], it.forwarded);
            out.count(&[("result", "served")], it.served);
            out.count(&[("result", "elsewhere")], it.elsewhere);
            out.count(&[("result", "parked")], it.parked);
            out.count(&[("result", "gave_up")], it.gave_up);
            out.count(&[("result", "lost")], it.lost);
        },
    ),
    counter(
        "drover_cluster_received_shards_total",
        "Shards that were handed over to the member.",
        |all, out| out.count(&[], all.status.tally.received_shards),
    ),
    counter(
        "drover_cluster_lost_shards_total",
        "Shards that began empty at the member since their owner had died.",
        |all, out| out.count(&[], all.status.tally.lost_shards),
    ),
    counter(
        "drover_cluster_promoted_shards_total",
        "Shards whose owner had died and whose copy the member serves since.",
        |all, out| out.count(&[], all.status.tally.promoted_shards),
    ),
    counter(
        "drover_cluster_copy_restarts_total",
        "Copies of the member's shards that were begun again, since the member that keeps them did not follow.",
        |all, out| out.count(&[], all.status.tally.restarted_copies),
    ),
    counter(
        "drover_cluster_held_seconds_total",
        "Time in which cores waited, with their replies, until other members had the copies of what they had changed, of all cores together.",
        |all, out| out.add(&[], all.held.to_duration().as_secs_f64()),
    ),
    counter(
        "drover_cluster_failed_handovers_total",
        "Hand-overs of a shard to the member that did not succeed; they are tried again.",
        |all, out| out.count(&[], all.status.tally.failed_handovers),
    ),
    counter(
        "drover_cluster_copied_items_total",
        "Items that were copied to the member.",
        |all, out| out.count(&[], all.status.tally.copied_items),
    ),
    counter(
        "drover_cluster_copied_bytes_total",
        "Bytes of the items that were copied to the member.",
        |all, out| out.count(&[], all.status.tally.copied_bytes),
    ),
];

/// Adds the metrics of a member to `out`.
pub fn add(out: &mut Exposition, member: &ClusterSnapshot) {
    out.add_all(FAMILIES, member);
}

#[cfg(test)]
mod tests {
    use super::super::exposition::check_document;
    use super::*;

    #[test]
    fn the_document_lists_the_metrics_of_members() {
        check_document("## Members of a service", "drover_", FAMILIES);
    }
}
