//! [`ShardPlan`]: how the memory of a service is shared out among its shards, and within one between table and records.
//!
//! | of each shard's share | |
//! |---|---|
//! | table | Pilaf: up to a place (32 bytes) for every 96 to 192 bytes, a power of two of them, so a sixth to a third of the share. FaRM: the same with its slots of 32 bytes, or of 64 where values of up to 32 bytes are in them, and an eighth more for keys that overflow |
//! | records | the rest: header, key, value; rounded up to its class |
//!
//! At the load up to which a table is good, 0.75, Pilaf's records of about 130 bytes fill both at the same time. Shorter ones
//! fill the table first, longer ones the records. *(our choice)*
//!
//! Pilaf's table begins small and doubles whenever three quarters are taken, so a service that holds little has touched
//! little of its memory. Once it is as large as planned, it goes on in memory that no record has needed: many short records
//! take the second row's bytes for the first. FaRM's table does not grow: it has its size from the start.

use crate::{Capacity, KEY_BYTES_MAX, Policy, Sizes};
use drover_base::Ns;
use drover_mem::PageWish;
use drover_rt::Idle;

/// A place has at least so many times its bytes of the share.
const SHARE_PER_PLACE: usize = 3;
/// A table that grows begins with this part of its places. Six doublings write each place of the last table once and copy
/// each key once, on average, so it costs little to begin small. *(our choice)*
const FIRST_PART: usize = 64;
/// It has at least so many: a table of eight pages.
const FIRST_PLACES: usize = 1 << 10;
/// The smallest share that makes sense.
const SHARE_MIN: usize = 1 << 18;
/// Beside key and value, a record has so many bytes.
pub const RECORD_HEADER_BYTES: usize = 24;
/// Places of a table filled to plan are so full at most, per cent: shards get unequal shares of the keys.
const FULL_PERCENT: usize = 80;
/// How often the control channels of a service are looked at: a client waits so long twice when it connects.
const LOOK_EVERY: Ns = Ns::from_us(500);

/// What a system's table consists of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TableShape {
    /// Bytes of a place.
    pub place_bytes: usize,
    /// Places for each block of overflow; 0: no overflow. A block has two places.
    pub places_per_block: usize,
    /// Whether the system replaces it by a larger one when it becomes full.
    pub grows: bool,
}

impl TableShape {
    /// A cuckoo table's.
    pub const SINGLE: TableShape = TableShape {
        place_bytes: 32,
        places_per_block: 0,
        grows: true,
    };
    /// A hopscotch table's, values in records.
    pub const NARROW: TableShape = TableShape {
        place_bytes: 32,
        places_per_block: 16,
        grows: false,
    };
    /// A hopscotch table's, short values in it.
    pub const WIDE: TableShape = TableShape {
        place_bytes: 64,
        places_per_block: 16,
        grows: false,
    };

    fn blocks(self, entry_count: usize) -> usize {
        entry_count.checked_div(self.places_per_block).unwrap_or(0)
    }

    fn bytes(self, entry_count: usize) -> usize {
        (entry_count + 2 * self.blocks(entry_count)) * self.place_bytes
    }
}

/// What every shard of a service is made of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShardPlan {
    /// Shards, each with a thread of its own.
    pub shard_count: usize,
    /// Of what its table consists.
    pub table: TableShape,
    /// Places of each table at first, a power of two.
    pub entry_count: usize,
    /// Places up to which a table may grow in memory of its own, a power of two. Means nothing to systems whose tables do
    /// not grow.
    pub entry_count_max: usize,
    /// A table of that many may grow on in memory that no record has needed.
    pub grows_into_records: bool,
    /// Bytes for each shard's records.
    pub record_bytes: usize,
    /// Longest record, bytes.
    pub item_bytes_max: usize,
    /// Forgets old items instead of refusing new ones.
    pub evicts: bool,
    /// Which pages.
    pub pages: PageWish,
    /// What a shard with nothing to do does.
    pub idle: Idle,
    /// How often a shard looks at its control channels.
    pub look_every: Ns,
    /// Most clients of each shard.
    pub clients_max: usize,
}

impl ShardPlan {
    /// Shards of these sizes, with tables of `table`.
    ///
    /// # Errors
    /// Memory that is too little to share, for people.
    pub fn new(table: TableShape, sizes: &Sizes) -> Result<ShardPlan, String> {
        let (shards, value_bytes_max) = (sizes.shard_count, sizes.value_bytes_max);
        match sizes.capacity {
            Capacity::Memory { bytes } => ShardPlan::of_memory(table, bytes, shards, value_bytes_max)
                .ok_or_else(|| format!("too little for {shards} shards")),
            Capacity::Items { count, key_bytes } => Ok(ShardPlan::of_items(
                table,
                count,
                key_bytes + value_bytes_max,
                shards,
            )),
        }
    }

    /// Puts an operator's decisions in.
    pub fn set_policy(&mut self, policy: &Policy) {
        self.evicts = policy.evicts;
        self.clients_max = policy.clients_max;
        self.idle = policy.idle;
        if policy.large_pages {
            self.pages = PageWish::Huge;
            // Reserved pages are there now; a table that grows could find them gone.
            self.entry_count = self.entry_count_max;
        }
    }

    /// What was planned, for the log.
    pub fn describe(&self) -> Vec<String> {
        let full = match self.evicts {
            true => "evicts the items that were written first: GETs leave no trace",
            false => "answers \"full\" (-M)",
        };
        let growth = match self.entry_count_max > self.entry_count {
            true => format!(" (up to {} as items arrive)", self.entry_count_max),
            false => String::new(),
        };
        vec![
            format!(
                "{} shard(s) of {} places{growth} and {} KiB of records",
                self.shard_count,
                self.entry_count,
                self.record_bytes >> 10
            ),
            format!("when full: {full}"),
        ]
    }

