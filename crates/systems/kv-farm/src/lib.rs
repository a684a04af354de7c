//! FaRM's key-value store: a GET is one READ, or two; updates are records WRITTEN into a circular buffer.
//!
//! ```text
//! client                                          server (one shard)
//!   READ neighbourhood, 6 slots ............>     | table: hopscotch, small values inside |   nobody looks up
//!   (READ object) ..........................>     | objects: lines with versions          |
//!   WRITE put, delete, "is it really missing?" --> | this client's ring | polled: table, then
//!   <--------------------------------------------- WRITE reply into the client's memory, which it polls
//! ```
//! **Verbs.** RC throughout. GET: one READ of 384 bytes if the value is inside (up to 32 bytes, no time to live), and another one of
//! its lines otherwise; narrow tables (every value outside) READ 192 bytes first. 1.1 % of the keys are in overflow at a load of 0.75,
//! which costs a READ more. PUT, DELETE: a WRITE each way. A miss is confirmed by a message, or by the table's count of moves, READ before and after.
//! A value too long for a record stays in the client's memory, and the server READs it; one too long for a reply is WRITTEN there.
//!
//! **What proves itself.** A slot has its version at both ends, an object one in every line: a reader accepts what was at one
//! instant. Objects are written over in place when their lines suffice, so readers of a hot one may have to try again; after
//! [`logic::TRIES_MAX`] times they ask. A READ that took longer than a millisecond proves nothing: it is repeated, or, of a long value, the
//! server asked. Long values move in pieces, so that a lost packet costs a piece.
//!
//! **What we chose.** One queue pair per client and shard: nothing is shared between threads. RC only: over UC, a lost record would have
//! to be sent again to where it was, beside what has arrived since. A client never sends an update twice: when a connection
//! fails, updates under way are `Indeterminate`, and the server drops the old session, its ring with it, before it lets the client
//! in again. The table does not grow while it is served: when it is full, so is the store, and a cache evicts.
//!
//! It is not the emulation of FaRM that `[HERD §5.1]` measures (no table, no versions, fixed answers): that is among the
//! figures. Sources: `[FaRM]`, `[HERD §5.1]`; tests whose names begin with `farm_` hold what one-sided readers get wrong.
//!
//! - [`server::Server`] is one shard, an actor; [`client::FarmClient`] a [`KvClient`](drover_kv::KvClient).
//! - [`layout`] is every byte, [`logic`] what both ends decide from them, [`control`] how the ends meet.
#![forbid(unsafe_code)]

pub mod client;
pub mod control;
pub mod layout;
pub mod logic;
pub mod server;
mod system;

pub use system::Farm;
