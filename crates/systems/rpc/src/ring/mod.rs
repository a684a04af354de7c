//! Requests as records that a client WRITEs into a ring of its own at the server, replies WRITTEN into the client's
//! mailbox. Little-endian throughout.
//!
//! ```text
//! at the server, per client   ring:     | record | record | ... | filler |              client WRITEs, server polls
//! at the client, per server   mailbox:  | notice, 1 line | reply of slot 0 | of slot 1  server WRITEs, client polls
//! ```
//! - [`Sender`] and [`Receiver`] know positions only: where the next record goes, and where it arrives.
//! - [`Inbox`] is the server's end in memory, [`Mailbox`] the client's.
//! - [`RingServer`] and [`RingClient`] are both ends with their verbs, which they stage in the connection's queues.

mod client;
mod inbox;
mod mailbox;
mod position;
mod record;
mod reply;
mod server;

use drover_rt::ResourceError;

pub use client::{FILLERS_MAX, RingClient};
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
pub use server::RingServer;

/// Kind of work request of a client, the upper half of its id: a record; the index is the slot.
pub const SENT: u64 = 0;
/// Kind of work request of a server: a reply; the index is that of its buffer.
pub const REPLY: u64 = 0;
/// Kind of work request of a server: the notice.
pub const NOTICE: u64 = 1 << 32;
/// First kind of work request that this module does not use.
pub const KIND_FREE: u64 = 2 << 32;

/// What the ends of a connection agree on.
#[derive(Clone, Copy, Debug)]
pub struct RingParams {
    /// Length of the ring, bytes: a multiple of 64.
    pub ring_bytes: usize,
    /// Longest request, bytes; its record takes at most a quarter of the ring.
    pub request_bytes: usize,
    /// Space for a reply with its trailer, bytes: a multiple of 64.
    pub reply_bytes: usize,
    /// Number of the client's slots.
    pub slot_count: usize,
    /// Whether records and replies carry checksums, because one of the fabrics may show the bytes of a WRITE in any
    /// order.
    pub sums: bool,
}

impl RingParams {
    /// Checks what a server said.
    fn check(&self) -> Result<(), ResourceError> {
        let (ring, request, reply) = (self.ring_bytes, self.request_bytes, self.reply_bytes);
        let is_ring = ring.is_multiple_of(64)
            && ring <= 1 << 24
            && request <= ring
            && record_bytes(request) <= ring / 4;
        let is_mailbox = reply.is_multiple_of(64) && reply <= 1 << 20 && reply > REPLY_TRAILER_BYTES;
        match (is_ring, is_mailbox) {
            (true, true) => Ok(()),
            (false, _) => Err(ResourceError::Unusable { what: "ring" }),
            (_, false) => Err(ResourceError::Unusable { what: "mailbox" }),
        }
    }
}