    /// Shards that share `memory_bytes`, for values of up to `value_bytes_max`. `None`: too little to share.
    pub fn of_memory(
        table: TableShape,
        memory_bytes: usize,
        shard_count: usize,
        value_bytes_max: usize,
    ) -> Option<ShardPlan> {
        let share = memory_bytes / shard_count.max(1);
        if share < SHARE_MIN {
            return None;
        }
        let entry_count_max: usize = 1 << (share / SHARE_PER_PLACE / table.place_bytes).ilog2();
        let entry_count = match table.grows {
            true => (entry_count_max / FIRST_PART)
                .max(FIRST_PLACES)
                .min(entry_count_max),
            false => entry_count_max,
        };
        Some(ShardPlan {
            shard_count,
            table,
            entry_count,
            entry_count_max,
            grows_into_records: table.grows,
            record_bytes: share - table.bytes(entry_count_max),
            ..ShardPlan::for_values(value_bytes_max)
        })
    }

    /// Shards for `item_count` items of `item_bytes` (key and value) in all, whose tables are less than full, and with
    /// space for as many records again: replaced ones wait a while.
    pub fn of_items(table: TableShape, item_count: u64, item_bytes: usize, shard_count: usize) -> ShardPlan {
        let share = (item_count as usize).div_ceil(shard_count.max(1));
        let entry_count = (share * 100 / FULL_PERCENT).max(1 << 10).next_power_of_two();
        // A class holds up to a quarter more than is asked for; whole lines with a version each, still more of few bytes.
        let record_bytes = (item_bytes + RECORD_HEADER_BYTES).next_multiple_of(62) * 5 / 4;
        ShardPlan {
            shard_count,
            table,
            entry_count,
            entry_count_max: entry_count,
            record_bytes: (share * 2 * record_bytes + (16 << 20)).next_multiple_of(1 << 21),
            ..ShardPlan::for_values(item_bytes)
        }
    }

    fn for_values(value_bytes_max: usize) -> ShardPlan {
        ShardPlan {
            shard_count: 1,
            table: TableShape::SINGLE,
            entry_count: 1 << 10,
            entry_count_max: 1 << 10,
            grows_into_records: false,
            record_bytes: 1 << 20,
            item_bytes_max: RECORD_HEADER_BYTES + KEY_BYTES_MAX + value_bytes_max,
            evicts: true,
            pages: PageWish::HugeIfAny,
            idle: Idle::ADAPTIVE,
            look_every: LOOK_EVERY,
            clients_max: 1024,
        }
    }

    /// Blocks of overflow of each table.
    pub fn block_count(&self) -> usize {
        self.table.blocks(self.entry_count)
    }

    /// Bytes of table, as large as planned, and of records, all shards together.
    pub fn footprint(&self) -> [usize; 2] {
        [self.table.bytes(self.entry_count_max), self.record_bytes].map(|bytes| bytes * self.shard_count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_kept_and_a_table_is_a_sixth_to_a_third_of_it() {
        for shape in [TableShape::SINGLE, TableShape::NARROW, TableShape::WIDE] {
            for (mib, shards) in [(1, 1), (1, 4), (64, 1), (64, 3), (100, 7), (4096, 4)] {
                let plan = ShardPlan::of_memory(shape, mib << 20, shards, 1000).expect("enough");
                let [table, records] = plan.footprint();
                let all = mib << 20;
                assert!(
                    table + records <= all && table + records > all - shards,
                    "{plan:?}"
                );
                let places = plan.entry_count_max * shape.place_bytes * shards;
                assert!(places * 3 <= all && places * 6 > all * 99 / 100, "{plan:?}");
            }
        }
        assert_eq!(ShardPlan::of_memory(TableShape::SINGLE, 1 << 20, 8, 1), None);
    }

    #[test]
    fn a_table_that_grows_begins_small_unless_its_pages_are_reserved() {
        let plan = |shape, mib: usize| ShardPlan::of_memory(shape, mib << 20, 1, 1000).expect("enough");
        let sizes = |plan: &ShardPlan| (plan.entry_count, plan.entry_count_max);
        assert_eq!(sizes(&plan(TableShape::SINGLE, 64)), (1 << 13, 1 << 19));
        assert_eq!(sizes(&plan(TableShape::SINGLE, 1)), (1 << 10, 1 << 13));
        assert_eq!(sizes(&plan(TableShape::WIDE, 64)), (1 << 18, 1 << 18));
        let mut reserved = plan(TableShape::SINGLE, 64);
        reserved.set_policy(&Policy {
            evicts: true,
            clients_max: 1,
            large_pages: true,
            idle: Idle::Spin,
        });
        assert_eq!(sizes(&reserved), (1 << 19, 1 << 19));
        let items = ShardPlan::of_items(TableShape::SINGLE, 1000, 48, 1);
        assert!(items.entry_count == items.entry_count_max && !items.grows_into_records);
    }

    #[test]
    fn a_table_for_three_quarters_of_a_power_of_two_is_three_quarters_full() {
        for shards in [1, 2, 4] {
            let plan = ShardPlan::of_items(TableShape::SINGLE, 3 << 18, 48, shards);
            assert_eq!(plan.entry_count * shards, 1 << 20, "{plan:?}");
        }
    }
}
