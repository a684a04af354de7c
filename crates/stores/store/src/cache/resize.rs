//! Division of a cache's memory between items and index: the index follows the number of items.
//!
//! ```text
//!   | small log |         main log          |    unused    |   index   |     unused     |
//!                          end <- moves ->                              <- moves -> end
//! ```
//! The sum of both stays the same; pages of unused memory are returned to the system. To give the index more, the main log
//! is shortened first: its end moves when the tail has passed what is beyond the new end, or at once if nothing is there
//! yet. Then the index grows by a few buckets per PUT. To give the log more, the index shrinks first, and the log's end
//! moves afterwards. Each PUT does a bounded part of that work.

use super::Cache;
use super::evict::Pace;
use crate::item;
use crate::sharing::Sharing;
use drover_base::Cpu;
use drover_index::{BUCKET_BYTES, CACHE_SLOTS};

/// Share of the slots that should have items, in per cent. With more, more items are lost because their buckets are full;
/// with less, there is less space for items. The other slots hold ghosts or nothing.
const LOAD_PERCENT: u64 = 55;
/// The same while the main log has not been full yet: a larger index soon fills, and need not grow again.
const LOAD_PERCENT_FILLING: u64 = 45;
/// Share of the slots with items at which an index that is not full yet grows.
const LOAD_PERCENT_FILLING_MAX: u64 = 60;
/// While the index changes its size, each PUT of a new key moves two buckets, and two more for each so many bytes of its
/// item, up to twice [`PAIRS_PER_PUT_MAX`].
const BYTES_PER_PAIR: u64 = 512;
const PAIRS_PER_PUT_MAX: u64 = 16;
/// Items of the main log that each PUT of a new key passes while the log is being shortened.
const ITEMS_PER_PUT: u32 = 4;
/// One change of the index makes it at most so many times as large.
const GROWTH_MAX: u64 = 4;
/// From this number of items on, their mean length is taken to tell how many will fit.
const ITEMS_TO_JUDGE: u64 = 32;
/// The index may take one part in so many of the memory.
pub(super) const INDEX_SHARE_MAX: usize = 4;

/// State of an index that may change its size.
#[derive(Clone, Copy, Debug)]
pub(super) struct Resize {
    /// Bytes of logs and index together.
    pub(super) total: u64,
    /// What they shall have together: [`limit_memory`](Cache::limit_memory).
    pub(super) limit: u64,
    /// Most that they may have together.
    most: u64,
    /// From this number of items on, a PUT of a new key calls [`adapt`](Cache::adapt).
    pub(super) due_at: u64,
    /// Number of buckets that the index will have, once the main log is short enough.
    wanted: Option<u64>,
}

impl Resize {
    pub(super) fn new(total: u64) -> Resize {
        Resize {
            total,
            limit: total,
            most: total,
            due_at: ITEMS_TO_JUDGE,
            wanted: None,
        }
    }
}

impl<S: Sharing> Cache<S> {
    /// Continues a change of the division, or decides whether one is needed. For a PUT of a new key, whose item has `need`
    /// bytes.
    #[cold]
    #[inline(never)]
    pub(super) fn adapt<C: Cpu>(&mut self, cpu: &C, need: u64, now_s: u32) {
        let Some(mut resize) = self.resize else {
            return;
        };
        resize.due_at = 0;
        if self.table.is_resizing() {
            self.move_buckets(cpu, need);
        } else if let Some(wanted) = resize.wanted {
            if self.pass_end(cpu, now_s) {
                self.release_log();
                self.begin_resize(wanted);
                resize.wanted = None;
            }
        } else if resize.limit < resize.total {
            resize.total = resize.limit;
            let now = self.table.bucket_count();
            let end = resize.limit - now * BUCKET_BYTES as u64;
            if end < self.main.end() {
                self.main.shorten_to(end);
                resize.wanted = Some(now);
            }
        } else {
            resize.total = resize.limit;
            self.resize = Some(resize);
            self.lengthen_log();
            let (now, wanted) = (self.table.bucket_count(), self.buckets_wanted(resize.total));
            if wanted > now + now / 16 {
                let wanted = wanted.min(now * GROWTH_MAX);
                self.main
                    .shorten_to(self.main.end() - (wanted - now) * BUCKET_BYTES as u64);
                resize.wanted = Some(wanted);
            } else if wanted < now - now / 4 && !self.is_filling {
                self.begin_resize(wanted);
            } else {
                let percent = match self.is_filling {
                    true => LOAD_PERCENT_FILLING_MAX,
                    false => LOAD_PERCENT,
                };
                resize.due_at = now * CACHE_SLOTS as u64 * percent / 100;
                resize.due_at = resize.due_at.max(self.counters.items + now / 4 + 1);
            }
        }
        self.resize = Some(resize);
    }

