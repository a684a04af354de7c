//! [`Detail`]: `stats detail`, counts by the prefix of keys before a delimiter. Off by default because it takes a lock.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};

use drover_base::sync::{AtomicU32, Ordering};

/// The operation to count for a prefix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Seen {
    Miss,
    Hit,
    Set,
    Delete,
}

/// Maximum number of prefixes; further ones are not counted.
const PREFIXES_MAX: usize = 10_000;

/// Counts of gets, hits, sets and deletes by prefix of the key (its part before the first delimiter, usually a colon), summed
/// over all cores; for `stats detail`. Keys without a delimiter, meta commands, and prefixes after the first 10000 do not count.
#[derive(Debug)]
pub struct Detail {
    on: AtomicU32,
    /// A byte.
    delimiter: AtomicU32,
    /// Per prefix: gets, hits, sets, deletes.
    prefixes: Mutex<BTreeMap<Vec<u8>, [u64; 4]>>,
}

impl Default for Detail {
    fn default() -> Detail {
        Detail {
            on: AtomicU32::new(0),
            delimiter: AtomicU32::new(u32::from(b':')),
            prefixes: Mutex::default(),
        }
    }
}

impl Detail {
    /// Turns counting on, by this delimiter: `-D`.
    pub fn count_by(&self, delimiter: u8) {
        self.delimiter.store(u32::from(delimiter), Ordering::Relaxed);
        self.switch(true);
    }

    /// The byte that ends a prefix.
    pub(crate) fn delimiter(&self) -> u8 {
        // Relaxed: set at the start.
        self.delimiter.load(Ordering::Relaxed) as u8
    }

    /// Whether counting is on.
    #[inline(always)]
    pub fn is_on(&self) -> bool {
        // Relaxed: a switch; nothing else depends on when a core sees it.
        self.on.load(Ordering::Relaxed) != 0
    }

    /// Turns counting on or off. Counts made so far stay, until `stats reset` clears them.
    pub fn switch(&self, on: bool) {
        self.on.store(u32::from(on), Ordering::Relaxed);
    }

    /// Counts an operation, if counting is on and the key has a prefix.
    #[inline(always)]
    pub(crate) fn count(&self, key: &[u8], seen: Seen) {
        if self.is_on() {
            self.count_slowly(key, seen);
        }
    }

    #[cold]
    fn count_slowly(&self, key: &[u8], seen: Seen) {
        let delimiter = self.delimiter();
        let Some(len) = key.iter().position(|&byte| byte == delimiter) else {
            return;
        };
        let mut prefixes = self.prefixes.lock().unwrap_or_else(PoisonError::into_inner);
        if prefixes.len() >= PREFIXES_MAX && !prefixes.contains_key(&key[..len]) {
            return;
        }
        let [gets, hits, sets, deletes] = prefixes.entry(key[..len].to_vec()).or_default();
        match seen {
            Seen::Miss => *gets += 1,
            Seen::Hit => (*gets, *hits) = (*gets + 1, *hits + 1),
            Seen::Set => *sets += 1,
            Seen::Delete => *deletes += 1,
        }
    }

    /// Clears all counts.
    pub(crate) fn clear(&self) {
        self.prefixes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }

    /// Writes one line for each prefix.
    pub(crate) fn write(&self, out: &mut String) {
        let prefixes = self.prefixes.lock().unwrap_or_else(PoisonError::into_inner);
        for (prefix, [gets, hits, sets, deletes]) in prefixes.iter() {
            let prefix = String::from_utf8_lossy(prefix);
            let _ = write!(
                out,
                "PREFIX {prefix} get {gets} hit {hits} set {sets} del {deletes}\r\n"
            );
        }
    }
}
