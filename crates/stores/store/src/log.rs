//! [`Log`]: a circular log whose items are contiguous.
//!
//! ```text
//!  lap n:    | item | item | item ... | item | skip |      head = virtual offset of the next byte
//!  lap n+1:  | item | item | head -> (item of lap n, live until overwritten)
//! ```
//! Offsets are *virtual*: they count every byte ever appended, skipped ones included, so the distance from an item to
//! the head shows whether the item still exists. An item that does not fit in the rest of the lap starts the next one;
//! the rest is measured at the *physical* head (one public code measures at the virtual head and writes past the end
//! from lap 2 on).

use crate::item;
use crate::sharing::Sharing;
use drover_mem::{MaskedRef, MaskedRegion};

/// A log whose size is a power of two.
#[derive(Debug)]
pub(crate) struct Log {
    memory: MaskedRegion,
    head: u64,
}

impl Log {
    /// An empty log.
    pub(crate) fn new(memory: MaskedRegion) -> Log {
        Log { memory, head: 0 }
    }

    /// The bytes at virtual `offset`; bits above its width are ignored.
    #[inline(always)]
    pub(crate) fn place(&self, offset: u64) -> MaskedRef<'_> {
        self.memory.place(offset)
    }

    pub(crate) fn memory(&self) -> &MaskedRegion {
        &self.memory
    }

    /// Virtual offset of the next byte.
    #[inline(always)]
    pub(crate) fn head(&self) -> u64 {
        self.head
    }

    #[inline(always)]
    pub(crate) fn size(&self) -> u64 {
        self.memory.len() as u64
    }

    /// Reserves `need` bytes, a multiple of 8 up to the size; returns their virtual offset. Readers see the new head
    /// before any of the old bytes there change.
    #[inline(always)]
    pub(crate) fn reserve<S: Sharing>(&mut self, sharing: &S, need: usize) -> u64 {
        let need = need as u64;
        debug_assert!(need.is_multiple_of(8) && need <= self.size());
        let before = self.head;
        let left = self.size() - (before & (self.size() - 1));
        if left < need {
            self.head = before + left + need;
            sharing.publish_head(self.head);
            item::write_skip(self.place(before), left as usize);
            return before + left;
        }
        self.head = before + need;
        sharing.publish_head(self.head);
        before
    }

    /// Continues at another log's head: for an earlier log in this memory, and for tests.
    pub(crate) fn resume(&mut self, head: u64) {
        assert!(head.is_multiple_of(8));
        self.head = head;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Exclusive;
    use crate::item::{Body, Fields, Head, Key};
    use drover_base::KeyHash;
    use drover_mem::{PageWish, Region};
    use std::sync::atomic::Ordering;

    const SIZE: usize = 4096;

    fn log(bytes: usize) -> Log {
        Log::new(MaskedRegion::private(bytes, PageWish::Small).expect("memory"))
    }

    /// Position of an item of `need` bytes when the head is at `head`: our rule, or a flawed one.
    type PlaceRule = fn(head: u64, size: u64, need: u64) -> u64;

    fn ours(head: u64, size: u64, need: u64) -> u64 {
        let mut log = log(size as usize);
        log.resume(head);
        log.reserve(&Exclusive, need as usize)
    }

    /// The rule of one public code: it measures the space left at the *virtual* head, which is correct on lap 1 only.
    fn virtual_head(head: u64, size: u64, need: u64) -> u64 {
        if size.wrapping_sub(head) < need {
            (head + size - 1) & !(size - 1)
        } else {
            head
        }
    }

    /// Three laps of mixed sizes; the first byte written outside the log, if any.
    fn first_byte_outside(place: PlaceRule) -> Option<u64> {
        let (size, mut head) = (SIZE as u64, 0);
        for i in 0u64.. {
            let need = 24 + 8 * (i * 7 % 41);
            let at = place(head, size, need);
            let physical = at & (size - 1);
            if physical + need > size {
                return Some(physical + need);
            }
            head = at + need;
            if head > 3 * size {
                return None;
            }
        }
        unreachable!()
    }

    #[test]
    fn defect_2_wrap_test_uses_the_physical_head() {
        assert_eq!(first_byte_outside(ours), None);
        assert!(
            first_byte_outside(virtual_head).is_some(),
            "the flaw must be caught"
        );
    }

    #[test]
    fn three_laps_of_mixed_sizes_can_be_walked() {
        let region = Region::private(2 * SIZE, PageWish::Small).expect("memory");
        let mut log = Log::new(MaskedRegion::new(region.clone(), 0, SIZE));
        let mut placed = Vec::new();
        let key = Key {
            hash: KeyHash { low: 1, high: 2 },
            bytes: b"key",
        };
        for i in 0usize.. {
            let need = 32 + 8 * (i * 13 % 60);
            let at = log.reserve(&Exclusive, need);
            for word in (0..need).step_by(8) {
                log.memory.store(at + word as u64, u64::MAX);
            }
            let value = &[7; 600][..need - item::item_bytes(3, 0)];
            let body = Body {
                version: 1,
                fields: Fields::native(0),
                value,
            };
            item::write(log.place(at), key, &body);
            placed.push((at, need));
            if log.head() > 3 * SIZE as u64 {
                break;
            }
        }
        for at in (SIZE..2 * SIZE).step_by(8) {
            assert_eq!(
                region.load_u64(at, Ordering::Relaxed),
                0,
                "byte {at} lies outside the log"
            );
        }
        // The current lap, from its start to the head, is a sequence of items and skips without a gap.
        let start = log.head() & !(SIZE as u64 - 1);
        let mut at = start;
        let mut walked = Vec::new();
        while at < log.head() {
            let head = Head::load(log.place(at));
            if !head.is_skip() {
                walked.push((at, head.bytes()));
            }
            at += head.step() as u64;
        }
        let want: Vec<_> = placed.into_iter().filter(|&(at, _)| at >= start).collect();
        assert_eq!((at, walked), (log.head(), want));
    }

    #[test]
    fn what_is_left_of_a_lap_is_skipped_and_counted() {
        let mut log = log(SIZE);
        assert_eq!(log.reserve(&Exclusive, 4000), 0);
        assert_eq!(log.reserve(&Exclusive, 104), 4096);
        let head = Head::load(log.place(4000));
        assert!(head.is_skip());
        assert_eq!((head.skipped(), log.head()), (96, 4200));
        assert_eq!(log.reserve(&Exclusive, SIZE), 8192, "as large as the log");
        assert_eq!(log.reserve(&Exclusive, 8), 12288, "an exact fit skips nothing");
    }
}
