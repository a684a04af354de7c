//! [`Watch`]: reports evicted items.

use crate::item::ItemRef;
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

/// Evicted items that the caller has not taken yet, while somebody watches.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    evicted: Option<Vec<Evicted>>,
}

impl Watch {
    /// Starts to watch, unless it does already.
    pub(crate) fn begin(&mut self) {
        self.evicted.get_or_insert_default();
    }

    pub(crate) fn end(&mut self) {
        self.evicted = None;
    }

    /// Takes the items evicted since the last call.
    pub(crate) fn take(&mut self) -> Vec<Evicted> {
        self.evicted.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Records an item that is about to be evicted; `slot` is its entry.
    #[inline]
    pub(crate) fn note(&mut self, item: ItemRef<'_>, slot: Slot) {
        if let Some(evicted) = &mut self.evicted
            && evicted.len() < TOLD_LATER_MAX
        {
            evicted.push(Evicted {
                key: item.to_key(),
                value_len: item.value_len(),
                expire_s: item.expire_s(),
                accessed_s: item.accessed_s(),
                fetched: slot.is_read(),
            });
        }
    }
}
