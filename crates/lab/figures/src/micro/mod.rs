//! Microbenchmarks: loops over the verbs API as in the papers, on any provider.
//!
//! [`Verbs`] describes one verb, its issuers and targets; [`Echo`] a request and its reply; [`Emulation`] the verbs of
//! a system without the system. [`run`] builds the cluster, warms it up, measures, and reports the busiest part of the
//! machine of interest.

mod accesses;
mod costs;
mod echo;
mod emulation;
mod issuer;
mod served;
mod setup;
mod shared;
mod sink;
mod tasks;
#[cfg(test)]
mod tests;
mod trial;
mod verbs;
mod wiring;

pub use accesses::Accesses;
pub use costs::{ACCESS, BATCH_TAIL, ECHO_SCAN, costs};
pub use emulation::{Emulation, System};
pub use shared::Shared;
pub use tasks::{Changes, Tasks};
pub use trial::{SUPPORTED, Trial};
pub use verbs::{Count, Issuers, Pacing, Posting, Targets, Verb, Verbs, Wiring};

use crate::cluster::{BusyTimes, Cluster, ClusterOptions, Clusters, Doorbells};
use drover_base::Ns;
use drover_rt::Throttle;
use drover_verbs::QpKind;
use std::cell::Cell;
use std::rc::Rc;

/// Transport of a request or reply of an [`Echo`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Via {
    /// WRITE into memory that the receiver polls.
    Write,
    /// SEND over the connection.
    Send,
    /// SEND over UD.
    Datagram,
}

/// Description of a microbenchmark of requests and replies.
#[derive(Clone, Debug, PartialEq)]
pub struct Echo {
    /// Transport of the request.
    pub request: Via,
    /// Transport of the reply.
    pub reply: Via,
    /// Kind of the connected queue pairs, for messages other than [`Via::Datagram`].
    pub kind: QpKind,
    /// Payload of request and reply, bytes; at least 1.
    pub bytes: usize,
    /// Whether payloads are inline.
    pub inline: bool,
    /// Whether every WRITE or SEND of both ends is signaled; if not, one in 64 of each queue pair.
    pub signaled: bool,
    /// Memory accesses of the server per request.
    pub accesses: Accesses,
    /// Number of server threads, one process each.
    pub server_threads: usize,
    /// Number of client machines.
    pub client_machines: usize,
    /// Client processes on each machine, with one thread each; a client uses one server thread.
    pub clients: usize,
    /// Outstanding requests per client.
    pub window: usize,
}

/// Description of any microbenchmark; [`run`] runs it.
#[derive(Clone, Debug, PartialEq)]
pub enum Bench {
    /// One verb, posted repeatedly.
    Verbs(Verbs),
    /// One verb, posted by threads that share queue pairs.
    Shared(Shared),
    /// Requests and replies.
    Echo(Echo),
    /// The READs, WRITEs and SENDs of a key-value system, without its tables and decisions.
    Emulation(Emulation),
    /// An emulation with the fewest outstanding operations that bring it to this many Mops, or to 98 % of its rate with
    /// all of them if that is less.
    EmulationAt(Emulation, f64),
    /// A test whether a kind of queue pair supports a verb.
    Trial(Trial),
    /// Batches of one verb, posted by tasks of the threads of one process.
    Tasks(Tasks),
    /// A benchmark with [`Span::SHORT`], whatever span the run is given.
    Short(Box<Bench>),
}

/// Length of a run, on the cluster's clock. [`run`] lengthens it if few requests are outstanding or counts come in
/// whole batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Minimum time before counting begins.
    pub warm_up: Ns,
    /// Minimum time of counting.
    pub measured: Ns,
    /// Minimum number of batches per thread to count, where counts come in whole batches.
    pub batches: u64,
}

impl Span {
    /// Long enough for every microbenchmark: 200 us, then 300 us counted.
    pub const FULL: Span = Span {
        warm_up: Ns(200_000),
        measured: Ns(300_000),
        batches: 4,
    };
    /// Accurate to about two percent: 100 us, then 100 us counted.
    pub const QUICK: Span = Span {
        warm_up: Ns(100_000),
        measured: Ns(100_000),
        batches: 4,
    };
    /// Accurate enough to find the direction of a fit: 40 us, then 40 us counted.
    pub const SHORT: Span = Span {
        warm_up: Ns(40_000),
        measured: Ns(40_000),
        batches: 2,
    };

