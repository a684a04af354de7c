//! [`Seqlock`]: lets readers follow one writer that never waits for them.
//!
//! ```text
//! writer:  sequence = odd;  fence Release;  change the data (Relaxed);  sequence = even (Release)
//! reader:  s = sequence (Acquire), odd? later.  read the data (Relaxed);  fence Acquire;  sequence == s? keep it
//! ```
//! The data are words accessed Relaxed, so a half-changed state is a value, not undefined behaviour; the reader
//! discards it. Why it works: a reader that saw any word written after the writer's Release fence also sees, after its
//! own Acquire fence, the odd sequence stored before that fence, and no longer finds `s`.
//!
//! That holds for words written after the end of a change, too. So the lock of an entry also protects the bytes that the
//! entry refers to, if the entry is removed before they are overwritten: a reader that copied any overwritten byte finds
//! that its ticket is not current. The overwriting itself needs no lock.

use drover_base::sync::{AtomicU64, Ordering, fence};

/// A version counter that is odd while the data that it guards change. It does not contain the data. One writer, any
/// number of readers.
#[derive(Debug)]
pub struct Seqlock {
    sequence: AtomicU64,
}

/// The sequence number of a [`Seqlock`] when a read began, for [`is_current`](Seqlock::is_current).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "what was read means nothing until the ticket is found current"]
pub struct Ticket(u64);

impl Default for Seqlock {
    fn default() -> Seqlock {
        Seqlock {
            sequence: AtomicU64::new(0),
        }
    }
}

impl Seqlock {
    /// Announces a change of the data. Only the writer calls it, before it changes anything, and
    /// [`end_write`](Seqlock::end_write) afterwards.
    #[inline]
    pub fn begin_write(&self) {
        // Relaxed: this is the only writer.
        let sequence = self.sequence.load(Ordering::Relaxed);
        debug_assert!(sequence.is_multiple_of(2), "a write inside a write");
        self.sequence.store(sequence + 1, Ordering::Relaxed);
        // Release: pairs with the Acquire fence of `is_current`; a reader that sees our data sees the odd sequence.
        fence(Ordering::Release);
    }

    /// Ends the change of the data that [`begin_write`](Seqlock::begin_write) announced. Only the writer calls it.
    #[inline]
    pub fn end_write(&self) {
        let sequence = self.sequence.load(Ordering::Relaxed);
        // Release: pairs with the Acquire of `begin_read`; publishes the data.
        self.sequence.store(sequence + 1, Ordering::Release);
    }

    /// Begins a read: returns a ticket for [`is_current`](Seqlock::is_current), or `None` during a write.
    #[inline]
    pub fn begin_read(&self) -> Option<Ticket> {
        // Acquire: pairs with the Release of `end_write`.
        let sequence = self.sequence.load(Ordering::Acquire);
        sequence.is_multiple_of(2).then_some(Ticket(sequence))
    }

    /// Whether no write has begun since `ticket` was taken: then the reads in between are consistent.
    #[inline]
    pub fn is_current(&self, ticket: Ticket) -> bool {
        // Acquire: pairs with the Release fence of `begin_write`.
        fence(Ordering::Acquire);
        self.sequence.load(Ordering::Relaxed) == ticket.0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_current_until_the_next_write() {
        let lock = Seqlock::default();
        let ticket = lock.begin_read().expect("nobody writes");
        assert!(lock.is_current(ticket));
        lock.begin_write();
        assert!(!lock.is_current(ticket));
        assert_eq!(lock.begin_read(), None);
        lock.end_write();
        assert!(!lock.is_current(ticket));
        let ticket = lock.begin_read().expect("the write is over");
        assert!(lock.is_current(ticket));
    }
}

/// All interleavings and allowed reorderings of one writer and one reader. Run by `cargo xtask loom`.
#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use drover_base::sync::{Arc, thread};

    /// Two words that change together.
    struct Pair {
        lock: Seqlock,
        a: AtomicU64,
        b: AtomicU64,
    }

    impl Pair {
        fn new() -> Arc<Pair> {
            Arc::new(Pair {
                lock: Seqlock::default(),
                a: AtomicU64::new(0),
                b: AtomicU64::new(0),
            })
        }

        fn change(&self, value: u64) {
            self.a.store(value, Ordering::Relaxed);
            self.b.store(value, Ordering::Relaxed);
        }

