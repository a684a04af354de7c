//! [`Queue`]: a circular log in a range of memory, whose items leave in the order in which they came.
//!
//! ```text
//!  not wrapped:  start |      | tail -> item | item | item | head ->       | end
//!  wrapped:      start | item | item | head ->     | tail -> item | skip   | end
//! ```
//! The range from the tail to the head is a sequence of items and skip markers without a gap, so the tail can be walked.
//! An item never crosses the end: if it does not fit before the end, the rest of the lap becomes a skip marker. So does a
//! removed item.

use crate::item;
use drover_mem::BoundedRegion;

/// A circular log in bytes `start` to `end` of a memory. It holds positions only; the memory is passed to the calls that
/// write to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Queue {
    start: u64,
    end: u64,
    /// Nothing is appended from here on; less than the end while the queue is being shortened.
    limit: u64,
    /// Offset of the next byte to append.
    head: u64,
    /// Offset of the oldest item.
    tail: u64,
    /// Bytes from the tail to the head, skipped ones included.
    used: u64,
    /// Bytes of the items among them.
    live: u64,
}

impl Queue {
    /// An empty queue in bytes `start` to `end`, multiples of 8.
    pub(crate) fn new(start: u64, end: u64) -> Queue {
        debug_assert!(start <= end && start.is_multiple_of(8) && end.is_multiple_of(8));
        Queue {
            start,
            end,
            limit: end,
            head: start,
            tail: start,
            used: 0,
            live: 0,
        }
    }

    /// A queue in bytes `start` to `end` whose oldest item is at `tail`, and of whose `used` bytes in use `live` are of
    /// items; `None` if that is impossible.
    pub(crate) fn resume(start: u64, end: u64, tail: u64, used: u64, live: u64) -> Option<Queue> {
        let empty = Queue::new(start, end);
        let fits = (start..=end).contains(&tail) && used <= empty.size() && live <= used;
        if !fits || !tail.is_multiple_of(8) || !used.is_multiple_of(8) || used == 0 && tail != start {
            return None;
        }
        if used == 0 {
            return Some(empty);
        }
        let straight = tail + used;
        let head = if straight >= end {
            straight - empty.size()
        } else {
            straight
        };
        (tail < end).then_some(Queue {
            head,
            tail,
            used,
            live,
            ..empty
        })
    }

    /// Bytes of the range.
    #[inline]
    pub(crate) fn size(&self) -> u64 {
        self.end - self.start
    }

    /// Bytes from the tail to the head: items, removed items and skipped ends.
    #[inline]
    pub(crate) fn used(&self) -> u64 {
        self.used
    }

    /// Bytes from the head to the tail: without items and skip markers.
    #[inline]
    pub(crate) fn free(&self) -> u64 {
        (self.limit - self.start).saturating_sub(self.used)
    }

    /// Bytes of items.
    #[inline]
    pub(crate) fn live(&self) -> u64 {
        self.live
    }

    /// Bytes without an item: free, of removed items, and skipped. While the range is being shortened, what would be
    /// left after it.
    #[inline]
    pub(crate) fn room(&self) -> u64 {
        (self.limit - self.start).saturating_sub(self.live)
    }

    /// Notes that `bytes` of an item, all or some, have become a skip marker.
    #[inline]
    pub(crate) fn forget(&mut self, bytes: u64) {
        debug_assert!(bytes <= self.live);
        self.live -= bytes;
    }

    /// Whether the item at `offset` is in this queue.
    #[inline]
    pub(crate) fn contains(&self, offset: u64) -> bool {
        (self.start..self.end).contains(&offset)
    }

    /// Offset of the oldest item or skip marker; `None` if the queue is empty.
    #[inline]
    pub(crate) fn tail(&self) -> Option<u64> {
        (self.used > 0).then_some(self.tail)
    }

    /// Offset at which the oldest item is, or would be in an empty queue.
    pub(crate) fn start_of_items(&self) -> u64 {
        self.tail
    }

    /// Whether the tail is at the start of the range: a lap of it begins.
    #[inline]
    pub(crate) fn is_at_start(&self) -> bool {
        self.tail == self.start
    }

    /// Whether `bytes` can be given up at the tail. The number may come from damaged memory.
    pub(crate) fn can_drop(&self, bytes: u64) -> bool {
        bytes > 0 && bytes.is_multiple_of(8) && bytes <= self.used && bytes <= self.end - self.tail
    }

    /// End of the range.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Whether items or skipped bytes reach from the tail over the end to the head.
    #[inline]
    fn is_wrapped(&self) -> bool {
        self.used > 0 && self.head <= self.tail
    }

    /// Bytes between the head and the end of the range, or the tail if the queue has wrapped.
    #[inline]
    fn ahead(&self) -> u64 {
        if self.is_wrapped() {
            self.tail - self.head
        } else {
            self.limit.saturating_sub(self.head)
        }
    }

