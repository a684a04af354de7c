//! HERD: one round trip per operation. The client WRITEs its request into server memory over UC; a server
//! core finds it by polling memory, executes it on the partition it owns, and answers with a SEND over UD.
//!
//! | operation | client posts | server posts |
//! |---|---|---|
//! | small GET, PUT, DELETE | 1 RECV (ahead), 1 WRITE (UC, inline, unsignaled) | 1 SEND (UD, inline, unsignaled) |
//! | GET of a large value | GET answered `BULK`; WRITE of a `GetBulk` request; 1 READ (RC) | 2 SENDs |
//! | PUT of a large value | 1 WRITE of the value (RC), then WRITE of a `PutBulk` request | 1 SEND |
//!
//! No READ is needed for small items: an index lookup by READs takes two round trips or more, and READs are
//! slower at the NIC than WRITEs `[HERD §3]`. Replies are datagrams because a NIC keeps no state per peer for
//! those; requests are WRITEs because in-bound connected verbs keep almost none.
//!
//! - [`drover_slots`] defines the bytes of slots and replies, and makes the decisions of both ends about them;
//!   [`layout`] defines the bytes that HERD adds.
//! - [`control`] defines the messages of the control channel: handshake, resynchronisation, bulk memory, statistics.
//! - [`costs`] lists the instructions that this code charges on simulated cores.
//! - [`server`] owns partitions and polls; [`client`] keeps windows, retransmits, reconnects.
//!
//! The words of HERD's paper: its *request region* is our slots, its *initialiser* our acceptor, its *key* a key hash.
//!
//! Sources: `[HERD]`, `[H14]`, `[R16]`, `[MICA]`. Differences from HERD's paper, and the reasons, are explained at the
//! code that differs. Where this crate says *the paper*, it means HERD's.
#![forbid(unsafe_code)]

pub mod client;
pub mod control;
pub mod costs;
pub mod layout;
pub mod server;
mod stepped;
mod system;

pub use system::{Herd, HerdPlan};
