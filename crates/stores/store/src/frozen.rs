//! [`Frozen`]: the state of a partition outside its memory, and the validation of that memory.
//!
//! Two digests are checked in the order in which the data can be trusted: first the index, word by word, with any
//! contents; only if it matches, the items that it refers to, byte by byte. So no link is followed and no length used
//! that was not written by a partition.

use crate::item::Head;
use crate::queue::Queue;
use drover_base::HashKind;
use drover_index::{STORE_SLOTS, Slot};
use drover_mem::{BoundedRegion, MaskedRef};
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
    /// The file's keys are hashed by another hash than the one wanted.
    #[error("its keys were hashed with {was}, not with {is}")]
    Hash {
        /// Hash of the keys in the file.
        was: HashKind,
        /// Hash that is wanted now.
        is: HashKind,
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
    pub(crate) main: Extent,
    pub(crate) main_end: u64,
    pub(crate) small: Extent,
    /// The three numbers of the index's spread, and the wanted number of buckets.
    pub(crate) index: [u64; 4],
    pub(crate) version: u64,
    pub(crate) reach: u64,
    pub(crate) free: u64,
    pub(crate) items: u64,
    pub(crate) ghosts: u64,
}

/// The part of a log that is in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Extent {
    pub(crate) tail: u64,
    pub(crate) used: u64,
    pub(crate) live: u64,
}

impl From<Queue> for Extent {
    fn from(queue: Queue) -> Extent {
        Extent {
            tail: queue.start_of_items(),
            used: queue.used(),
            live: queue.live(),
        }
    }
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
    pub(crate) const WORDS: usize = 19;

    pub(crate) fn to_words(self) -> [u64; Frozen::WORDS] {
        let state = self.state;
        [
            state.main.tail,
            state.main.used,
            state.main.live,
            state.main_end,
            state.small.tail,
            state.small.used,
            state.small.live,
            state.index[0],
            state.index[1],
            state.index[2],
            state.index[3],
            state.version,
            state.reach,
            state.free,
            state.items,
            state.ghosts,
            self.clear_at_s.map_or(NEVER, u64::from),
            self.digests.index,
            self.digests.items,
        ]
    }

    pub(crate) fn from_words(words: [u64; Frozen::WORDS]) -> Frozen {
        let [
            main_tail,
            main_used,
            main_live,
            main_end,
            small_tail,
            small_used,
            small_live,
            low,
            high,
            boundary,
            wanted,
            version,
            reach,
            free,
            items,
            ghosts,
            clear_at,
            index_digest,
            items_digest,
        ] = words;
        let extent = |tail, used, live| Extent { tail, used, live };
        Frozen {
            state: State {
                main: extent(main_tail, main_used, main_live),
                main_end,
                small: extent(small_tail, small_used, small_live),
                index: [low, high, boundary, wanted],
                version,
                reach,
                free,
                items,
                ghosts,
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

/// Where items and their entries are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Layout {
    /// Items in logs, under buckets of slots.
    Logs([Queue; 2]),
    /// Items in a heap, under buckets of slots.
    Heap,
    /// Items in a heap, under buckets whose last word is a link.
    HeapAndChains,
}

/// Contents of the memory of a partition.
pub(crate) struct Survey {
    pub(crate) digests: Digests,
    /// Offsets of all items, sorted.
    pub(crate) offsets: Vec<u64>,
}

impl Survey {
    /// Surveys `memory` with an index of `table_bytes` at its end. The contents may be arbitrary.
    ///
    /// # Errors
    /// [`Doubt`] if the index does not match the digest `index`, where given, an item is malformed, or the logs do not
    /// hold exactly the items of the index.
    pub(crate) fn new(
        memory: &BoundedRegion,
        table_bytes: usize,
        layout: Layout,
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
        if index.is_some_and(|index| index != found) {
            return Err(Doubt::Contents { what: "the index" });
        }
        let (mut digest, mut offsets, mut bytes) = (Digest::NEW, Vec::new(), Vec::new());
        for (i, word) in words().enumerate() {
            let slot = Slot::from_word(word);
            let is_link = matches!(layout, Layout::HeapAndChains) && i % (STORE_SLOTS + 1) == STORE_SLOTS;
            if !slot.is_item() || is_link {
                continue;
            }
            offsets.push(slot.offset());
            if !matches!(layout, Layout::Logs(_)) {
                digest.add(memory.load(slot.offset().wrapping_sub(8)));
            }
            add_item(&mut digest, memory.place(slot.offset()), &mut bytes)?;
        }
        offsets.sort_unstable();
        if let Layout::Logs(logs) = layout
            && !hold_exactly(logs, memory, &offsets)
        {
            return Err(Doubt::Contents { what: "the log" });
        }
        let digests = Digests {
            index: found,
            items: digest.0,
        };
        Ok(Survey { digests, offsets })
    }
}

/// Whether a walk through the logs finds the items at `offsets`, sorted, and no other.
fn hold_exactly(logs: [Queue; 2], memory: &BoundedRegion, offsets: &[u64]) -> bool {
    let mut walked = Vec::with_capacity(offsets.len());
    for mut log in logs {
        let (live, mut log_live) = (log.live(), 0);
        while let Some(at) = log.tail() {
            let head = Head::load(memory.place(at));
            if !log.can_drop(head.step() as u64) {
                return false;
            }
            if !head.is_skip() {
                walked.push(at);
                log_live += head.step() as u64;
            }
            log.drop_skipped(head.step() as u64);
        }
        if live != log_live {
            return false;
        }
    }
    walked.sort_unstable();
    walked == offsets
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
