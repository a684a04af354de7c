//! [`Load`]: the operations that each client submits, and how kinds of trouble of any system change them.

use crate::draw::{between, pick};
use drover_sim::Stream;

/// Load of a client.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Operations per client, as far as time allows.
    pub ops: usize,
    /// Maximum number of operations in flight.
    pub in_flight: usize,
    /// Number of distinct keys.
    pub keys: u64,
    /// 1: all keys are equally likely; 3: an eighth of the keys gets half of the operations.
    pub skew: f64,
    /// Percentage of PUTs.
    pub put_percent: u64,
    /// Percentage of DELETEs.
    pub delete_percent: u64,
    /// Percentage of PUTs with a time to live.
    pub ttl_percent: u64,
    /// Longest time to live, seconds.
    pub ttl_s_max: u32,
    /// Lengths of the values.
    pub values: ValueLengths,
    /// Percentage of operations before which the client requests statistics from the server.
    pub stats_percent: u64,
    /// Percentage of operations that follow a pause; the others are submitted as soon as an earlier one completes.
    pub pause_percent: u64,
}

/// Lengths of the values that a client writes.
#[derive(Clone, Copy, Debug)]
pub struct ValueLengths {
    /// Longest ordinary value, bytes.
    pub bytes_max: u64,
    /// Percentage of PUTs with a large value.
    pub large_percent: u64,
    /// Longest large value, bytes.
    pub large_bytes_max: u64,
    /// The server refuses values longer than this, bytes.
    pub refused_above: u64,
}

impl Load {
    /// Draws a load of ordinary values that do not expire.
    pub fn draw(dice: &Stream) -> Load {
        Load {
            ops: between(dice, 30, 250) as usize,
            in_flight: between(dice, 1, 8) as usize,
            keys: between(dice, 2, 48),
            skew: pick(dice, &[1.0, 1.0, 3.0]),
            put_percent: pick(dice, &[5, 30, 50, 90]),
            delete_percent: pick(dice, &[0, 3, 10]),
            ttl_percent: 0,
            ttl_s_max: 1,
            values: ValueLengths {
                bytes_max: pick(dice, &[8, 40, 200, 700]),
                large_percent: 0,
                large_bytes_max: 0,
                refused_above: u64::MAX,
            },
            stats_percent: 0,
            pause_percent: pick(dice, &[5, 30, 100]),
        }
    }

    /// Lets some items expire.
    pub fn expire(&mut self, dice: &Stream) {
        self.ttl_percent = pick(dice, &[10, 50, 100]);
        self.ttl_s_max = between(dice, 1, 2) as u32;
    }

    /// Adds values longer than a message.
    pub fn add_large_values(&mut self, dice: &Stream) {
        self.values.large_percent = pick(dice, &[2, 10, 30]);
        self.values.large_bytes_max = pick(dice, &[3_000, 20_000, 100_000]);
    }

    /// Concentrates the load on one to four keys, most of it updates.
    pub fn conflict(&mut self, dice: &Stream) {
        self.keys = between(dice, 1, 4);
        self.put_percent = pick(dice, &[50, 70]);
        self.delete_percent = pick(dice, &[0, 20]);
    }

    /// Makes the client idle most of the time.
    pub fn be_idle(&mut self) {
        self.ops = self.ops.min(40);
        self.pause_percent = 100;
    }
}