        fn read(&self) -> Option<(u64, u64)> {
            let ticket = self.lock.begin_read()?;
            let both = (self.a.load(Ordering::Relaxed), self.b.load(Ordering::Relaxed));
            self.lock.is_current(ticket).then_some(both)
        }
    }

    /// Two writes by `write` concurrent with two reads: no accepted read is torn, and a later read is not older.
    fn scenario(write: fn(&Pair, u64)) {
        loom::model(move || {
            let pair = Pair::new();
            let theirs = pair.clone();
            let writer = thread::spawn(move || (1..=2).for_each(|value| write(&theirs, value)));
            let first = pair.read();
            let second = pair.read();
            for (a, b) in [first, second].into_iter().flatten() {
                assert_eq!(a, b, "torn");
            }
            if let (Some(first), Some(second)) = (first, second) {
                assert!(first.0 <= second.0, "time runs backwards");
            }
            writer.join().expect("the writer ends");
            assert_eq!(pair.read(), Some((2, 2)));
        });
    }

    #[test]
    fn loom_seqlock_keeps_nothing_torn() {
        scenario(|pair, value| {
            pair.lock.begin_write();
            pair.change(value);
            pair.lock.end_write();
        });
    }

    #[test]
    #[should_panic(expected = "torn")]
    fn loom_catches_a_seqlock_without_its_fence() {
        scenario(|pair, value| {
            let sequence = pair.lock.sequence.load(Ordering::Relaxed);
            pair.lock.sequence.store(sequence + 1, Ordering::Relaxed);
            pair.change(value);
            pair.lock.end_write();
        });
    }

    /// An entry under a lock, which refers to one of two places (0 = to none), and the places' bytes.
    struct Entry {
        lock: Seqlock,
        entry: AtomicU64,
        places: [AtomicU64; 2],
    }

    /// Bytes of the entry's item, and of another's.
    const OURS: u64 = 7;
    const THEIRS: u64 = 9;

    /// A reader follows the entry and copies the bytes, while `change` removes the entry or moves its item, and then
    /// writes another item to the old place.
    fn overwritten_item(change: fn(&Entry)) {
        loom::model(move || {
            let item = Arc::new(Entry {
                lock: Seqlock::default(),
                entry: AtomicU64::new(1),
                places: [AtomicU64::new(OURS), AtomicU64::new(0)],
            });
            let theirs = item.clone();
            let writer = thread::spawn(move || change(&theirs));
            if let Some(ticket) = item.lock.begin_read() {
                let place = item.entry.load(Ordering::Relaxed);
                let bytes = (place > 0).then(|| item.places[place as usize - 1].load(Ordering::Relaxed));
                if item.lock.is_current(ticket) {
                    assert!(bytes.is_none_or(|bytes| bytes == OURS), "another's bytes");
                }
            }
            writer.join().expect("the writer ends");
        });
    }

    #[test]
    fn loom_an_evicted_item_is_not_read_from_the_bytes_of_the_next() {
        overwritten_item(|item| {
            item.lock.begin_write();
            item.entry.store(0, Ordering::Relaxed);
            item.lock.end_write();
            item.places[0].store(THEIRS, Ordering::Relaxed);
        });
    }

    #[test]
    fn loom_a_moved_item_is_read_whole_from_either_place() {
        overwritten_item(|item| {
            item.lock.begin_write();
            item.places[1].store(OURS, Ordering::Relaxed);
            item.entry.store(2, Ordering::Relaxed);
            item.lock.end_write();
            item.places[0].store(THEIRS, Ordering::Relaxed);
        });
    }

    #[test]
    #[should_panic(expected = "another's bytes")]
    fn loom_catches_an_overwriting_before_the_entry_is_removed() {
        overwritten_item(|item| {
            item.places[0].store(THEIRS, Ordering::Relaxed);
            item.lock.begin_write();
            item.entry.store(0, Ordering::Relaxed);
            item.lock.end_write();
        });
    }

    #[test]
    #[should_panic(expected = "another's bytes")]
    fn loom_catches_a_removal_without_its_fence() {
        overwritten_item(|item| {
            let sequence = item.lock.sequence.load(Ordering::Relaxed);
            item.lock.sequence.store(sequence + 1, Ordering::Relaxed);
            item.entry.store(0, Ordering::Relaxed);
            item.lock.end_write();
            item.places[0].store(THEIRS, Ordering::Relaxed);
        });
    }
}
