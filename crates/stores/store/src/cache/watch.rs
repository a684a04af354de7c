//! [`Watch`]: reports evicted items. The index removes entries lazily, when the log has already overwritten their
//! items; so the watch inspects the items that the head is about to overwrite.

use super::Cache;
use crate::item::{Head, ItemRef};
use crate::sharing::Sharing;
use drover_base::KeyHash;
use drover_index::Slot;
use std::fmt;

/// Most unreported items; further evictions are not reported until the list is taken.
const TOLD_LATER_MAX: usize = 256;

/// Key, length and times of an item that was evicted to make space for another; its value is gone. It may have expired
/// before.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Evicted {
    /// The item's key; empty if the hash is the key.
    pub key: Vec<u8>,
    /// Length of the value in bytes.
    pub value_len: usize,
    /// Time at which the item expires or expired, in seconds since the server's start; 0 = never.
    pub expire_s: u32,
    /// Time at which the item was stored or last read by a memcached client, in seconds since the server's start; 0 if
    /// not recorded.
    pub accessed_s: u32,
    /// Whether a memcached client has read the item since it was stored.
    pub fetched: bool,
}

impl Evicted {
    fn of(item: ItemRef<'_>) -> Evicted {
        Evicted {
            key: item.to_key(),
            value_len: item.value_len(),
            expire_s: item.expire_s(),
            accessed_s: item.accessed_s(),
            fetched: item.is_fetched(),
        }
    }
}

/// Hashes keys as for the partition: items with a key do not store its hash.
pub(crate) type HashOf = Box<dyn Fn(&[u8]) -> KeyHash + Send + Sync>;

/// State of a watch.
pub(crate) struct Watch {
    hash_of: HashOf,
    /// Virtual offset of an item; all items appended before it are gone or not counted.
    tail: u64,
    evicted: Vec<Evicted>,
}

impl<S: Sharing, const BITS: u32> Cache<S, BITS> {
    pub(crate) fn is_watched(&self) -> bool {
        self.watch.is_some()
    }

    /// Starts to watch. Costs a scan of the whole index.
    pub(crate) fn watch_evictions(&mut self, hash_of: HashOf) {
        let head = self.log.head();
        let buckets = (0..self.table.bucket_count()).map(|index| self.table.bucket_at(index));
        let slots = buckets.flat_map(|bucket| bucket.slots());
        let live = slots.filter(|slot| !slot.is_empty() && slot.is_within(head, self.live));
        // The oldest existing item: from it to the head, items are contiguous.
        let oldest = live.map(|slot| slot.distance(head)).max().unwrap_or(0);
        self.watch = Some(Box::new(Watch {
            hash_of,
            tail: head - oldest,
            evicted: Vec::new(),
        }));
    }

    pub(crate) fn unwatch_evictions(&mut self) {
        self.watch = None;
    }

    /// Takes the items evicted since the last call.
    pub(crate) fn take_evicted(&mut self) -> Vec<Evicted> {
        self.watch
            .as_mut()
            .map_or_else(Vec::new, |watch| std::mem::take(&mut watch.evicted))
    }

    /// Records the items that an item of `need` bytes will overwrite, except the one at `own`, which it replaces.
    #[cold]
    #[inline(never)]
    pub(super) fn note_evictions(&mut self, need: usize, own: Option<u64>) {
        let Some(mut watch) = self.watch.take() else {
            return;
        };
        let (before, size) = (self.log.head(), self.log.size());
        let left = size - (before & (size - 1));
        let need = need as u64;
        let head = before + need + if left < need { left } else { 0 };
        while watch.tail < before && head - watch.tail > size {
            let place = self.log.place(watch.tail);
            let word = Head::load(place);
            if !word.is_skip()
                && own != Some(Slot::<BITS>::new(1, watch.tail).offset())
                && self.has_slot_for(watch.tail, &watch.hash_of)
            {
                watch.note(ItemRef::new(place));
            }
            watch.tail += word.step() as u64;
        }
        self.watch = Some(watch);
    }

    /// Records that another item takes the slot of this one.
    #[cold]
    pub(super) fn note_displaced(&mut self, slot: Slot<BITS>) {
        let offset = self.log.head() - slot.distance(self.log.head());
        if let Some(mut watch) = self.watch.take() {
            // An item before the tail is one that the head is about to overwrite, too: it is recorded already.
            if offset >= watch.tail {
                watch.note(ItemRef::new(self.log.place(offset)));
            }
            self.watch = Some(watch);
        }
    }

    fn has_slot_for(&self, offset: u64, hash_of: &HashOf) -> bool {
        let item = ItemRef::new(self.log.place(offset));
        let hash = item.hash_key().unwrap_or_else(|| hash_of(&item.to_key()));
        let slots = self.table.bucket(hash).slots();
        let wanted = Slot::<BITS>::new(hash.tag(), offset);
        slots.into_iter().any(|slot| slot.word() == wanted.word())
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch")
            .field("tail", &self.tail)
            .field("evicted", &self.evicted)
            .finish_non_exhaustive()
    }
}

impl Watch {
    fn note(&mut self, item: ItemRef<'_>) {
        if self.evicted.len() < TOLD_LATER_MAX {
            self.evicted.push(Evicted::of(item));
        }
    }
}
