//! [`Conflicts`]: tells whether a new operation may have to wait for one in flight on the same key.
//!
//! Two operations on one key conflict unless both read. Where requests may be lost the client never has two conflicting
//! ones on their way at the same time: the later one waits until the earlier is complete. So nothing below has to keep
//! order: a retransmission may overtake, a GET may be executed again, a bulk transfer may take its time, and operations
//! of one client on one key still take effect as they were submitted. *(our choice: with skewed keys and 5 % writes
//! about one operation in a hundred waits)*
//!
//! That costs a round trip and an empty slot in the window. Where WRITEs are never lost (`WriteCaps::lossless`) the
//! client posts a conflicting operation at once, after the earlier one in the same lane (the partition's slots), which
//! the server takes in turn; but not if the earlier request was sent more than once, or if either is a bulk transfer. A
//! GET whose value does not fit a reply fetches the value afterwards, and could find one written in the meantime.
//! Therefore the commit word of a request posted after a GET, or after such a request, is conditional, and the server
//! refuses the request if necessary ([`Hold`](crate::server::Hold)). It then waits here after all.
//!
//! The order is not guaranteed for a GET whose reply is lost, with the session or because the server stops for seconds:
//! the GET is executed again, after a write that was submitted later.

use drover_base::KeyHash;

/// Counts the operations that a client has accepted and not completed, whether they are sent or still wait, by class of
/// key hashes. Different keys may share a class, so it may report a conflict where there is none, never the reverse.
#[derive(Clone, Debug)]
pub struct Conflicts {
    /// Reads in bits 0-15, writes in bits 16-31. One key has at most a window (256) and the waiting operations
    /// (16384) under way.
    counts: Box<[u32]>,
}

const READ: u32 = 1;
const WRITE: u32 = 1 << 16;

impl Conflicts {
    /// Creates counts for windows of `capacity` operations in total: 16 classes per operation, rounded up to a power of
    /// two, at least 1024 and at most 65536. With 5 % updates about one read in 300 meets a false conflict. `capacity`
    /// need not include waiting operations: they are rare, and a table that holds them, too, would not stay in the
    /// first-level cache (two operations out of three missed it).
    pub fn new(capacity: usize) -> Conflicts {
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

    /// Counts a read of this key and returns true. If an update of the class is counted, counts nothing and returns
    /// false.
    #[inline(always)]
    pub fn try_add_read(&mut self, hash: KeyHash) -> bool {
        let class = self.class(hash);
        let count = &mut self.counts[class];
        if *count >= WRITE {
            return false;
        }
        *count += READ;
        true
    }

    /// Counts an update of this key and returns true. If any operation of the class is counted, counts nothing and returns
    /// false.
    #[inline(always)]
    pub fn try_add_write(&mut self, hash: KeyHash) -> bool {
        let class = self.class(hash);
        let count = &mut self.counts[class];
        if *count != 0 {
            return false;
        }
        *count = WRITE;
        true
    }

    /// Whether an operation on this key, an update if `write`, may have to wait: for an update, if any operation of the
    /// class is counted; for a read, if an update is.
    #[inline(always)]
    pub fn may_conflict(&self, hash: KeyHash, write: bool) -> bool {
        self.counts[self.class(hash)] >= if write { READ } else { WRITE }
    }

    /// Counts an operation that was accepted, an update if `write`.
    #[inline(always)]
    pub fn add(&mut self, hash: KeyHash, write: bool) {
        self.counts[self.class(hash)] += if write { WRITE } else { READ };
    }

    /// Uncounts an operation that is complete, with the arguments with which it was added.
    #[inline(always)]
    pub fn remove(&mut self, hash: KeyHash, write: bool) {
        let count = &mut self.counts[self.class(hash)];
        debug_assert!(*count >= if write { WRITE } else { READ });
        *count = count.wrapping_sub(if write { WRITE } else { READ });
    }

    /// Sets all counts to 0.
    pub fn clear(&mut self) {
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
        assert!(conflicts.try_add_write(a) && !conflicts.try_add_write(a) && !conflicts.try_add_read(a));
        assert!(conflicts.try_add_read(b) && !conflicts.try_add_write(b) && conflicts.try_add_read(b));
    }
}
