//! [`Command`] and [`Event`]: the mail between the control thread and the workers.

use super::clients::NewClient;
use crate::control::{Resync, Resynced};
use drover_kv::WorkerStats;
use drover_mem::Region;
use drover_shards::Reply;
use drover_verbs::Export;

/// What the control thread wants of a worker.
#[derive(Debug)]
pub(super) enum Command {
    /// Serve this client. Errors: why that is impossible.
    Add(Box<NewClient>, Reply<Result<(), String>>),
    /// Forget it. Its queue pairs are gone already.
    Remove { client: u32, reply: Reply<()> },
    /// See [`Resync`]; answered [`Event::Resynced`].
    Resync { client: u32, resync: Resync },
    /// The client has bulk memory from now on.
    OpenBulk {
        client: u32,
        bulk: BulkMemory,
        reply: Reply<()>,
    },
    /// Export the worker's queue pair for a client's datagrams.
    Export(Reply<Result<Export, String>>),
    /// Say what you did.
    Stats(Reply<WorkerStats>),
    /// No more work.
    Stop,
}

/// A client's bulk memory.
#[derive(Clone, Debug)]
pub(super) struct BulkMemory {
    pub(super) region: Region,
    pub(super) chunk_bytes: usize,
    pub(super) chunk_count: usize,
}

/// What a worker reports to the control thread.
#[derive(Debug)]
pub(super) enum Event {
    /// The answer to a [`Command::Resync`].
    Resynced { client: u32, resynced: Resynced },
    /// The worker has ended and will answer nothing more.
    GaveUp { worker: usize, reason: String },
}
