//! Common parts of key-value systems whose services are shards, each a core with clients of its own: Pilaf and FaRM-KV, whose
//! GETs are READs that do not involve the server's processor, and those of RFP, whose GETs are requests, too.
//!
//! ```text
//! client of all shards                               one server = one shard, an actor
//!   Operations: links, places, order, deadlines             Server: control channels, admission and loss of clients
//!   Reader: the system's part    ---READs------------> memory that the ShardLogic wrote
//!     which READ is next, replies    ---------------->  ShardLogic: the system's part: table, records, answers
//! ```
//! It is not a system: it does not define tables, records, replies, or the transport of requests.
//!
//! - [`Server`] is one shard and its clients; a system supplies its [`ShardLogic`].
//! - [`Client`] is a [`KvClient`](drover_kv::KvClient) of all shards of a service; a system supplies its [`Reader`],
//!   and its [`Session`] with each shard.
//! - [`Request`] is a request to a server, [`Status`] the server's result, [`Hello`] and [`ServerParams`] the first
//!   messages of the two ends; [`ConnResources`]: resources that every session has.
//!
//! A request, in the format that both systems use:
//! ```
//! use drover_one_sided::{Request, RequestKind};
//! let request = Request {
//!     kind: RequestKind::Put, slot: 3, key_bytes: 3, value_bytes: 5, ttl_s: 0, sequence: 9, value_offset: 0,
//!     is_detailed: false, extension: None,
//! };
//! let message = [&request.encode()[..], b"key", b"value"].concat();
//! assert_eq!(Request::decode(&message), Some((request, &b"key"[..], &b"value"[..])));
//! ```
//!
//! Sources: `[Pilaf]`, `[FaRM]`; to share these parts is *our choice*.
#![forbid(unsafe_code)]

mod client;
mod control;
mod error;
mod refusals;
mod request;
mod server;
mod status;

pub use client::{
    Agreed, Client, ClientOptions, ConnResources, OperationView, Operations, Reader, Session, Sink,
    VALUES_MAX, Values,
};
pub use control::{Hello, QpExports, Ready, ServerParams, Ticket};
pub use error::PeerError;
pub use refusals::{REFUSED_MEMORY_FULL, REFUSED_TABLE_FULL, Refusals, Usage};
pub use request::{REQUEST_HEADER_BYTES, Request, RequestKind, take_extension};
pub use server::{CLIENTS, Clock, LastUpdates, Membership, REPEATED, Server, ShardLogic, Staging, WorkDone};
pub use status::Status;
