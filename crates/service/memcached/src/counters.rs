//! [`Counters`]: what `stats` tells about commands; [`Board`]: where each core hangs out its own for the others.

use drover_base::sync::{AtomicU64, Ordering};

/// Declares the counters once, in the order `stats` names them.
macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What one core counted. Additions on the hot path, no atomics; [`Board::publish`] shows them to others.
        #[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
        pub struct Counters { $($(#[$doc])* pub $name: u64,)* }

        impl Counters {
            /// How many there are.
            pub const COUNT: usize = [$(stringify!($name)),*].len();

            /// Their names, as in `stats`.
            pub const NAMES: [&'static str; Counters::COUNT] = [$(stringify!($name)),*];

            /// Their values, in the order of [`NAMES`](Counters::NAMES).
            pub fn values(&self) -> [u64; Counters::COUNT] {
                [$(self.$name),*]
            }

            /// The inverse of [`values`](Counters::values).
            pub fn from_values(values: [u64; Counters::COUNT]) -> Counters {
                let [$($name),*] = values;
                Counters { $($name),* }
            }
        }
    };
}

counters! {
    /// Keys asked for by get, gets and mg.
    cmd_get,
    /// Values that came whole, for any storing command.
    cmd_set,
    /// flush_all.
    cmd_flush,
    /// Keys asked for by touch, gat, gats, and mg that set a time.
    cmd_touch,
    /// me.
    cmd_meta,
    /// Keys found, by whatever command.
    get_hits,
    /// Keys not found by get, gets and mg.
    get_misses,
    /// Of those, the ones that were there, but after their time.
    get_expired,
    /// Keys of delete and md not found (or at another CAS).
    delete_misses,
    /// Keys deleted.
    delete_hits,
    /// incr, ma: not found.
    incr_misses,
    /// incr, ma: done.
    incr_hits,
    /// decr, ma: not found.
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
    /// The same: not found.
    touch_misses,
    /// Values over the limit.
    store_too_large,
    /// Values for which there was no space.
    store_no_memory,
    /// Attempts to log in.
    auth_cmds,
    /// Those that failed.
    auth_errors,
}

impl Counters {
    /// Adds what another core counted.
    pub fn add(&mut self, other: &Counters) {
        let (mut mine, theirs) = (self.values(), other.values());
        for (mine, theirs) in mine.iter_mut().zip(theirs) {
            *mine = mine.wrapping_add(theirs);
        }
        *self = Counters::from_values(mine);
    }
}

/// Numbers of a partition that `stats` needs, whoever owns it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Holdings {
    /// Items there are.
    pub curr_items: u64,
    /// Items ever stored.
    pub total_items: u64,
    /// Memory they take, in bytes.
    pub bytes: u64,
    /// Memory there is for items, in bytes.
    pub limit_maxbytes: u64,
    /// Items that went before their time.
    pub evictions: u64,
    /// Items whose time was over when they were met.
    pub reclaimed: u64,
    /// Slots of the index.
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

    /// Adds another partition's.
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

/// Where one core shows its numbers to all others: to `stats` on any of them, and to metrics. Each number is right by
/// itself; together they are as of about the same time.
///
/// A core publishes at the end of a step in which it did something, before the replies of that step leave. Then who has
/// read a reply finds its command counted.
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
    /// All zero.
    pub fn new() -> Board {
        Board {
            words: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// Shows these numbers. Cost: four lines written.
    pub fn publish(&self, counters: &Counters, holdings: &Holdings) {
        let values = counters.values().into_iter().chain(holdings.values());
        for (word, value) in self.words.iter().zip(values) {
            // Relaxed: numbers for people; what orders them with replies is the ring the replies travel in.
            word.store(value, Ordering::Relaxed);
        }
    }

    /// What was shown last.
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
