//! Decisions of both ends, made from bytes and positions alone: [`Lookup`], which READ of a GET is next; [`Sender`]
//! and [`Receiver`], where the ring's next record is.

mod lookup;
mod ring;

pub use lookup::{InlineValue, Lookup, Miss, Slots, Step, TRIES_MAX, TableShape};
pub use ring::{BadHead, BadRecord, Next, Placed, RING_BYTES, Receiver, Sender};
