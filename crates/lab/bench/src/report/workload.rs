//! [`Workload`]: what a report says of the operations and clients of its run.

use serde::{Deserialize, Serialize};

/// The operations and clients of a run.
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
    /// Cost of the load generator itself on the first client core, nanoseconds per operation, measured with a target
    /// that does nothing.
    pub driver_ns: f64,
    /// Bytes of memory that the bound's dependent reads cover: index and log.
    pub footprint_bytes: [u64; 2],
    /// Kind of the pages of that memory; empty if the bounds were not measured.
    pub pages: String,
}

/// Keys, values and operations of a run.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct OperationsInfo {
    /// Name of the mix: a YCSB letter, or `put=SHARE`.
    pub mix: String,
    /// Popularity of the keys: `uniform`, `zipf` or `latest`.
    pub dist: String,
    /// Popularity of the keys in each sample's second throughput run, if there is one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub beside: Option<String>,
    /// Number of keys loaded before the run.
    pub keys: u64,
    /// Bytes of a key.
    pub key_size: usize,
    /// Minimum and maximum bytes of a value.
    pub value_size: [usize; 2],
}

/// The clients of a run.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct ClientsInfo {
    /// Maximum number of operations in flight per client.
    pub window: usize,
    /// Open loop: requested operations per second and client; `None` in a closed loop.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rate: Option<f64>,
    /// Number of clients, one thread each.
    pub clients: usize,
    /// Requested number of processes that share these threads; 0 or 1: all in the measuring process.
    #[serde(default)]
    pub processes: usize,
    /// Cores of the clients, one each.
    pub client_cores: Vec<usize>,
    /// Cores of the server and the rivals.
    pub server_cores: Vec<usize>,
}

/// Length and number of the samples of a run.
#[derive(Clone, Copy, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct SamplingInfo {
    /// Length of a sample's throughput run, seconds.
    pub seconds: f64,
    /// Requested number of samples that count; there may be fewer or more samples.
    pub repeats: usize,
    /// Warm-up before the first sample, seconds.
    pub warm_up_seconds: f64,
    /// One operation in this many has its latency measured in throughput samples.
    pub latency_sampled_every: u64,
}
