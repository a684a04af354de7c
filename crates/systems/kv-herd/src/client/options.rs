//! [`ClientOptions`].

use crate::control::FrontEnd;
use drover_base::Ns;

/// Options of a client. The server may grant a smaller window and shorter slots.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// Slots requested per partition, so at most as many requests are in flight there. The server rounds the number
    /// down to a power of two, at least 1 and at most 256. 16 hides the round trip of shared memory.
    pub window: usize,
    /// Bytes requested per slot. The server rounds the number down to a multiple of 64, at least 64 and at most 1024;
    /// 65536 and more are no valid numbers. An item travels in one WRITE if key, value and 24 bytes fit into a slot (4
    /// more with a time to live, 4 more with a checksum). Of a longer item, the key and 40 bytes must fit, 44 with a
    /// checksum: with slots below 320, the longest keys are refused as `TooLarge`.
    pub slot_bytes: usize,
    /// Transport of requests: WRITEs into slots, or datagrams. While the server has no slots left, a client that asks
    /// for slots sends datagrams instead, unless it uses the format of HERD's paper.
    pub front_end: FrontEnd,
    /// Whether requests have a checksum even on fabrics that do not need one. If false, the server may still require
    /// it. Without effect in the format of HERD's paper.
    pub crc: bool,
    /// Timeout of an operation, from its submission: without a result by then it ends as `Indeterminate` (a PUT or
    /// DELETE whose request is posted and not answered) or `Refused(Unavailable)`. A long value that is being moved is
    /// not interrupted, and ends later.
    pub deadline: Ns,
    /// Number of staged requests at which `submit` posts them, without waiting for the next poll. 0: the fabric's
    /// [preferred number](drover_verbs::Caps::post_batch) or half a window (clamped to 8 to 32), whichever is larger.
    /// Lowered to the number of requests that the send queue takes between two completions, at most 64.
    pub post_batch: usize,
    /// Maximum number of operations that wait for a session or for an earlier operation on their key; `submit` refuses
    /// further ones with `WindowFull`. It also refuses a PUT of a long value while this many long values are in
    /// progress. Numbers above 16384 count as 16384.
    pub waiting_max: usize,
    /// Maximum number of values of more than 32 KiB moved at a time, clamped to 1 to 64. For each, client and server
    /// allocate memory of the size of the server's item limit, with the first long value of every session; and 32 KiB for
    /// each operation of a window, at most 64, for shorter values.
    pub bulk_chunks: u8,
    /// Whether each session has a background thread that sends heartbeats while the client is not polled, so that the
    /// server keeps the session.
    pub keeper: bool,
    /// Secret sent to the server, at most 256 bytes (the server refuses longer ones); empty if it requires none.
    pub auth: Vec<u8>,
}

impl ClientOptions {
    /// Numbers of long and of short chunks for long values.
    pub(super) fn chunk_counts(&self) -> (u8, u8) {
        (self.bulk_chunks.clamp(1, 64), self.window.clamp(1, 64) as u8)
    }
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
