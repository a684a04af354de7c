//! Which items a cache evicts *(S3-FIFO: `[S3-FIFO]`, SOSP 2023; the bounds and the ghosts in index slots are ours)*.
//!
//! ```text
//!  new item --> small log --used again?--> main log --used since?--> main log again, fewer uses left
//!                  |  no                       |  no
//!                  v                           v
//!                ghost: if its key is stored again, that item goes to the main log at once
//! ```
//! Items are evicted at the tails, one at a time, each from its slot first, so nothing is overwritten that is still in the
//! index. The exception is a full bucket with a full neighbour: then one of its eight items is evicted, wherever it is.

use super::Cache;
use super::sizes::Class;
use crate::item::{self, Head};
use crate::options::Eviction;
use crate::queue::Queue;
use crate::sharing::Sharing;
use drover_base::{Cpu, KeyHash};
use drover_index::Slot;

/// The small log has one part in so many of the memory for items.
const SMALL_SHARE: u64 = 10;
/// An item larger than one part in so many of the small log goes to the main log at once: a few of them would push out
/// all others of the small log.
const SMALL_ITEMS_MIN: u64 = 8;
/// Removed items may take one part in so many of the main log. While they take more, their space is reclaimed, and items
/// between them are kept without losing a use.
const HOLES_SHARE: u64 = 32;

/// The reserve of free space is at most one part in so many of the main log.
const RESERVE_SHARE_MAX: u64 = 64;

/// One of the two logs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Log {
    Small,
    Main,
}

/// How an item enters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Admission {
    pub(super) log: Log,
    /// Slot of the key's ghost, if there is one.
    pub(super) ghost: Option<usize>,
    /// Uses with which it begins.
    pub(super) uses: u64,
}

/// Bytes of the small log if both have `log_bytes`.
pub(super) fn small_bytes(eviction: Eviction, log_bytes: u64) -> u64 {
    match eviction {
        Eviction::Fifo => 0,
        Eviction::S3Fifo => (log_bytes / SMALL_SHARE) & !63,
    }
}

/// How often the caller shortens the main log at its tail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pace {
    /// As often as it takes to make space. So the bytes that may be copied are limited.
    Needed,
    /// Once, before the space is needed. A used item stays where it is unless there is enough left to copy it.
    Ahead,
    /// A limited number of times for each PUT. So every item that has uses may be copied.
    Limited,
}

/// Reason why an item leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Leave {
    Expired,
    Evicted,
    /// The current PUT replaces it.
    Replaced,
}

impl<S: Sharing> Cache<S> {
    pub(super) fn queue(&mut self, log: Log) -> &mut Queue {
        match log {
            Log::Small => &mut self.small,
            Log::Main => &mut self.main,
        }
    }

    /// Where an item of `need` bytes enters. `found` is the key's present item.
    #[inline]
    pub(super) fn admit(&self, hash: KeyHash, need: u64, found: super::Found) -> Admission {
        let mut admission = Admission {
            log: Log::Main,
            ghost: None,
            uses: 0,
        };
        if need > self.small.size() / SMALL_ITEMS_MIN {
            return admission;
        }
        if let Some(entry) = found {
            if self.small.contains(entry.slot.offset()) {
                admission.log = Log::Small;
            }
            return admission;
        }
        match self.table.bucket(hash).ghost_of(hash.tag()) {
            Some(i) => {
                admission.ghost = Some(i);
                let class = self.sizes.class(need);
                // For a large item its return is no more than one use.
                (admission.log, admission.uses) = match class {
                    Class::Large => (Log::Small, 1),
                    Class::Small | Class::Normal => (Log::Main, class.uses_in_main()),
                };
            }
            None => admission.log = Log::Small,
        }
        admission
    }

    /// Evicts items until `need` bytes can be appended to `log`.
    #[cold]
    #[inline(never)]
    pub(super) fn make_space<C: Cpu>(&mut self, cpu: &C, log: Log, need: u64, now_s: u32) {
        while !self.queue(log).has_space(need) {
            match log {
                Log::Small => self.shorten_small(cpu, now_s),
                Log::Main => self.shorten_main(cpu, now_s, Pace::Needed),
            }
        }
    }

    /// Takes one step towards a reserve of free space in the main log. So a run of used items at its tail is copied by many
    /// PUTs in turn, before one PUT needs the space behind it and may not copy that much.
    #[inline]
    pub(super) fn make_reserve<C: Cpu>(&mut self, cpu: &C, now_s: u32) {
        if self.main.free() < self.sizes.reserve().min(self.main.size() / RESERVE_SHARE_MAX) {
            self.shorten_main(cpu, now_s, Pace::Ahead);
        }
    }

