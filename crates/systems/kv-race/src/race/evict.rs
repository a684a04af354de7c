//! Eviction: what a client that may lose items removes when memory or a bucket is full.
//!
//! Nobody knows when an item was last read, since readers tell nobody. So the oldest of a few items that were drawn at random goes,
//! one that has expired first.

use super::attend::Entry;
use super::operation::Operation;
use super::recovery::{READ_BYTES, Walk};
use super::{Race, Shard};
use crate::error::RaceError;
use drover_base::mix;
use drover_index::race::{BUCKET_BYTES, GROUP_BUCKETS, SlotKind};
use drover_memnode::{Class, EpochPin, MemoryError};
use drover_rt::TaskCx;
use drover_verbs::Provider;

/// Items that one call removes at most, so that the next writes find memory, too.
const BATCH: usize = 16;
/// Groups that are drawn for these.
const DRAWS: usize = 4 * BATCH;
/// Items of a draw that are compared.
const COMPARED: usize = 8;

/// Renewals of the lease within which epochs usually let the blocks be used.
const RENEWALS: usize = 8;

impl<P: Provider> Race<P> {
    /// Whether an error would not be if some item were gone, and this client may remove one.
    pub(super) fn can_evict(&self, error: &RaceError) -> bool {
        let is_full = matches!(
            error,
            RaceError::TableFull | RaceError::Memory(MemoryError::Full { .. } | MemoryError::Quota { .. })
        );
        self.0.options.evicts && is_full
    }

    fn draw(&self, below: u64) -> u64 {
        let state = self.0.draws.get().wrapping_add(1);
        self.0.draws.set(state);
        mix(state ^ u64::from(self.nodes().pool().client().bits()) << 32) % below.max(1)
    }

    /// Removes items whose blocks are as long as one of `bytes`; returns how many.
    async fn evict(&self, cx: &TaskCx<P>, shard: &Shard, class: Class) -> Result<usize, RaceError> {
        let mut evicted = 0;
        for _ in 0..DRAWS {
            let pin = self.nodes().pin(shard.node);
            let subtable = {
                let directory = shard.directory.borrow();
                let entries = directory.entries();
                entries[self.draw(entries.len() as u64) as usize].subtable
            };
            let group = self.draw(u64::from(shard.header.shape.group_count()));
            let group_bytes = GROUP_BUCKETS * BUCKET_BYTES;
            let first = subtable + group * group_bytes as u64;
            let mut entries = self.entries(cx, shard, first, group_bytes).await?;
            entries.retain(|(_, _, block)| Class::of(block.bytes()) == Some(class));
            evicted += usize::from(self.remove_oldest(cx, shard, &pin, &mut entries).await?);
            if evicted == BATCH {
                break;
            }
        }
        match evicted {
            0 => self.evict_of_few(cx, shard, class).await,
            evicted => Ok(evicted),
        }
    }

    /// As [`evict`](Race::evict), in a table with so few items that no draw has met one: looks everywhere, from a drawn place on.
    async fn evict_of_few(&self, cx: &TaskCx<P>, shard: &Shard, class: Class) -> Result<usize, RaceError> {
        let (bytes, mut walk, mut evicted) = (shard.header.shape.bytes() as usize, Walk::default(), 0);
        while let Some(subtable) = self.next_subtable(cx, shard, &mut walk).await? {
            let pieces = bytes.div_ceil(READ_BYTES);
            let drawn = self.draw(pieces as u64) as usize;
            for piece in 0..pieces {
                let pin = self.nodes().pin(shard.node);
                let from = (drawn + piece) % pieces * READ_BYTES;
                let first = subtable + from as u64;
                let found = self.entries(cx, shard, first, READ_BYTES.min(bytes - from));
                let mut entries = found.await?;
                entries.retain(|(_, _, block)| Class::of(block.bytes()) == Some(class));
                evicted += usize::from(self.remove_oldest(cx, shard, &pin, &mut entries).await?);
                if evicted == BATCH {
                    return Ok(evicted);
                }
            }
        }
        Ok(evicted)
    }

    /// Removes the oldest of some of these items.
    async fn remove_oldest(
        &self,
        cx: &TaskCx<P>,
        shard: &Shard,
        pin: &EpochPin<P>,
        entries: &mut Vec<Entry>,
    ) -> Result<bool, RaceError> {
        while entries.len() > COMPARED {
            entries.swap_remove(self.draw(entries.len() as u64) as usize);
        }
        let metas = self.read_metas(cx, shard, entries).await?;
        let ages = entries.iter().zip(&metas);
        let oldest = ages.min_by_key(|(_, meta)| (self.is_live(cx, shard, meta), meta.created_s));
        let Some((&entry, _)) = oldest else {
            return Ok(false);
        };
        let is_removed = self.remove(cx, shard, pin, entry, true).await?;
        self.0.count(|stats| stats.evicted += u64::from(is_removed));
        Ok(is_removed)
    }
}

impl<'a, P: Provider> Operation<'a, P> {
    /// Removes items, for want of memory for a block, and begins the operation anew when their blocks can be used.
    pub(super) async fn make_room(self, error: RaceError) -> Result<Operation<'a, P>, RaceError> {
        let (race, cx, shard, key) = (self.race, self.cx, self.shard, self.key);
        let (class, deadline) = (self.wanted, self.deadline);
        // Its pin would keep the blocks from being used.
        drop(self);
        let class = class.ok_or(error)?;
        let (arena, bytes) = (&race.0.arena, class.bytes());
        // A dead client holds epochs up until it is fenced: what was removed before that is enough.
        let is_there = arena.awaits(shard.node, class) || race.evict(cx, shard, class).await? > 0;
        if !is_there || cx.now() >= deadline {
            return Err(error);
        }
        for _ in 0..RENEWALS {
            cx.sleep(race.nodes().node(shard.node).times().renew_every).await;
            if let Some(addr) = arena.try_alloc(shard.node, bytes) {
                arena.put_back(addr, bytes);
                break;
            }
        }
        let mut operation = race.begin(cx, key)?;
        operation.deadline = deadline;
        Ok(operation)
    }

    /// Removes one of the items in whose place the key's could stand, since their subtable cannot be split.
    pub(super) async fn evict_beside(&mut self, error: RaceError) -> Result<(), RaceError> {
        let view = &self.view;
        let entries = view.candidates.entries().filter_map(|(id, slot)| {
            let block = slot.block().filter(|_| slot.kind() == SlotKind::Live)?;
            let offset = view.entry.subtable + id.offset();
            (!slot.is_frozen()).then_some((offset, slot, block))
        });
        let mut entries: Vec<Entry> = entries.collect();
        let (cx, shard) = (self.cx, self.shard);
        let had_some = !entries.is_empty();
        self.race
            .remove_oldest(cx, shard, &self.pin, &mut entries)
            .await?;
        match had_some && cx.now() < self.deadline {
            true => Ok(()),
            false => Err(error),
        }
    }
}
