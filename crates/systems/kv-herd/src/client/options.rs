//! [`ClientOptions`].

use crate::control::FrontEnd;
use drover_base::Ns;

/// Options of a client. The server may grant a smaller window and shorter slots.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// Slots requested per partition, so requests in flight there: a power of two up to 256 (the server rounds other
    /// numbers down). 16 hides the round trip of shared memory.
    pub window: usize,
    /// Bytes requested per slot, a multiple of 64 up to 1024. An item travels in one WRITE if key, value and 24 bytes
    /// fit into a slot (4 more with a time to live, 4 more with a checksum). Of a longer item, the key and 40 bytes
    /// must fit, 44 with a checksum: with slots below 320, the longest keys are refused as `TooLarge`.
    pub slot_bytes: usize,
    /// WRITEs into slots, or datagrams. While the server has no slots left, a client that wants slots sends datagrams
    /// instead, unless it speaks the paper's format.
    pub front_end: FrontEnd,
    /// Whether requests have a checksum even on fabrics that do not need one. If false, the server may still require
    /// it.
    pub crc: bool,
    /// Timeout of an operation, from its submission: without a result by then it ends as `Indeterminate` (a PUT or
    /// DELETE that was posted) or `Refused(Unavailable)`. A long value that is being moved is not interrupted.
    pub deadline: Ns,
    /// Number of staged requests at which `submit` posts them, without waiting for the next poll. 0: the fabric's
    /// preferred number or half a window (clamped to 8 to 32), whichever is larger. Never more than the send queue
    /// takes between two completions.
    pub post_batch: usize,
    /// Maximum number of operations that wait for a session or for an earlier operation on their key; further ones are
    /// refused with `WindowFull`. The same limit applies to long values under way. Larger numbers than 16384 count as
    /// 16384.
    pub waiting_max: usize,
    /// Maximum number of long values moved at a time, clamped to 1 to 64. Each takes memory of the size of the server's
    /// item limit at both ends, allocated with the first long value.
    pub bulk_chunks: u8,
    /// Whether a background thread sends heartbeats while the client is not polled, so that the server keeps the
    /// session.
    pub keeper: bool,
    /// Secret sent to the server, at most 256 bytes; empty if the server requires none.
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
