//! Splitting a subtable in two while clients use it.
//!
//! The keys of a subtable of depth d have their low d directory bits in common, the *suffix* s. A split moves those whose
//! bit d is set to a new subtable, each to the same slot. The client that splits holds a lock for s, so that subtables are split
//! at the same time but each by one client:
//!
//! 1. Is the directory's entry of s still d deep, and is none of its copies locked? Otherwise another client split it.
//! 2. Allocate a subtable, and WRITE all headers: depth d + 1, pending, suffix s + 2^d. Slots are empty.
//! 3. With the directory's lock: if the directory is d deep, double it. Then change the entries of s: to the new
//!    subtable first, then the others. All are d + 1 deep and locked.
//! 4. For each bucket, many at a time ([`BucketMove`]): CAS the old header, READ the bucket, READ the blocks of its
//!    entries, **freeze** empty slots and entries that move, WRITE these to the new bucket, WRITE its header without
//!    pending, clear the slots that were empty.
//! 5. When that is done for all buckets, clear the slots of entries that moved.
//! 6. With the directory's lock: unlock the entries, those of the new subtable first.
//!
//! [`Split`] is all but steps 4 and 5. Both are state machines without I/O: they name the requests, the caller executes them
//! in order and reports what it found.
//!
//! **Why entries are frozen.** A writer CASes the word that it READ. If the split copied that word and then cleared the
//! slot, a write in between would be acknowledged and lost. A frozen word differs from the one that the writer read, so
//! its CAS fails, and it begins anew where the directory now says. All writes before the freeze are copied.
//!
//! **Why clients do not go wrong:**
//! - Before a bucket is frozen its old header has changed, so clients that come later know better ([`Header::fit`]).
//! - An entry is inserted as tentative and confirmed after another look at the headers, so no client confirms an
//!   entry in a bucket that no longer belongs to the key. Tentative entries that would move are removed.
//! - A READ may see a bucket's header of before and slots of after. A client that confirms an entry in one pair of buckets
//!   must not overlook one that has moved from the other pair. So the slots of moved entries stay frozen until all
//!   buckets have moved: then the client's own tentative entry is gone, too.
//! - Nobody writes a pending bucket. Who reads one reads the old bucket after it, and if that has no match, the new
//!   one again: as long as that is pending, the old one was right.
//!
//! **Death of the splitter.** When it can write no more, anyone who may release its lock resumes the split
//! ([`Split::resume`]): depth, pending and frozen say how far it came, and every step can be repeated. A frozen word
//! keeps its entry, so nothing is lost at any point.
//!
//! *(Outline: `[RACE]`; freezing, pending, tentative entries, order of entries and resuming: our choice. Public code
//! loses updates between copying and clearing, doubles the directory while entries are rewritten, and leaves the lock of
//! a dead client.)*

mod bucket_move;
mod directory_change;
#[cfg(all(test, not(loom)))]
mod tests;

pub use bucket_move::{BadBucket, BucketMove, MoveRequest};
pub use directory_change::{Lock, Outcome, Split, Step};

use super::header::low_bits;
use super::{DEPTH_MAX, Entry, Header};

/// Which subtable is split.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Division {
    /// Local depth before the split, below [`DEPTH_MAX`].
    depth: u8,
    suffix: u32,
}

impl Division {
    /// The division of the subtable that a key with these directory bits belongs to, if it is `depth` deep; `None` at
    /// [`DEPTH_MAX`], where subtables are split no more.
    pub fn new(directory_bits: u32, depth: u8) -> Option<Division> {
        let suffix = low_bits(directory_bits, depth.min(DEPTH_MAX));
        (depth < DEPTH_MAX).then_some(Division { depth, suffix })
    }

    /// The division that has locked the entry at `index`; `None` if none has.
    fn of_locked(index: u32, entry: Entry) -> Option<Division> {
        let depth = entry.depth.checked_sub(1).filter(|_| entry.locked)?;
        Division::new(index, depth)
    }

    /// Low bits of the subtable's keys; the lock of this number protects the division.
    pub fn suffix(self) -> u32 {
        self.suffix
    }

    /// Whether a key with these directory bits moves to the new subtable.
    pub fn moves(self, directory_bits: u32) -> bool {
        directory_bits >> self.depth & 1 == 1
    }

    /// Whether this directory entry leads to the old subtable or to the new one.
    fn has(self, index: u32) -> bool {
        low_bits(index, self.depth) == self.suffix
    }

    fn depth_after(self) -> u8 {
        self.depth + 1
    }

    fn before(self) -> Header {
        Header::new(self.depth, self.suffix)
    }

    fn stays(self) -> Header {
        Header::new(self.depth_after(), self.suffix)
    }

    fn moved(self) -> Header {
        Header::new(self.depth_after(), self.suffix | 1 << self.depth)
    }
}
