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
    /// Issuing thread `i` with target process `i`, counted over all machines.
    OneToOne,
    /// Every issuing thread with every target process of another machine.
    AllToAll,
}

/// Condition for a thread's next post.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pacing {
    /// Fewer than this many requests are outstanding.
    Window(usize),
    /// All requests of the last batch of this size have completed.
    Batch(usize),
    /// As `Batch`, with a limit on outstanding requests.
    Throttled {
        /// Requests per batch.
        batch: usize,
        /// Maximum outstanding requests.
        credits: usize,
    },
}

impl Pacing {
    pub(super) fn outstanding(self) -> usize {
        match self {
            Pacing::Window(n) | Pacing::Batch(n) => n,
            Pacing::Throttled { credits, .. } => credits,
        }
    }
}

/// Requests to count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Count {
    /// Requests completed at the issuers, per issuing machine.
    Issued,
    /// Requests served by the first target machine.
    Served,
}

/// A microbenchmark of one verb.
#[derive(Clone, Debug, PartialEq)]
pub struct Verbs {
    /// Verb to post.
    pub verb: Verb,
    /// Kind of queue pair.
    pub kind: QpKind,
    /// Payload, bytes.
    pub bytes: usize,
    /// Whether the payload is inline.
    pub inline: bool,
    /// Number of different 8-byte words addressed; for READ and WRITE, places of `bytes` each.
    pub words: usize,
    /// Threads that post.
    pub issuers: Issuers,
    /// Threads that own the memory or RECVs.
    pub targets: Targets,
    /// Connections between issuers and targets.
    pub wiring: Wiring,
    /// Queue pairs per connection, used in turn.
    pub queue_pairs: usize,
    /// What each thread posts when.
    pub posting: Posting,
    /// Assignment of doorbells to threads.
    pub doorbells: Doorbells,
    /// Requests to count.
    pub count: Count,
}

/// Threads that post.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Issuers {
    /// Number of machines. They are machines 0, 1, ...
    pub machines: usize,
    /// Processes on each machine.
    pub processes: usize,
    /// Threads of each process.
    pub threads: usize,
}

/// Processes whose memory or RECVs are the targets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Targets {
    /// Number of machines, after the issuing ones; 0: the issuing machines are targets of each other.
    pub machines: usize,
    /// Processes on each machine.
    pub processes: usize,
}

/// What a thread posts when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Posting {
    /// Condition for the next post.
    pub pacing: Pacing,
    /// One request of a queue pair in this many is signaled; 0: only the last of a batch.
    pub signal_every: usize,
    /// Requests per post.
    pub list: usize,
    /// Whether connections are chosen at random instead of in turn.
    pub random: bool,
    /// Minimum time between two posts, nanoseconds; 0: none.
    pub gap_ns: u64,
    /// Whether waiting for a batch costs CPU time, as in the published loop.
    pub batch_tail: bool,
}

impl Posting {
    /// Single signaled requests to connections in turn.
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
