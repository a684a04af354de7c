//! Microbenchmarks: loops over the verbs API as the papers ran them, on any provider.
//!
//! [`Verbs`] describes who posts what to whom; [`Echo`] a request and its reply; [`Emulation`] the verbs of a system
//! without the system. [`run`] builds the cluster, lets it warm up, measures, and says which part of the machine of
//! interest was busiest.

mod accesses;
mod costs;
mod echo;
mod emulation;
mod issuer;
mod served;
mod setup;
mod sink;
#[cfg(test)]
mod tests;
mod trial;
mod wiring;

pub use accesses::Accesses;
pub use costs::{ACCESS, BATCH_TAIL, ECHO_SCAN, costs};
pub use emulation::{Emulation, System};
pub use trial::{SUPPORTED, Trial};

use crate::cluster::{BusyTimes, Cluster, ClusterOptions, Clusters, Doorbells, Thread};
use drover_base::Ns;
use drover_verbs::QpKind;
use std::cell::Cell;
use std::rc::Rc;

/// What is posted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verb {
    /// WRITE.
    Write,
    /// READ.
    Read,
    /// SEND, into RECVs that the other side keeps posting.
    Send,
    /// FAA of one of as many words as [`Verbs::words`] says.
    FetchAdd,
}

/// Who is connected with whom.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wiring {
    /// Issuing thread `i` with target process `i`, counted over all machines.
    OneToOne,
    /// Every issuing thread with every target process of another machine.
    AllToAll,
}

/// When a thread posts again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pacing {
    /// As long as fewer than so many are outstanding.
    Window(usize),
    /// So many, then nothing until all of them have completed.
    Batch(usize),
    /// The same, with at most so many outstanding meanwhile.
    Throttled {
        /// Requests of a batch.
        batch: usize,
        /// Outstanding at most.
        credits: usize,
    },
}

impl Pacing {
    fn outstanding(self) -> usize {
        match self {
            Pacing::Window(n) | Pacing::Batch(n) => n,
            Pacing::Throttled { credits, .. } => credits,
        }
    }
}

/// Whose requests are counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Count {
    /// Completed at the issuers, per issuing machine.
    Issued,
    /// Served by the first target machine.
    Served,
}

/// A microbenchmark of one verb.
#[derive(Clone, Debug, PartialEq)]
pub struct Verbs {
    /// What is posted.
    pub verb: Verb,
    /// Over which kind of queue pair.
    pub kind: QpKind,
    /// Payload, bytes.
    pub bytes: usize,
    /// Whether it travels with the request.
    pub inline: bool,
    /// Machines that post. They are machines 0, 1, ...
    pub issuing_machines: usize,
    /// Processes on each of them.
    pub processes: usize,
    /// Threads of each process.
    pub threads: usize,
    /// Machines that are targets, after the issuing ones; 0: the issuing machines are targets of each other.
    pub target_machines: usize,
    /// Processes on each target.
    pub target_processes: usize,
    /// Who is connected with whom.
    pub wiring: Wiring,
    /// Queue pairs per connection, used in turn.
    pub queue_pairs: usize,
    /// When a thread posts again.
    pub pacing: Pacing,
    /// Every so many requests of a queue pair, one is signaled; in a batch only the last, if this is 0.
    pub signal_every: usize,
    /// Requests per post.
    pub list: usize,
    /// Connections are drawn at random, not used in turn.
    pub random: bool,
    /// Different 8-byte words that are addressed; for READ and WRITE places of `bytes` each.
    pub words: usize,
    /// Least time between two posts of a thread; 0: none.
    pub gap_ns: u64,
    /// Whether loops that wait for a batch pay for doing so, as the published one did.
    pub batch_tail: bool,
    /// How threads come by doorbells.
    pub doorbells: Doorbells,
    /// Whose requests are counted.
    pub count: Count,
}

/// How a request or reply of an [`Echo`] travels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Via {
    /// WRITE into memory that the other side polls.
    Write,
    /// SEND over the connection.
    Send,
    /// SEND over UD.
    Datagram,
}

/// A microbenchmark of requests and replies.
#[derive(Clone, Debug, PartialEq)]
pub struct Echo {
    /// How the request travels.
    pub request: Via,
    /// How the reply travels.
    pub reply: Via,
    /// Kind of the connected queue pairs.
    pub kind: QpKind,
    /// Payload of both, bytes.
    pub bytes: usize,
    /// Whether payloads travel with the request.
    pub inline: bool,
    /// Whether every request is signaled; if not, one in 64.
    pub signaled: bool,
    /// What the server looks up for each request.
    pub accesses: Accesses,
    /// Threads of the server, each a process of its own.
    pub server_threads: usize,
    /// Client machines.
    pub client_machines: usize,
    /// Client processes on each of them.
    pub clients: usize,
    /// Requests outstanding per client.
    pub window: usize,
}

