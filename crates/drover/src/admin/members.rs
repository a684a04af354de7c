//! Metrics of a compute process of a pool, which a gateway is.

use super::exposition::{Exposition, Family, counter, gauge};
use drover_memnode::{Counted, Keeper};
use drover_verbs::Provider;
use std::sync::Arc;

/// What a compute process shows, at one moment.
#[derive(Clone, Debug)]
pub struct MemberSnapshot {
    /// Of each node: chunks that the process owns, and whether the node is lost.
    nodes: Vec<(u32, bool)>,
    reentries: u64,
    renewals: u64,
    repairs: u64,
    limbo: u64,
    retries: u64,
    rereads: u64,
}

/// Asks a process of a pool what it does there; `None`: it has left.
pub type AskMember = Box<dyn Fn() -> Option<MemberSnapshot> + Send + Sync>;

/// The question for the process that `keeper` keeps in a pool.
pub fn ask_member<P: Provider>(keeper: &Arc<Keeper<P>>) -> AskMember {
    // A handle would keep the process from leaving.
    let keeper = Arc::downgrade(keeper);
    Box::new(move || {
        let keeper = keeper.upgrade()?;
        let (pool, count) = (keeper.pool(), |what| keeper.activity().get(what));
        let nodes = pool.nodes().iter();
        Some(MemberSnapshot {
            nodes: nodes.map(|node| (node.chunks_owned(), node.is_lost())).collect(),
            reentries: keeper.generation().saturating_sub(1),
            renewals: count(Counted::Renewals),
            repairs: count(Counted::Repairs),
            limbo: count(Counted::Limbo),
            retries: count(Counted::Retries),
            rereads: count(Counted::Rereads),
        })
    })
}

const FAMILIES: &[Family<MemberSnapshot>] = &[
    gauge(
        "drover_pool_chunks_held",
        "Chunks of 16 KiB of a node that this process has taken.",
        |member, out| {
            for (index, (chunks, _)) in member.nodes.iter().enumerate() {
                out.count(&[("node", &index.to_string())], u64::from(*chunks));
            }
        },
    ),
    gauge(
        "drover_pool_nodes_lost",
        "Nodes that do not answer, or have shut this process out.",
        |member, out| {
            out.count(
                &[],
                member.nodes.iter().filter(|(_, is_lost)| *is_lost).count() as u64,
            )
        },
    ),
    gauge(
        "drover_pool_limbo",
        "Freed pieces of memory that wait until no operation can look at them.",
        |member, out| out.count(&[], member.limbo),
    ),
    counter(
        "drover_pool_reentries_total",
        "Times this process entered the pool again, after a node was lost or had shut it out.",
        |member, out| out.count(&[], member.reentries),
    ),
    counter(
        "drover_pool_lease_renewals_total",
        "Renewals of leases, at each node.",
        |member, out| out.count(&[], member.renewals),
    ),
    counter(
        "drover_pool_repairs_total",
        "Clients whose remains were repaired.",
        |member, out| out.count(&[], member.repairs),
    ),
    counter(
        "drover_pool_retries_total",
        "Times an operation waited for another client's, or gave way to it.",
        |member, out| out.count(&[], member.retries),
    ),
    counter(
        "drover_onesided_retries_total",
        "READs that were repeated, since what they saw was torn or has changed.",
        |member, out| out.count(&[], member.rereads),
    ),
];

/// Adds the metrics of a compute process to `out`.
pub fn add(out: &mut Exposition, member: &MemberSnapshot) {
    out.add_all(FAMILIES, member);
}

#[cfg(test)]
mod tests {
    use super::super::exposition::check_document;
    use super::*;

    #[test]
    fn the_document_lists_the_metrics_of_compute_processes() {
        check_document("## Compute processes of a pool", "drover_", FAMILIES);
    }
}
