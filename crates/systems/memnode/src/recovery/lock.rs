//! A node's recovery lock.

use crate::client::ClientId;
use crate::header::RECOVERY_AT;
use crate::locks::Lock;
use crate::nodes::Nodes;
use crate::pool::MemoryError;
use drover_rt::TaskCx;
use drover_verbs::Provider;

/// Takes the lock, unless it is `lock` already: of an attempt whose connection failed. Returns its owner if that is another one,
/// and alive.
pub(super) async fn acquire<P: Provider>(
    cx: &TaskCx<P>,
    nodes: &Nodes<P>,
    node: usize,
    lock: Lock,
) -> Result<Option<ClientId>, MemoryError> {
    let mut expected = Lock::FREE;
    loop {
        let found = swap(cx, nodes, node, expected, lock).await?;
        if found == expected || found == lock {
            return Ok(None);
        }
        // Never because it takes long: only if its owner was fenced.
        if !found.is_free() && !nodes.owner_is_dead(cx, node, found).await? {
            return Ok(Some(found.owner()));
        }
        expected = found;
    }
}

pub(super) async fn release<P: Provider>(
    cx: &TaskCx<P>,
    nodes: &Nodes<P>,
    node: usize,
    lock: Lock,
) -> Result<(), MemoryError> {
    swap(cx, nodes, node, lock, Lock::FREE).await.map(|_| ())
}

async fn swap<P: Provider>(
    cx: &TaskCx<P>,
    nodes: &Nodes<P>,
    node: usize,
    from: Lock,
    to: Lock,
) -> Result<Lock, MemoryError> {
    let _pin = nodes.pin(node);
    nodes.check_lease(cx, node)?;
    let word = nodes.table(node, RECOVERY_AT);
    let ticket = cx.cas(word.peer, word.remote, from.bits(), to.bits())?;
    Ok(Lock::from_bits(cx.sync().await?.value(ticket)))
}
