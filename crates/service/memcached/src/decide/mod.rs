//! What commands decide, apart from where it is done: pure functions of a command, of what was found under its key, and
//! of the settings. Commands on a partition of this core use them, and gateways, whose items are in another system.

mod meta;
mod number;
mod store;

pub use meta::{
    ItemFacts, MetaChange, MetaGet, MetaSet, MetaSum, meta_key, meta_status, sum_line, unknown_flag_line,
};
pub(crate) use number::VALUE_BYTES_MAX;
pub use number::{NO_MEMORY_FOR_NUMBER, NON_NUMERIC, NUMBER_BYTES_MAX, NumberText, number_in, sum};
pub use store::{
    NO_MEMORY, TOO_LARGE_LINE, is_too_large, store_condition, store_join, store_reply, value_head,
};
