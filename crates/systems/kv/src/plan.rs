//! [`ShardPlan`]: how a service's memory is divided among its shards, and a shard's memory between table and records.
//!
//! | part of a shard's share | size |
//! |---|---|
//! | table | Pilaf: up to one entry (32 bytes) per 96 to 192 bytes of the share, a power of two, so the table is a sixth to a third of the share. FaRM: the same with slots of 32 bytes, or of 64 bytes where slots hold values of up to 32 bytes, plus an eighth for overflow |
//! | records | the rest; a record is header, key, value, rounded up to its size class |
//!
//! At a load of 0.75, up to which a table works well, records of about 130 bytes (Pilaf) fill both parts at the same
//! time. With shorter records the table is full first, with longer ones the records. *(our choice)*
//!
//! Pilaf's table starts small and doubles at that load, so a service with few items has touched little of its memory. A
//! table as large as planned keeps growing into memory that no record has needed: many short records take bytes of the
//! second row for the first. FaRM's table does not grow: it has its size from the start.

use crate::{Capacity, KEY_BYTES_MAX, Policy, ResultTransfer, Sizes};
use drover_base::{Cost, HashKind, Ns};
use drover_mem::PageWish;
use drover_rt::Idle;

/// Minimum ratio of the share to the table: the share has at least this many times the bytes of the table.
const SHARE_PER_PLACE: usize = 3;
/// A table that grows starts with this fraction of its entries. Six doublings write each entry of the last table once
/// and copy each key once, on average, so a small start costs little. *(our choice)*
const FIRST_PART: usize = 64;
/// Minimum number of entries at the start: a table of eight pages.
const FIRST_PLACES: usize = 1 << 10;
/// Smallest usable share of a shard, bytes.
const SHARE_MIN: usize = 1 << 18;
/// Bytes of a record's header, in addition to key and value.
pub const RECORD_HEADER_BYTES: usize = 24;
/// Maximum load of a table that holds the planned items, per cent: the shards get unequal shares of the keys.
const FULL_PERCENT: usize = 80;
/// A READ takes microseconds; one that takes longer finds torn bytes, and is made again.
const GRACE: Ns = Ns::from_ms(1);
/// Interval between two polls of a service's control channels. A client that connects waits for up to two intervals.
const LOOK_EVERY: Ns = Ns::from_us(500);

/// Form of a system's tables, whatever their number of entries: size of an entry, overflow, growth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TableShape {
    /// Bytes of an entry (Pilaf) or slot (FaRM).
    pub place_bytes: usize,
    /// A table gets one overflow block, of two slots, for this many entries; 0: it has no overflow blocks.
    pub places_per_block: usize,
    /// Whether the system replaces the table by a larger one when it becomes too full.
    pub grows: bool,
}

impl TableShape {
    /// A cuckoo table (Pilaf).
    pub const SINGLE: TableShape = TableShape {
        place_bytes: 32,
        places_per_block: 0,
        grows: true,
    };
    /// A hopscotch table (FaRM-KV) with all values in records.
    pub const NARROW: TableShape = TableShape {
        place_bytes: 32,
        places_per_block: 16,
        grows: false,
    };
    /// A hopscotch table (FaRM-KV) with short values in its slots.
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

/// Form and number of entries of the table that each shard of a service gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TablePlan {
    /// Form of the table.
    pub shape: TableShape,
    /// Number of entries at the start, a power of two; overflow blocks are not counted.
    pub entry_count: usize,
    /// Number of entries, a power of two, up to which the table grows in memory that is planned for it. Shards whose
    /// tables do not grow ignore it.
    pub entry_count_max: usize,
    /// Whether a table of `entry_count_max` entries may keep growing into memory of the records that no record has
    /// needed.
    pub grows_into_records: bool,
    /// Hash of the keys, which chooses a key's shard and its entries.
    pub hash: HashKind,
}

impl TablePlan {
    /// A table that starts with `entry_count` entries, a power of two, and never has more.
    pub fn fixed(shape: TableShape, entry_count: usize) -> TablePlan {
        TablePlan {
            shape,
            entry_count,
            entry_count_max: entry_count,
            grows_into_records: false,
            hash: HashKind::default(),
        }
    }

    /// A table that may take `bytes_max` bytes. If tables of this shape grow, it starts small, and may keep growing
    /// into the records' memory.
    fn of_bytes(shape: TableShape, bytes_max: usize) -> TablePlan {
        let entry_count_max: usize = 1 << (bytes_max / shape.place_bytes).ilog2();
        let entry_count = match shape.grows {
            true => (entry_count_max / FIRST_PART)
                .max(FIRST_PLACES)
                .min(entry_count_max),
            false => entry_count_max,
        };
        TablePlan {
            shape,
            entry_count,
            entry_count_max,
            grows_into_records: shape.grows,
            hash: HashKind::default(),
        }
    }

