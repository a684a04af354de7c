//! What both ends decide from bytes and positions alone: [`Lookup`], what a GET reads next; [`Sender`] and [`Receiver`], where the
//! next record of a ring is.

mod lookup;
mod ring;

pub use lookup::{InlineValue, Lookup, Miss, Slots, Step, TRIES_MAX, TableShape};
pub use ring::{BadHead, BadRecord, Next, Placed, RING_BYTES, Receiver, Sender};
