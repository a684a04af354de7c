//! Decisions of a reader, made from bytes alone: [`Lookup`], which READ of a GET is next.

mod lookup;

pub use lookup::{InlineValue, Lookup, Miss, Slots, Step, TRIES_MAX, TableShape};
