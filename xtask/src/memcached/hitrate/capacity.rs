//! [`Capacity`]: how many items of one size each server holds.

use super::cache_aside::WINDOW;
use super::held::Held;
use super::pair::{Limits, NAMES, Pair, Side};
use super::stream::Request;
use drover_base::mix;
use serde_json::{Value, json};
use std::fmt;

/// A size of values, and how many more items than memcached drover must hold, percent.
pub const SIZES: &[(u32, f64)] = &[(400, 8.0), (32, 60.0)];

/// Items between two looks at the statistics.
const ROUND: u64 = 20_000;
/// A server that evicts nothing in this many times its memory is broken.
const TURNS_MAX: u64 = 20;

/// Results of a size.
pub struct Capacity {
    value_bytes: u32,
    /// Keys found, in the order of [`NAMES`].
    found: [u64; 2],
}

impl Capacity {
    /// Fills both servers.
    ///
    /// # Errors
    /// A server fails, or never evicts.
    pub fn measure(value_bytes: u32, seed: u64, limits: Limits, mut pair: Pair) -> Result<Capacity, String> {
        let mut found = [0; 2];
        for ((side, found), name) in pair.sides().iter_mut().zip(&mut found).zip(NAMES) {
            *found = fill(side, value_bytes, seed, limits).map_err(|why| format!("{name}: {why}"))?;
        }
        Ok(Capacity { value_bytes, found })
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
        let mut all = json!({"value_bytes": self.value_bytes, "difference_percent": self.lead_percent()});
        for (name, found) in NAMES.iter().zip(self.found) {
            all[name] = json!({ "found_items": found });
        }
        all
    }
}

/// Stores items until the server has evicted twice as many as it holds. Returns how many keys gets then find.
fn fill(side: &mut Side, value_bytes: u32, seed: u64, limits: Limits) -> Result<u64, String> {
    let item = |number: u64| Request {
        key: mix(number ^ mix(seed)),
        value_bytes,
        ttl_s: 0,
    };
    let most = TURNS_MAX * (limits.memory_mib << 20) / u64::from(value_bytes);
    let mut stored = 0;
    loop {
        let items: Vec<Request> = (stored..stored + ROUND).map(item).collect();
        for window in items.chunks(WINDOW) {
            side.client().set(window)?;
        }
        stored += ROUND;
        let stats = side.client().stats()?;
        let stat = |name: &str| stats.get(name).copied().unwrap_or(0);
        if stat("evictions") > 2 * stat("curr_items") {
            break;
        }
        if stored > most {
            return Err(format!("{stored} items stored, {} evictions", stat("evictions")));
        }
    }
    let pid = side.pid();
    Held::by(side.client(), pid, (0..stored).map(item)).map(|held| held.found_count())
}

impl fmt::Display for Capacity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [memcached, drover] = self.found;
        write!(
            f,
            "items of 16 + {} bytes: memcached {memcached}, drover {drover}: {:+.1} %",
            self.value_bytes,
            self.lead_percent()
        )
    }
}
