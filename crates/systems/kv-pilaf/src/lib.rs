//! Pilaf: a GET is two or three READs and none of the server's time; PUT and DELETE are messages.
//!
//! ```text
//! client                                    server (one shard)
//!   READ entry ........................>    | table: 3-1 cuckoo, 32-byte entries |   nobody looks up
//!   READ record .......................>    | extents: key, value, expiry        |
//!   SEND put, delete, "is it really missing?" ------> one thread: table, then reply
//!   <------------------------------------ SEND reply
//! ```
//! **Verbs.** RC throughout. GET: one READ of 32 bytes for every place tried (1.56 on average at a load of 0.75), one of the
//! record. A miss, or a reader who meets torn bytes [`logic::TRIES_MAX`] times, asks by one SEND, answered by one.
//! PUT, DELETE: a SEND each way; a value that fits no message stays in the client's memory, and the server READs it
//! straight into its place.
//!
//! **What proves itself.** An entry carries a checksum of itself, salted with epoch and index, and one of its record, both
//! computed by the server. A reader looks at nothing else before it has checked them.
//!
//! **What we chose.** Records are never changed in place, so a reader sees the old one whole. A miss is confirmed by the
//! server, since a key may move between two probes. A client never sends an update twice: when a connection fails, updates
//! under way are `Indeterminate`, and the server drops the old session before it lets the client in again. Shards are servers of
//! their own; a client that lists them in another order is refused.
//!
//! **Growth.** At a load of 0.75 the table doubles while it is served: the next one is written and filled slice by slice beside it,
//! clients are told, the old one is poisoned, so that a client that still reads it finds nothing whole and goes over, and its memory is
//! given up when all have said so or their lease is over. Who slept longer finds its READ refused, connects anew and tries again.
//! The records' memory does not grow: it is registered at the start, and when it is full, so is the store, and a cache evicts.
//!
//! It is not the emulation of Pilaf that `[HERD §5.1]` measures (no table, no checksums, fixed answers): that is among
//! the figures. Sources: `[Pilaf]`, `[HERD §2.3, §5.1]`; tests whose names begin with `pilaf_` hold what the released code gets wrong.
//!
//! - [`server::Server`] is one shard, an actor; [`client::PilafClient`] a [`KvClient`](drover_kv::KvClient).
//! - [`layout`] is every byte, [`logic`] what a reader decides from them, [`control`] how the ends meet.
#![forbid(unsafe_code)]

pub mod client;
pub mod control;
pub mod layout;
pub mod logic;
pub mod server;
mod system;

pub use system::Pilaf;
