//! [`Workload`]: what a report says of the operations and clients of its run.

use serde::{Deserialize, Serialize};

/// The operations and clients of a run.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct Workload {
    /// Keys, values and operations.
    #[serde(flatten)]
    pub operations: OperationsInfo,
    /// The clients.
    #[serde(flatten)]
    pub clients: ClientsInfo,
    /// Length and number of the samples.
    #[serde(flatten)]
    pub sampling: SamplingInfo,
    /// Cost of the load generator itself on the client core, nanoseconds per operation.
    pub driver_ns: f64,
    /// Footprint of the bound's reads, bytes: index and log.
    pub footprint_bytes: [u64; 2],
    /// Kind of pages of the bound's reads.
    pub pages: String,
}

/// Keys, values and operations of a run.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct OperationsInfo {
    /// YCSB letter or shares.
    pub mix: String,
    /// `uniform`, `zipf`, `latest`.
    pub dist: String,
    /// Distribution of the second popularity, if there is one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub beside: Option<String>,
    /// Keys loaded.
    pub keys: u64,
    /// Bytes of a key.
    pub key_size: usize,
    /// Minimum and maximum bytes of a value.
    pub value_size: [usize; 2],
}

/// The clients of a run.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct ClientsInfo {
    /// Operations in flight per client.
    pub window: usize,
    /// Open loop: requested operations per second.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rate: Option<f64>,
    /// Number of clients, one thread each.
    pub clients: usize,
    /// Number of processes that share these threads; 1: all in the measuring process.
    #[serde(default)]
    pub processes: usize,
    /// Cores of the clients.
    pub client_cores: Vec<usize>,
    /// Cores of the server and the rivals.
    pub server_cores: Vec<usize>,
}

/// Length and number of the samples of a run.
#[derive(Clone, Copy, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct SamplingInfo {
    /// Seconds of one throughput sample.
    pub seconds: f64,
    /// Number of samples.
    pub repeats: usize,
    /// Warm-up before the first sample, seconds.
    pub warm_up_seconds: f64,
    /// One operation in this many has its latency measured in throughput samples.
    pub latency_sampled_every: u64,
}
