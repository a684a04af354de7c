//! [`Refusals`]: PUTs that a shard refuses because it is full, counted and logged with what an operator can do.

use drover_kv::{Counter, Refusal};

const MORE_MEMORY: &str = "more memory (-m), or eviction (no -M)";

/// The counter under which a shard reports its [`Refusals::memory_full`].
pub const REFUSED_MEMORY_FULL: Counter = Counter::events(
    "refused_memory_full",
    "PUTs refused because the memory for items is full; more memory (-m) helps, or eviction (no -M).",
)
.remedied_by(MORE_MEMORY);

/// The counter under which a shard reports its [`Refusals::table_full`].
pub const REFUSED_TABLE_FULL: Counter = Counter::events(
    "refused_table_full",
    "PUTs refused because the table has no place for another key; more memory (-m) helps, or eviction (no -M).",
)
.remedied_by(MORE_MEMORY);

/// How full a shard is, for the log.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// Index of the shard.
    pub shard: u16,
    /// Number of keys.
    pub items: usize,
    /// Number of entries (Pilaf), or of slots without overflow (FaRM-KV), of the shard's table.
    pub places: usize,
    /// Bytes of records or objects in use.
    pub used_bytes: usize,
    /// Bytes of memory for records or objects, used or free.
    pub record_bytes: usize,
}

/// Numbers of PUTs that a shard has refused so far because there was no space.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Refusals {
    /// PUTs refused because there was no memory for the item.
    pub memory_full: u64,
    /// PUTs refused because the table had no place for the key.
    pub table_full: u64,
}

impl Refusals {
    /// Counts `refusal` if it is [`Refusal::Full`] or [`Refusal::TableFull`]. Of either kind the first one is logged,
    /// then the second, the fourth, and so on, so that a full store does not flood the log.
    #[cold]
    pub fn note(&mut self, refusal: Refusal, usage: &Usage) {
        let count = match refusal {
            Refusal::Full => &mut self.memory_full,
            Refusal::TableFull => &mut self.table_full,
            _ => return,
        };
        *count += 1;
        if count.is_power_of_two() {
            tracing::warn!("{}", describe(refusal, *count, usage));
        }
    }
}

fn describe(refusal: Refusal, count: u64, usage: &Usage) -> String {
    let Usage {
        shard,
        items,
        places,
        used_bytes,
        record_bytes,
    } = *usage;
    let memory = format!(
        "{} of {} KiB of records are in use",
        used_bytes >> 10,
        record_bytes >> 10
    );
    let why = match refusal {
        Refusal::TableFull => format!("its table is full: {items} keys in {places} places, while {memory}"),
        _ => format!("its memory for items is full: {memory}, by {items} items"),
    };
    format!(
        "shard {shard} refused a PUT ({count} so far) because {why}; give the server more memory (-m), or let it evict \
         (without -M)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_flags() {
        let usage = Usage {
            shard: 2,
            items: 950,
            places: 1024,
            used_bytes: 100 << 10,
            record_bytes: 300 << 10,
        };
        assert_eq!(
            describe(Refusal::TableFull, 1, &usage),
            "shard 2 refused a PUT (1 so far) because its table is full: 950 keys in 1024 places, while 100 of 300 KiB of \
             records are in use; give the server more memory (-m), or let it evict (without -M)"
        );
        assert_eq!(
            describe(Refusal::Full, 4, &usage),
            "shard 2 refused a PUT (4 so far) because its memory for items is full: 100 of 300 KiB of records are in use, by \
             950 items; give the server more memory (-m), or let it evict (without -M)"
        );
    }

    #[test]
    fn only_what_is_full_is_counted() {
        let usage = Usage {
            shard: 0,
            items: 0,
            places: 0,
            used_bytes: 0,
            record_bytes: 0,
        };
        let mut refusals = Refusals::default();
        for refusal in [
            Refusal::Full,
            Refusal::TableFull,
            Refusal::TableFull,
            Refusal::TooLarge,
        ] {
            refusals.note(refusal, &usage);
        }
        let counted = Refusals {
            memory_full: 1,
            table_full: 2,
        };
        assert_eq!(refusals, counted);
    }
}
