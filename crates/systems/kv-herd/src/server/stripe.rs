//! [`Stripe`]: where a client's slots for one partition are, and what fits into them.

use crate::layout::SlotMap;

/// The slots of one client for one partition.
pub(super) struct Stripe {
    /// Its first byte in the client's slots.
    start: u64,
    slot_bytes: u64,
    window: u32,
    body_bytes_max: usize,
    plain_bytes_max: usize,
    inline_bytes_max: usize,
}

impl Stripe {
    /// The slots of `map` for partition `partition_index`. Requests must have a checksum if `crc_required`; replies travel
    /// inline up to `inline_bytes_max`.
    pub(super) fn new(
        map: &SlotMap,
        partition_index: usize,
        crc_required: bool,
        inline_bytes_max: usize,
    ) -> Stripe {
        let body_bytes_max = map.body_bytes_max();
        Stripe {
            start: map.slot_offset(partition_index, 0) as u64,
            slot_bytes: map.slot_bytes as u64,
            window: map.window as u32,
            body_bytes_max,
            plain_bytes_max: if crc_required { 0 } else { body_bytes_max },
            inline_bytes_max: body_bytes_max.min(inline_bytes_max),
        }
    }

    #[inline(always)]
    pub(super) fn slot_bytes(&self) -> u64 {
        self.slot_bytes
    }

    /// How many slots there are.
    #[inline(always)]
    pub(super) fn window(&self) -> u32 {
        self.window
    }

    /// Longest body of a request.
    #[inline(always)]
    pub(super) fn body_bytes_max(&self) -> usize {
        self.body_bytes_max
    }

    /// The same for requests without a checksum: 0 if there must be one.
    #[inline(always)]
    pub(super) fn plain_bytes_max(&self) -> usize {
        self.plain_bytes_max
    }

    /// Longest value that travels inline in a reply.
    #[inline(always)]
    pub(super) fn inline_bytes_max(&self) -> usize {
        self.inline_bytes_max
    }

    /// Where the commit word of `slot` is.
    #[inline(always)]
    pub(super) fn commit_at(&self, slot: u32) -> u64 {
        self.start + u64::from(slot + 1) * self.slot_bytes - 8
    }
}
