//! [`Counters`]: the numbers of commands in `stats`; [`Board`]: where each core publishes its counters for the others.

use drover_base::sync::{AtomicU64, Ordering};

/// Declares the counters once, in the order `stats` names them.
macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters of one core since its start or the last `stats reset`. Additions on the hot path, no atomics;
        /// [`Board::publish`] publishes them to other cores.
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
    /// Keys requested by get, gets and mg, except hits of mg with T.
    cmd_get,
    /// Values received by storing commands, whether or not they were stored; not those over the size limit.
    cmd_set,
    /// flush_all commands, also those refused by `-F`.
    cmd_flush,
    /// Keys requested by touch, gat, gats, and hits of mg with T.
    cmd_touch,
    /// me commands; not the other meta commands.
    cmd_meta,
    /// Keys found by get, gets, and mg without T; a key that mg with N creates counts as found.
    get_hits,
    /// Keys not found by get, gets and mg.
    get_misses,
    /// Keys not found because their item had expired; part of `get_misses`.
    get_expired,
    /// Keys of delete and md that were not found, or of md with C that had another CAS.
    delete_misses,
    /// Keys deleted by delete and md, or emptied by md with x; not those that md with I marks stale.
    delete_hits,
    /// incr, and ma that increments: key not found. An ma with N, which creates it, counts neither here nor as a hit.
    incr_misses,
    /// incr, and ma that increments: done.
    incr_hits,
    /// decr, and ma that decrements: key not found. An ma with N, which creates it, counts neither here nor as a hit.
    decr_misses,
    /// decr, and ma that decrements: done.
    decr_hits,
    /// cas, and ms with C: no such key. Not counted with `-C`, except for ms with I.
    cas_misses,
    /// cas, and ms with C: stored. Not counted with `-C`, except for ms with I.
    cas_hits,
    /// cas, and ms with C: not stored, because the item has another CAS.
    cas_badval,
    /// touch, gat, gats, and mg with T: found.
    touch_hits,
    /// touch, gat, gats: not found. Misses of mg with T are in `get_misses`.
    touch_misses,
    /// Values refused because they alone are over the size limit; not those that append or prepend would make too long.
    store_too_large,
    /// Values that storing commands could not store for lack of memory.
    store_no_memory,
    /// Login attempts with a user and a password.
    auth_cmds,
    /// Login attempts with a wrong user or password.
    auth_errors,
}

impl Counters {
    /// Adds the counters of another core to these, each to its counterpart.
    pub fn add(&mut self, other: &Counters) {
        let (mut mine, theirs) = (self.values(), other.values());
        for (mine, theirs) in mine.iter_mut().zip(theirs) {
            *mine = mine.wrapping_add(theirs);
        }
        *self = Counters::from_values(mine);
    }
}

/// Numbers of a partition, or sums over several, for `stats`. Counts begin when the partition is created, opened from a
/// memory file, or made anew because its worker panicked.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Holdings {
    /// Items in the partition. Expired ones count until an operation or an eviction finds them.
    pub curr_items: u64,
    /// Number of times an item was stored, new or updated.
    pub total_items: u64,
    /// Bytes of all items, with heads and padding.
    pub bytes: u64,
    /// Memory for items, used or free, in bytes; of a cache whose index follows its items, with the index. `stats` shows
    /// [`memory_bytes`](crate::ItemSettings::memory_bytes) under this name.
    pub limit_maxbytes: u64,
    /// Items evicted because their bucket was full or a log had no space.
    pub evictions: u64,
    /// Evicted items that no GET had read since they were stored.
    pub evicted_unfetched: u64,
    /// Expired items that were removed, because a request found them or their space was needed; not those that a new
    /// value replaced.
    pub reclaimed: u64,
    /// Those of them that no GET had read since they were stored.
    pub expired_unfetched: u64,
    /// Number of slots in the index, used or free, without those of spare buckets.
    pub slots: u64,
}

impl Holdings {
    const COUNT: usize = 9;

    fn values(&self) -> [u64; Holdings::COUNT] {
        [
            self.curr_items,
            self.total_items,
            self.bytes,
            self.limit_maxbytes,
            self.evictions,
            self.evicted_unfetched,
            self.reclaimed,
            self.expired_unfetched,
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
            evicted_unfetched,
            reclaimed,
            expired_unfetched,
            slots,
        ] = values;
        Holdings {
            curr_items,
            total_items,
            bytes,
            limit_maxbytes,
            evictions,
            evicted_unfetched,
            reclaimed,
            expired_unfetched,
            slots,
        }
    }

    /// Adds the numbers of another partition to these, each to its counterpart.
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
            evictions: stats.evicted(),
            evicted_unfetched: stats.evicted_unread,
            reclaimed: stats.expired + stats.reclaimed,
            expired_unfetched: stats.expired_unread,
            slots: stats.slots,
        }
    }
}

/// One core's numbers, published for `stats` on all cores and for metrics. Each number is exact; together they date
/// from about the same time.
///
/// A core publishes at the end of a step in which it did something, before the replies of that step leave. So a client
/// that has read a reply finds its command counted. What clients of another protocol change on the core is published
/// a little later.
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
    /// Creates a board of zeros.
    pub fn new() -> Board {
        Board {
            words: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// Publishes these numbers in place of the last ones. Cost: 256 bytes written, four or five cache lines.
    pub fn publish(&self, counters: &Counters, holdings: &Holdings) {
        let values = counters.values().into_iter().chain(holdings.values());
        for (word, value) in self.words.iter().zip(values) {
            // Relaxed: statistics. The ring that carries the replies orders them with the replies.
            word.store(value, Ordering::Relaxed);
        }
    }

    /// Numbers published last; zeros if none were.
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
