//! [`Status`]: what a server says to a [`Request`](crate::Request), the first word of a reply, whatever else that has.

use drover_kv::{OpKind, Outcome, Refusal};

/// What came of a request. A system whose servers do not say one of these takes it for a refusal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Status {
    /// PUT: done.
    Stored = 1,
    /// DELETE: done.
    Deleted = 2,
    /// GET, DELETE: no such key.
    NotFound = 3,
    /// GET: the value is in the reply.
    Value = 4,
    /// GET: READ the record that the reply names.
    Location = 5,
    /// GET: the value is where the client wanted it.
    Written = 6,
    /// GET: the value is longer than the reply and the space.
    Long = 7,
    /// No memory for the item.
    Full = 8,
    /// The item would be longer than the server allows.
    TooLarge = 9,
    /// The request contradicts itself.
    BadRequest = 10,
    /// The table has no place for another key.
    TableFull = 11,
}

impl Status {
    const ALL: [Status; 11] = [
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
    ];

    /// What `byte` stands for, if for anything.
    pub fn decode(byte: u8) -> Option<Status> {
        Status::ALL.get(usize::from(byte).wrapping_sub(1)).copied()
    }

    /// What it means to an operation of `kind`; `None`: a GET for which the rest of the reply counts.
    pub fn outcome(self, kind: OpKind) -> Option<Outcome<'static>> {
        Some(match (self, kind) {
            (Status::Stored, OpKind::Put) => Outcome::Stored,
            (Status::Deleted, OpKind::Delete) => Outcome::Deleted,
            (Status::NotFound, OpKind::Get | OpKind::Delete) => Outcome::NotFound,
            (Status::Value | Status::Location | Status::Written | Status::Long, OpKind::Get) => {
                return None;
            }
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
                None => assert!(byte == 0 || byte > Status::TableFull as u8),
            }
        }
    }
}
