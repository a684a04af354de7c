//! [`Workload`]: what a report says of the operations and clients of its run.

use serde::{Deserialize, Serialize};

/// Description of the operations, clients and samples of a run, mostly as requested.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct Workload {
    /// Keys, values and operations.
    #[serde(flatten)]
    pub operations: OperationsInfo,
    /// Window, pace, number and cores of the clients.
    #[serde(flatten)]
    pub clients: ClientsInfo,
    /// Length and number of the samples.
    #[serde(flatten)]
    pub sampling: SamplingInfo,
    /// Time that the load generator itself takes per operation on the first client core, nanoseconds: measured with a
    /// target that does nothing, and included in the system's results.
    pub driver_ns: f64,
    /// Bytes of the server's `[index, log]`; the memory reads of the [`Bound`](crate::bound::Bound) cover as much.
    pub footprint_bytes: [u64; 2],
    /// Kind of the pages of the memory that the bound's memory reads covered; empty if the bounds were not measured.
    pub pages: String,
}

/// Description of the keys, values and operations of a run.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct OperationsInfo {
    /// Name of the mix: a YCSB letter, or `put=SHARE`.
    pub mix: String,
    /// Name of the popularity (distribution) of the keys: `uniform`, `zipf` or `latest`.
    pub dist: String,
    /// Name of the popularity of the keys in each sample's second throughput run; `None` if there is no second run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub beside: Option<String>,
    /// Number of keys loaded before the run.
    pub keys: u64,
    /// Bytes of a key.
    pub key_size: usize,
    /// Minimum and maximum bytes of a value.
    pub value_size: [usize; 2],
}

/// Description of the clients of a run: their number, window, pace and cores.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct ClientsInfo {
    /// Maximum number of operations in flight per client.
    pub window: usize,
    /// Open loop: requested operations per second and client; `None` in a closed loop.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rate: Option<f64>,
    /// Number of clients, one thread each.
    pub clients: usize,
    /// Requested number of processes for the client threads; 0 or 1: all are threads of the measuring process.
    #[serde(default)]
    pub processes: usize,
    /// Cores of the clients, one each.
    pub client_cores: Vec<usize>,
    /// Cores that the server and the rivals (other servers to compare with) share.
    pub server_cores: Vec<usize>,
}

/// Length and number of the samples of a run.
#[derive(Clone, Copy, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct SamplingInfo {
    /// Length of a sample's throughput run, seconds.
    pub seconds: f64,
    /// Requested number of samples with the requested placement and speed, if any was requested. The report may have
    /// fewer such samples, and others besides.
    pub repeats: usize,
    /// Warm-up before the first sample, seconds.
    pub warm_up_seconds: f64,
    /// In throughput runs of the system, one operation in this many has its latency measured.
    pub latency_sampled_every: u64,
}