    /// Limits logs and index together to `bytes`, rounded down to whole buckets: from half of what they had when the cache
    /// was created up to all of it. Less memory is given up, and more is used, as PUTs of new keys come. Returns `false`, and
    /// changes nothing, if that is out of bounds, if the largest item would not fit any more, or if the division is fixed.
    pub(crate) fn limit_memory(&mut self, bytes: u64) -> bool {
        let Some(resize) = &mut self.resize else {
            return false;
        };
        let limit = bytes - bytes % BUCKET_BYTES as u64;
        let index_bytes_max = self.table.capacity() * BUCKET_BYTES as u64;
        let main_bytes_min = limit.saturating_sub(self.small.size() + index_bytes_max);
        // A little less than half, because shares of memories are rounded.
        let allowed = resize.most / 128 * 63..=resize.most;
        if !allowed.contains(&limit) || main_bytes_min < self.limits.item_bytes_max() {
            return false;
        }
        resize.limit = limit;
        resize.due_at = 0;
        true
    }

    /// Lets the tail of the main log pass some items, if its end cannot be moved yet; returns whether it was moved.
    fn pass_end<C: Cpu>(&mut self, cpu: &C, now_s: u32) -> bool {
        self.main.leave_end(&self.memory);
        for _ in 0..ITEMS_PER_PUT {
            if self.main.settle() {
                break;
            }
            self.shorten_main(cpu, now_s, Pace::Limited);
        }
        self.main.settle()
    }

    /// Makes the next PUT of a new key decide whether the division should change: called when the main log begins a lap.
    pub(super) fn adapt_soon(&mut self) {
        if let Some(resize) = &mut self.resize {
            resize.due_at = 0;
        }
    }

    /// Number of buckets for as many items as the `total` memory will hold, if their mean length stays what it is now, and for
    /// those that there are. (One long item among many short ones makes the mean meaningless.)
    fn buckets_wanted(&self, total: u64) -> u64 {
        let slots_per_100 = |percent| CACHE_SLOTS as u64 * percent;
        let items = self.counters.items.max(1);
        let per_item = self.bytes() / items + BUCKET_BYTES as u64 * 100 / slots_per_100(LOAD_PERCENT);
        let will_fit = total / per_item.max(1) * 100 / slots_per_100(LOAD_PERCENT);
        let are_there = items * 100
            / slots_per_100(match self.is_filling {
                true => LOAD_PERCENT_FILLING,
                false => LOAD_PERCENT,
            });
        let most = total / (INDEX_SHARE_MAX * BUCKET_BYTES) as u64;
        will_fit.max(are_there).clamp(1, most.max(1))
    }

    fn move_buckets<C: Cpu>(&mut self, cpu: &C, need: u64) {
        for _ in 0..(1 + need / BYTES_PER_PAIR).min(PAIRS_PER_PUT_MAX) {
            let (memory, hasher) = (&self.memory, &self.hasher);
            self.sharing.begin_move();
            let moved = self.table.move_buckets(self.ghosts, self.spills(), |slot| {
                let place = memory.place(slot.offset());
                cpu.touch(place.line(0));
                item::hash_of(place, hasher.as_deref()).map_or(0, |hash| hash.bucket_bits())
            });
            self.sharing.end_move(self.table.spread());
            for slot in moved.displaced.into_iter().filter(|slot| slot.is_item()) {
                self.counters.evicted_bucket_full += 1;
                self.counters.evicted_unread += u64::from(!slot.is_read());
                self.note_evicted(slot);
                self.discard(slot.offset());
                self.counters.items -= 1;
            }
            if moved.done {
                return;
            }
        }
    }

    /// Gives the main log the memory that a smaller index has left, unless the log has wrapped now.
    pub(super) fn lengthen_log(&mut self) {
        let Some(resize) = self.resize.filter(|resize| resize.wanted.is_none()) else {
            return;
        };
        let index_bytes = self.table.bucket_count() * BUCKET_BYTES as u64;
        let end = resize.total - index_bytes;
        if end > self.main.end() && self.main.lengthen_to(end) {
            self.release_index(index_bytes);
        }
    }

    fn begin_resize(&mut self, wanted: u64) {
        self.sharing.begin_move();
        self.table.begin_resize(wanted);
        self.sharing.end_move(self.table.spread());
        self.end_huge_pages(wanted.max(self.table.bucket_count()));
    }

    /// Says to the system where the logs and an index of `bucket_count` buckets end, so that huge pages do not take memory
    /// behind them.
    pub(super) fn end_huge_pages(&self, bucket_count: u64) {
        let region = self.memory.region();
        region.end_huge_page(self.main.end() as usize);
        region.end_huge_page(self.memory.len() + bucket_count as usize * BUCKET_BYTES);
    }

    /// Returns the pages behind the end of the main log to the system.
    fn release_log(&self) {
        let (from, to) = (self.main.end() as usize, self.memory.len());
        self.memory.region().discard(from, to - from);
    }

    /// Returns the pages behind the index to the system.
    fn release_index(&self, index_bytes: u64) {
        let from = self.memory.len() + index_bytes as usize;
        let region = self.memory.region();
        region.discard(from, region.len() - from);
        self.end_huge_pages(index_bytes / BUCKET_BYTES as u64);
    }
}
