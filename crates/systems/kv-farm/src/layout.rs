//! Layout of all data that is read or written. For the ring's records, the mailbox and replies see
//! [`drover_rpc::ring`], for table and objects [`drover_index::hopscotch`].
//!
//! A request is the payload of a record: a [`Request`]. Its slot selects the reply's place in the mailbox; its sequence
//! is never 0, and unique within a session. The code of a reply is a [`Status`]. At the client, next to the mailbox:
//!
//! ```text
//! values:   | large buffer 0 | large buffer 1 |             server READs and WRITEs
//! ```

use drover_rpc::ring::ValuePlace;

pub use drover_one_sided::{REQUEST_HEADER_BYTES, Request, RequestKind, Status};

/// Where the value is that a reply with code `code` is about; `None` if there is no such status.
pub fn value_place(code: u8) -> Option<ValuePlace> {
    Some(match Status::decode(code)? {
        Status::Value => ValuePlace::Reply,
        Status::Written => ValuePlace::Space,
        _ => ValuePlace::Nowhere,
    })
}
