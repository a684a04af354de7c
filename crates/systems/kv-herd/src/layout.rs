//! The bytes that HERD adds to those of [request slots and replies](drover_slots::layout): datagrams, and the paper's
//! format.
//!
//! **Datagram** (front end Datagrams): the bytes of the slot image from its body to its commit word, preceded by
//! 8 bytes that say what the address says otherwise:
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 4 | client id |
//! | 4 | 2 | slot index within the partition's window |
//! | 6 | 2 | generation, low 16 bits |
//! | 8 | B + 24 | body, key hash, commit word |

use drover_base::KeyHash;
pub use drover_slots::layout::*;

/// Bytes before the slot image in a request datagram.
pub const DATAGRAM_HEADER_BYTES: usize = 8;

/// Format P, the paper's: what lands in the slot is the key hash, preceded for a PUT by `value, len u16`.
/// `LEN = 0` means GET, so values have at least one byte; the last byte of the hash is never 0, because the
/// byte at the highest address is what says "a request is here".
pub mod paper {
    use super::KeyHash;

    /// Bytes of a GET.
    pub const GET_BYTES: usize = 16;
    /// Longest value `[HERD §4.3]`.
    pub const VALUE_BYTES_MAX: usize = 1000;

    /// The hash as format P needs it: last byte not 0.
    pub fn wire_hash(hash: KeyHash) -> [u8; 16] {
        let mut bytes = hash.to_bytes();
        if bytes[15] == 0 {
            bytes[15] = 1;
        }
        bytes
    }

    /// Bytes of a PUT.
    pub const fn put_bytes(value_len: usize) -> usize {
        value_len + 2 + 16
    }
}