    /// Removes the item or skip marker at the tail of the small log: an item moves to the main log or leaves.
    fn shorten_small<C: Cpu>(&mut self, cpu: &C, now_s: u32) {
        let Some((at, head)) = self.tail_of(cpu, Log::Small) else {
            return;
        };
        let size = head.step() as u64;
        if head.is_skip() || self.renews_replaced(cpu, at) {
            return self.small.drop_skipped(size);
        }
        let (bucket_index, i) = self.slot_of(cpu, at);
        let slot = self.table.bucket_at(bucket_index).slot(i);
        let expired = head.is_expired(self.memory.place(at), now_s);
        let class = self.sizes.class(size);
        let has_space = (self.is_filling && self.main.has_space(size)) || self.main_has_room();
        let stays = (has_space || slot.uses() >= class.uses_to_move()) && !self.evicts_used(slot);
        if expired || !stays {
            let leave = if expired { Leave::Expired } else { Leave::Evicted };
            self.leave(bucket_index, i, leave);
            return self.small.drop_item(size);
        }
        while !self.main.has_space(size) {
            self.shorten_main(cpu, now_s, Pace::Needed);
        }
        let to = self.main.append(&self.memory, size);
        // A use that did not pay for the move still counts in the main log.
        let uses = match has_space {
            true => slot.uses().max(class.uses_in_main()),
            false => class.uses_in_main(),
        };
        self.relocate(bucket_index, i, to, slot.with_uses(uses));
        self.counters.promoted += 1;
        self.small.drop_item(size);
    }

    /// Removes the item or skip marker at the tail of the main log: an item is appended again, or leaves.
    /// [Ahead](Pace::Ahead) of need, a used item may stay at the tail.
    pub(super) fn shorten_main<C: Cpu>(&mut self, cpu: &C, now_s: u32, pace: Pace) {
        self.is_filling = false;
        let Some((at, head)) = self.tail_of(cpu, Log::Main) else {
            return;
        };
        let size = head.step() as u64;
        if head.is_skip() || self.renews_replaced(cpu, at) {
            self.main.drop_skipped(size);
            return self.look_at_lap();
        }
        let (bucket_index, i) = self.slot_of(cpu, at);
        let slot = self.table.bucket_at(bucket_index).slot(i);
        let expired = head.is_expired(self.memory.place(at), now_s);
        let needed = self.sizes.class(size).uses_to_stay();
        let is_used = slot.uses() >= needed;
        // Space of removed items is reclaimed before any other: those between them are kept, if there is enough left to copy
        // items that are used. Of these, those that are used much come first.
        let has_room = self.main_has_room();
        let stays = self.small.size() > 0
            && !self.evicts_used(slot)
            && (is_used || has_room)
            && match pace {
                Pace::Limited => true,
                Pace::Ahead => self.sizes.spend_excess(size),
                Pace::Needed if slot.uses() > needed => self.sizes.spend(size),
                Pace::Needed => self.sizes.spend_surplus(size),
            };
        if pace == Pace::Ahead && is_used && !stays && !expired {
            return;
        }
        let cost = if has_room { 0 } else { needed };
        let to = match stays && !expired {
            true => self.main.rotate(&self.memory, size),
            false => None,
        };
        let Some(to) = to else {
            let leave = if expired { Leave::Expired } else { Leave::Evicted };
            self.leave(bucket_index, i, leave);
            self.main.drop_item(size);
            return self.look_at_lap();
        };
        self.relocate(bucket_index, i, to, slot.with_uses(slot.uses() - cost));
        self.counters.renewed += 1;
    }

    /// Whether so much of the main log is without items that its items are kept, whether used or not, and those at the tail
    /// of the small log join them.
    fn main_has_room(&self) -> bool {
        self.main.room() > self.main.size() / HOLES_SHARE
    }

    /// When a lap of the main log's tail begins: lengthens the log if it can, and makes the next PUT of a new key look at
    /// the division of the memory.
    fn look_at_lap(&mut self) {
        if self.main.is_at_start() {
            self.lengthen_log();
            self.adapt_soon();
        }
    }

    /// The tail of a log and the first word there; `None` if the log is empty.
    #[inline]
    fn tail_of<C: Cpu>(&mut self, cpu: &C, log: Log) -> Option<(u64, Head)> {
        let at = self.queue(log).tail()?;
        let place = self.memory.place(at);
        cpu.touch(place.line(0));
        Some((at, Head::load(place)))
    }

    /// Bucket and slot index of the item at `at`.
    fn slot_of<C: Cpu>(&self, cpu: &C, at: u64) -> (u64, usize) {
        if let Some(hash) = item::hash_of(self.memory.place(at), self.hasher.as_deref())
            && let Some(place) = self.slot_by_hash(cpu, hash, at)
        {
            return place;
        }
        self.search_slot_of(at)
    }

    /// Bucket and slot index of the item at `at` of a key with `hash`.
    pub(super) fn slot_by_hash<C: Cpu>(&self, cpu: &C, hash: KeyHash, at: u64) -> Option<(u64, usize)> {
        let look = |index: u64| {
            let bucket = self.table.bucket_at(index);
            cpu.touch(bucket.line());
            bucket.slot_of(hash.tag(), at).map(|i| (index, i))
        };
        let own = look(self.table.bucket_index(hash));
        own.or_else(|| look(self.table.neighbour_of(hash.bucket_bits())?))
    }

