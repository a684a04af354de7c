//! [`Plan`]: options of a bench.

use crate::bound::Placement;
use crate::driver::{Pace, RunOptions, SAMPLE_EVERY};
use crate::load_threads::LoadOptions;
use crate::pin::Cores;
use crate::report::{ClientsInfo, OperationsInfo, SamplingInfo, Workload};
use crate::rivals::{Entrant, Mode};
use crate::workload::{Mix, Popularity, TapeOptions};
use crate::{Helper, Table};
use drover_base::Ns;

/// Options of one bench of one system, for [`run`](super::run).
#[derive(Clone, Debug)]
pub struct Plan {
    /// Name of the key-value system, only for the report.
    pub system: String,
    /// Name of the fabric, only for the report.
    pub fabric: String,
    /// Keys, values and operations.
    pub workload: WorkloadPlan,
    /// Window, pace and processes of the clients.
    pub clients: Clients,
    /// Length and number of the samples, and which of them count.
    pub sampling: Sampling,
    /// Numbers of the cores to pin clients and rivals to; the server under test must run on the server cores already.
    pub cores: Cores,
    /// Bounds and rivals to compare with.
    pub comparison: Comparison,
    /// Whether the clients PUT all keys before the warm-up; false if the server stores them already.
    pub load: bool,
    /// Starts this program again as a child: for the bounds, to start rivals, and for client processes.
    pub helper: Helper,
    /// Process id, table and memory size of the server under test, as far as known.
    pub server: ServerFacts,
    /// Number of times that all keys are replaced after the last sample; then READs per GET are measured once more, see
    /// [`ReadsSummary::churned`](crate::report::ReadsSummary::churned). 0: neither. Must be 0 if the mix has inserts.
    pub turnovers: u32,
}

/// Keys, values and operations of a bench.
#[derive(Clone, Debug)]
pub struct WorkloadPlan {
    /// Mix of operations.
    pub mix: Mix,
    /// Popularity (distribution) of the keys that operations choose.
    pub popularity: Popularity,
    /// Popularity of the keys in a second throughput run of each sample, for comparison; `None`: no second run.
    pub beside: Option<Popularity>,
    /// Number of keys loaded before the run; at least 1.
    pub key_count: u32,
    /// Bytes of a key.
    pub key_bytes: usize,
    /// Minimum and maximum bytes of a value.
    pub value_bytes: [usize; 2],
    /// Seed of keys and operations.
    pub seed: u64,
}

/// Window, pace and processes of the clients of a bench. The number of clients is that of the client cores in
/// [`Plan::cores`].
#[derive(Clone, Copy, Debug)]
pub struct Clients {
    /// Maximum number of operations in flight per client, in throughput runs and the warm-up. While keys are loaded or
    /// replaced it is at least 16.
    pub window: usize,
    /// Closed or open loop, in throughput runs, the warm-up, and the run after [`Plan::turnovers`]. Runs at window 1
    /// and of rivals are always closed loops.
    pub pace: Pace,
    /// Maximum number of processes that share the clients; 0 or 1: all are threads of this process.
    pub processes: usize,
}

/// Length and number of the samples of a bench, and which of them count.
#[derive(Clone, Copy, Debug)]
pub struct Sampling {
    /// Length of a sample's throughput run; a second one, with the second popularity, is as long. The other
    /// measurements of a sample take at most 0.4 s each.
    pub time: Ns,
    /// Number of samples. With `wanted`: number of samples with that placement and speed, however many others there
    /// are; fewer if its `patience` ends earlier.
    pub repeats: usize,
    /// Placement and speed of the cores to wait for before each sample; `None`: no waiting. Samples in that placement
    /// count; if there are none, or this is `None`, those in the most common placement do. See
    /// [`Report::counts`](crate::report::Report::counts).
    pub wanted: Option<Wanted>,
    /// Duration of the warm-up before the first sample; 0 for none.
    pub warm_up: Ns,
}

/// Placement and speed of two cores, the first client core and the first server core, to wait for: virtual cores move,
/// and some results are meaningful in one placement only.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// Required class of the distance between the first client core and the first server core.
    pub placement: Placement,
    /// Whether the first client core and the first server core must also be at full speed: 0.9 or more of the highest
    /// speed measured in the run.
    pub full_speed: bool,
    /// Time limit for waiting, counted from the end of the warm-up. After it the run takes samples only while the cores
    /// are as wanted, and ends when they are not.
    pub patience: Ns,
}

