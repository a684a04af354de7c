//! Requests as records that a client WRITEs into a ring of its own at the server, replies WRITTEN into the client's
//! mailbox. Little-endian throughout.
//!
//! ```text
//! at the server, per client   ring:     | record | record | ... | filler |              client WRITEs, server polls
//! at the client, per server   mailbox:  | notice, 1 line | reply of slot 0 | of slot 1  server WRITEs, client polls
//! ```
//! - [`Sender`] and [`Receiver`] know positions only: where the next record goes, and where it arrives.
//! - [`Inbox`] is the server's end in memory, [`Mailbox`] the client's.
//!
//! There are no verbs here: who posts them and when is the caller's business.

mod inbox;
mod mailbox;
mod position;
mod record;
mod reply;

pub use inbox::Inbox;
#[doc(hidden)]
pub use inbox::fuzz_ring;
#[doc(hidden)]
pub use mailbox::fuzz_mailbox;
pub use mailbox::{BadReply, Mailbox, NOTICE_BYTES, ValuePlace};
pub use position::{BadHead, BadRecord, Next, Placed, RING_BYTES, Receiver, Sender};
pub use record::{
    FILLER, Header, RECORD_HEADER_BYTES, encode_record, filler_word, is_whole, record_bytes, trailer,
};
pub use reply::{REPLY_TRAILER_BYTES, Reply, reply_sum};
