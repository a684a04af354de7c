//! [`Client::churn`]: a turnover of the table, in which every key goes and another comes for it, at a constant load.
//!
//! ```text
//! in random order, each of the client's keys once:   DELETE index + shift   PUT index + shift + key_count
//! ```
//! Afterwards all clients' tapes mean the new keys. What a table costs its readers then is not what it costs when it has just been
//! filled: of the keys that are there now, each came when the table was full.

use crate::driver::Client;
use crate::target::{Target, TargetError};
use crate::workload::scatter_below;
use drover_kv::{Op, Outcome, SubmitError};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Tokens.
const GOES: u64 = 0;
const COMES: u64 = 1;

/// What has finished.
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
    /// Replaces the keys of `indices` with `window` operations under way, counting them in `progress`. Of `key_count` keys all clients
    /// must replace theirs, and each all of its own: from then on their tapes mean the new ones.
    ///
    /// # Errors
    /// The target's; a DELETE that found no key, or a PUT that was not stored.
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
            // Relaxed: a number for people to look at.
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

    /// Submits one half of a replacement. False: no space.
    fn replace(&mut self, index: u64, key_count: u32, half: u64) -> Result<bool, Box<TargetError>> {
        let op = match half {
            GOES => Op::Delete {
                key: self.keys.key(index + self.key_shift),
            },
            _ => {
                self.version += 1;
                Op::Put {
                    key: self.keys.key(index + self.key_shift + u64::from(key_count)),
                    value: self.values.value(index, self.version),
                    ttl_s: 0,
                }
            }
        };
        match self.target.submit(&op, half) {
            Ok(()) => Ok(true),
            Err(SubmitError::WindowFull) => Ok(false),
            Err(error) => Err(TargetError::new(error.to_string())),
        }
    }
}
