//! [`Conflicts`]: which keys have operations under way that a new one must wait for.
//!
//! Two operations on one key conflict unless both read. Where requests may be lost the client never has two
//! conflicting ones on their way at the same time: the later one waits until the earlier is complete. So nothing below
//! has to keep order: a retransmission may overtake, a GET may be executed again, a bulk transfer may take its time, and
//! operations of one client on one key still take effect as they were submitted. *(our choice: with skewed keys and 5 %
//! writes about one operation in a hundred waits)*
//!
//! That costs a round trip and an empty place in the window. Where WRITEs are
//! [never lost](drover_verbs::WriteCaps::lossless) whatever conflicts is posted behind, in the same lane, which the
//! server takes in turn; only behind what was sent once, and not when either is a bulk transfer. A GET whose value does
//! not fit a reply fetches it afterwards, and would find what was written meanwhile: so what is posted behind a GET, or
//! behind that in turn, says so in its commit word, and the server refuses it if it must
//! ([`Hold`](crate::logic::Hold)). It then waits here after all.
//!
//! What this cannot promise is the order of a GET whose reply is lost, with the session or a server that stops for
//! seconds: it is executed again, behind the write that it was to come before.

use drover_base::KeyHash;

/// Counts operations under way per hash class. May claim a conflict where there is none, never the reverse.
#[derive(Clone, Debug)]
pub(crate) struct Conflicts {
    /// Reads in bits 0-15, writes in bits 16-31. One key has at most a window (256) and the waiting operations
    /// (16384) under way.
    counts: Box<[u32]>,
}

const READ: u32 = 1;
const WRITE: u32 = 1 << 16;

impl Conflicts {
    /// For windows of `capacity` operations altogether: with 16 classes each, one false claim in some 300
    /// operations. Operations that wait are not counted in: they are rare, and a table for them would not stay in
    /// the first-level cache, which two operations out of three then missed.
    pub(crate) fn new(capacity: usize) -> Conflicts {
        let classes = (capacity * 16).next_power_of_two().clamp(1 << 10, 1 << 16);
        Conflicts {
            counts: vec![0; classes].into_boxed_slice(),
        }
    }

    /// The class of a key. Bits 48-63 serve nothing else.
    #[inline(always)]
    fn class(&self, hash: KeyHash) -> usize {
        (hash.low >> 48) as usize & (self.counts.len() - 1)
    }

    /// Counts a read of this key, unless it may have to wait for a write.
    #[inline(always)]
    pub(crate) fn try_add_read(&mut self, hash: KeyHash) -> bool {
        let class = self.class(hash);
        let count = &mut self.counts[class];
        let free = *count < WRITE;
        *count += u32::from(free);
        free
    }

    /// Whether an operation on this key may have to wait.
    #[inline(always)]
    pub(crate) fn may_conflict(&self, hash: KeyHash, write: bool) -> bool {
        self.counts[self.class(hash)] >= if write { READ } else { WRITE }
    }

    /// An operation was accepted.
    #[inline(always)]
    pub(crate) fn add(&mut self, hash: KeyHash, write: bool) {
        self.counts[self.class(hash)] += if write { WRITE } else { READ };
    }

    /// It is complete.
    #[inline(always)]
    pub(crate) fn remove(&mut self, hash: KeyHash, write: bool) {
        let count = &mut self.counts[self.class(hash)];
        debug_assert!(*count >= if write { WRITE } else { READ });
        *count = count.wrapping_sub(if write { WRITE } else { READ });
    }

    /// Nothing is under way.
    pub(crate) fn clear(&mut self) {
        self.counts.fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_do_not_conflict_with_reads() {
        let mut conflicts = Conflicts::new(16);
        let (a, b) = (
            KeyHash {
                low: 7 << 48,
                high: 0,
            },
            KeyHash {
                low: 8 << 48,
                high: 0,
            },
        );
        conflicts.add(a, false);
        assert!(!conflicts.may_conflict(a, false) && conflicts.may_conflict(a, true));
        assert!(!conflicts.may_conflict(b, true));
        conflicts.add(a, true);
        assert!(conflicts.may_conflict(a, false) && conflicts.may_conflict(a, true));
        conflicts.remove(a, true);
        conflicts.remove(a, false);
        assert!(!conflicts.may_conflict(a, true));
    }
}
