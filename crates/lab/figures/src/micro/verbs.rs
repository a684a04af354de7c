//! [`Verbs`]: a microbenchmark of one verb.

use crate::cluster::{ClusterOptions, Doorbells, Thread};
use drover_verbs::QpKind;

/// Verb to post.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verb {
    /// WRITE.
    Write,
    /// READ.
    Read,
    /// SEND, into RECVs that the target keeps posting.
    Send,
    /// FAA of one of [`Verbs::words`] words.
    FetchAdd,
}

/// Connections between issuers and targets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wiring {
    /// Issuing thread `i` with target process `i` (modulo their number), both counted over all machines.
    OneToOne,
    /// Every issuing thread with every target process.
    AllToAll,
}

/// Condition under which a thread may post again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pacing {
    /// At most this many requests are outstanding after the post.
    Window(usize),
    /// Requests are posted in batches of this many; a batch begins when all requests of the previous one have
    /// completed.
    Batch(usize),
}

impl Pacing {
    pub(super) fn outstanding(self) -> usize {
        match self {
            Pacing::Window(n) | Pacing::Batch(n) => n,
        }
    }
}

/// Which requests a benchmark counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Count {
    /// Requests completed at the issuers, divided by the number of issuing machines.
    Issued,
    /// Requests that the first target machine has served, by its card's counters. Without counters: messages received
    /// by all targets or, if there are none, requests completed at all issuers.
    Served,
}

/// Description of a microbenchmark of one verb: which threads post what to which targets.
#[derive(Clone, Debug, PartialEq)]
pub struct Verbs {
    /// Verb to post.
    pub verb: Verb,
    /// Kind of queue pair.
    pub kind: QpKind,
    /// Payload, bytes; FAA: 8.
    pub bytes: usize,
    /// Whether the payload is inline.
    pub inline: bool,
    /// Number of different places addressed at random, of 8 bytes for FAA, of `bytes` for READ and WRITE; 0 or 1:
    /// always the first. Unused by SEND.
    pub words: usize,
    /// Number of threads that post.
    pub issuers: Issuers,
    /// Number of processes that own the memory or RECVs; one thread each.
    pub targets: Targets,
    /// Connections between issuers and targets.
    pub wiring: Wiring,
    /// Queue pairs per connection, or over UD per issuing thread; used as [`Posting::random`] says.
    pub queue_pairs: usize,
    /// When each thread posts, and what: list length, signaling, choice of target.
    pub posting: Posting,
    /// Assignment of doorbells to threads.
    pub doorbells: Doorbells,
    /// Which requests are counted.
    pub count: Count,
}

/// Number of threads that post: machines times processes times threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Issuers {
    /// Number of machines. They are machines 0, 1, ...
    pub machines: usize,
    /// Processes on each machine.
    pub processes: usize,
    /// Threads of each process.
    pub threads: usize,
}

/// Number of processes whose memory or RECVs are the targets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Targets {
    /// Number of machines, after the issuing ones. 0: the issuing machines target each other, each thread those of the
    /// same process and thread number, whatever the [`Wiring`].
    pub machines: usize,
    /// Processes on each machine.
    pub processes: usize,
}

/// When each thread posts, and what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Posting {
    /// Condition for the next post.
    pub pacing: Pacing,
    /// One request of a queue pair in this many is signaled; 0: only the last of a batch.
    pub signal_every: usize,
    /// Requests per post, all to the same target. The last post of a batch may have fewer.
    pub list: usize,
    /// Whether each post chooses its target and queue pair at random instead of in turn.
    pub random: bool,
    /// Minimum time between two posts of a thread, nanoseconds; 0: none.
    pub gap_ns: u64,
    /// Whether the end of each batch costs CPU time: [`BATCH_TAIL`](super::BATCH_TAIL).
    pub batch_tail: bool,
}

impl Posting {
    /// One signaled request per post, to the targets in turn, as `pacing` allows; no gap, no cost per batch.
    pub const fn paced(pacing: Pacing) -> Posting {
        Posting {
            pacing,
            signal_every: 1,
            list: 1,
            random: false,
            gap_ns: 0,
            batch_tail: false,
        }
    }
}

impl Verbs {
    pub(super) fn options(&self, seed: u64) -> ClusterOptions {
        ClusterOptions {
            machines: self.issuers.machines + self.targets.machines,
            doorbells: self.doorbells,
            seed,
        }
    }

    pub(super) fn first_target(&self) -> usize {
        if self.targets.machines == 0 {
            0
        } else {
            self.issuers.machines
        }
    }

    /// Threads that post requests.
    pub(super) fn issuing_threads(&self) -> impl Iterator<Item = Thread> {
        let (processes, threads) = (self.issuers.processes, self.issuers.threads);
        (0..self.issuers.machines).flat_map(move |machine| {
            (0..processes * threads).map(move |n| Thread {
                machine,
                process: n / threads,
                thread: n % threads,
            })
        })
    }

    /// Threads that own the target memory or RECVs: one per process.
    pub(super) fn target_threads(&self) -> impl Iterator<Item = Thread> {
        let (first, machines) = match self.targets.machines {
            0 => (0, self.issuers.machines),
            n => (self.issuers.machines, n),
        };
        let processes = self.targets.processes;
        (first..first + machines).flat_map(move |machine| {
            (0..processes).map(move |process| Thread {
                machine,
                process,
                thread: 0,
            })
        })
    }
}
