//! Network-only emulations of systems whose GETs are READs, as HERD was measured against them.
//!
//! ```text
//! GET  Pilaf-em-OPT       READ of a bucket, in three of five GETs of another one, then READ of the value
//!      FaRM-em            READ of six items: 6 (key + value)
//!      FaRM-em-VAR        READ of six keys and pointers: 6 (key + 8), then READ of the value
//! PUT  Pilaf-em-OPT       SEND of key + value, answered by a SEND
//!      FaRM-em and -VAR   WRITE of key + value into memory that a server thread polls, answered by a WRITE
//! ```
//!
//! A READ waits for the previous one. WRITEs go over UC, SENDs over UD, inline and unsignaled. Nothing is stored,
//! hashed or looked up, so a rate is an upper bound for the real system. Answers use few queue pairs, because with many
//! of them a card cannot write at the published rates (`[HERD]` Fig. 6): one per server thread for datagrams, one per
//! client machine for WRITEs. The length of an answer was not published; ours is [`REPLY_BYTES`].
//!
//! Source: `[HERD]` section 5.1.

mod client;
mod port;
mod server;
mod setup;
#[cfg(test)]
mod tests;

use super::{Count, Outcome, Probe, Span, Tally, measure};
use crate::cluster::{ClusterOptions, Clusters, Doorbells};
use client::Recorder;
use drover_verbs::GRH_BYTES;
use std::cell::RefCell;
use std::rc::Rc;

/// Emulated system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum System {
    /// Pilaf-em-OPT: Pilaf with all optimisations of verbs.
    PilafOpt,
    /// FaRM-em: FaRM's store with values in its table.
    FarmInline,
    /// FaRM-em-VAR: FaRM's store with values behind pointers.
    FarmVar,
}

/// An emulation and its load.
#[derive(Clone, Debug, PartialEq)]
pub struct Emulation {
    /// Emulated system.
    pub system: System,
    /// Bytes of a key.
    pub key_bytes: usize,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// Percentage of PUTs; the other operations are GETs.
    pub put_percent: u64,
    /// Number of server threads, one process each.
    pub server_threads: usize,
    /// Number of client machines; fewer are used if there are fewer clients.
    pub client_machines: usize,
    /// Outstanding operations per client; the last client may have fewer.
    pub window: usize,
    /// Total outstanding operations of all clients, at least 1; divided by `window` and rounded up, it gives the number
    /// of clients.
    pub outstanding: usize,
}

/// Bytes of the answer to a PUT.
const REPLY_BYTES: usize = 8;
/// Bytes of a bucket of Pilaf's table.
const BUCKET_BYTES: usize = 32;
/// Out of ten GETs, this many read two buckets, the others one: 1.6 on average.
const TWO_BUCKETS_IN_TEN: u64 = 6;
/// Number of slots in which FaRM's store may keep a key.
const NEIGHBOURHOOD: usize = 6;
/// Bytes of a pointer in FaRM's table.
const POINTER_BYTES: usize = 8;

/// Lengths of the READs of one GET, in order; 0: no READ.
type Chain = [usize; 3];

impl Emulation {
    /// As the HERD paper measured: 51 clients on 17 machines, four operations outstanding each, six server threads;
    /// keys of 16 B and values of 32 B, 5 % PUTs.
    pub fn published(system: System) -> Emulation {
        Emulation {
            system,
            key_bytes: 16,
            value_bytes: 32,
            put_percent: 5,
            server_threads: 6,
            client_machines: 17,
            window: 4,
            outstanding: 51 * 4,
        }
    }

    fn put_bytes(&self) -> usize {
        self.key_bytes + self.value_bytes
    }

