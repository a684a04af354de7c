//! Execution of a hand-over's message on a core.

use super::entry::{entry_bytes, put_item};
use super::{END, Entries, Entry, Name, PAGE_BYTES, Reply, ShardSet, put_state};
use crate::Executor;
use drover_base::Cpu;
use drover_net::Output;
use drover_store::{ExtraOutcome, ExtraPut, ItemRef, KEY_BYTES_MAX, Sharing};
use std::ops::Range;

/// Buckets that one message reads: some microseconds if they are empty, a hundred or two if they are full of items.
const BUCKETS: u64 = 256;
/// Buckets between two looks at how much there is already.
const STRIDE_BUCKETS: u64 = 8;

/// Shards and cursor of a body, and the rest.
fn sweep_of(body: &[u8]) -> Option<(ShardSet, u64, &[u8])> {
    let (shards, rest) = ShardSet::take(body)?;
    let (cursor, rest) = rest.split_first_chunk::<8>()?;
    Some((shards, u64::from_le_bytes(*cursor), rest))
}

impl<C: Cpu, S: Sharing> Executor<'_, C, S> {
    /// Appends the reply to a message about many keys: its head with the number that `run` returns, and what `run` has appended to its
    /// argument. `None`: the message is malformed.
    #[cold]
    pub(crate) fn reply_with(
        &mut self,
        output: &mut Output,
        run: impl FnOnce(&mut Self, &mut Vec<u8>) -> Option<u64>,
    ) -> Option<()> {
        let mut rest = Vec::new();
        let number = run(self, &mut rest)?;
        output.push(&Reply::head(
            number,
            self.partition.last_version(),
            self.core.flushes,
        ));
        output.push(&rest);
        Some(())
    }

    /// Does what a message of a hand-over asks for, and appends the entries of the reply. Returns its number; `None`: the message is
    /// malformed.
    pub(crate) fn hand_over(&mut self, kind: u8, body: &[u8], entries: &mut Vec<u8>) -> Option<u64> {
        match kind {
            b'p' => self.read_page(body, entries),
            b'k' => self.look_up(body, entries),
            b's' => self.store_entries(body),
            _ => self.discard(body),
        }
    }

    fn read_page(&mut self, body: &[u8], entries: &mut Vec<u8>) -> Option<u64> {
        let (shards, cursor, []) = sweep_of(body)? else {
            return None;
        };
        let now_s = self.now_s;
        Some(self.sweep(&shards, cursor, entries, |entries, name, item| {
            // A value that would make the reply too long comes by itself, in a reply of its own.
            if entries.len() + entry_bytes(item) > PAGE_BYTES {
                name.put(entries);
            } else {
                put_item(name, item, now_s, entries);
            }
        }))
    }

    fn discard(&mut self, body: &[u8]) -> Option<u64> {
        let (shards, cursor, attempts) = sweep_of(body)?;
        let (attempts, []) = attempts.as_chunks::<8>() else {
            return None;
        };
        self.core
            .ended_attempts
            .extend(attempts.iter().map(|attempt| u64::from_le_bytes(*attempt)));
        let mut names = Vec::new();
        let next = self.sweep(&shards, cursor, &mut names, |names, name, _| name.put(names));
        self.delete_named(&names);
        Some(next)
    }

    /// Visits items of `shards` from `cursor` on, while `found` has space for more. Returns the next cursor.
    pub(crate) fn sweep(
        &self,
        shards: &ShardSet,
        cursor: u64,
        found: &mut Vec<u8>,
        visit: impl Fn(&mut Vec<u8>, Name<'_>, &ItemRef<'_>),
    ) -> u64 {
        let bucket_count = self.server.settings.bucket_count.max(1);
        let stride = (END * STRIDE_BUCKETS / bucket_count).max(1);
        let mut at = cursor;
        for _ in 0..BUCKETS / STRIDE_BUCKETS {
            if at >= END || found.len() >= PAGE_BYTES / 2 {
                break;
            }
            let end = (at + stride).min(END);
            self.scan_names(at..end, |name, item| {
                if shards.contains(name.hash) {
                    visit(found, name, item);
                }
            });
            at = end;
        }
        at
    }

    /// Visits the items of a [scan](drover_store::Partition::scan) with their names.
    pub(crate) fn scan_names(&self, range: Range<u64>, mut visit: impl FnMut(Name<'_>, &ItemRef<'_>)) {
        self.partition.scan(range, self.now_s, |item| {
            let mut key = [0; KEY_BYTES_MAX];
            let key_len = item.copy_key(&mut key);
            let key = &key[..key_len];
            let hash = item.hash_key().unwrap_or_else(|| self.server.hasher.hash(key));
            visit(Name { hash, key }, &item);
        });
    }

    /// Deletes the items with these names.
    pub(crate) fn delete_named(&mut self, names: &[u8]) {
        for entry in Entries::known(names) {
            self.partition.delete(self.cpu, entry.name.key(), self.now_s);
        }
    }

    fn look_up(&mut self, body: &[u8], entries: &mut Vec<u8>) -> Option<u64> {
        let mut count = 0;
        for asked in Entries::all(body)? {
            let (mut name, now_s) = (asked.name, self.now_s);
            if !name.key.is_empty() {
                // Keys are noted without their hashes.
                name.hash = self.server.hasher.hash(name.key);
            }
            if !put_state(self.partition, self.cpu, now_s, name, entries) {
                break;
            }
            count += 1;
        }
        Some(count)
    }

    fn store_entries(&mut self, body: &[u8]) -> Option<u64> {
        let (version, rest) = body.split_first_chunk::<8>()?;
        let (attempt, entries) = rest.split_first_chunk::<8>()?;
        if self.core.ended_attempts.contains(&u64::from_le_bytes(*attempt)) {
            return Some(0);
        }
        self.partition.raise_version(u64::from_le_bytes(*version));
        let mut count = 0;
        for entry in Entries::all(entries)? {
            if !self.store_entry(&entry) {
                break;
            }
            count += 1;
        }
        Some(count)
    }

    /// Stores the item of an entry, or deletes it if it is gone elsewhere. Returns whether there was space.
    pub(crate) fn store_entry(&mut self, entry: &Entry<'_>) -> bool {
        let key = entry.name.key();
        let Some(put) = entry.put(self.now_s) else {
            self.partition.delete(self.cpu, key, self.now_s);
            return true;
        };
        let put = ExtraPut {
            value: &[entry.value()],
            ..put
        };
        let outcome = self.partition.put_extra(self.cpu, key, &put, self.now_s);
        matches!(outcome, ExtraOutcome::Stored { .. })
    }
}
