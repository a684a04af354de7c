//! [`Frozen`]: what a partition's memory does not say of it, and how memory is held against what it was.
//!
//! Two digests, in the order in which they can be trusted: the index first, word by word, whatever is in it; and only
//! when it is what it was, the items that it names, byte by byte. So nothing follows a link or believes a length that
//! nobody wrote.

use crate::VALUE_BYTES_MAX;
use crate::item::Lens;
use drover_index::{STORE_SLOTS, Slot};
use drover_mem::{MaskedRef, MaskedRegion};
use std::sync::atomic::Ordering;

/// Why a partition begins anew and not where another stopped. One line each.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Doubt {
    /// Nobody left anything.
    #[error("it was not left by a clean stop")]
    NoRecord,
    /// What describes it is damaged.
    #[error("its description is {0}")]
    Record(&'static str),
    /// It was made under other settings.
    #[error("{what} was {was} and is {is}")]
    Differs {
        /// Which.
        what: &'static str,
        /// As it was.
        was: u64,
        /// As it is wanted.
        is: u64,
    },
    /// Its keys are hashed under another seed, which is a secret.
    #[error("its keys were hashed under another seed")]
    Seed,
    /// Others than its owner may have written to it.
    #[error("others than its owner could write to it (mode {mode:o})")]
    Writable {
        /// Permission bits.
        mode: u32,
    },
    /// It is not what was left.
    #[error("{what} is not as it was left")]
    Contents {
        /// What.
        what: &'static str,
    },
}

/// A partition at rest: with its memory unchanged, [`thaw`](crate::Partition::thaw) makes it again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Frozen {
    pub(crate) state: State,
    pub(crate) clear_at_s: Option<u32>,
    pub(crate) digests: Digests,
}

/// What is not in the memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct State {
    pub(crate) head: u64,
    pub(crate) version: u64,
    pub(crate) reach: u64,
    pub(crate) free: u64,
    pub(crate) items: u64,
}

/// What the memory must be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Digests {
    pub(crate) index: u64,
    pub(crate) items: u64,
}

/// In place of a time in seconds, none of which is so large.
const NEVER: u64 = u64::MAX;

impl Frozen {
    /// Words of [`to_words`](Frozen::to_words).
    pub(crate) const WORDS: usize = 8;

    pub(crate) fn to_words(self) -> [u64; Frozen::WORDS] {
        let State {
            head,
            version,
            reach,
            free,
            items,
        } = self.state;
        [
            head,
            version,
            reach,
            free,
            items,
            self.clear_at_s.map_or(NEVER, u64::from),
            self.digests.index,
            self.digests.items,
        ]
    }

    pub(crate) fn from_words(words: [u64; Frozen::WORDS]) -> Frozen {
        let [
            head,
            version,
            reach,
            free,
            items,
            clear_at,
            index_digest,
            items_digest,
        ] = words;
        Frozen {
            state: State {
                head,
                version,
                reach,
                free,
                items,
            },
            clear_at_s: u32::try_from(clear_at).ok(),
            digests: Digests {
                index: index_digest,
                items: items_digest,
            },
        }
    }
}

/// A digest of words. Each step is a permutation of what came before, so one changed word always shows; several that
/// happen to cancel out are one case in 2^64. Against accidents, not against forgers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Digest(pub(crate) u64);

impl Digest {
    pub(crate) const NEW: Digest = Digest(0x6472_6f76_6572_0001);

    #[inline]
    pub(crate) fn add(&mut self, word: u64) {
        self.0 = (self.0 ^ word)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29);
    }
}

/// What is in the memory of a partition.
pub(crate) struct Survey {
    pub(crate) digests: Digests,
    /// Of all items, sorted; empty in cache mode.
    pub(crate) offsets: Vec<u64>,
}

impl Survey {
    /// Of `memory` with an index of `table_bytes` behind it. Errors: the index is not `index`, where one is given, or an
    /// item is none; what is there may be anything.
    pub(crate) fn new<const BITS: u32>(
        memory: &MaskedRegion,
        table_bytes: usize,
        is_store: bool,
        state: &State,
        index: Option<u64>,
    ) -> Result<Survey, Doubt> {
        let table = memory.len()..memory.len() + table_bytes;
        let words = || {
            let at = table.clone().step_by(8);
            at.map(|at| u64::from_le(memory.region().load_u64(at, Ordering::Relaxed)))
        };
        let mut digest = Digest::NEW;
        words().for_each(|word| digest.add(word));
        let found = digest.0;
        if index.is_some_and(|index| index != found) || !state.head.is_multiple_of(8) {
            return Err(Doubt::Contents { what: "the index" });
        }
        let (mut digest, mut offsets, mut bytes) = (Digest::NEW, Vec::new(), Vec::new());
        for (i, word) in words().enumerate() {
            let slot = Slot::<BITS>::from_word(word);
            let is_link = is_store && i % (STORE_SLOTS + 1) == STORE_SLOTS;
            if slot.is_empty() || is_link {
                continue;
            }
            if is_store {
                offsets.push(slot.offset());
                digest.add(memory.load(slot.offset().wrapping_sub(8)));
            } else if !slot.is_live(state.head, memory.len() as u64) {
                continue;
            }
            add_item(&mut digest, memory.place(slot.word()), &mut bytes)?;
        }
        offsets.sort_unstable();
        let digests = Digests {
            index: found,
            items: digest.0,
        };
        Ok(Survey { digests, offsets })
    }
}

/// Adds all bytes of an item.
fn add_item(digest: &mut Digest, place: MaskedRef<'_>, bytes: &mut Vec<u8>) -> Result<(), Doubt> {
    let lens = Lens::load(place);
    let len = lens.bytes();
    if lens.value_len() > VALUE_BYTES_MAX || !place.maps(0, len) {
        return Err(Doubt::Contents { what: "an item" });
    }
    bytes.resize(len, 0);
    place.copy_out(0, bytes);
    let (words, _padded_to_words) = bytes.as_chunks::<8>();
    words
        .iter()
        .for_each(|word| digest.add(u64::from_le_bytes(*word)));
    Ok(())
}