    /// Gives the table its maximum number of entries from the start.
    fn start_large(&mut self) {
        self.entry_count = self.entry_count_max;
    }

    /// Number of overflow blocks of one shard's table at the start; 0 for a shape without overflow.
    pub fn block_count(&self) -> usize {
        self.shape.blocks(self.entry_count)
    }

    /// Bytes of the table once it is as large as planned.
    fn bytes_max(&self) -> usize {
        self.shape.bytes(self.entry_count_max)
    }
}

/// Sizes and options of every shard of a service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShardPlan {
    /// Number of shards; each has its own thread.
    pub shard_count: usize,
    /// Each shard's table.
    pub table: TablePlan,
    /// Bytes of memory for each shard's records.
    pub record_bytes: usize,
    /// Longest item accepted, bytes: header, key and value.
    pub item_bytes_max: usize,
    /// Whether a shard evicts old items when its memory is full, instead of refusing new ones.
    pub evicts: bool,
    /// Kind of pages wanted for tables and records.
    pub pages: PageWish,
    /// Behaviour of a shard's core when it is idle.
    pub idle: Idle,
    /// Time for which the memory of a replaced record is not used again, because READs of it may be under way; shorter
    /// if memory is short.
    pub grace: Ns,
    /// Interval between two polls of a shard's control channels.
    pub look_every: Ns,
    /// Maximum number of clients per shard.
    pub clients_max: usize,
    /// How results come to clients that leave it open, in systems that know several ways.
    pub transfer: ResultTransfer,
    /// Measurements of requests, for systems that have slots for them or execute them all.
    pub trial: Trial,
}

/// What a measurement prescribes about the requests of a service; systems that it does not concern ignore it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Trial {
    /// Longest value that fits a request and a result, bytes; 0: as the system chooses.
    pub slot_value_bytes: usize,
    /// Whether a service whose number of items is known is a cache all the same, although there is memory for all of them:
    /// it then notes in which order they are used.
    pub evicts: bool,
    /// Whether a handler works on each request, after it was taken and before it is executed, and the shard does nothing
    /// else meanwhile. How long that takes is the price of [`HANDLER`] on simulated cores; on others, no time.
    pub has_handler: bool,
}

/// The work of a [handler](Trial::has_handler) on one request.
pub const HANDLER: Cost = Cost::new("kv.handler");

impl ShardPlan {
    /// A plan for `sizes` with tables of the form `shape`: [`of_memory`](ShardPlan::of_memory) or
    /// [`of_items`](ShardPlan::of_items). The window of `sizes` is not used.
    ///
    /// # Errors
    /// If the capacity is an amount of memory, and that is less than 256 KiB per shard; the text is for people.
    pub fn new(shape: TableShape, sizes: &Sizes) -> Result<ShardPlan, String> {
        let (shards, value_bytes_max) = (sizes.shard_count, sizes.value_bytes_max);
        match sizes.capacity {
            Capacity::Memory { bytes } => ShardPlan::of_memory(shape, bytes, shards, value_bytes_max)
                .ok_or_else(|| format!("too little for {shards} shards")),
            Capacity::Items { count, key_bytes } => Ok(ShardPlan::of_items(
                shape,
                count,
                key_bytes + value_bytes_max,
                shards,
            )),
        }
    }

    /// Applies an operator's policy, except the part about request slots, which shards do not have. With large pages,
    /// tables have their planned size from the start.
    pub fn set_policy(&mut self, policy: &Policy) {
        self.evicts = policy.evicts;
        self.clients_max = policy.clients_max;
        self.idle = policy.idle;
        self.transfer = policy.transfer;
        if policy.large_pages {
            self.pages = PageWish::Huge;
            // Reserved pages are there now; a table that grows could find them gone.
            self.table.start_large();
        }
    }

    /// Describes the plan in lines for the log.
    pub fn describe(&self) -> Vec<String> {
        let full = match self.evicts {
            true => "evicts the items that were written first: GETs leave no trace",
            false => "answers \"full\" (-M)",
        };
        let table = &self.table;
        let growth = match table.entry_count_max > table.entry_count {
            true => format!(" (up to {} as items arrive)", table.entry_count_max),
            false => String::new(),
        };
        vec![
            format!(
                "{} shard(s) of {} places{growth} and {} KiB of records",
                self.shard_count,
                table.entry_count,
                self.record_bytes >> 10
            ),
            format!("when full: {full}"),
        ]
    }

