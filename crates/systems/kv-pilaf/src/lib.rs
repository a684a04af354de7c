//! Pilaf: a GET is two or three READs and costs the server's processor nothing; PUT and DELETE are messages.
//!
//! ```text
//! client                                    server (one shard)
//!   READ entry ........................>    | table: 3-1 cuckoo, 32-byte entries |   no processor involved
//!   READ record .......................>    | extents: key, value, expiry        |
//!   SEND put, delete, confirm a miss ---------------> one thread: table, then reply
//!   <------------------------------------ SEND reply
//! ```
//! **Verbs.** RC throughout. GET: one READ of 32 bytes per entry probed (1.56 on average at a load of 0.75), one of
//! the record. After a miss, or after torn READs [`logic::TRIES_MAX`] times, the client sends one GET message and gets
//! one reply. PUT, DELETE: one SEND each way; a value that does not fit into a message stays in the client's memory,
//! and the server READs it directly into its record.
//!
//! **Self-verifying data.** An entry carries a checksum of itself, its table's epoch and its index, and a checksum of
//! its record; the server computes both. A reader uses no other field before it has verified them.
//!
//! **What we chose.** Records are never changed in place, so a reader sees the old record complete. The server
//! confirms a miss, since a key may move between two probes. When a connection fails, the server ends the old session
//! before the client's next one begins; updates in flight are sent again, and executed once: see
//! [`drover_one_sided::LastUpdates`]. Shards are separate servers; a server refuses a client whose list of shards has another order or length.
//!
//! **Growth.** At a load of 0.75 the table doubles while clients use it. The server writes and fills the next table in
//! slices, in addition to serving requests. It then announces the new table to the clients, and poisons the old one: a
//! client that still READs the old table finds only invalid entries, and switches. The server frees the old memory
//! when all clients have confirmed the switch, or when their lease has expired. A client that outlives its lease gets
//! a remote-access error, reconnects and retries. The records' memory does not grow: it is registered at the start,
//! and when it is full, a store refuses new items and a cache evicts.
//!
//! It is not the emulation of Pilaf that `[HERD §5.1]` measures (no table, no checksums, fixed answers); that
//! emulation is among the figures. Sources: `[Pilaf]`, `[HERD §2.3, §5.1]`; tests whose names begin with `pilaf_`
//! cover faults of the released code.
//!
//! - [`server::Server`] is one shard, an actor; [`client::PilafClient`] a [`KvClient`](drover_kv::KvClient).
//! - [`layout`] defines all bytes, [`logic`] a reader's decisions, [`control`] the handshake.
#![forbid(unsafe_code)]

pub mod client;
pub mod control;
pub mod layout;
pub mod logic;
pub mod server;
mod system;

pub use system::Pilaf;
