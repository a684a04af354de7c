//! Layout of all data that is read or written: records of the ring, the requests in them, replies. Little-endian
//! throughout. For table and objects see [`drover_index::hopscotch`].
//!
//! ```text
//! at the server, per client   ring:     | record | record | ... | filler |              client WRITEs, server polls
//! at the client, per shard    mailbox:  | notice, 1 line | reply of slot 0 | of slot 1  server WRITEs, client polls
//!                             values:   | large buffer 0 | large buffer 1 |             server READs and WRITEs
//! ```

mod message;
mod record;

pub use drover_one_sided::{REQUEST_HEADER_BYTES, Request, RequestKind, Status};
pub use message::{REPLY_TRAILER_BYTES, Reply, reply_sum};
pub use record::{
    FILLER, Header, RECORD_HEADER_BYTES, encode_record, filler_word, is_whole, record_bytes, trailer,
};

/// Bytes of a client's mailbox before the first reply. The first word is the notice: the number of bytes of the ring
/// that the server has consumed since the session began. The server WRITEs it after each half ring.
pub const NOTICE_BYTES: usize = 64;

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}
