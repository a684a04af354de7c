//! [`Command`] and [`Event`]: the mail between the control thread and the workers.

use super::clients::NewClient;
use crate::control::{Resync, Resynced};
use drover_kv::WorkerStats;
use drover_mem::Region;
use drover_rt::ChunkMap;
use drover_shards::Reply;
use drover_verbs::{Export, Qpn};

/// A command of the control thread to a worker.
#[derive(Debug)]
pub(super) enum Command {
    /// Serve this client. The answer says why that is impossible, if it is.
    Add(Box<NewClient>, Reply<Result<(), String>>),
    /// Forget the client, whose queue pairs at the server are destroyed already.
    Remove { client: u32, reply: Reply<()> },
    /// Answer a client's [`Resync`] with [`Event::Resynced`].
    Resync { client: u32, resync: Resync },
    /// Use this bulk memory for the client from now on.
    OpenBulk {
        client: u32,
        bulk: BulkMemory,
        reply: Reply<()>,
    },
    /// Export the worker's UD queue pair, to which this client sends datagrams until it is removed. The answer says why
    /// that is impossible, if it is.
    Export {
        client: u32,
        reply: Reply<Result<SenderExport, String>>,
    },
    /// Report the worker's statistics.
    Stats(Reply<WorkerStats>),
    /// Stop.
    Stop,
}

/// A worker's UD queue pair for one client, and the number that the client's datagrams carry as `src_qpn`; `None`: that of
/// the client's queue pair.
pub(super) type SenderExport = (Export, Option<Qpn>);

/// A client's bulk memory, at the start of `region`.
#[derive(Clone, Debug)]
pub(super) struct BulkMemory {
    pub(super) region: Region,
    pub(super) map: ChunkMap,
}

/// A report of a worker to the control thread.
#[derive(Debug)]
pub(super) enum Event {
    /// The answer to a [`Command::Resync`]. There is none if the worker does not have the client.
    Resynced { client: u32, resynced: Resynced },
    /// The worker has dropped this client: nobody knows whether operations of it that were executed took effect, and it must never
    /// get their results. Its channel is to be closed.
    Void { client: u32, generation: u32 },
    /// The worker has ended for this reason, and will answer no commands.
    GaveUp { worker: usize, reason: String },
}
