//! [`Capacity`]: how many items of one size each server holds.

use super::cache_aside::WINDOW;
use super::client::KEY_BYTES;
use super::held::Held;
use super::pair::{Limits, NAMES, Pair, Side};
use super::stream::Request;
use drover_base::mix;
use serde_json::{Value, json};
use std::fmt;

/// A size of values, and how many more items than memcached drover must hold, percent.
pub const SIZES: &[(u32, f64)] = &[(400, 8.0), (32, 60.0)];

/// Keys and values stored, in multiples of the memory: most items that fit have been evicted for others.
const TURNS: u64 = 3;

/// Results of a size.
pub struct Capacity {
    value_bytes: u32,
    limits: Limits,
    /// Keys found, in the order of [`NAMES`].
    found: [u64; 2],
}

impl Capacity {
    /// Fills both servers.
    ///
    /// # Errors
    /// A server fails, or evicts nothing.
    pub fn measure(value_bytes: u32, seed: u64, mut pair: Pair) -> Result<Capacity, String> {
        let (mut found, limits) = ([0; 2], pair.limits());
        for ((side, found), name) in pair.sides().iter_mut().zip(&mut found).zip(NAMES) {
            *found = fill(side, value_bytes, seed, limits).map_err(|why| format!("{name}: {why}"))?;
        }
        Ok(Capacity {
            value_bytes,
            limits,
            found,
        })
    }

    /// Size of the values.
    pub fn value_bytes(&self) -> u32 {
        self.value_bytes
    }

    /// How many more items than memcached drover holds, percent.
    pub fn lead_percent(&self) -> f64 {
        100.0 * (self.found[1] as f64 / self.found[0].max(1) as f64 - 1.0)
    }

    /// All results as fields.
    pub fn json(&self) -> Value {
        let mut all = json!({"value_bytes": self.value_bytes, "memory_mib": self.limits.memory_mib, "threads": self.limits.threads,
            "difference_percent": self.lead_percent()});
        for (name, found) in NAMES.iter().zip(self.found) {
            all[name] = json!({ "found_items": found });
        }
        all
    }
}

/// Stores several times as many items as fit. Returns how many keys gets then find.
fn fill(side: &mut Side, value_bytes: u32, seed: u64, limits: Limits) -> Result<u64, String> {
    let item = |number: u64| Request {
        key: mix(number ^ mix(seed)),
        value_bytes,
        ttl_s: 0,
    };
    let count = TURNS * (limits.memory_mib << 20) / (KEY_BYTES as u64 + u64::from(value_bytes));
    let mut items = (0..count).map(item);
    loop {
        let window: Vec<Request> = items.by_ref().take(WINDOW).collect();
        if window.is_empty() {
            break;
        }
        side.client().set(&window)?;
    }
    let pid = side.pid();
    let held = Held::by(side.client(), pid, (0..count).map(item))?;
    match held.eviction_count() {
        0 => Err(format!("no eviction by {count} items")),
        _ => Ok(held.found_count()),
    }
}

impl fmt::Display for Capacity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [memcached, drover] = self.found;
        write!(
            f,
            "items of 16 + {} bytes with {}: memcached {memcached}, drover {drover}: {:+.1} %",
            self.value_bytes,
            self.limits,
            self.lead_percent()
        )
    }
}
