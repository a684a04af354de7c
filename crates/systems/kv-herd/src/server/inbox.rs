//! [`Inbox`]: a queue between the control thread and a worker. Looking into an empty one costs one load.

use super::clients::NewClient;
use crate::control::{Resync, Resynced};
use drover_base::sync::{AtomicUsize, Ordering};
use drover_kv::WorkerStats;
use drover_mem::Region;
use drover_verbs::{Export, Waker};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
    /// Answered [`Event::Stats`].
    Stats,
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
    Stats {
        worker: usize,
        stats: Box<WorkerStats>,
    },
    /// The worker has ended and will answer nothing more.
    GaveUp {
        worker: usize,
        reason: String,
    },
}

/// A queue with many writers and one reader.
#[derive(Debug)]
pub(super) struct Inbox<T> {
    /// How many wait. Relaxed: only a hint to lock; the lock publishes the contents.
    waiting: AtomicUsize,
    state: Mutex<State<T>>,
}

#[derive(Debug)]
struct State<T> {
    queue: VecDeque<T>,
    waker: Option<Waker>,
}

impl<T> Inbox<T> {
    pub(super) fn new() -> Arc<Inbox<T>> {
        Arc::new(Inbox {
            waiting: AtomicUsize::new(0),
            state: Mutex::new(State {
                queue: VecDeque::new(),
                waker: None,
            }),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // Plain data behind it: a thread that panicked has left it consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who is woken by [`push`](Inbox::push).
    pub(super) fn set_waker(&self, waker: Waker) {
        self.lock().waker = Some(waker);
    }

    pub(super) fn push(&self, item: T) {
        let waker = {
            let mut state = self.lock();
            state.queue.push_back(item);
            self.waiting.store(state.queue.len(), Ordering::Relaxed);
            state.waker.clone()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// One load.
    #[inline(always)]
    pub(super) fn has_mail(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    pub(super) fn pop(&self) -> Option<T> {
        let mut state = self.lock();
        let item = state.queue.pop_front();
        self.waiting.store(state.queue.len(), Ordering::Relaxed);
        item
    }
}
