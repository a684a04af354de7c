//! The model behaves like the cards it represents. Expected values are published ones, from the rows that the profiles
//! were fitted to; see `crates/lab/figures` for all of them.

mod bench;
mod card_memory;
mod engines;
mod failures;
mod laws;
mod limits;
mod pair;
