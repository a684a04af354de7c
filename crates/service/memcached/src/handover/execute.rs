//! [`Job`]: execution of a hand-over's message on a core.

use super::entry::{entry_bytes, put_item};
use super::{END, Entries, Name, PAGE_BYTES, Reply, ShardSet};
use crate::Executor;
use drover_base::Cpu;
use drover_net::Output;
use drover_store::{ExtraOutcome, ExtraPut, ItemRef, KEY_BYTES_MAX, Mark, Sharing};

/// Buckets that one message reads: some microseconds if they are empty, a hundred or two if they are full of items.
const BUCKETS: u64 = 256;
/// Buckets between two looks at how much there is already.
const STRIDE_BUCKETS: u64 = 8;

/// What a message of a hand-over asks a core to do: its kind and body.
pub(crate) struct Job<'m> {
    pub(crate) kind: u8,
    pub(crate) body: &'m [u8],
}

impl Job<'_> {
    /// Does it, and appends the reply; `None`: the message is malformed.
    #[cold]
    pub(crate) fn run<C: Cpu, S: Sharing>(
        &self,
        executor: &mut Executor<'_, C, S>,
        output: &mut Output,
    ) -> Option<()> {
        let mut entries = Vec::new();
        let number = match self.kind {
            b'p' => executor.read_page(self.body, &mut entries)?,
            b'k' => executor.look_up(self.body, &mut entries)?,
            b's' => executor.store_entries(self.body)?,
            _ => executor.discard(self.body)?,
        };
        let (version, flushes) = (executor.partition.last_version(), executor.core.flushes);
        output.push(&Reply::head(number, version, flushes));
        output.push(&entries);
        Some(())
    }
}

/// Shards and cursor of a body.
fn sweep_of(body: &[u8]) -> Option<(ShardSet, u64)> {
    let (shards, rest) = ShardSet::take(body)?;
    Some((shards, u64::from_le_bytes(rest.try_into().ok()?)))
}

impl<C: Cpu, S: Sharing> Executor<'_, C, S> {
    fn read_page(&mut self, body: &[u8], entries: &mut Vec<u8>) -> Option<u64> {
        let (shards, cursor) = sweep_of(body)?;
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
        let (shards, cursor) = sweep_of(body)?;
        let mut names = Vec::new();
        let next = self.sweep(&shards, cursor, &mut names, |names, name, _| name.put(names));
        for entry in Entries::all(&names)? {
            self.partition.delete(self.cpu, entry.name.key(), self.now_s);
        }
        Some(next)
    }

    /// Visits items of `shards` from `cursor` on, while `found` has space for more. Returns the next cursor.
    fn sweep(
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
            self.partition.scan(at..end, self.now_s, |item| {
                let mut key = [0; KEY_BYTES_MAX];
                let key_len = item.copy_key(&mut key);
                let key = &key[..key_len];
                let hash = item.hash_key().unwrap_or_else(|| self.server.hasher.hash(key));
                if shards.contains(hash) {
                    visit(found, Name { hash, key }, &item);
                }
            });
            at = end;
        }
        at
    }

    fn look_up(&mut self, body: &[u8], entries: &mut Vec<u8>) -> Option<u64> {
        let mut count = 0;
        for asked in Entries::all(body)? {
            let (mut name, now_s) = (asked.name, self.now_s);
            if !name.key.is_empty() {
                // Keys are noted without their hashes.
                name.hash = self.server.hasher.hash(name.key);
            }
            let (mut is_there, mut fits) = (false, true);
            self.partition.mark(self.cpu, name.key(), now_s, |item| {
                is_there = true;
                fits = count == 0 || entries.len() + entry_bytes(&item) <= PAGE_BYTES;
                if fits {
                    put_item(name, &item, now_s, entries);
                }
                Mark::default()
            });
            if !fits || entries.len() > PAGE_BYTES && !is_there {
                break;
            }
            if !is_there {
                name.put_gone(entries);
            }
            count += 1;
        }
        Some(count)
    }

    fn store_entries(&mut self, body: &[u8]) -> Option<u64> {
        let (version, entries) = body.split_first_chunk::<8>()?;
        self.partition.raise_version(u64::from_le_bytes(*version));
        let mut count = 0;
        for entry in Entries::all(entries)? {
            let key = entry.name.key();
            match entry.put(self.now_s) {
                Some(put) => {
                    let put = ExtraPut {
                        value: &[entry.value()],
                        ..put
                    };
                    let outcome = self.partition.put_extra(self.cpu, key, &put, self.now_s);
                    if !matches!(outcome, ExtraOutcome::Stored { .. }) {
                        break;
                    }
                }
                None => _ = self.partition.delete(self.cpu, key, self.now_s),
            }
            count += 1;
        }
        Some(count)
    }
}
