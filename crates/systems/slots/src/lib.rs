//! Requests in slots: the bytes that client and server exchange, and the decisions of both ends about them. HERD is
//! built on it: each client owns slots in the server's memory, writes its requests there, and gets one reply per
//! request.
//!
//! There is no I/O here: no verbs, no threads, no clock. Time is an argument, and so is the memory from which a server
//! copies a [`Request`](server::Request).
//!
//! - [`layout`] defines every byte: slot, commit word, reply.
//! - [`client`] builds requests and keeps the [`Window`](client::Window) of slots: which request is in which slot,
//!   which reply answers it, how long to wait ([`Rto`](client::Rto)), what must not be in flight together
//!   ([`Conflicts`](client::Conflicts)).
//! - [`paper`] does the same for HERD's requests as published.
//! - [`server`] decides what to do with the contents of a slot: [`SlotState::judge`](server::SlotState::judge) makes
//!   requests execute exactly once, [`Turn`](server::Turn) is the slot in which the next request is expected.
//!
//! ```
//! use drover_slots::client::{SlotPhase, Window};
//! use drover_slots::layout::{Commit, ReplyImm, SlotMap, SlotOp, Status};
//! use drover_slots::server::{SlotState, Verdict};
//!
//! let map = SlotMap { slot_bytes: 64, window: 4, partition_count: 1 };
//! let mut window = Window::new(map, 0);
//! let claim = window.claim(0).expect("a free slot");
//! claim.slot.commit = Commit::new(SlotOp::Get, claim.seq, 3, 0, false);
//! claim.slot.phase = SlotPhase::Posted;
//! let (index, commit) = (claim.index, claim.slot.commit);
//!
//! let mut state = SlotState::UNUSED;
//! assert_eq!(state.judge(commit), Verdict::Execute);
//! state.take(commit);
//! state.finish(Status::NotFound);
//!
//! let reply = ReplyImm::new(Status::NotFound, index, commit.seq());
//! assert!(window.answered(0, reply).is_some());
//! window.release(index);
//! assert!(window.answered(0, reply).is_none(), "a duplicate");
//! ```
//!
//! Sources: `[HERD]`, `[MICA]`, `[A16]`. Differences from the paper, and the reasons, are explained at the code that
//! differs.
#![forbid(unsafe_code)]

pub mod client;
pub mod layout;
pub mod paper;
pub mod server;
