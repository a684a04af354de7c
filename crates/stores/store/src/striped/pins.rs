//! [`Pin`]: an item that peers READ in place keeps its memory, whatever becomes of its key.

use super::{BUCKET_AND_PINS, StripedGuards, StripedStore};
use crate::item::{ItemRef, Key};
use drover_base::Cpu;

/// Bits of the word before an item that number its bucket.
const BUCKET_MASK: u64 = u32::MAX as u64;
/// One pin.
const PIN: u64 = 1 << 32;
/// The item is in the index no more.
const REMOVED: u64 = 1 << 63;

/// An item whose memory nobody writes until it is [unpinned](StripedStore::unpin).
#[derive(PartialEq, Eq, Debug)]
#[must_use = "memory that stays pinned is lost"]
pub struct Pin {
    offset: u64,
    /// Where the value is, from the start of the store's region.
    pub value_offset: u64,
    /// Length of the value, bytes.
    pub value_bytes: usize,
    /// The item's version.
    pub version: u64,
    /// Flags that were stored with the value.
    pub flags: u32,
}

impl<G: StripedGuards> StripedStore<G> {
    /// Pins the key's item. `None`: there is none any more, or it has expired.
    pub fn pin<C: Cpu>(&self, cpu: &C, key: Key<'_>, now_s: u32) -> Option<Pin> {
        let (_stripe, found) = self.lock_live(cpu, key, now_s);
        let (_, offset) = found?;
        if G::PINS {
            let word = self.memory.load(offset - BUCKET_AND_PINS);
            self.memory.store(offset - BUCKET_AND_PINS, word + PIN);
        }
        let item = ItemRef::new(self.memory.place(offset));
        Some(Pin {
            offset,
            value_offset: offset + item.value_start() as u64,
            value_bytes: item.value_len(),
            version: item.cas(),
            flags: item.flags(),
        })
    }

    /// Gives a pinned item back: the last pin of one that was replaced, deleted or evicted meanwhile frees it.
    pub fn unpin<C: Cpu>(&self, cpu: &C, pin: Pin) {
        if !G::PINS {
            return;
        }
        let at = pin.offset - BUCKET_AND_PINS;
        // A pinned item has its bucket.
        let _stripe = self.lock(cpu, self.memory.load(at) & BUCKET_MASK);
        let word = self.memory.load(at) - PIN;
        self.memory.store(at, word);
        if word & !BUCKET_MASK == REMOVED {
            self.space.lock(cpu).free(pin.offset);
        }
    }

    #[inline]
    pub(super) fn is_pinned(&self, offset: u64) -> bool {
        self.memory.load(offset - BUCKET_AND_PINS) & !BUCKET_MASK != 0
    }

    /// Lets the last pin of an item that has left the index free it; `false` if it has none.
    #[inline]
    pub(super) fn keep_if_pinned(&self, offset: u64) -> bool {
        let is_pinned = self.is_pinned(offset);
        if is_pinned {
            let word = self.memory.load(offset - BUCKET_AND_PINS);
            self.memory.store(offset - BUCKET_AND_PINS, word | REMOVED);
        }
        is_pinned
    }

    /// Number of the bucket that the word before `offset` says, which is right if an item is there.
    pub(super) fn bucket_of(&self, offset: u64) -> u64 {
        self.memory.load(offset - BUCKET_AND_PINS) & BUCKET_MASK
    }
}
