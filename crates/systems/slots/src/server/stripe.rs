//! [`Stripe`]: location and size of a client's slots for one partition.

use crate::layout::SlotMap;

/// Location, sizes and limits of one client's slots for one partition; it does not own their memory.
#[derive(Clone, Debug)]
pub struct Stripe {
    /// Offset of its first byte in the client's slots.
    start: u64,
    slot_bytes: u64,
    window: u32,
    body_bytes_max: usize,
    plain_bytes_max: usize,
    inline_bytes_max: usize,
}

impl Stripe {
    /// Describes the slots of `map` for partition `partition_index`. If `crc_required`, every request must have a
    /// checksum. Values of up to `inline_bytes_max` bytes are sent inline in replies.
    pub fn new(map: &SlotMap, partition_index: usize, crc_required: bool, inline_bytes_max: usize) -> Stripe {
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

    /// Bytes of a slot.
    #[inline(always)]
    pub fn slot_bytes(&self) -> u64 {
        self.slot_bytes
    }

    /// Number of slots.
    #[inline(always)]
    pub fn window(&self) -> u32 {
        self.window
    }

    /// Longest body of a request, with its ttl, key and checksum; bytes.
    #[inline(always)]
    pub fn body_bytes_max(&self) -> usize {
        self.body_bytes_max
    }

    /// Longest body of a request without a checksum, bytes; 0 if a checksum is required.
    #[inline(always)]
    pub fn plain_bytes_max(&self) -> usize {
        self.plain_bytes_max
    }

    /// Longest value that is sent inline in a reply, bytes; at most [`body_bytes_max`](Stripe::body_bytes_max).
    #[inline(always)]
    pub fn inline_bytes_max(&self) -> usize {
        self.inline_bytes_max
    }

    /// Offset of the commit word of this partition's slot number `slot`, bytes from the start of the client's region,
    /// which holds its slots for all partitions.
    #[inline(always)]
    pub fn commit_at(&self, slot: u32) -> u64 {
        self.start + u64::from(slot + 1) * self.slot_bytes - 8
    }
}
