//! `get` and its kind; `set`, `add`, `replace`, `append`, `prepend`, `cas`.

use crate::line::{digits, write_number};
use crate::request::StoreMode;
use drover_base::Condition;
use drover_store::{ExtraOutcome, Join};

pub use crate::parse::is_too_large;

/// Out of memory for a value within the size limit: only in store mode, or if the limit is too large for the log.
pub const NO_MEMORY: &[u8] = b"SERVER_ERROR out of memory storing object\r\n";
/// The value is over the size limit.
pub const TOO_LARGE_LINE: &[u8] = b"SERVER_ERROR object too large for cache\r\n";

/// How the new value is joined with the old one.
#[inline]
pub fn store_join(mode: StoreMode) -> Join {
    match mode {
        StoreMode::Append => Join::Append,
        StoreMode::Prepend => Join::Prepend,
        _ => Join::Replace,
    }
}

/// Condition under which the command stores. `cas`: that of the command.
#[inline]
pub fn store_condition(mode: StoreMode, cas: u64) -> Condition {
    match mode {
        StoreMode::Set => Condition::Always,
        StoreMode::Add => Condition::IfAbsent,
        StoreMode::Replace | StoreMode::Append | StoreMode::Prepend => Condition::IfPresent,
        StoreMode::Cas => Condition::IfVersion(cas),
    }
}

/// The reply to a storing command.
#[inline]
pub fn store_reply(mode: StoreMode, outcome: ExtraOutcome) -> &'static [u8] {
    match outcome {
        ExtraOutcome::Stored { .. } => b"STORED\r\n",
        ExtraOutcome::Present { .. } if mode == StoreMode::Cas => b"EXISTS\r\n",
        ExtraOutcome::Absent if mode == StoreMode::Cas => b"NOT_FOUND\r\n",
        ExtraOutcome::Present { .. } | ExtraOutcome::Absent => b"NOT_STORED\r\n",
        // A value that grows too long by appending is not stored; memcached answers only this.
        ExtraOutcome::TooLarge if store_join(mode) != Join::Replace => b"NOT_STORED\r\n",
        ExtraOutcome::TooLarge => TOO_LARGE_LINE,
        ExtraOutcome::Full => NO_MEMORY,
    }
}

/// Writes `VALUE <key> <flags> <bytes> [<cas>]` and its line end at the start of the space that `space` returns, which has
/// as many bytes as it is asked for: those of this line, the value, and its line end. Returns that space and the offset
/// of the value. `numbers`: flags, length of the value and, if it is returned, the CAS.
#[inline]
pub fn value_head<'s>(
    key: &[u8],
    numbers: &[u64],
    value_len: usize,
    space: impl FnOnce(usize) -> &'s mut [u8],
) -> (&'s mut [u8], usize) {
    let head_len = 6 + key.len() + numbers.iter().map(|&number| 1 + digits(number)).sum::<usize>() + 2;
    let space = space(head_len + value_len + 2);
    space[..6].copy_from_slice(b"VALUE ");
    space[6..6 + key.len()].copy_from_slice(key);
    let mut at = 6 + key.len();
    for &number in numbers {
        space[at] = b' ';
        let end = at + 1 + digits(number);
        write_number(number, &mut space[at + 1..end]);
        at = end;
    }
    space[at..at + 2].copy_from_slice(b"\r\n");
    (space, head_len)
}
