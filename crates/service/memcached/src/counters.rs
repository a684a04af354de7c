//! [`Counters`]: the numbers of commands in `stats`; [`Board`]: where each core publishes its counters for the others.

use drover_base::sync::{AtomicU64, Ordering};

/// Declares the counters once, in the order `stats` names them.
macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters of one core. Additions on the hot path, no atomics; [`Board::publish`] publishes them to other
        /// cores.
        #[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
        pub struct Counters { $($(#[$doc])* pub $name: u64,)* }

        impl Counters {
            /// Number of counters.
            pub const COUNT: usize = [$(stringify!($name)),*].len();

            /// Names of the counters, as in `stats`.
            pub const NAMES: [&'static str; Counters::COUNT] = [$(stringify!($name)),*];

            /// Values of the counters, in the order of [`NAMES`](Counters::NAMES).
            pub fn values(&self) -> [u64; Counters::COUNT] {
                [$(self.$name),*]
            }

            /// Counters with these values: the inverse of [`values`](Counters::values).
            pub fn from_values(values: [u64; Counters::COUNT]) -> Counters {
                let [$($name),*] = values;
                Counters { $($name),* }
            }
        }
    };
}

counters! {
    /// Keys requested by get, gets and mg.
    cmd_get,
    /// Complete values received, for any storing command.
    cmd_set,
    /// flush_all.
    cmd_flush,
    /// Keys requested by touch, gat, gats, and mg that set a time.
    cmd_touch,
    /// me.
    cmd_meta,
    /// Keys found by get, gets and mg.
    get_hits,
    /// Keys not found by get, gets and mg.
    get_misses,
    /// Keys not found because their item had expired; part of `get_misses`.
    get_expired,
    /// Keys of delete and md not found (or with another CAS).
    delete_misses,
    /// Keys deleted.
    delete_hits,
    /// incr, ma: key not found.
    incr_misses,
    /// incr, ma: done.
    incr_hits,
    /// decr, ma: key not found.
    decr_misses,
    /// decr, ma: done.
    decr_hits,
    /// cas, ms C: no such key.
    cas_misses,
    /// cas, ms C: stored.
    cas_hits,
    /// cas, ms C: another CAS.
    cas_badval,
    /// touch, gat, gats, and mg that set a time: found.
    touch_hits,
    /// touch, gat, gats, and mg that set a time: not found.
    touch_misses,
    /// Values over the limit.
    store_too_large,
    /// Values that could not be stored for lack of memory.
    store_no_memory,
    /// Login attempts.
    auth_cmds,
    /// Failed login attempts.
    auth_errors,
}

impl Counters {
    /// Adds the counters of another core.
    pub fn add(&mut self, other: &Counters) {
        let (mut mine, theirs) = (self.values(), other.values());
        for (mine, theirs) in mine.iter_mut().zip(theirs) {
            *mine = mine.wrapping_add(theirs);
        }
        *self = Counters::from_values(mine);
    }
}

/// Numbers of a partition that `stats` needs.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Holdings {
    /// Items in the partition.
    pub curr_items: u64,
    /// Items ever stored.
    pub total_items: u64,
    /// Memory of the items, in bytes.
    pub bytes: u64,
    /// Memory available for items, in bytes.
    pub limit_maxbytes: u64,
    /// Items evicted before they expired.
    pub evictions: u64,
    /// Expired items that were found and removed.
    pub reclaimed: u64,
    /// Number of slots in the index.
    pub slots: u64,
}

impl Holdings {
    const COUNT: usize = 7;

    fn values(&self) -> [u64; Holdings::COUNT] {
        [
            self.curr_items,
            self.total_items,
            self.bytes,
            self.limit_maxbytes,
            self.evictions,
            self.reclaimed,
            self.slots,
        ]
    }

    fn from_values(values: [u64; Holdings::COUNT]) -> Holdings {
        let [
            curr_items,
            total_items,
            bytes,
            limit_maxbytes,
            evictions,
            reclaimed,
            slots,
        ] = values;
        Holdings {
            curr_items,
            total_items,
            bytes,
            limit_maxbytes,
            evictions,
            reclaimed,
            slots,
        }
    }

    /// Adds the numbers of another partition.
    pub fn add(&mut self, other: &Holdings) {
        let (mut mine, theirs) = (self.values(), other.values());
        for (mine, theirs) in mine.iter_mut().zip(theirs) {
            *mine = mine.wrapping_add(theirs);
        }
        *self = Holdings::from_values(mine);
    }
}

impl From<drover_store::PartitionStats> for Holdings {
    fn from(stats: drover_store::PartitionStats) -> Holdings {
        Holdings {
            curr_items: stats.items,
            total_items: stats.puts(),
            bytes: stats.bytes,
            limit_maxbytes: stats.bytes_max,
            evictions: stats.evicted_bucket_full + stats.evicted_log_wrapped,
            reclaimed: stats.expired,
            slots: stats.slots,
        }
    }
}

/// One core's numbers, published for `stats` on all cores and for metrics. Each number is exact; together they date
/// from about the same time.
///
/// A core publishes at the end of a step in which it did something, before the replies of that step leave. So a client
/// that has read a reply finds its command counted.
#[derive(Debug)]
pub struct Board {
    words: [AtomicU64; Counters::COUNT + Holdings::COUNT],
}

impl Default for Board {
    fn default() -> Board {
        Board::new()
    }
}

impl Board {
    /// A board of zeros.
    pub fn new() -> Board {
        Board {
            words: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// Publishes these numbers. Cost: four cache lines written.
    pub fn publish(&self, counters: &Counters, holdings: &Holdings) {
        let values = counters.values().into_iter().chain(holdings.values());
        for (word, value) in self.words.iter().zip(values) {
            // Relaxed: statistics. The ring that carries the replies orders them with the replies.
            word.store(value, Ordering::Relaxed);
        }
    }

    /// The numbers published last.
    pub fn read(&self) -> (Counters, Holdings) {
        let word = |i: usize| self.words[i].load(Ordering::Relaxed);
        (
            Counters::from_values(std::array::from_fn(word)),
            Holdings::from_values(std::array::from_fn(|i| word(Counters::COUNT + i))),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_board_shows_what_was_published() {
        let counters = Counters::from_values(std::array::from_fn(|i| i as u64 + 1));
        let holdings = Holdings::from_values(std::array::from_fn(|i| i as u64 + 100));
        let board = Board::new();
        board.publish(&counters, &holdings);
        assert_eq!(board.read(), (counters, holdings));
    }

    #[test]
    fn names_and_values_are_in_the_same_order() {
        let counters = Counters {
            cas_badval: 7,
            ..Counters::default()
        };
        let at = counters.values().iter().position(|&value| value == 7);
        assert_eq!(at.map(|at| Counters::NAMES[at]), Some("cas_badval"));
    }
}
