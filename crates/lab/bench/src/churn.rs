//! [`Client::churn`]: a turnover of the table, which replaces every key by another at a constant load.
//!
//! ```text
//! in random order, each of the client's keys once:   DELETE index + shift   PUT index + shift + key_count
//! ```
//! Afterwards all clients' tapes mean the new keys. READs per GET then differ from those of a freshly filled table:
//! each present key was inserted into a full table.

use crate::driver::Client;
use crate::target::{Target, TargetError};
use crate::workload::scatter_below;
use drover_kv::{Op, Outcome, SubmitError};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Tokens: DELETE of the old key.
const GOES: u64 = 0;
const COMES: u64 = 1;

/// Numbers of finished operations.
#[derive(Default)]
struct Done {
    deleted: u64,
    stored: u64,
    failed: u64,
}

impl Done {
    fn count(&self) -> u64 {
        self.deleted + self.stored + self.failed
    }
}

impl<T: Target> Client<T> {
    /// Replaces each key of `indices` by a new one: DELETEs the old key and PUTs the new one. Keeps `window` operations
    /// in flight (at least 1: with 0 it never returns). Adds the number of stored new keys to `progress`.
    ///
    /// Afterwards the indices of this client's tapes stand for the new keys. So if several clients share `key_count`
    /// keys, each must make this call once, and their `indices` together must be all keys.
    ///
    /// # Errors
    /// The target failed; or a DELETE found no key or a PUT was not stored (reported once all operations are finished).
    pub fn churn(
        &mut self,
        key_count: u32,
        indices: Range<u32>,
        window: usize,
        progress: &AtomicU64,
    ) -> Result<(), Box<TargetError>> {
        let count = u64::from(indices.end - indices.start);
        let (mut done, mut begun) = (Done::default(), 0);
        while done.count() < 2 * count {
            while begun < 2 * count && begun - done.count() < window as u64 {
                let nth = scatter_below(begun / 2, count, self.key_shift);
                if !self.replace(u64::from(indices.start) + nth, key_count, begun % 2)? {
                    break;
                }
                begun += 1;
            }
            let before = done.stored;
            self.target
                .poll(begun == 2 * count, &mut |token, outcome| match (token, outcome) {
                    (GOES, Outcome::Deleted) => done.deleted += 1,
                    (COMES, Outcome::Stored) => done.stored += 1,
                    _ => done.failed += 1,
                })?;
            // Relaxed: a statistic.
            progress.fetch_add(done.stored - before, Ordering::Relaxed);
        }
        self.key_shift += u64::from(key_count);
        match done.failed {
            0 => Ok(()),
            n => Err(TargetError::new(format!(
                "{n} of {} DELETEs and PUTs failed while keys were replaced",
                2 * count
            ))),
        }
    }

    /// Submits one half of a replacement. Returns false if the window is full.
    fn replace(&mut self, index: u64, key_count: u32, half: u64) -> Result<bool, Box<TargetError>> {
        let op = match half {
            GOES => Op::delete(self.keys.key(index + self.key_shift)),
            _ => {
                self.version += 1;
                Op::put(
                    self.keys.key(index + self.key_shift + u64::from(key_count)),
                    self.values.value(index, self.version),
                )
            }
        };
        match self.target.submit(&op, half) {
            Ok(()) => Ok(true),
            Err(SubmitError::WindowFull) => Ok(false),
            Err(error) => Err(TargetError::new(error.to_string())),
        }
    }
}
