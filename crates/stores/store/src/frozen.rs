//! [`Frozen`]: the state of a partition outside its memory, and the validation of that memory.
//!
//! Two digests are checked in the order in which the data can be trusted: first the index, word by word, with any
//! contents; only if it matches, the items that it refers to, byte by byte. So no link is followed and no length used
//! that was not written by a partition.

use crate::item::Head;
use drover_index::{STORE_SLOTS, Slot};
use drover_mem::{MaskedRef, MaskedRegion};
use std::sync::atomic::Ordering;

/// Reason why partitions start empty instead of with the items in a memory file. Displays as one line.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Doubt {
    /// There is no description of the file: no server stopped cleanly since it was created or last opened.
    #[error("it was not left by a clean stop")]
    NoRecord,
    /// The description cannot be used: damaged, inconsistent or in another format, as the text says.
    #[error("its description is {0}")]
    Record(&'static str),
    /// A setting differs from that of the server that left the file.
    #[error("{what} was {was} and is {is}")]
    Differs {
        /// Name of the setting.
        what: &'static str,
        /// Value of the setting when the file was left.
        was: u64,
        /// Value of the setting that is wanted now.
        is: u64,
    },
    /// The file's keys are hashed under another seed than the one required. (Seeds are secret, so it shows neither.)
    #[error("its keys were hashed under another seed")]
    Seed,
    /// Users other than its owner could write to the file or its description.
    #[error("others than its owner could write to it (mode {mode:o})")]
    Writable {
        /// Permission bits that the file or its description had; they are narrowed to the owner's now.
        mode: u32,
    },
    /// The contents are not those that the last server left.
    #[error("{what} is not as it was left")]
    Contents {
        /// Name of the damaged part, such as "the index".
        what: &'static str,
    },
}

/// The state of a partition outside its memory, and digests of that memory, which it does not own. As long as the
/// memory is unchanged, [`thaw`](crate::Partition::thaw) restores the partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Frozen {
    pub(crate) state: State,
    pub(crate) clear_at_s: Option<u32>,
    pub(crate) digests: Digests,
}

/// State that is not in the memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct State {
    pub(crate) head: u64,
    pub(crate) version: u64,
    pub(crate) reach: u64,
    pub(crate) free: u64,
    pub(crate) items: u64,
}

/// Digests of the memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Digests {
    pub(crate) index: u64,
    pub(crate) items: u64,
}

/// Replaces a time in seconds; no time is that large.
const NEVER: u64 = u64::MAX;

impl Frozen {
    /// Number of words of [`to_words`](Frozen::to_words).
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

/// A digest of words. Each step is a permutation of the previous value, so one changed word is always detected; several
/// changes cancel out once in 2^64 cases. It detects accidents, not forgeries.
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

/// Contents of the memory of a partition.
pub(crate) struct Survey {
    pub(crate) digests: Digests,
    /// Offsets of all items, sorted; empty in cache mode.
    pub(crate) offsets: Vec<u64>,
}

impl Survey {
    /// Surveys `memory` with an index of `table_bytes` at its end. The contents may be arbitrary.
    ///
    /// # Errors
    /// [`Doubt`] if the index does not match the digest `index`, where given, or an item is malformed.
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
    let head = Head::load(place);
    let len = head.bytes();
    if head.is_skip() || !place.maps(0, len) {
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