/// Any microbenchmark.
#[derive(Clone, Debug, PartialEq)]
pub enum Bench {
    /// One verb.
    Verbs(Verbs),
    /// Requests and replies.
    Echo(Echo),
    /// A system's verbs without the system.
    Emulation(Emulation),
    /// The same, with as few operations outstanding as bring it to so many million per second.
    EmulationAt(Emulation, f64),
    /// One verb, once.
    Trial(Trial),
    /// Several, one after the other; the mean of their rates.
    Mean(Vec<Bench>),
    /// The same for a short time, whatever was asked for.
    Short(Box<Bench>),
}

/// For how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Before counting begins.
    pub warm_up: Ns,
    /// While counting.
    pub measured: Ns,
    /// As many batches at least, where counts come in whole batches.
    pub batches: u64,
}

impl Span {
    /// Long enough for every microbenchmark.
    pub const FULL: Span = Span {
        warm_up: Ns(200_000),
        measured: Ns(300_000),
        batches: 4,
    };
    /// Good to about two percent.
    pub const QUICK: Span = Span {
        warm_up: Ns(100_000),
        measured: Ns(100_000),
        batches: 4,
    };
    /// Good enough to see which way to go.
    pub const SHORT: Span = Span {
        warm_up: Ns(40_000),
        measured: Ns(40_000),
        batches: 2,
    };

    /// The span for `outstanding` requests: few of them need longer for as many operations, and a count that comes
    /// in whole batches needs several of each thread's.
    fn fitting(self, outstanding: usize, in_batches: bool) -> Span {
        let longer = (64 / outstanding.max(1)).clamp(1, 16) as u64;
        let batches = if in_batches {
            BATCH_NS * outstanding as u64
        } else {
            0
        };
        Span {
            warm_up: Ns(self.warm_up.0.max(batches)),
            measured: Ns((self.measured.0 * longer).max(self.batches * batches)),
            ..self
        }
    }
}

/// What a run found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Million operations per second.
    pub mops: f64,
    /// Mean time from post to completion as its thread saw it, microseconds; of synchronous loops only.
    pub latency_us: f64,
    /// The part that was busiest and for what share of the time, of the machine of interest.
    pub binding: Option<(String, f64)>,
    /// Cache lines of work requests that the card of the machine of interest fetched again, millions per second.
    pub refetched: Option<f64>,
    /// Bytes that it read from its host, per operation.
    pub host_bytes: Option<f64>,
    /// The same of each core of the server; empty where nobody asked.
    pub by_part: Vec<f64>,
    /// Other numbers, by name.
    pub named: Vec<(&'static str, f64)>,
}

/// Counters that the actors of one run add to.
#[derive(Clone, Default)]
pub(crate) struct Tally {
    done: Rc<Cell<u64>>,
    served: Rc<Cell<u64>>,
}

impl Tally {
    fn add_done(&self, count: u64) {
        self.done.set(self.done.get() + count);
    }

    fn add_served(&self, count: u64) {
        self.served.set(self.served.get() + count);
    }
}

/// What a request of a batch takes at least, roughly.
const BATCH_NS: u64 = 100;

/// Part of the time from which on something is said to bind.
const BINDS_FROM: f64 = 0.85;

/// Runs one microbenchmark.
pub fn run<R: Clusters>(clusters: &R, bench: &Bench, span: Span, seed: u64) -> Outcome {
    let tally = Tally::default();
    match bench {
        Bench::Verbs(verbs) => {
            let mut cluster = clusters.cluster(&verbs.options(seed));
            setup::verbs(&mut cluster, verbs, &tally);
            let threads = verbs.issuing_machines * verbs.processes * verbs.threads;
            let in_batches = verbs.signal_every != 1 || verbs.verb == Verb::FetchAdd;
            let span = span.fitting(threads * verbs.pacing.outstanding(), in_batches);
            measure(&mut cluster, span, &Probe::of_verbs(verbs, &tally))
        }
        Bench::Echo(echo) => {
            let mut cluster = clusters.cluster(&echo.options(seed));
            echo::set_up(&mut cluster, echo, &tally);
            let span = span.fitting(echo.client_machines * echo.clients * echo.window, false);
            measure(&mut cluster, span, &Probe::of_echo(echo, &tally))
        }
        Bench::Emulation(plan) => emulation::run(clusters, plan, span, seed),
        Bench::EmulationAt(plan, mops) => emulation::run_at(clusters, plan, *mops, span, seed),
        Bench::Trial(trial) => trial::run(clusters, trial, seed),
        Bench::Short(bench) => run(clusters, bench, Span::SHORT, seed),
        Bench::Mean(benches) => mean(benches.iter().map(|bench| run(clusters, bench, span, seed))),
    }
}

/// The mean rate of several outcomes; what bound is that of the first.
fn mean(outcomes: impl ExactSizeIterator<Item = Outcome>) -> Outcome {
    let count = outcomes.len() as f64;
    let all: Vec<Outcome> = outcomes.collect();
    let mops = all.iter().map(|outcome| outcome.mops).sum::<f64>() / count;
    let first = all.into_iter().next().unwrap_or_default();
    Outcome {
        mops,
        binding: first.binding,
        ..Outcome::default()
    }
}

