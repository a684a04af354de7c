//! [`ClientOptions`].

use crate::control::FrontEnd;
use drover_base::Ns;

/// How a client wants to work. The server may give less window and other slots.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// Operations under way per partition: a power of two up to 256. 16 hides the round trip of shared memory.
    pub window: usize,
    /// Bytes per slot, a multiple of 64 up to 1024: items whose key, value and 24 bytes fit travel in one WRITE.
    /// Of longer items the key must fit with 40 bytes beside it, 44 with a checksum: below 320, the longest keys
    /// are refused as `TooLarge`.
    pub slot_bytes: usize,
    /// WRITEs into slots, or datagrams. A client that wants slots sends datagrams (but for one of the paper's format) as long as the
    /// server has no slots left.
    pub front_end: FrontEnd,
    /// Checksums in request bodies even where the fabric does not need them.
    pub crc: bool,
    /// An operation that has no result after this time gets `Indeterminate` or `Refused(Unavailable)`.
    pub deadline: Ns,
    /// Staged requests that are posted without waiting for the next poll; 0: as the fabric likes it, at least 8
    /// and, in large windows, half a window up to 32. Never more than the send queue has between two completions.
    pub post_batch: usize,
    /// Operations that may wait (for a session, or for an earlier operation on their key) before `submit`
    /// says `WindowFull`. At most 16384.
    pub waiting_max: usize,
    /// Large values in flight at a time, 1 to 64; each holds memory of the server's item limit on both sides.
    pub bulk_chunks: u8,
    /// A small thread sends heartbeats when nobody polls for a while. For clients that rest between calls.
    pub keeper: bool,
    /// What the server's operator asks for, at most 256 bytes.
    pub auth: Vec<u8>,
}

impl Default for ClientOptions {
    fn default() -> ClientOptions {
        ClientOptions {
            window: 16,
            slot_bytes: 1024,
            front_end: FrontEnd::Slots,
            crc: false,
            deadline: Ns::from_s(5),
            post_batch: 0,
            waiting_max: 256,
            bulk_chunks: 4,
            keeper: false,
            auth: Vec::new(),
        }
    }
}
