//! Jakiro, ServerReply and RDMA-Memcached: key-value stores whose requests are WRITTEN into slots that the server polls.
//!
//! ```text
//! client                                                server (one shard, one core)
//!   WRITE get, put, delete -----------------------------> | request slots | polled; partition: LRU buckets over a heap
//!   READ result (and what the first READ left out) ....>  | result slots  |   no processor involved
//!   <---------------------------------------------------- WRITE result, if the client asked for that
//! ```
//! **Verbs.** RC throughout. An operation of Jakiro: one WRITE and one READ, both the client's; a third if the result is
//! longer than the first READ. After two slow calls in a row of one kind, the client has results of this kind pushed,
//! and fetches again when the server is fast. ServerReply pushes every result: one WRITE each way; there is one whose
//! server waits for the completion of each, as published, to be measured. RDMA-Memcached pushes every result, too.
//! The systems differ in nothing else but their stores: see [`Variant`]. A value that is too long for a slot stays in the client's memory, and the
//! server READs it; one that is too long for a result is WRITTEN to the client's memory.
//!
//! **What a server owns.** One core has one partition, which no other thread reads or writes, as in `[RFP §4.1]`: no
//! locks, no atomics. It evicts the least recently used item of a full bucket; a store that must not evict has chains of
//! buckets instead, and refuses new items when its memory is full.
//!
//! RDMA-Memcached is the opposite: all shards of a service have one store, behind locks, and a client belongs to one of
//! them, which serves every key. Clients READ values of 8 KiB and more where they are, and acknowledge that by a WRITE;
//! until then nobody writes there. See [docs/decisions/0023](../../../../docs/decisions/0023-a-store-of-several-threads.md).
//!
//! **What we chose.** Each operation of the client's window has slots and modes of its own. Requests and their statuses
//! are those of the one-sided systems. When a connection fails, the server ends the old session before the client's next
//! one begins; updates under way are sent again, and executed once: see [`drover_one_sided::LastUpdates`]. Why results
//! are believed, and what is pushed when: [`drover_rpc::fetch`].
//!
//! Source: `[RFP]`; [docs/rfp-tests.md](../../../../docs/rfp-tests.md) lists what the tests cover.
//!
//! - [`server::Server`] is one shard, an actor; [`client::RfpClient`] a [`KvClient`](drover_kv::KvClient).
//! - [`layout`] defines the bytes of a result, [`control`] the handshake; the decisions of both ends are
//!   [`Caller`](drover_rpc::fetch::Caller) and [`Callee`](drover_rpc::fetch::Callee).
#![forbid(unsafe_code)]

pub mod client;
pub mod control;
mod costs;
pub mod layout;
pub mod server;
mod system;
mod variant;

pub use system::{Jakiro, RdmaMemcached, Rfp, ServerReply, ServerReplyFaithful};
pub use variant::{
    Flaw, JakiroVariant, MemcachedVariant, ServerReplyFaithfulVariant, ServerReplyVariant, Variant,
};