    /// As [`slot_of`](Cache::slot_of), by a search of the whole index: for partitions that do not know the seed of their
    /// keys' hashes.
    #[cold]
    fn search_slot_of(&self, at: u64) -> (u64, usize) {
        let is_it = |slot: &Slot| slot.is_item() && slot.offset() == at;
        let found = (0..self.table.bucket_count()).find_map(|index| {
            let slots = self.table.bucket_at(index).slots();
            slots.iter().position(is_it).map(|i| (index, i))
        });
        found.expect("every item in a log has a slot")
    }

    /// Copies the item of a slot to `to`, which may overlap its place from below, and updates the slot.
    fn relocate(&mut self, bucket_index: u64, i: usize, to: u64, slot: Slot) {
        let bucket = self.table.bucket_at(bucket_index);
        let from = slot.offset();
        let size = Head::load(self.memory.place(from)).bytes();
        self.sharing.begin_write(bucket_index);
        if from != to {
            self.memory.place(from).move_words(self.memory.place(to), size);
        }
        bucket.set(i, slot.moved_to(to));
        self.sharing.end_write(bucket_index);
    }

    /// Removes the item of a slot at the tail of a log. An evicted one leaves a ghost.
    fn leave(&mut self, bucket_index: u64, i: usize, mut why: Leave) {
        if self.replaced == Some((bucket_index, i)) {
            (self.replaced, why) = (None, Leave::Replaced);
        }
        let slot = self.table.bucket_at(bucket_index).slot(i);
        let unread = u64::from(!slot.is_read());
        let mut after = Slot::EMPTY;
        match why {
            Leave::Replaced => (),
            Leave::Expired => {
                self.counters.reclaimed += 1;
                self.counters.expired_unread += unread;
            }
            Leave::Evicted => {
                self.counters.evicted_log_wrapped += 1;
                self.counters.evicted_unread += unread;
                self.note_evicted(slot);
                if self.small.size() > 0 {
                    self.remembers_evicted(slot);
                    self.ghosts = self.ghosts.wrapping_add(1);
                    after = Slot::ghost(slot.tag(), self.ghosts);
                }
            }
        }
        self.vacate(bucket_index, i, after);
    }

    /// Takes a slot for a new item with `hash`: in its bucket the slot of the key's ghost, else an empty one, else that of the
    /// oldest ghost; else such a slot in the neighbour; else that of an item, which is evicted.
    #[inline]
    pub(super) fn take_slot<C: Cpu>(&mut self, cpu: &C, hash: KeyHash, ghost: Option<usize>) -> (u64, usize) {
        let index = self.table.bucket_index(hash);
        let bucket = self.table.bucket_at(index);
        // An eviction since may have taken the ghost's slot.
        let ghost = ghost.filter(|&i| !bucket.slot(i).is_item());
        match ghost.or_else(|| bucket.free(self.ghosts)) {
            Some(i) => (index, i),
            None => self.spill(cpu, hash),
        }
    }

    /// A slot for an item whose bucket is full.
    #[cold]
    fn spill<C: Cpu>(&mut self, cpu: &C, hash: KeyHash) -> (u64, usize) {
        if self.spills()
            && let Some(place) = self.table.space(hash.bucket_bits(), self.ghosts, true)
        {
            cpu.touch(self.table.bucket_at(place.0).line());
            return place;
        }
        (self.table.bucket_index(hash), self.displace(cpu, hash))
    }

    /// Whether items of full buckets spill into neighbours. A FIFO cache is that of MICA.
    pub(super) fn spills(&self) -> bool {
        self.small.size() > 0
    }

    /// Evicts the item of a full bucket that has the fewest uses; among several, the one nearest to the tail of its log.
    /// A FIFO cache ignores uses.
    #[cold]
    fn displace<C: Cpu>(&mut self, cpu: &C, hash: KeyHash) -> usize {
        let bucket = self.table.bucket(hash);
        let slots = bucket.slots();
        let rank = |i: &usize| {
            let slot = slots[*i];
            let queue = if self.main.contains(slot.offset()) {
                &self.main
            } else {
                &self.small
            };
            let uses = if self.small.size() > 0 { slot.uses() } else { 0 };
            (uses, queue.age_rank(slot.offset()))
        };
        let i = (0..slots.len()).min_by_key(rank).expect("eight slots");
        cpu.touch(self.memory.place(slots[i].offset()).line(0));
        self.counters.evicted_bucket_full += 1;
        self.counters.evicted_unread += u64::from(!slots[i].is_read());
        self.note_evicted(slots[i]);
        self.remove(self.table.bucket_index(hash), i);
        i
    }
}
