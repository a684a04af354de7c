//! The server's end: decides what to do with the commit words that it finds in slots.
//!
//! - [`SlotState`] is the server's memory of one slot; [`SlotState::judge`] decides about a commit word found there.
//! - [`Turn`] is the slot in which a client's next request is expected; [`LookAround`] finds requests that came out of
//!   turn.
//! - [`Stripe`] is where a client's slots for one partition are, and what fits into them.
//! - [`Hold`] decides which conditional requests are refused because of an earlier request.
//! - [`Clock`] is the time of a step, and the seconds by which items expire.
//! - [`ClientIds`] gives out the numbers of clients.
//! - [`Request`] is a request copied out of its slot.
//! - [`Requests`] is a batch of them.
//! - [`Parsed`] is a commit word that passed all checks, with the offsets of the parts of its body.

mod clock;
mod hold;
mod ids;
mod look_around;
mod parse;
mod request;
mod requests;
mod slot;
mod stripe;
mod turn;

pub use clock::Clock;
pub use hold::Hold;
pub use ids::ClientIds;
pub use look_around::LookAround;
pub use parse::{BodyAt, KeyRule, Parsed, Plain, Refused, fuzz_slots};
pub use request::{About, Act, Found, PlainClient, Request, Share};
pub use requests::Requests;
pub use slot::{Judgement, SlotState, Verdict};
pub use stripe::Stripe;
pub use turn::Turn;
