//! Hand-overs of shards between members, as the cores see them: messages of the kinds `p`, `k`, `s` and `z` with a head as in
//! [`forward`](crate::forward), whose hash is zero. They are executed whatever the core may serve.
//!
//! | kind | body | what the core does | entries of the reply | number in the reply |
//! |---|---|---|---|---|
//! | `p` | set of shards, cursor (8) | reads its items of these shards, from a cursor on | items, and names of items too long for this reply | next cursor; [`END`]: there is no more |
//! | `k` | names | looks the named items up | items, and names of those that are gone | how many names have been answered, at least one |
//! | `s` | version (8), attempt (8), items and names of those that are gone | stores the items, and deletes the others | | how many entries; fewer than there were: the memory is full, or the attempt has been ended |
//! | `z` | set of shards, cursor (8), attempts (8 each) | ends these attempts: stores nothing of them from now on; deletes its items of these shards, from a cursor on | | next cursor, as for `p` |
//!
//! An attempt is a number that one hand-over has: a message of one that failed may still be under way when its items are deleted.
//!
//! A set of shards: how many shards the service has (2), and a bit for each of 4,096 (512), the lowest first.
//!
//! | offset of a reply | size | field | |
//! |---|---|---|---|
//! | 0 | 8 | number | see above |
//! | 8 | 8 | version | of the core's partition: the next owner's core goes on above it, so no CAS number comes twice |
//! | 16 | 8 | flushes | how often the core has flushed all items: if it grows while a shard is copied, the copy is void |
//! | 24 | | entries | see [`Entry`] |
//!
//! Numbers are little-endian. A piece of work is bounded by bytes and by buckets, so that the core's clients hardly notice it.

mod entry;
mod execute;

pub(crate) use entry::put_state;
pub use entry::{Entries, Entry, Name};

use crate::forward::{HEAD_BYTES, head};
use drover_base::KeyHash;
use drover_cluster::{SHARD_COUNT, ShardId};

/// The cursor after the last one.
pub const END: u64 = 1 << 32;
/// Bytes of entries after which a reply takes no more: enough that a message costs little compared with its items.
pub const PAGE_BYTES: usize = 192 << 10;

const SET_BYTES: usize = 2 + SHARD_COUNT / 8;
const REPLY_HEAD_BYTES: usize = 24;

/// A set of a service's shards.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShardSet {
    shard_count: u16,
    bits: Box<[u8; SHARD_COUNT / 8]>,
}

impl ShardSet {
    /// No shard of a service that has 1 to [`SHARD_COUNT`] shards.
    pub fn new(shard_count: usize) -> ShardSet {
        debug_assert!((1..=SHARD_COUNT).contains(&shard_count));
        ShardSet {
            shard_count: shard_count as u16,
            bits: Box::new([0; SHARD_COUNT / 8]),
        }
    }

    /// Adds a shard.
    pub fn insert(&mut self, shard: ShardId) {
        self.bits[shard.index() / 8] |= 1 << (shard.index() % 8);
    }

    /// Takes a shard out.
    pub fn remove(&mut self, shard: ShardId) {
        self.bits[shard.index() / 8] &= !(1 << (shard.index() % 8));
    }

    /// Whether the key with this hash belongs to one of the shards.
    #[inline]
    pub fn contains(&self, hash: KeyHash) -> bool {
        self.has(self.shard_of(hash))
    }

    /// Whether the shard is one of them.
    pub fn has(&self, shard: ShardId) -> bool {
        self.bits[shard.index() / 8] & (1 << (shard.index() % 8)) != 0
    }

    /// The shard of the key with this hash.
    pub fn shard_of(&self, hash: KeyHash) -> ShardId {
        ShardId::of(hash, usize::from(self.shard_count))
    }

    pub(crate) fn take(from: &[u8]) -> Option<(ShardSet, &[u8])> {
        let (set, rest) = from.split_first_chunk::<SET_BYTES>()?;
        let shard_count = u16::from_le_bytes([set[0], set[1]]);
        let bits = Box::new(set[2..].try_into().expect("a fixed length"));
        let is_sound = (1..=SHARD_COUNT).contains(&usize::from(shard_count));
        is_sound.then_some((ShardSet { shard_count, bits }, rest))
    }

    pub(crate) fn put(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.shard_count.to_le_bytes());
        to.extend_from_slice(&self.bits[..]);
    }
}

/// Message that asks for a page of the items of `shards`.
pub fn page_message(shards: &ShardSet, cursor: u64) -> Vec<u8> {
    sweep(b'p', shards, cursor)
}

/// Message that ends `attempts`, and deletes a piece of the items of `shards`; none from [`END`] on.
pub fn discard_message(shards: &ShardSet, cursor: u64, attempts: &[u64]) -> Vec<u8> {
    let mut message = sweep(b'z', shards, cursor);
    attempts
        .iter()
        .for_each(|attempt| message.extend_from_slice(&attempt.to_le_bytes()));
    message
}

fn sweep(kind: u8, shards: &ShardSet, cursor: u64) -> Vec<u8> {
    let mut message = Vec::with_capacity(HEAD_BYTES + SET_BYTES + 8);
    message.extend_from_slice(&head(KeyHash::default(), kind, 0));
    shards.put(&mut message);
    message.extend_from_slice(&cursor.to_le_bytes());
    message
}

/// Message that asks for the items with these names, which are [entries](Name::put): as many as the reply has
/// space for, in their order.
pub fn lookup_message(names: &[u8]) -> Vec<u8> {
    [&head(KeyHash::default(), b'k', 0), names].concat()
}

/// A message that stores items, in the making.
pub struct StoreMessage(Vec<u8>);

impl StoreMessage {
    /// Without entries. The core gives later updates numbers above `version`.
    pub fn new(version: u64, attempt: u64) -> StoreMessage {
        let mut message = head(KeyHash::default(), b's', 0).to_vec();
        message.extend_from_slice(&version.to_le_bytes());
        message.extend_from_slice(&attempt.to_le_bytes());
        StoreMessage(message)
    }

    /// Adds an entry as it came.
    pub fn push(&mut self, entry: &Entry<'_>) {
        self.0.extend_from_slice(entry.bytes());
    }

    /// Bytes of the entries so far.
    pub fn entry_bytes(&self) -> usize {
        self.0.len() - HEAD_BYTES - 16
    }

    /// The message.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// A reply, taken apart.
#[derive(Clone, Copy, Debug)]
pub struct Reply<'r> {
    /// See the table above.
    pub number: u64,
    /// Version of the core's partition.
    pub version: u64,
    /// Number of times that the core has flushed all items.
    pub flushes: u64,
    /// The entries.
    pub entries: Entries<'r>,
}

impl<'r> Reply<'r> {
    /// Takes a reply apart; `None` if it is malformed.
    pub fn of(reply: &'r [u8]) -> Option<Reply<'r>> {
        let (head, entries) = reply.split_first_chunk::<REPLY_HEAD_BYTES>()?;
        let word = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("8 bytes"));
        Some(Reply {
            number: word(0),
            version: word(8),
            flushes: word(16),
            entries: Entries::all(entries)?,
        })
    }

    pub(crate) fn head(number: u64, version: u64, flushes: u64) -> [u8; REPLY_HEAD_BYTES] {
        let mut head = [0; REPLY_HEAD_BYTES];
        for (field, value) in head.chunks_exact_mut(8).zip([number, version, flushes]) {
            field.copy_from_slice(&value.to_le_bytes());
        }
        head
    }
}
