//! [`Watch`]: reports evicted items.

use super::Cache;
use crate::item::ItemRef;
use crate::sharing::Sharing;
use drover_index::Slot;

/// Most unreported items; further evictions are not reported until the list is taken.
const TOLD_LATER_MAX: usize = 256;

/// Key, length and times of an item that was evicted to make space for another; its value is gone.
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
    /// Whether the item was read since it was stored.
    pub fetched: bool,
}

/// Evicted items that the caller has not taken yet.
#[derive(Debug, Default)]
pub(super) struct Watch {
    evicted: Vec<Evicted>,
}

impl<S: Sharing> Cache<S> {
    /// Starts to watch, unless it does already.
    pub(crate) fn watch_evictions(&mut self) {
        self.watch.get_or_insert_default();
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

    /// Records the item of `slot`, which is about to be evicted.
    #[inline]
    pub(super) fn note_evicted(&mut self, slot: Slot) {
        if let Some(watch) = &mut self.watch
            && watch.evicted.len() < TOLD_LATER_MAX
        {
            let item = ItemRef::new(self.memory.place(slot.offset()));
            watch.evicted.push(Evicted {
                key: item.to_key(),
                value_len: item.value_len(),
                expire_s: item.expire_s(),
                accessed_s: item.accessed_s(),
                fetched: slot.is_read(),
            });
        }
    }
}