/// Bounds and rivals to compare a system with.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    /// Whether to measure in each sample also the speed of the machine itself, a [`Bound`](crate::bound::Bound).
    pub bound: bool,
    /// Rivals (other servers) to measure, too. Those that are not installed are only noted in the report.
    pub rivals: Vec<Entrant>,
    /// Rivals are measured in the modes whose names contain one of these texts; if empty, in all modes.
    pub rival_modes: Vec<String>,
}

/// Process id, table and memory size of the server under test, as far as known. The server itself is started elsewhere.
#[derive(Clone, Copy, Debug, Default)]
pub struct ServerFacts {
    /// Process id of the server, to report its processor time; `None`: processor time is not reported.
    pub pid: Option<u32>,
    /// Kind of the table that one-sided clients READ, and its load once the keys are loaded; `None` if the clients READ
    /// no table or these are unknown.
    pub table: Option<Table>,
    /// Bytes of the server's `[index, log]`; the memory reads of the [`Bound`](crate::bound::Bound) cover as much.
    pub footprint: [u64; 2],
}

/// Entries of a tape: 16 MiB, more than any cache holds.
const TAPE_ENTRIES: usize = 1 << 22;
/// Maximum duration of a sample of a rival's mode, and of window 1.
const SIDE_TIME: Ns = Ns::from_ms(400);

impl Plan {
    pub(super) fn load_threads(&self) -> LoadOptions {
        let workload = &self.workload;
        LoadOptions {
            cores: self.cores.client.clone(),
            tape: TapeOptions {
                client_count: self.cores.client.len() as u32,
                ..workload.tape()
            },
            other: workload.beside,
            key_bytes: workload.key_bytes,
            value_bytes: workload.value_bytes,
        }
    }

    /// The workload as the report shows it.
    pub(super) fn report_workload(&self, driver_ns: f64, pages: String) -> Workload {
        let (workload, clients, sampling) = (&self.workload, &self.clients, &self.sampling);
        Workload {
            operations: OperationsInfo {
                mix: workload.mix.name.clone(),
                dist: workload.popularity.name().to_owned(),
                beside: workload.beside.map(|beside| beside.name().to_owned()),
                keys: u64::from(workload.key_count),
                key_size: workload.key_bytes,
                value_size: workload.value_bytes,
            },
            clients: ClientsInfo {
                window: clients.window,
                rate: match clients.pace {
                    Pace::Closed => None,
                    Pace::Open(rate) => Some(rate),
                },
                clients: self.cores.client.len(),
                processes: clients.processes,
                client_cores: self.cores.client.clone(),
                server_cores: self.cores.server.clone(),
            },
            sampling: SamplingInfo {
                seconds: sampling.time.0 as f64 / 1e9,
                repeats: sampling.repeats,
                warm_up_seconds: sampling.warm_up.0 as f64 / 1e9,
                latency_sampled_every: clients.sample_every(),
            },
            driver_ns,
            footprint_bytes: self.server.footprint,
            pages,
        }
    }
}

impl WorkloadPlan {
    /// Operations of a lone client.
    pub(super) fn tape(&self) -> TapeOptions {
        TapeOptions {
            mix: self.mix.clone(),
            popularity: self.popularity,
            key_count: self.key_count,
            entry_count: TAPE_ENTRIES,
            seed: self.seed,
            client_index: 0,
            client_count: 1,
        }
    }
}

impl Clients {
    /// A run of the clients for `time`.
    pub(super) fn run_options(&self, time: Ns) -> RunOptions {
        RunOptions {
            pace: self.pace,
            ..closed_loop(self.window, time)
        }
    }

    /// One operation in this many has its latency measured.
    fn sample_every(&self) -> u64 {
        match (self.pace, self.window) {
            (Pace::Closed, 2..) => SAMPLE_EVERY,
            _ => 1,
        }
    }
}

/// A run for `time` with `window` operations in flight.
pub(super) fn closed_loop(window: usize, time: Ns) -> RunOptions {
    RunOptions {
        window,
        pace: Pace::Closed,
        time,
        ops_min: 0,
        other_tape: false,
    }
}

impl Sampling {
    /// Length of a sample that is no throughput sample of the system.
    pub(super) fn side_time(&self) -> Ns {
        self.time.min(SIDE_TIME)
    }
}

impl Comparison {
    /// Whether rivals are measured in `mode`.
    pub(super) fn wants(&self, mode: &Mode) -> bool {
        let words = &self.rival_modes;
        words.is_empty() || words.iter().any(|word| mode.name.contains(word.as_str()))
    }
}
