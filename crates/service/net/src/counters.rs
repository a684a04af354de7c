//! [`Counters`]: what the sockets of a core did; how others read it.

use drover_base::sync::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What the sockets of a core did so far.
        #[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
        pub struct Counters { $($(#[$doc])* pub $name: u64,)* }

        impl Counters {
            /// How many there are.
            pub const COUNT: usize = [$(stringify!($name)),*].len();
            /// Their names.
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
    /// Connections open now.
    current,
    /// Connections ever opened.
    total,
    /// Connections that were refused because there were too many.
    rejected,
    /// Times that accepting stopped because there were too many connections.
    listen_disabled,
    /// Times that accepting stopped because there were no descriptors or no memory left.
    accept_failures,
    /// Bytes read.
    bytes_read,
    /// Bytes written.
    bytes_written,
    /// Calls that read.
    reads,
    /// Calls that wrote.
    writes,
    /// Times a connection had more requests than one turn may have.
    yields,
    /// Connections closed because nothing came from them for too long.
    idle_kicks,
    /// Connections closed because the memory they held was needed and they got nowhere.
    shed,
    /// Times a long request waited for memory.
    memory_waits,
}

impl Counters {
    /// Adds another core's.
    pub fn add(&mut self, other: &Counters) {
        let (mut mine, theirs) = (self.values(), other.values());
        for (mine, theirs) in mine.iter_mut().zip(theirs) {
            *mine = mine.wrapping_add(theirs);
        }
        *self = Counters::from_values(mine);
    }
}

/// Where a core shows its counters to other threads.
#[derive(Debug)]
pub(crate) struct Shown([AtomicU64; Counters::COUNT]);

impl Shown {
    pub(crate) fn new() -> Shown {
        Shown(std::array::from_fn(|_| AtomicU64::new(0)))
    }

    pub(crate) fn show(&self, counters: &Counters) {
        for (word, value) in self.0.iter().zip(counters.values()) {
            // Relaxed: numbers for people.
            word.store(value, Ordering::Relaxed);
        }
    }

    pub(crate) fn read(&self) -> Counters {
        Counters::from_values(std::array::from_fn(|i| self.0[i].load(Ordering::Relaxed)))
    }
}