    /// The span for `outstanding` requests: few requests need a longer span for as many operations, and a count in
    /// whole batches needs several batches per thread.
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

/// Result of a run of a microbenchmark or a system. The *machine of interest* is the server, the first issuing or the
/// first target machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Million operations per second; of [`Verbs`] those that its [`Count`] selects.
    pub mops: f64,
    /// Mean time of an operation, microseconds. A run of a real system measures it. A microbenchmark computes it as
    /// issuing threads (an [`Emulation`]: outstanding operations) / rate, which is right only if each thread has one
    /// operation outstanding.
    pub latency_us: f64,
    /// The busiest part of the machine of interest and its busy fraction, 0 to 1. If that is below 0.85, waiting is the
    /// bottleneck, and the name is `latency (PART)`. `None` if unknown.
    pub binding: Option<(String, f64)>,
    /// Cache lines of work requests that the card of the machine of interest had to fetch again, millions per second;
    /// `None` if unknown.
    pub refetched: Option<f64>,
    /// Bytes that the card of the machine of interest read from its host, per operation; `None` if unknown.
    pub host_bytes: Option<f64>,
    /// Rate of each core of the server, Mops; empty for microbenchmarks.
    pub by_part: Vec<f64>,
    /// Other numbers, by name, such as [`SUPPORTED`] or an emulation's latencies.
    pub named: Vec<(&'static str, f64)>,
}

/// Counters of the actors of one run.
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

/// Rough minimum time of a request in a batch, nanoseconds.
const BATCH_NS: u64 = 100;

/// Busy fraction from which on a part counts as the bottleneck.
const BINDS_FROM: f64 = 0.85;

/// Runs one microbenchmark in a new cluster; [`Bench::EmulationAt`] uses several.
///
/// # Panics
/// If the fabric refuses a queue pair, memory or request of the benchmark, or a request fails.
pub fn run<R: Clusters>(clusters: &R, bench: &Bench, span: Span, seed: u64) -> Outcome {
    let tally = Tally::default();
    match bench {
        Bench::Verbs(verbs) => {
            let mut cluster = clusters.cluster(&verbs.options(seed));
            setup::verbs(&mut cluster, verbs, &tally);
            let Issuers {
                machines,
                processes,
                threads,
            } = verbs.issuers;
            let threads = machines * processes * threads;
            let in_batches = verbs.posting.signal_every != 1 || verbs.verb == Verb::FetchAdd;
            let span = span.fitting(threads * verbs.posting.pacing.outstanding(), in_batches);
            measure(&mut cluster, span, &Probe::of_verbs(verbs, &tally))
        }
        Bench::Echo(echo) => {
            let mut cluster = clusters.cluster(&echo.options(seed));
            echo::set_up(&mut cluster, echo, &tally);
            let span = span.fitting(echo.client_machines * echo.clients * echo.window, false);
            measure(&mut cluster, span, &Probe::of_echo(echo, &tally))
        }
        Bench::Shared(plan) => shared::run(clusters, plan, span, seed),
        Bench::Emulation(plan) => emulation::run(clusters, plan, span, seed),
        Bench::EmulationAt(plan, mops) => emulation::run_at(clusters, plan, *mops, span, seed),
        Bench::Trial(trial) => trial::run(clusters, trial, seed),
        Bench::Short(bench) => run(clusters, bench, Span::SHORT, seed),
        Bench::Tasks(plan) => {
            let mut cluster = clusters.cluster(&plan.options(seed));
            let throttle = tasks::set_up(&mut cluster, plan, seed);
            measure(&mut cluster, plan.span(span), &Probe::of_tasks(plan, throttle))
        }
    }
}

/// State to read before and after a run.
struct Probe {
    tally: Tally,
    /// Of benchmarks of tasks: counts what ended.
    throttle: Option<Throttle>,
    count: Count,
    /// The machine of interest.
    machine: usize,
    /// Divisor of the count, for rates per machine.
    per: f64,
    /// Number of issuing threads, for the latency of synchronous loops.
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
            throttle: None,
            count: verbs.count,
            machine: if served { verbs.first_target() } else { 0 },
            per: if served {
                1.0
            } else {
                verbs.issuers.machines as f64
            },
            threads: (verbs.issuers.processes * verbs.issuers.threads) as f64,
        }
    }

    fn of_echo(echo: &Echo, tally: &Tally) -> Probe {
        Probe {
            tally: tally.clone(),
            throttle: None,
            count: Count::Issued,
            machine: 0,
            per: 1.0,
            threads: (echo.client_machines * echo.clients) as f64,
        }
    }

    fn of_tasks(plan: &Tasks, throttle: Throttle) -> Probe {
        Probe {
            tally: Tally::default(),
            throttle: Some(throttle),
            count: Count::Issued,
            machine: 0,
            per: 1.0,
            threads: plan.threads as f64,
        }
    }

    fn read<R: Cluster>(&self, cluster: &R) -> Reading {
        let count = match (&self.throttle, self.count) {
            (Some(throttle), _) => throttle.ended(),
            (None, Count::Issued) => self.tally.done.get(),
            (None, Count::Served) => {
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

/// The busiest part and its busy fraction. Below [`BINDS_FROM`], waiting is the bottleneck.
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

impl Echo {
    fn options(&self, seed: u64) -> ClusterOptions {
        ClusterOptions {
            machines: 1 + self.client_machines,
            doorbells: Doorbells::Driver,
            seed,
        }
    }
}
