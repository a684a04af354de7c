//! The server's end: decides what to do with the commit words that it finds in slots.
//!
//! - [`SlotState`] is the server's memory of one slot; [`SlotState::judge`] decides about a commit word found there.
//! - [`Turn`] is the slot in which a client's next request is expected; [`LookAround`] finds requests in other slots.
//! - [`Stripe`] is the location and size of a client's slots for one partition.
//! - [`Hold`] decides which conditional requests are refused because of an earlier request.
//! - [`Parsed`] is a commit word that passed all checks, with the offsets of the parts of its body.

mod hold;
mod look_around;
mod parse;
mod slot;
mod stripe;
mod turn;

pub use hold::Hold;
pub use look_around::LookAround;
pub use parse::{BodyAt, KeyRule, Parsed, Plain, Refused, fuzz_slots};
pub use slot::{Judgement, SlotState, Verdict};
pub use stripe::Stripe;
pub use turn::Turn;