    /// Begins to shorten the range: nothing is appended from `limit` on. The end moves there by
    /// [`settle`](Queue::settle) when the tail has passed what is there.
    pub(crate) fn shorten_to(&mut self, limit: u64) {
        debug_assert!((self.start..=self.end).contains(&limit) && limit.is_multiple_of(8));
        self.limit = limit;
    }

    /// Whether the range is being shortened.
    #[inline]
    pub(crate) fn is_shortening(&self) -> bool {
        self.limit < self.end
    }

    /// Skips the rest of the lap if the head is beyond where the range shall end.
    pub(crate) fn leave_end(&mut self, memory: &BoundedRegion) {
        if !self.is_wrapped() && self.head > self.limit {
            let left = self.end - self.head;
            item::write_skip(memory.place(self.head), left as usize);
            self.used += left;
            self.head = self.start;
        }
    }

    /// Moves the end to where it shall be, if nothing is beyond it any more; returns whether it is there.
    pub(crate) fn settle(&mut self) -> bool {
        if self.is_shortening() && !self.is_wrapped() && self.head <= self.limit {
            self.end = self.limit;
            if self.used > 0 && self.head == self.end {
                self.head = self.start;
            }
        }
        !self.is_shortening()
    }

    /// Moves the end up to `end`, unless items reach over the present one; returns whether it was moved.
    pub(crate) fn lengthen_to(&mut self, end: u64) -> bool {
        debug_assert!(end >= self.end && end.is_multiple_of(8));
        if self.is_wrapped() {
            return false;
        }
        (self.end, self.limit) = (end, end);
        true
    }

    /// Whether an item of `need` bytes can be appended now.
    #[inline]
    pub(crate) fn has_space(&self, need: u64) -> bool {
        self.ahead() >= need || (!self.is_wrapped() && self.tail - self.start >= need)
    }

    /// Takes `need` bytes, a positive multiple of 8 for which there [is space](Queue::has_space), at the head; returns
    /// their offset. The rest of the lap is skipped if it is too short.
    #[inline]
    pub(crate) fn append(&mut self, memory: &BoundedRegion, need: u64) -> u64 {
        debug_assert!(need > 0 && need.is_multiple_of(8) && self.has_space(need));
        if self.ahead() < need {
            let left = self.end - self.head;
            item::write_skip(memory.place(self.head), left as usize);
            self.used += left;
            self.head = self.start;
        }
        let at = self.head;
        self.used += need;
        self.live += need;
        self.head += need;
        if self.head == self.end {
            self.head = self.start;
        }
        at
    }

    /// Gives up the item of `bytes` at the tail.
    #[inline]
    pub(crate) fn drop_item(&mut self, bytes: u64) {
        self.forget(bytes);
        self.drop_skipped(bytes);
    }

    /// Gives up the `bytes` of a skip marker at the tail.
    #[inline]
    pub(crate) fn drop_skipped(&mut self, bytes: u64) {
        debug_assert!(self.can_drop(bytes));
        self.used -= bytes;
        self.tail += bytes;
        if self.tail == self.end {
            self.tail = self.start;
        }
        if self.used == 0 {
            self.clear();
        }
    }

    /// Removes everything.
    pub(crate) fn clear(&mut self) {
        let limit = self.limit;
        *self = Queue::new(self.start, self.end);
        self.limit = limit;
    }

    /// Distance of an item from the tail in 1/65,536 of the range: the smaller it is, the sooner the item leaves. Items of
    /// two queues can be compared by it.
    #[inline]
    pub(crate) fn age_rank(&self, offset: u64) -> u64 {
        let distance = if offset >= self.tail {
            offset - self.tail
        } else {
            offset + self.size() - self.tail
        };
        (distance << 16) / self.size()
    }

    /// Gives up the item of `bytes` at the tail and takes as many at the head; returns their offset. The item is still
    /// in its old place, which may overlap the new one from above: it must be copied in ascending order. `None` if there
    /// is no space for it before the limit of a queue that is being shortened; then nothing changes.
    #[inline]
    pub(crate) fn rotate(&mut self, memory: &BoundedRegion, bytes: u64) -> Option<u64> {
        let alone = self.used == bytes;
        if alone {
            return (self.tail + bytes <= self.limit).then_some(self.tail);
        }
        let mut after = *self;
        after.drop_item(bytes);
        if !after.has_space(bytes) {
            debug_assert!(self.is_shortening());
            return None;
        }
        *self = after;
        Some(self.append(memory, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::Head;
    use drover_base::Rng;
    use drover_mem::{PageWish, Region};
    use proptest::prelude::*;
    use std::collections::VecDeque;
    use std::sync::atomic::Ordering;

    const SIZE: u64 = 4000;

    fn memory() -> BoundedRegion {
        BoundedRegion::private(SIZE as usize + 64, PageWish::Small).expect("memory")
    }

    /// Position of an item of `need` bytes when the head is at `head` of a log of `size`: our rule, or a flawed one.
    type PlaceRule = fn(head: u64, size: u64, need: u64) -> u64;

    fn ours(head: u64, size: u64, need: u64) -> u64 {
        let memory = memory();
        let mut queue = Queue::new(0, size);
        queue.head = head % size;
        queue.tail = queue.head;
        head - head % size + queue.append(&memory, need) + if head % size + need > size { size } else { 0 }
    }

    /// The rule of one public code: it measures the space left at the *virtual* head, which is correct on lap 1 only.
    fn virtual_head(head: u64, size: u64, need: u64) -> u64 {
        if size.wrapping_sub(head) < need {
            head.next_multiple_of(size)
        } else {
            head
        }
    }

    /// Three laps of mixed sizes; the first byte written outside the log, if any.
    fn first_byte_outside(place: PlaceRule) -> Option<u64> {
        let (size, mut head) = (SIZE, 0);
        for i in 0u64.. {
            let need = 24 + 8 * (i * 7 % 41);
            let at = place(head, size, need);
            let physical = at % size;
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

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 50 }))]

        #[test]
        fn a_walk_finds_the_items_in_order(seed in any::<u64>()) {
            walks_in_order(seed);
        }
    }

