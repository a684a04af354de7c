//! The bytes that HERD adds to those of [request slots and replies](drover_slots::layout): datagrams.
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

pub use drover_slots::layout::*;
pub use drover_slots::paper;

/// Bytes of the header of a request datagram, which precedes body, key hash and commit word.
pub const DATAGRAM_HEADER_BYTES: usize = 8;
