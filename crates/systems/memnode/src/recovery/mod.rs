//! [`recover`]: what is done about clients that were fenced. Any client may do it, one at a time per node; it may be
//! done again after the client that did it has died, too.
//!
//! ```text
//! lock       the node's recovery lock: free, or of an owner that was fenced
//! repair     each structure releases the dead clients' locks and finishes or undoes what they had begun
//! sweep      chunks of dead owners are marked as swept; all threads of all clients forget what they hold of them
//! wait       three epochs: no operation is left that began before, so each block is linked or free
//! visit      each structure names the blocks that it reaches; the others are free
//! adopt      chunks without a block in use go back to the node, the others belong to us; chunks without owner, too
//! ```
//! A block that is freed during a sweep by a client that had been linked when it was visited is found by the next sweep.

mod lock;
mod marks;
mod sweep;

use crate::addr::Addr;
use crate::arena::Arena;
use crate::client::ClientId;
use crate::nodes::Nodes;
use crate::pool::MemoryError;
use drover_base::Ns;
use drover_rt::TaskCx;
use drover_verbs::Provider;
use std::future::Future;
use sweep::Sweep;

/// What a structure, or all structures of a pool, must do about dead clients. All of it may be done again.
pub trait Repair<P: Provider> {
    /// Finishes or undoes what each client of `dead` had begun at node `node`, and releases its locks. Nothing of these clients lands
    /// any more. They come all at once because there may be hundreds, and operations wait for their locks: a walk over a structure
    /// for each of them would take seconds.
    ///
    /// # Errors
    /// [`MemoryError`] if it cannot be finished now; it is then tried again later, for all of them.
    fn repair(
        &self,
        cx: &TaskCx<P>,
        nodes: &Nodes<P>,
        node: usize,
        dead: &[ClientId],
    ) -> impl Future<Output = Result<(), MemoryError>>;

    /// Calls `mark` with address and length of each piece of memory of node `node` that is in use. Others may operate
    /// meanwhile; a piece that is linked all the while must be named, also if it is moved from one place to another. None
    /// of the swept pieces is linked anew.
    ///
    /// # Errors
    /// [`MemoryError`] if it cannot be completed; nothing is then taken for free.
    fn visit(
        &self,
        cx: &TaskCx<P>,
        nodes: &Nodes<P>,
        node: usize,
        mark: &mut dyn FnMut(Addr, usize),
    ) -> impl Future<Output = Result<(), MemoryError>>;
}

/// Options of a recovery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecoveryOptions {
    /// Longest time to wait for the other clients to take notice of a sweep, and for epochs.
    pub patience: Ns,
    /// Whether to sweep if no client is dead, too: chunks of clients that left, and chunks without owner.
    pub always_sweep: bool,
}

impl Default for RecoveryOptions {
    fn default() -> RecoveryOptions {
        RecoveryOptions {
            patience: Ns::from_s(5),
            always_sweep: false,
        }
    }
}

/// What a recovery came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Recovery {
    /// It was completed.
    Done(Recovered),
    /// Another client is doing it.
    Busy {
        /// Who.
        owner: ClientId,
    },
    /// Not all clients took notice of the sweep in time, or an operation takes too long. Locks were released; memory is
    /// found by the next attempt.
    Unready,
}

/// What a recovery did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Recovered {
    /// Dead clients whose numbers are free again.
    pub clients: Vec<ClientId>,
    /// Chunks that were looked at.
    pub chunks_swept: usize,
    /// Chunks given back to the node.
    pub chunks_returned: usize,
    /// Free blocks in chunks that are in use.
    pub blocks_freed: usize,
}

/// Does all that must be done at node `node` about clients that were fenced. The task must have no staged requests and
/// hold no pin.
///
/// # Errors
/// [`MemoryError`] if a request or a repair failed, or a table makes no sense. The recovery lock is released if that is
/// possible; another attempt goes on where this one ended. If a connection has failed, the lock may still be held: the next
/// attempt by the same thread takes it up again.
pub async fn recover<P: Provider, R: Repair<P>>(
    cx: &TaskCx<P>,
    arena: &Arena<P>,
    node: usize,
    repair: &R,
    options: RecoveryOptions,
) -> Result<Recovery, MemoryError> {
    let nodes = arena.nodes();
    let lock = arena.recovery_lock(node);
    if let Some(owner) = lock::acquire(cx, nodes, node, lock).await? {
        arena.recovery_lock_is_gone(node);
        return Ok(Recovery::Busy { owner });
    }
    let done = under_lock(cx, arena, node, repair, options).await;
    let released = lock::release(cx, nodes, node, lock).await;
    if released.is_ok() {
        arena.recovery_lock_is_gone(node);
    }
    let done = done?;
    released?;
    Ok(done)
}

async fn under_lock<P: Provider, R: Repair<P>>(
    cx: &TaskCx<P>,
    arena: &Arena<P>,
    node: usize,
    repair: &R,
    options: RecoveryOptions,
) -> Result<Recovery, MemoryError> {
    let nodes = arena.nodes();
    let dead = sweep::dead_clients(cx, nodes, node).await?;
    if dead.is_empty() && !options.always_sweep {
        return Ok(Recovery::Done(Recovered::default()));
    }
    for &client in &dead {
        tracing::info!(%client, node, "repairing what a dead client left");
    }
    repair.repair(cx, nodes, node, &dead).await?;
    let mut sweep = Sweep::begin(cx, arena, node, &dead).await?;
    if !sweep.wait(options.patience).await? {
        return Ok(Recovery::Unready);
    }
    let marks = sweep.marks();
    repair
        .visit(cx, nodes, node, &mut |addr, bytes| marks.mark(addr, bytes))
        .await?;
    let mut recovered = sweep.end(options.patience).await?;
    for &client in &dead {
        if let Err(error) = nodes.node(node).channel().recovered(client) {
            nodes.node(node).lose(&error);
            return Err(MemoryError::NodeLost { node });
        }
    }
    recovered.clients = dead;
    Ok(Recovery::Done(recovered))
}