/// What is looked at before and after.
struct Probe {
    tally: Tally,
    count: Count,
    /// The machine of interest.
    machine: usize,
    /// Divides the count, for rates per machine.
    per: f64,
    /// Threads that take turns, for the latency of synchronous loops.
    threads: f64,
}

struct Reading {
    count: u64,
    busy: Option<BusyTimes>,
    refetched: Option<u64>,
    host_bytes: Option<u64>,
}

impl Probe {
    fn of_verbs(verbs: &Verbs, tally: &Tally) -> Probe {
        let served = verbs.count == Count::Served;
        Probe {
            tally: tally.clone(),
            count: verbs.count,
            machine: if served { verbs.first_target() } else { 0 },
            per: if served {
                1.0
            } else {
                verbs.issuing_machines as f64
            },
            threads: (verbs.processes * verbs.threads) as f64,
        }
    }

    fn of_echo(echo: &Echo, tally: &Tally) -> Probe {
        Probe {
            tally: tally.clone(),
            count: Count::Issued,
            machine: 0,
            per: 1.0,
            threads: (echo.client_machines * echo.clients) as f64,
        }
    }

    fn read<R: Cluster>(&self, cluster: &R) -> Reading {
        let count = match self.count {
            Count::Issued => self.tally.done.get(),
            Count::Served => {
                served::count(cluster, self.machine).unwrap_or_else(|| self.tally.served_or_done())
            }
        };
        Reading {
            count,
            busy: cluster.busy(self.machine),
            refetched: cluster.counter(self.machine, "wqe_refetched_lines"),
            host_bytes: cluster.counter(self.machine, "pcie_in_bytes"),
        }
    }
}

impl Tally {
    fn served_or_done(&self) -> u64 {
        match self.served.get() {
            0 => self.done.get(),
            served => served,
        }
    }
}

fn measure<R: Cluster>(cluster: &mut R, span: Span, probe: &Probe) -> Outcome {
    cluster.run_until(span.warm_up);
    let before = probe.read(cluster);
    cluster.run_until(span.warm_up + span.measured);
    let after = probe.read(cluster);
    let ns = span.measured.0 as f64;
    let count = (after.count - before.count) as f64;
    let per_ns = count / probe.per / ns;
    let change = |a: Option<u64>, b: Option<u64>| Some((a? - b?) as f64);
    Outcome {
        mops: per_ns * 1e3,
        latency_us: probe.threads / per_ns / 1e3,
        binding: binding(before.busy.as_ref(), after.busy.as_ref(), ns),
        refetched: change(after.refetched, before.refetched).map(|lines| lines / ns * 1e3),
        host_bytes: change(after.host_bytes, before.host_bytes).map(|bytes| bytes / count.max(1.0)),
        by_part: Vec::new(),
        named: Vec::new(),
    }
}

/// The busiest part, and its share of the time. Below [`BINDS_FROM`] it is waiting that takes the time.
fn binding(before: Option<&BusyTimes>, after: Option<&BusyTimes>, ns: f64) -> Option<(String, f64)> {
    let (before, after) = (before?, after?);
    let share = |name: &String, busy: &f64| (busy - before.get(name).unwrap_or(&0.0)) / ns;
    let parts = after.iter().map(|(name, busy)| (name.clone(), share(name, busy)));
    let (name, share) = parts.max_by(|a, b| a.1.total_cmp(&b.1))?;
    let name = if share < BINDS_FROM {
        format!("latency ({name})")
    } else {
        name
    };
    Some((name, share))
}

impl Verbs {
    fn options(&self, seed: u64) -> ClusterOptions {
        ClusterOptions {
            machines: self.issuing_machines + self.target_machines,
            doorbells: self.doorbells,
            seed,
        }
    }

    fn first_target(&self) -> usize {
        if self.target_machines == 0 {
            0
        } else {
            self.issuing_machines
        }
    }

    /// Threads that post.
    fn issuers(&self) -> impl Iterator<Item = Thread> {
        let (processes, threads) = (self.processes, self.threads);
        (0..self.issuing_machines).flat_map(move |machine| {
            (0..processes * threads).map(move |n| Thread {
                machine,
                process: n / threads,
                thread: n % threads,
            })
        })
    }

    /// Threads whose memory or RECVs are the targets: one per process.
    fn targets(&self) -> impl Iterator<Item = Thread> {
        let (first, machines) = match self.target_machines {
            0 => (0, self.issuing_machines),
            n => (self.issuing_machines, n),
        };
        let processes = self.target_processes;
        (first..first + machines).flat_map(move |machine| {
            (0..processes).map(move |process| Thread {
                machine,
                process,
                thread: 0,
            })
        })
    }
}

impl Echo {
    fn options(&self, seed: u64) -> ClusterOptions {
        ClusterOptions {
            machines: 1 + self.client_machines,
            doorbells: Doorbells::Driver,
            seed,
        }
    }
}
