//! The bytes that HERD adds to those of [request slots and replies](drover_slots::layout): datagrams, and the paper's
//! format.
//!
//! **Datagram** (front end Datagrams): the bytes that a slot would hold, from the body to the commit word, preceded by
//! 8 bytes with the information that the address of a slot would give:
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 4 | client id |
//! | 4 | 2 | slot index within the partition's window |
//! | 6 | 2 | generation, low 16 bits |
//! | 8 | B + 24 | body, key hash, commit word |

use drover_base::KeyHash;
pub use drover_slots::layout::*;

/// Bytes of the header of a request datagram, which precedes body, key hash and commit word.
pub const DATAGRAM_HEADER_BYTES: usize = 8;

/// Format P, the paper's: a request is the key hash, preceded for a PUT by `value, len u16`, right-aligned in its slot.
/// A length of 0 means GET, so values have at least one byte. The last byte of the hash, at the slot's highest address,
/// shows that a request is there, so it is never 0.
pub mod paper {
    use super::KeyHash;

    /// Length of a GET request, bytes: the key hash.
    pub const GET_BYTES: usize = 16;
    /// Longest value, bytes `[HERD §4.3]`; in slots shorter than 1024 bytes the limit is lower.
    pub const VALUE_BYTES_MAX: usize = 1000;

    /// Converts a key hash to the bytes that travel in format P: a last byte of 0 becomes 1.
    pub fn wire_hash(hash: KeyHash) -> [u8; 16] {
        let mut bytes = hash.to_bytes();
        if bytes[15] == 0 {
            bytes[15] = 1;
        }
        bytes
    }

    /// Length of a PUT request for a value of `value_len` bytes, bytes: value, length and key hash.
    pub const fn put_bytes(value_len: usize) -> usize {
        value_len + 2 + 16
    }
}
