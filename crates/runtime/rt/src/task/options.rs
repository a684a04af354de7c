//! [`TaskOptions`]: sizes and choices of a pool of tasks.

use super::conflict::ConflictOptions;
use drover_base::{Ns, Work};

/// The work of suspending a task: from the end of one poll to the beginning of the next, its share of the pool's step
/// included. Charged once per suspension; simulations that price it must not price it a second time in what they charge
/// for a batch of requests.
pub const TASK_SWITCH: Work = Work::new("task.switch", 77.0, "suspension of a task");

/// Number of size classes of a pool's buffers.
pub const BUFFER_CLASSES: usize = 4;

/// Buffers of one length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BufferClass {
    /// Bytes per buffer, rounded up to whole cache lines: the longest request from one.
    pub bytes: usize,
    /// Number of buffers, shared by all tasks; 0: the class does not exist.
    pub count: usize,
}

impl BufferClass {
    /// No buffers.
    pub const NONE: BufferClass = BufferClass { bytes: 0, count: 0 };
}

/// RECVs of each destination, for tasks that [receive](super::TaskCx::recv) messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecvOptions {
    /// Number of RECVs kept posted per destination; 0: no messages can be received.
    pub depth: usize,
    /// Longest message in bytes, rounded up to whole cache lines.
    pub bytes: usize,
}

/// Time and form in which requests are posted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Posting {
    /// At the end of the pool's step: one list (doorbell) per destination with the requests of all tasks, and one
    /// completion per sync and destination. Costs least.
    #[default]
    PerStep,
    /// When a task suspends: one list and one completion per sync and destination. *[SMART §6]*
    PerSync,
    /// At the end of the pool's step, one request per destination, as a list of its own and with a completion of its
    /// own: between two posts the pool polls, as microbenchmarks of cards do. *[SMART, Figs 3, 4, 13]*
    PerRequest,
}

/// Sizes and choices of a [`TaskPool`](super::TaskPool).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TaskOptions {
    /// Maximum number of tasks that have not ended; [`spawn`](super::TaskPool::spawn) refuses more.
    pub task_count_max: usize,
    /// Maximum number of destinations; [`add_peer`](super::TaskPool::add_peer) panics beyond it.
    pub peer_count_max: usize,
    /// Maximum number of outstanding requests per destination; further ones wait in the pool. A number above what the
    /// device supports counts as that, 0 and 1 count as 2.
    pub send_depth: usize,
    /// Buffers of up to four lengths. A request for a buffer gets one of the shortest that is long enough and free.
    pub buffers: [BufferClass; BUFFER_CLASSES],
    /// Maximum number of CAS and FAA requests of all tasks, counted from staging until their results are dropped. One
    /// more is refused as [`NoWord`](super::StageError::NoWord).
    pub atomic_count_max: usize,
    /// RECVs of each destination; none by default.
    pub recv: RecvOptions,
    /// Resolution of sleeps, rounded down to a power of two nanoseconds: a sleep may end late by up to one tick.
    pub timer_tick: Ns,
    /// When, and in how long lists, requests are posted.
    pub posting: Posting,
    /// Most outstanding requests of the pool (`C_max` in SMART) as it starts; `None`: only the queues limit them. A
    /// [`Throttle`](super::Throttle) may change it later.
    pub credits: Option<u32>,
    /// What operations that lose races do about it; see [`ConflictGuard`](super::ConflictGuard).
    pub conflicts: ConflictOptions,
    /// Time after which a sync that has not ended fails as [`TimedOut`](super::Failure::TimedOut), and the pool logs
    /// its state; noticed up to a quarter of it later. [`Ns::MAX`]: never.
    pub patience: Ns,
}

impl Default for TaskOptions {
    fn default() -> TaskOptions {
        let class = |bytes, count| BufferClass { bytes, count };
        TaskOptions {
            task_count_max: 64,
            peer_count_max: 16,
            send_depth: 128,
            buffers: [
                class(64, 256),
                class(1024, 256),
                class(16 << 10, 16),
                BufferClass::NONE,
            ],
            atomic_count_max: 128,
            recv: RecvOptions { depth: 0, bytes: 0 },
            timer_tick: Ns(1 << 8),
            posting: Posting::PerStep,
            credits: None,
            conflicts: ConflictOptions::default(),
            patience: Ns::from_s(5),
        }
    }
}
