//! What key-value systems have in common whose GETs are READs that pass the server by.
//!
//! ```text
//! client of all shards                               one server = one shard, an actor
//!   Operations: links, places, order, deadlines             Server: control channels, who is let in, who has gone
//!   Reader: a system's own half  ---READs------------> memory that the ShardLogic wrote
//!     what is read next, where replies are ---------->  ShardLogic: a system's own half: table, records, answers
//! ```
//! It is not a system: it knows no table, no record and no reply, and no way by which a request gets to the server.
//!
//! - [`Server`] is one shard and its clients; a system supplies its [`ShardLogic`].
//! - [`Client`] is a [`KvClient`](drover_kv::KvClient) of all shards of a service; a system supplies its [`Reader`], and the
//!   [`Session`] it has with each shard.
//! - [`Request`] is what is asked of a server, [`Status`] what it says to that, [`Hello`] and [`ServerParams`] what both ends say first; [`ConnResources`]:
//!   what sessions consist of.
//!
//! A request, as both systems send it:
//! ```
//! use drover_one_sided::{Request, RequestKind};
//! let request = Request {
//!     kind: RequestKind::Put, slot: 3, key_bytes: 3, value_bytes: 5, ttl_s: 0, sequence: 9, value_offset: 0,
//! };
//! let message = [&request.encode()[..], b"key", b"value"].concat();
//! assert_eq!(Request::decode(&message), Some((request, &b"key"[..], &b"value"[..])));
//! ```
//!
//! Sources: `[Pilaf]`, `[FaRM]`; that they have this in common is *our choice*.
#![forbid(unsafe_code)]

mod client;
mod control;
mod error;
mod queues;
mod refusals;
mod request;
mod server;
mod status;

pub use client::{
    Agreed, Client, ClientOptions, ConnResources, OperationView, Operations, Reader, Session, Sink,
    VALUES_MAX, Values,
};
pub use control::{ClientParams, Hello, NO_RESOURCES, Ready, ServerParams, WRONG_SHARD, WRONG_VERSION};
pub use error::{PeerError, SetupError, StartError};
pub use queues::{Depths, Queues, WHICH};
pub use refusals::{REFUSED_MEMORY_FULL, REFUSED_TABLE_FULL, Refusals, Usage};
pub use request::{REQUEST_HEADER_BYTES, Request, RequestKind};
pub use server::{CLIENTS, Clock, Membership, Server, ShardLogic, WorkDone};
pub use status::Status;
