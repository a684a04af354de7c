//! Splits against clients: a model of one bucket with two writers, a reader, and a splitter that may die at each step.

mod clients;
mod directories;
mod explore;
mod history;
mod splitter;

use super::{BucketMove, Division, MoveRequest, Outcome, Split, Step};
use crate::race::{BlockRef, Bucket, Directory, Entry, GlobalDepth, Header, SLOTS, Slot};

/// A key that the split moves.
const MOVES: u8 = 1;
/// A key that stays.
const STAYS: u8 = 2;
/// Another key that stays, which no client touches.
const FILLER: u8 = 3;

const OLD: u64 = 0x1000;
const NEW: u64 = 0x2000;

/// The directory bits of a key: a division at depth 0 moves those with bit 0.
fn bits(key: u8) -> u32 {
    u32::from(key == MOVES)
}

/// The word of an entry for `key`; its block's address stands for key and value.
fn entry(key: u8, value: u8) -> Slot {
    let addr = (u64::from(key) * 16 + u64::from(value)) * 64;
    Slot::new(7, BlockRef { addr, units: 1 }, 0)
}

/// Key and value of an entry, as its block says.
fn content(slot: Slot) -> Option<(u8, u8)> {
    let number = slot.block()?.addr / 64;
    Some((number as u8 / 16, number as u8 % 16))
}

/// A protection that is missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Flaw {
    None,
    /// Slots are not frozen before they are copied.
    NoFreezing,
    /// The old slots are cleared before the new ones are written.
    ClearedFirst,
    /// A reader takes a pending bucket for an ordinary one.
    PendingTrusted,
    /// A reader believes that a key is missing when it has READ a pending bucket and the old one.
    OldTrusted,
    /// Nobody goes on for a dead splitter.
    NotResumed,
    /// Entries are confirmed at once, as published; then their clients look for duplicates.
    NotTentative,
    /// A reader looks at the header only if it finds no match.
    HeaderAfterMiss,
    /// A client that sees a header before the slots behind it does not look again when it finds nothing.
    MissBelieved,
    /// A client that resumes copies entries again that were published.
    CopiedAgain,
}

/// The shared memory: a directory of up to two entries, a bucket of the old subtable and the one at its place in the
/// new one.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct World {
    global: GlobalDepth,
    entries: [u64; 2],
    old: Bucket,
    new: Bucket,
}

impl World {
    /// Before the split, with these entries in the first slots and one free slot for each key that has none. All other
    /// slots are in use.
    fn new(first: [Slot; 2]) -> World {
        let subtable = Entry {
            subtable: OLD,
            depth: 0,
            locked: false,
        };
        let mut old = Bucket {
            header: Header::new(0, 0),
            slots: [entry(FILLER, 1); SLOTS],
        };
        old.slots[..2].copy_from_slice(&first);
        World {
            global: GlobalDepth::default(),
            entries: [subtable.word(), 0],
            old,
            new: Bucket {
                header: Header::default(),
                slots: [Slot::EMPTY; SLOTS],
            },
        }
    }

    fn directory(&self) -> Directory {
        let mut bytes = vec![0; crate::race::ENTRIES_OFFSET];
        bytes[..8].copy_from_slice(&self.global.word().to_le_bytes());
        bytes.extend(self.entries.iter().flat_map(|word| word.to_le_bytes()));
        Directory::from_bytes(&bytes).expect("a directory at all times")
    }

    fn bucket(&mut self, is_new: bool) -> &mut Bucket {
        if is_new { &mut self.new } else { &mut self.old }
    }

    /// CAS; returns the word before.
    fn cas(&mut self, is_new: bool, slot: u8, expect: Slot, set: Slot) -> Slot {
        let word = &mut self.bucket(is_new).slots[usize::from(slot)];
        let was = *word;
        if was == expect {
            *word = set;
        }
        was
    }
}
