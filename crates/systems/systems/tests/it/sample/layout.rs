//! Every byte that is read or sent, and what a reader decides from a slot.
//!
//! | offset | size | of a slot | |
//! |---|---|---|---|
//! | 0 | 16 | hash of the key | |
//! | 16 | 1 | length of the value | |
//! | 24 | 32 | value | |
//! | 56 | 8 | check word | over the bytes before it |

use drover_base::{KeyHash, mix};
use drover_control::kind;
use drover_one_sided::{ServerParams, Status};
use drover_verbs::Export;

/// Bytes of a slot.
pub const SLOT_BYTES: usize = 64;
/// Longest value that a slot holds.
pub const INLINE_BYTES: usize = 32;

/// A slot.
pub type Slot = [u8; SLOT_BYTES];

fn check_word(body: &[u8]) -> [u8; 8] {
    body.iter()
        .fold(1, |sum, byte| mix(sum ^ u64::from(*byte)))
        .to_le_bytes()
}

/// The slot of a key with this value.
pub fn seal(hash: KeyHash, value: &[u8]) -> Slot {
    let mut slot = [0; SLOT_BYTES];
    slot[..16].copy_from_slice(&hash.to_bytes());
    slot[16] = value.len() as u8;
    slot[24..24 + value.len()].copy_from_slice(value);
    let check = check_word(&slot[..56]);
    slot[56..].copy_from_slice(&check);
    slot
}

/// Whose slots a reader believes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Trust {
    /// Those that are whole and its key's.
    #[default]
    Own,
    /// Any that is whole: the mistake that campaigns must find.
    Any,
}

/// The value in `slot`, if that is the slot of a key with this hash. If not, only the server knows.
pub fn open(slot: &Slot, hash: KeyHash, trust: Trust) -> Option<&[u8]> {
    let is_whole = slot[56..] == check_word(&slot[..56]);
    let is_own = slot[..16] == hash.to_bytes();
    let value = slot[24..56].get(..usize::from(slot[16]));
    value.filter(|_| is_whole && (is_own || trust == Trust::Any))
}

/// Bytes of a reply before its value.
pub const REPLY_HEADER_BYTES: usize = 16;

/// A reply's header: status, slot, sequence.
#[derive(Clone, Copy)]
pub struct Reply {
    /// What came of it.
    pub status: Status,
    /// The place of the operation.
    pub slot: u16,
    /// Sequence number of the request.
    pub sequence: u64,
}

impl Reply {
    /// As it travels.
    pub fn encode(&self) -> [u8; REPLY_HEADER_BYTES] {
        let mut bytes = [0; REPLY_HEADER_BYTES];
        bytes[0] = self.status as u8;
        bytes[2..4].copy_from_slice(&self.slot.to_le_bytes());
        bytes[8..].copy_from_slice(&self.sequence.to_le_bytes());
        bytes
    }

    /// The reply in `message`, and its value.
    pub fn decode(message: &[u8]) -> Option<(Reply, &[u8])> {
        let (bytes, value) = message.split_first_chunk::<REPLY_HEADER_BYTES>()?;
        let reply = Reply {
            status: Status::decode(bytes[0])?,
            slot: u16::from_le_bytes([bytes[2], bytes[3]]),
            sequence: u64::from_le_bytes(bytes[8..].try_into().expect("8 bytes")),
        };
        Some((reply, value))
    }
}

/// The server's answer to a client's first word.
pub struct Welcome {
    /// What all servers say.
    pub terms: ServerParams,
    /// The slots, to READ; a power of two of them.
    pub slots: Export,
    /// RC.
    pub qp: Export,
}

drover_control::message!(kind::APPLICATION + 1 => Welcome { terms, slots, qp });

/// The client's end.
pub struct Attach {
    /// RC.
    pub qp: Export,
}

drover_control::message!(kind::APPLICATION + 2 => Attach { qp });
