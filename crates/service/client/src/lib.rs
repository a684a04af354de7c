//! Clients of a drover service, found by its address: the address names the fabric, the server reports its system.
//!
//! - [`Client`]: one call, one result; `get_many` and `execute` keep many operations under way.
//! - [`Pipeline`]: operations are submitted with tokens, and their outcomes taken later, without a copy.
//! - [`AsyncClient`]: futures for an executor of the same thread.
//! - [`ClientThread`] and [`ClientHandle`]: a dedicated client thread, for many threads and any async runtime.
//!
//! At a service of several members, `etcd://HOST:2379/NAME`, each of them asks the member that has the key, and follows the keys
//! when members come and go.
//!
//! ```no_run
//! use drover_client::Client;
//! let mut client = Client::connect("shm:drover")?;
//! client.set(b"k", b"value")?;
//! assert_eq!(client.get(b"k")?, Some(b"value".to_vec()));
//! # Ok::<(), drover_client::Error>(())
//! ```
//! This crate implements no protocol: the `kv-*` crates do. An application with a core to spend may drive their
//! non-blocking clients ([`KvClient`](drover_kv::KvClient)) itself.
#![forbid(unsafe_code)]

/// Compiles the Rust examples of the README below, in doctests only.
#[cfg(doctest)]
#[doc = include_str!("../../../../README.md")]
pub struct Readme;

mod asynch;
mod blocking;
mod cluster;
mod core;
mod fabric;
mod item;
mod options;
mod pipeline;
mod session;
mod thread;

pub use asynch::AsyncClient;
pub use blocking::Client;
pub use cluster::{MapSource, connect_through};
pub use drover_base::Ns;
pub use drover_cluster_etcd::{BadServiceUrl, ServiceUrl};
pub use drover_control::{Credentials, CredentialsError, TlsClientOptions, TlsConnector, TlsError};
pub use drover_kv::{
    CallError, Calls, Completion, Condition, ConnectError, FetchObjective, Op, Outcome, Refusal,
    ResultTransfer, SizeLimits, SubmitError, Token,
};
pub use fabric::{DeviceChoice, Fabric, FabricError, Job};
pub use item::{Effect, Item, PutOptions};
pub use options::{Error, Options};
pub use pipeline::Pipeline;
pub use session::{Connected, Service};
pub use thread::{ClientHandle, ClientThread};