    /// The READs of a GET; `draw` makes the random choices.
    fn chain(&self, draw: u64) -> Chain {
        match self.system {
            System::PilafOpt if draw % 10 < TWO_BUCKETS_IN_TEN => {
                [BUCKET_BYTES, BUCKET_BYTES, self.value_bytes]
            }
            System::PilafOpt => [BUCKET_BYTES, self.value_bytes, 0],
            System::FarmInline => [NEIGHBOURHOOD * (self.key_bytes + self.value_bytes), 0, 0],
            System::FarmVar => [
                NEIGHBOURHOOD * (self.key_bytes + POINTER_BYTES),
                self.value_bytes,
                0,
            ],
        }
    }

    /// Length of the longest READ of a GET.
    fn longest(&self) -> usize {
        (0..10)
            .flat_map(|draw| self.chain(draw))
            .max()
            .expect("three of them")
    }

    /// Whether PUTs are datagrams.
    fn sends(&self) -> bool {
        self.system == System::PilafOpt
    }

    /// Bytes before a PUT in its receive buffer.
    fn gap(&self) -> usize {
        if self.sends() { GRH_BYTES } else { 0 }
    }

    fn clients(&self) -> usize {
        self.outstanding.div_ceil(self.window)
    }

    /// Outstanding operations of client `client`.
    fn window_of(&self, client: usize) -> usize {
        self.window.min(self.outstanding - client * self.window)
    }

    fn options(&self, seed: u64) -> ClusterOptions {
        ClusterOptions {
            machines: 1 + self.client_machines,
            doorbells: Doorbells::Driver,
            seed,
        }
    }
}

/// Latencies of operations, nanoseconds, in the order of completion.
type Latencies = Rc<RefCell<Vec<u64>>>;

/// Runs an emulation; the outcome has throughput and latencies.
pub fn run<R: Clusters>(clusters: &R, plan: &Emulation, span: Span, seed: u64) -> Outcome {
    let span = span.fitting(plan.outstanding, false);
    let recorder = Recorder {
        tally: Tally::default(),
        from: span.warm_up,
        latencies: Latencies::default(),
    };
    let mut cluster = clusters.cluster(&plan.options(seed));
    setup::set_up(&mut cluster, plan, &recorder);
    let probe = Probe {
        tally: recorder.tally.clone(),
        throttle: None,
        count: Count::Issued,
        machine: 0,
        per: 1.0,
        threads: plan.outstanding as f64,
    };
    let mut outcome = measure(&mut cluster, span, &probe);
    outcome.named = summary(&mut recorder.latencies.borrow_mut());
    outcome
}

/// Mean, 5th and 95th percentile in microseconds, by name.
fn summary(latencies: &mut [u64]) -> Vec<(&'static str, f64)> {
    if latencies.is_empty() {
        return Vec::new();
    }
    latencies.sort_unstable();
    let us = |ns: f64| ns / 1e3;
    let mean = latencies.iter().sum::<u64>() as f64 / latencies.len() as f64;
    let at = |share: f64| latencies[((latencies.len() - 1) as f64 * share) as usize] as f64;
    vec![
        ("latency mean", us(mean)),
        ("latency p5", us(at(0.05))),
        ("latency p95", us(at(0.95))),
    ]
}

/// Fraction of the highest rate that counts as reaching it: latencies are taken at the knee, not at the last percent.
const KNEE: f64 = 0.98;

/// Runs an emulation with the fewest outstanding operations, up to those of `plan`, that reach `mops`, or 98 % of the
/// rate with those of `plan` if `mops` is out of reach.
pub fn run_at<R: Clusters>(clusters: &R, plan: &Emulation, mops: f64, span: Span, seed: u64) -> Outcome {
    let with = |outstanding: usize| {
        let plan = Emulation {
            outstanding,
            ..plan.clone()
        };
        run(clusters, &plan, span, seed)
    };
    let most = with(plan.outstanding);
    let wanted = mops.min(KNEE * most.mops);
    let (mut too_few, mut enough) = (0, (plan.outstanding, most));
    while enough.0 - too_few > 1 {
        let middle = (too_few + enough.0) / 2;
        let outcome = with(middle);
        if outcome.mops < wanted {
            too_few = middle;
        } else {
            enough = (middle, outcome);
        }
    }
    enough.1
}
