//! `incr`, `decr` and the numeric part of `ma`.

use crate::line::{DIGITS_MAX, digits, write_number};
use crate::parse::scan;

/// A number and everything before it lies in the first bytes of a value; anything may follow after a space.
pub const NUMBER_BYTES_MAX: usize = 512;
/// Longer values are never numbers: memcached holds them in pieces.
pub(crate) const VALUE_BYTES_MAX: usize = 512 << 10;

/// The value is no number.
pub const NON_NUMERIC: &[u8] = b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";
/// No memory for the new number.
pub const NO_MEMORY_FOR_NUMBER: &[u8] = b"SERVER_ERROR out of memory\r\n";

/// The number that a value of `value_len` bytes has at its start, of which `text` is the first [`NUMBER_BYTES_MAX`], or
/// all.
#[inline]
pub fn number_in(text: &[u8], value_len: usize) -> Option<u64> {
    scan::number_u64(text).filter(|_| value_len <= VALUE_BYTES_MAX)
}

/// The number after `by` is added, wrapping at 64 bits, or subtracted, stopping at 0.
#[inline]
pub fn sum(number: u64, by: u64, up: bool) -> u64 {
    if up {
        number.wrapping_add(by)
    } else {
        number.saturating_sub(by)
    }
}

/// A number as text.
#[derive(Clone, Copy, Debug)]
pub struct NumberText {
    bytes: [u8; DIGITS_MAX],
    len: usize,
}

impl NumberText {
    /// Writes `number`.
    #[inline]
    pub fn new(number: u64) -> NumberText {
        let (mut bytes, len) = ([0; DIGITS_MAX], digits(number));
        write_number(number, &mut bytes[..len]);
        NumberText { bytes, len }
    }

    /// Its digits.
    #[inline]
    pub fn digits(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}
