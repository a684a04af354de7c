//! [`Counters`] of a core's sockets, readable by other threads.

use drover_base::sync::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters of a core's sockets since the core's start; only `current` also goes down.
        #[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
        pub struct Counters { $($(#[$doc])* pub $name: u64,)* }

        impl Counters {
            /// Number of counters.
            pub const COUNT: usize = [$(stringify!($name)),*].len();
            /// Names of the counters.
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
    /// Connections that the core serves now.
    current,
    /// Connections that the core has ever served; refused ones do not count.
    total,
    /// Connections accepted and closed at once because the maximum number of connections was open.
    rejected,
    /// Times that accepting stopped because the maximum number of connections was open.
    listen_disabled,
    /// Times that accepting paused for 100 ms because the system call failed, usually for lack of descriptors or
    /// memory.
    accept_failures,
    /// Bytes of requests read; under TLS, plain bytes.
    bytes_read,
    /// Bytes of replies written; under TLS, plain bytes.
    bytes_written,
    /// Reads of a socket or its TLS session, including those that found no input. One read of a TLS session may be
    /// several system calls.
    reads,
    /// Writes to a socket or its TLS session, including those that found no space.
    writes,
    /// Times a connection had more requests than one turn may have (memcached's `-R`).
    yields,
    /// Connections closed after the idle timeout.
    idle_kicks,
    /// Connections closed to free memory for others: slow senders, readers that do not take their replies, and senders
    /// of unfinished requests.
    shed,
    /// Times a connection had to wait for memory before reading on in a long request.
    memory_waits,
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

/// Counters of a core, published for other threads.
#[derive(Debug)]
pub(crate) struct Shown([AtomicU64; Counters::COUNT]);

impl Shown {
    pub(crate) fn new() -> Shown {
        Shown(std::array::from_fn(|_| AtomicU64::new(0)))
    }

    pub(crate) fn show(&self, counters: &Counters) {
        for (word, value) in self.0.iter().zip(counters.values()) {
            // Relaxed: statistics.
            word.store(value, Ordering::Relaxed);
        }
    }

    pub(crate) fn read(&self) -> Counters {
        Counters::from_values(std::array::from_fn(|i| self.0[i].load(Ordering::Relaxed)))
    }
}
