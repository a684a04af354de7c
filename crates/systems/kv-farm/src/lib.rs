//! FaRM's key-value store: a GET is one READ, or two; updates are records WRITTEN into a ring.
//!
//! ```text
//! client                                          server (one shard)
//!   READ neighbourhood, 6 slots ............>     | table: hopscotch, small values inside |   no processor involved
//!   (READ object) ..........................>     | objects: lines with versions          |
//!   WRITE put, delete, confirm a miss -----------> | this client's ring | polled: table, then
//!   <--------------------------------------------- WRITE reply into the client's memory, which it polls
//! ```
//! **Verbs.** RC throughout. GET: one READ of 384 bytes if the value is in the slot (up to 32 bytes, no time to live),
//! otherwise one more of the object's lines; in narrow tables, which hold no values, the first READ has 192 bytes. At
//! a load of 0.75, 1.1 % of the keys are in overflow, which costs one more READ. PUT, DELETE: one WRITE each way. A
//! miss is confirmed by a message, or by the table's count of moves, READ before and after the search. A value that is
//! too long for a record stays in the client's memory, and the server READs it; a value that is too long for a reply
//! is WRITTEN to the client's memory.
//!
//! **Self-verifying data.** A slot carries its version at both ends, an object in every line: a reader accepts only
//! data that was complete at one instant. An object is overwritten in place by one of as many lines, so readers of a
//! hot object may have to retry; after [`logic::TRIES_MAX`] attempts they ask the server. A READ that took longer than
//! a millisecond proves nothing: it is repeated, or, for a long value, the server is asked. Long values move in
//! pieces, so that a lost packet costs one piece.
//!
//! **What we chose.** One queue pair per client and shard: threads share nothing. RC only: over UC, a lost record
//! would have to be sent again to its old place, next to records that have arrived since. When a connection fails, the
//! server ends the old session and its ring before the client's next one begins; updates in flight are sent again, and
//! executed once: see [`drover_one_sided::LastUpdates`]. The table does not grow: when it is full, a store refuses new
//! items and a cache evicts.
//!
//! It is not the emulation of FaRM that `[HERD §5.1]` measures (no table, no versions, fixed answers); that emulation
//! is among the figures. Sources: `[FaRM]`, `[HERD §5.1]`; tests whose names begin with `farm_` cover typical faults
//! of one-sided readers.
//!
//! - [`server::Server`] is one shard, an actor; [`client::FarmClient`] a [`KvClient`](drover_kv::KvClient).
//! - [`layout`] defines all bytes, [`logic`] the decisions of both ends, [`control`] the handshake.
#![forbid(unsafe_code)]

pub mod client;
pub mod control;
pub mod layout;
pub mod logic;
pub mod server;
mod system;

pub use system::Farm;
