//! Decisions of the HERD server over the bytes of [`layout`](crate::layout): no memory, no verbs, no time.
//!
//! - [`SlotState`] is what a server remembers of one slot, and [`SlotState::judge`] what it makes of a commit
//!   word it finds there: this is where "exactly once" is decided.
//! - [`Turn`] is which slot of a client comes next, [`LookAround`] finds what came out of turn.
//! - [`Hold`] is which requests are not executed because of one before them.
//! - [`Parsed`] is a commit word that makes sense, and where the pieces of its body are.

mod hold;
mod look_around;
mod parse;
mod slot;
mod turn;

pub use hold::Hold;
pub use look_around::LookAround;
pub use parse::{BodyAt, KeyRule, Parsed, Plain, Refused, fuzz_slots};
pub use slot::{Judgement, SlotState, Verdict};
pub use turn::Turn;
