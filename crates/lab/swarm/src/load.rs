//! [`Load`]: the operations that each client submits, and how kinds of trouble of any system change them.

use crate::draw::{between, pick};
use drover_sim::Stream;

/// Load of each client: which operations it draws, and when it submits them. Operations that are neither PUT nor DELETE
/// are GETs.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Number of operations per client; fewer if the trouble ends before all are drawn.
    pub ops: usize,
    /// Number of operations in flight at which the client draws no further one.
    pub in_flight: usize,
    /// Number of distinct keys.
    pub keys: u64,
    /// Exponent that skews the choice of keys. 1: all keys are equally likely; 3: an eighth of the keys gets half of
    /// the operations.
    pub skew: f64,
    /// Percentage of the operations that are PUTs.
    pub put_percent: u64,
    /// Percentage of the operations that are DELETEs.
    pub delete_percent: u64,
    /// Conditions of updates.
    pub conditions: Conditions,
    /// Times to live of PUTs.
    pub ttl: TimesToLive,
    /// Lengths of the values of PUTs.
    pub values: ValueLengths,
    /// Whether the client does nothing but PUTs, most of them of keys that it has not used before, and reads the
    /// [hot key](crate::record::HOT_KEY) after each of them.
    pub hot_key: bool,
    /// Percentage of operations before which the client requests statistics from the server.
    pub stats_percent: u64,
    /// Percentage of the operations after which the client pauses; after the others it submits the next one as soon as
    /// `in_flight` allows.
    pub pause_percent: u64,
}

/// Conditions of a client's updates.
#[derive(Clone, Copy, Default, Debug)]
pub struct Conditions {
    /// Percentage of the updates that have one. If it is not 0, GETs ask for versions.
    pub percent: u64,
    /// Whether items may be expected to have the versions that were read: not where a server forgets them and begins anew.
    pub versions: bool,
}

/// Times to live of the values that a client writes.
#[derive(Clone, Copy, Default, Debug)]
pub struct TimesToLive {
    /// Percentage of the PUTs that have one.
    pub percent: u64,
    /// Longest one, seconds; the shortest is 1.
    pub s_max: u32,
}

/// Lengths of the values that a client writes.
#[derive(Clone, Copy, Debug)]
pub struct ValueLengths {
    /// Longest ordinary value, bytes (below 9 counts as 9); the shortest has 8.
    pub bytes_max: u64,
    /// Percentage of the PUTs that draw their length up to `large_bytes_max` instead.
    pub large_percent: u64,
    /// Longest large value, bytes; the shortest has 8.
    pub large_bytes_max: u64,
    /// Length, bytes, above which the server refuses values; `u64::MAX`: none.
    pub refused_above: u64,
}

impl Load {
    /// Draws a load without large values and without times to live.
    pub fn draw(dice: &Stream) -> Load {
        Load {
            ops: between(dice, 30, 250) as usize,
            in_flight: between(dice, 1, 8) as usize,
            keys: between(dice, 2, 48),
            skew: pick(dice, &[1.0, 1.0, 3.0]),
            put_percent: pick(dice, &[5, 30, 50, 90]),
            delete_percent: pick(dice, &[0, 3, 10]),
            conditions: Conditions::default(),
            ttl: TimesToLive { percent: 0, s_max: 1 },
            values: ValueLengths {
                bytes_max: pick(dice, &[8, 40, 200, 700]),
                large_percent: 0,
                large_bytes_max: 0,
                refused_above: u64::MAX,
            },
            hot_key: false,
            stats_percent: 0,
            pause_percent: pick(dice, &[5, 30, 100]),
        }
    }

    /// Gives some or all PUTs a time to live of 1 or 2 s.
    pub fn expire(&mut self, dice: &Stream) {
        self.ttl.percent = pick(dice, &[10, 50, 100]);
        self.ttl.s_max = between(dice, 1, 2) as u32;
    }

    /// Lets some PUTs draw lengths up to 3,000, 20,000 or 100,000 bytes, longer than a message.
    pub fn add_large_values(&mut self, dice: &Stream) {
        self.values.large_percent = pick(dice, &[2, 10, 30]);
        self.values.large_bytes_max = pick(dice, &[3_000, 20_000, 100_000]);
    }

    /// Makes the load one of a hot key: values have one length.
    pub fn heat(&mut self) {
        self.hot_key = true;
        self.ops = 600;
        self.keys = self.ops as u64 / 2;
        (self.in_flight, self.pause_percent, self.ttl.percent) = (1, 5, 0);
        self.values.large_percent = 0;
    }

    /// Concentrates the load on one to four keys, and makes at least half of the operations updates.
    pub fn conflict(&mut self, dice: &Stream) {
        self.keys = between(dice, 1, 4);
        self.put_percent = pick(dice, &[50, 70]);
        self.delete_percent = pick(dice, &[0, 20]);
    }

    /// Makes the client idle most of the time: at most 40 operations, and a pause after each.
    pub fn be_idle(&mut self) {
        self.ops = self.ops.min(40);
        self.pause_percent = 100;
    }
}
