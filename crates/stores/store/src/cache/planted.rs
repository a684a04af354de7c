//! [`Mistake`]: mistakes that a cache can be built to make, so that tests can show that they would notice them.
//!
//! [`Mistaken`] is a type parameter of the partition. With the types that servers use, [`Sharing::makes`] is a constant, so
//! the compiler removes all that is here.

use super::{Cache, Found};
use crate::item::{self, Body, Head, ItemRef, Key};
use crate::sharing::Sharing;
use drover_base::Cpu;
use drover_index::Slot;
use std::collections::BTreeMap;

/// A mistake that a cache can be built to make.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Mistake {
    /// An item at the tail of a log leaves because it has been used.
    EvictsUsed,
    /// The bytes of an item that a longer one of its key has replaced are kept, and count as the item again when the tail of
    /// the log meets them.
    RenewsReplaced,
    /// A PUT of a key with a ghost stores the value that its item had when it was evicted, and not its own.
    RevivesEvicted,
}

/// Access to a partition by its owner alone, as with [`Exclusive`](crate::Exclusive), and a mistake that its cache makes.
#[derive(Clone, Default, Debug)]
pub struct Mistaken {
    mistake: Option<Mistake>,
    victims: Victims,
}

/// Values of evicted items, by their keys.
pub type Victims = BTreeMap<Vec<u8>, Vec<u8>>;

impl Sharing for Mistaken {
    fn for_buckets(_bucket_count_max: usize) -> Mistaken {
        Mistaken::default()
    }

    fn makes(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    fn victims(&mut self) -> Option<&mut Victims> {
        (self.mistake == Some(Mistake::RevivesEvicted)).then_some(&mut self.victims)
    }
}

impl Cache<Mistaken> {
    /// Makes `mistake` from now on, or none.
    pub(crate) fn plant(&mut self, mistake: Option<Mistake>) {
        self.sharing.mistake = mistake;
    }
}

impl<S: Sharing> Cache<S> {
    /// [`Mistake::EvictsUsed`]: whether the item of `slot` leaves for that reason.
    #[inline]
    pub(super) fn evicts_used(&self, slot: Slot) -> bool {
        self.sharing.makes(Mistake::EvictsUsed) && slot.uses() > 0
    }

    /// Discards the bytes at `at` of an item that a longer one has replaced; [`Mistake::RenewsReplaced`] keeps them.
    #[inline]
    pub(super) fn discard_replaced(&mut self, at: u64) {
        if !self.sharing.makes(Mistake::RenewsReplaced) {
            return self.discard(at);
        }
        self.forget(at, self.item_bytes_at(at));
    }

    /// [`Mistake::RenewsReplaced`]: gives the key of a replaced item, whose bytes are at `at`, the old value back. Returns
    /// whether the item there is a replaced one.
    #[inline]
    pub(super) fn renews_replaced<C: Cpu>(&mut self, cpu: &C, at: u64) -> bool {
        if !self.sharing.makes(Mistake::RenewsReplaced) {
            return false;
        }
        let place = self.memory.place(at);
        let bytes = &ItemRef::new(place).to_key()[..];
        let Some(hash) = item::hash_of(place, self.hasher.as_deref()) else {
            return false;
        };
        if self.slot_by_hash(cpu, hash, at).is_some() {
            return false;
        }
        if let Some(entry) = self.find_any(cpu, Key { hash, bytes }) {
            self.restore(at, entry.slot.offset());
        }
        true
    }

    /// [`Mistake::RevivesEvicted`]: remembers the item of `slot`, which leaves a ghost.
    #[inline]
    pub(super) fn remembers_evicted(&mut self, slot: Slot) {
        if let Some(victims) = self.sharing.victims() {
            let item = ItemRef::new(self.memory.place(slot.offset()));
            victims.insert(item.to_key(), item.to_value());
        }
    }

    /// [`Mistake::RevivesEvicted`]: gives the item at `at`, just stored because its key was not `found`, the value that it had
    /// before it was evicted, if that is not longer.
    #[inline]
    pub(super) fn revives_evicted(&mut self, key: Key<'_>, found: Found, ghost: Option<usize>, at: u64) {
        let Some(victims) = self.sharing.victims() else {
            return;
        };
        let place = self.memory.place(at);
        let item = ItemRef::new(place);
        let old = victims
            .remove(key.bytes)
            .filter(|old| old.len() <= item.value_len());
        let (None, Some(_), Some(old), false) = (found, ghost, old, item.has_extras()) else {
            return;
        };
        let bytes = self.item_bytes_at(at);
        let body = Body {
            version: item.version(),
            fields: item.fields(),
            value: &old[..],
        };
        item::write_body(place, key.bytes.len(), &body);
        self.skip_rest(at, bytes);
    }

    /// Copies the item at `from` over the one at `to`, if it is not longer.
    fn restore(&mut self, from: u64, to: u64) {
        let (old, new) = (self.item_bytes_at(from), self.item_bytes_at(to));
        if old > new {
            return;
        }
        self.memory
            .place(from)
            .move_words(self.memory.place(to), old as usize);
        self.skip_rest(to, new);
    }

    /// Skips what is left of `bytes` at `at` behind a shorter item there.
    fn skip_rest(&mut self, at: u64, bytes: u64) {
        let own = self.item_bytes_at(at);
        if own < bytes {
            item::write_skip(self.memory.place(at + own), (bytes - own) as usize);
            self.forget(at, bytes - own);
        }
    }

    fn item_bytes_at(&self, at: u64) -> u64 {
        Head::load(self.memory.place(at)).bytes() as u64
    }
}