    /// Appends, drops and rotates at random, and compares with a list of the items. Every byte outside the range stays
    /// as it was, and a walk from the tail finds exactly the items.
    fn walks_in_order(seed: u64) {
        let mut rng = Rng::new(seed, 0, 0);
        let region = Region::private(8192, PageWish::Small).expect("memory");
        let memory = BoundedRegion::new(region.clone(), SIZE as usize + 64);
        let (start, end) = (64, 64 + 8 * (8 + rng.below(SIZE / 8 - 7)));
        let mut queue = Queue::new(start, end);
        let mut model: VecDeque<(u64, u64, u64)> = VecDeque::new();
        for number in 0..if cfg!(miri) { 60 } else { 400 } {
            let need = 8 * (2 + rng.below((queue.size() / 8 - 2).min(60) + 1));
            if rng.below(4) == 0 {
                rotate(&mut queue, &memory, &mut model);
            }
            while !queue.has_space(need) {
                drop_tail(&mut queue, &memory, &mut model);
            }
            let at = queue.append(&memory, need);
            write(&memory, at, need, number);
            model.push_back((at, need, number));
            assert_eq!(walk(&queue, &memory), model);
        }
        let outside = (0..start).step_by(8).chain((end..4096).step_by(8));
        for at in outside {
            assert_eq!(region.load_u64(at as usize, Ordering::Relaxed), 0, "byte {at}");
        }
        let items: u64 = model.iter().map(|&(_, need, _)| need).sum();
        let again = Queue::resume(start, end, queue.tail, queue.used, items);
        assert_eq!(again, Some(queue));
    }

    fn write(memory: &BoundedRegion, at: u64, need: u64, number: u64) {
        // The head of an item of `need` bytes: an 8-byte key, and a value.
        memory.store(at, 8 << 24 | (need - 16) | 1 << 32);
        for word in (8..need).step_by(8) {
            memory.store(at + word, number);
        }
    }

    fn drop_tail(queue: &mut Queue, memory: &BoundedRegion, model: &mut VecDeque<(u64, u64, u64)>) {
        let head = Head::load(memory.place(queue.tail().expect("not empty")));
        if head.is_skip() {
            return queue.drop_skipped(head.step() as u64);
        }
        queue.drop_item(head.step() as u64);
        model.pop_front();
    }

    fn rotate(queue: &mut Queue, memory: &BoundedRegion, model: &mut VecDeque<(u64, u64, u64)>) {
        let Some(tail) = queue.tail() else { return };
        let head = Head::load(memory.place(tail));
        if head.is_skip() {
            return;
        }
        let to = queue.rotate(memory, head.step() as u64).expect("space");
        for word in (0..head.step() as u64).step_by(8) {
            memory.store(to + word, memory.load(tail + word));
        }
        let (_, need, number) = model.pop_front().expect("an item");
        model.push_back((to, need, number));
    }

    fn walk(queue: &Queue, memory: &BoundedRegion) -> VecDeque<(u64, u64, u64)> {
        let (mut queue, mut found) = (*queue, VecDeque::new());
        while let Some(at) = queue.tail() {
            let head = Head::load(memory.place(at));
            if !head.is_skip() {
                let number = memory.load(at + 8);
                let words = (8..head.step() as u64).step_by(8);
                assert!(
                    words
                        .map(|word| memory.load(at + word))
                        .all(|word| word == number)
                );
                found.push_back((at, head.step() as u64, number));
            }
            queue.drop_skipped(head.step() as u64);
        }
        found
    }

    #[test]
    fn impossible_positions_are_not_resumed() {
        for (tail, used) in [(8, 0), (72, 8), (64, 4096), (60, 8), (SIZE, 8), (64, 12)] {
            assert_eq!(
                Queue::resume(64, SIZE, tail, used, 0).is_some(),
                (tail, used) == (72, 8),
                "{tail} {used}"
            );
        }
    }
}
