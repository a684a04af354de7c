//! [`Command`] and [`Event`]: the mail between the control thread and the workers.

use super::clients::NewClient;
use super::stats::WorkerStats;
use crate::control::{Resync, Resynced};
use drover_mem::Region;
use drover_shards::Reply;
use drover_verbs::Export;

/// What the control thread wants of a worker.
#[derive(Debug)]
pub(super) enum Command {
    /// Serve this client; answered [`Event::Added`].
    Add(Box<NewClient>),
    /// Forget it; answered [`Event::Removed`]. Its queue pairs are gone already.
    Remove { client: u32 },
    /// See [`Resync`]; answered [`Event::Resynced`].
    Resync { client: u32, resync: Resync },
    /// The client has bulk memory from now on; answered [`Event::BulkOpened`].
    OpenBulk { client: u32, bulk: BulkMemory },
    /// Export the worker's queue pair for a client's datagrams; answered [`Event::Exported`].
    Export { client: u32 },
    /// Say what you did, to whoever asks.
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

/// What a worker answers.
#[derive(Debug)]
pub(super) enum Event {
    Added {
        client: u32,
        result: Result<(), String>,
    },
    Removed {
        client: u32,
    },
    Resynced {
        client: u32,
        resynced: Resynced,
    },
    BulkOpened {
        client: u32,
    },
    Exported {
        worker: usize,
        client: u32,
        result: Result<Export, String>,
    },
    /// The worker has ended and will answer nothing more.
    GaveUp {
        worker: usize,
        reason: String,
    },
}