    /// A plan for shards that share `memory_bytes`, tables included, for values of up to `value_bytes_max` bytes.
    /// `None` if the memory is less than 256 KiB per shard.
    pub fn of_memory(
        shape: TableShape,
        memory_bytes: usize,
        shard_count: usize,
        value_bytes_max: usize,
    ) -> Option<ShardPlan> {
        let share = memory_bytes / shard_count.max(1);
        if share < SHARE_MIN {
            return None;
        }
        let table = TablePlan::of_bytes(shape, share / SHARE_PER_PLACE);
        Some(ShardPlan {
            shard_count,
            table,
            record_bytes: share - table.bytes_max(),
            ..ShardPlan::for_values(value_bytes_max)
        })
    }

    /// A plan for `item_count` items in total, each of `item_bytes` (key and value). The tables have a fixed size, at
    /// which these items, evenly spread, use at most 80 % of their entries, and there is space for twice the records,
    /// because replaced records stay readable for a while.
    pub fn of_items(shape: TableShape, item_count: u64, item_bytes: usize, shard_count: usize) -> ShardPlan {
        let share = (item_count as usize).div_ceil(shard_count.max(1));
        let entry_count = (share * 100 / FULL_PERCENT).max(1 << 10).next_power_of_two();
        // A size class may be a quarter larger than the record. FaRM's records also carry a version in every line.
        let record_bytes = (item_bytes + RECORD_HEADER_BYTES).next_multiple_of(62) * 5 / 4;
        ShardPlan {
            shard_count,
            table: TablePlan::fixed(shape, entry_count),
            record_bytes: (share * 2 * record_bytes + (16 << 20)).next_multiple_of(1 << 21),
            ..ShardPlan::for_values(item_bytes)
        }
    }

    fn for_values(value_bytes_max: usize) -> ShardPlan {
        ShardPlan {
            shard_count: 1,
            table: TablePlan::fixed(TableShape::SINGLE, 1 << 10),
            record_bytes: 1 << 20,
            item_bytes_max: RECORD_HEADER_BYTES + KEY_BYTES_MAX + value_bytes_max,
            evicts: true,
            pages: PageWish::HugeIfAny,
            idle: Idle::ADAPTIVE,
            grace: GRACE,
            look_every: LOOK_EVERY,
            clients_max: 1024,
            transfer: ResultTransfer::Auto,
            trial: Trial::default(),
        }
    }

    /// Number of entries of all shards' tables together at the start; overflow blocks are not counted.
    pub fn entry_count(&self) -> usize {
        self.table.entry_count * self.shard_count
    }

    /// Bytes of the tables at their planned maximum, overflow included, and bytes of the memory for records; of all
    /// shards together.
    pub fn footprint(&self) -> [usize; 2] {
        [self.table.bytes_max(), self.record_bytes].map(|bytes| bytes * self.shard_count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SlotPolicy;

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
                let places = plan.table.entry_count_max * shape.place_bytes * shards;
                assert!(places * 3 <= all && places * 6 > all * 99 / 100, "{plan:?}");
            }
        }
        assert_eq!(ShardPlan::of_memory(TableShape::SINGLE, 1 << 20, 8, 1), None);
    }

    #[test]
    fn a_table_that_grows_begins_small_unless_its_pages_are_reserved() {
        let plan = |shape, mib: usize| ShardPlan::of_memory(shape, mib << 20, 1, 1000).expect("enough");
        let sizes = |plan: &ShardPlan| (plan.table.entry_count, plan.table.entry_count_max);
        assert_eq!(sizes(&plan(TableShape::SINGLE, 64)), (1 << 13, 1 << 19));
        assert_eq!(sizes(&plan(TableShape::SINGLE, 1)), (1 << 10, 1 << 13));
        assert_eq!(sizes(&plan(TableShape::WIDE, 64)), (1 << 18, 1 << 18));
        let mut reserved = plan(TableShape::SINGLE, 64);
        reserved.set_policy(&Policy {
            evicts: true,
            eviction: Default::default(),
            clients_max: 1,
            large_pages: true,
            idle: Idle::Spin,
            slots: SlotPolicy {
                clients_max: 0,
                bytes_max: 0,
            },
            transfer: ResultTransfer::Auto,
        });
        assert_eq!(sizes(&reserved), (1 << 19, 1 << 19));
        let items = ShardPlan::of_items(TableShape::SINGLE, 1000, 48, 1);
        let table = items.table;
        assert_eq!(table, TablePlan::fixed(TableShape::SINGLE, table.entry_count));
    }

    #[test]
    fn a_table_for_three_quarters_of_a_power_of_two_is_three_quarters_full() {
        for shards in [1, 2, 4] {
            let plan = ShardPlan::of_items(TableShape::SINGLE, 3 << 18, 48, shards);
            assert_eq!(plan.entry_count(), 1 << 20, "{plan:?}");
        }
    }
}
