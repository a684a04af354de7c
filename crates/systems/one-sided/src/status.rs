//! [`Status`]: a server's result for a [`Request`](crate::Request), in every reply.

use drover_kv::{OpKind, Outcome, Refusal};

/// Result of a request. A client treats a status that its system does not use as a refusal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Status {
    /// PUT: the value is stored.
    Stored = 1,
    /// DELETE: the key existed and is removed.
    Deleted = 2,
    /// The key does not exist, or has expired. For a PUT: its condition required it to exist.
    NotFound = 3,
    /// GET: the value is in the reply.
    Value = 4,
    /// GET, Pilaf only: the client must READ the record that the reply names.
    Location = 5,
    /// GET, FaRM-KV only: the server has WRITTEN the value to the client's memory.
    Written = 6,
    /// GET, FaRM-KV only: the value is too long for the reply and for the client's space; the client asks again with
    /// more.
    Long = 7,
    /// PUT: there is no memory for the item, and none can be made by eviction.
    Full = 8,
    /// PUT: the item exceeds the server's item limit.
    TooLarge = 9,
    /// The request is malformed or inconsistent.
    BadRequest = 10,
    /// PUT: the table has no place for another key, and none can be made by eviction.
    TableFull = 11,
    /// GET, RDMA-Memcached only: the client must READ the value where the reply says, in the server's memory.
    InPlace = 12,
    /// Jakiro, ServerReply: the shard does not own the key; the reply has the epoch of its map.
    Elsewhere = 13,
    /// Touch: the key exists, and expires as asked for.
    Touched = 14,
    /// PUT, DELETE: the key exists, and the condition required it not to, or to have another version.
    Exists = 15,
}

impl Status {
    const ALL: [Status; 15] = [
        Status::Stored,
        Status::Deleted,
        Status::NotFound,
        Status::Value,
        Status::Location,
        Status::Written,
        Status::Long,
        Status::Full,
        Status::TooLarge,
        Status::BadRequest,
        Status::TableFull,
        Status::InPlace,
        Status::Elsewhere,
        Status::Touched,
        Status::Exists,
    ];

    /// The status with code `byte`; `None` if there is none.
    pub fn decode(byte: u8) -> Option<Status> {
        Status::ALL.get(usize::from(byte).wrapping_sub(1)).copied()
    }

    /// The outcome for an operation of `kind`; `None` for a GET with `Value`, `Location`, `Written`, `Long` or `InPlace`, whose
    /// outcome depends on the rest of the reply. A status that does not suit `kind` is a refusal with `BadRequest`.
    #[inline]
    pub fn outcome(self, kind: OpKind) -> Option<Outcome<'static>> {
        Some(match (self, kind) {
            (Status::Stored, OpKind::Put) => Outcome::Stored,
            (Status::Deleted, OpKind::Delete) => Outcome::Deleted,
            (Status::Touched, OpKind::Touch) => Outcome::Touched,
            (Status::NotFound, _) => Outcome::NotFound,
            (Status::Exists, OpKind::Put | OpKind::Delete) => Outcome::Exists,
            (
                Status::Value | Status::Location | Status::Written | Status::Long | Status::InPlace,
                OpKind::Get,
            ) => return None,
            (Status::Full, _) => Outcome::Refused(Refusal::Full),
            (Status::TableFull, _) => Outcome::Refused(Refusal::TableFull),
            (Status::TooLarge, _) => Outcome::Refused(Refusal::TooLarge),
            _ => Outcome::Refused(Refusal::BadRequest),
        })
    }
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Status {
        match refusal {
            Refusal::TooLarge => Status::TooLarge,
            Refusal::Full => Status::Full,
            Refusal::TableFull => Status::TableFull,
            _ => Status::BadRequest,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_the_status_that_it_encodes_or_none() {
        for byte in 0..=255 {
            match Status::decode(byte) {
                Some(status) => assert_eq!(status as u8, byte),
                None => assert!(byte == 0 || byte > Status::Exists as u8),
            }
        }
    }
}
