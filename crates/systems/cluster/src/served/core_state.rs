//! [`CoreState`]: what one core of a member and the control thread tell each other.

use super::lock;
use crate::ShardId;
use drover_base::sync::{AtomicU32, AtomicU64, Mutex};
use drover_base::{KeyHash, Ns};
use std::collections::{BTreeMap, BTreeSet};

/// Key of an item that may have changed while its shard was on its way to another member.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum NotedKey {
    /// The key.
    Key(Box<[u8]>),
    /// The [bytes](KeyHash::to_bytes) of the hash that an item has instead of a key.
    Hash([u8; 16]),
}

/// Function that ends the sleep of a core.
pub type WakeCore = Box<dyn Fn() + Send + Sync>;

/// First byte of a name in [`CoreState::changed`]: the item is to be looked up.
const NAMED: u8 = 2;

/// One core of the member.
#[derive(Default)]
pub(super) struct CoreState {
    /// Number of rounds that the core has begun.
    pub(super) rounds: AtomicU64,
    noted: Mutex<BTreeMap<ShardId, BTreeSet<NotedKey>>>,
    /// Names of keys of copied shards that have changed.
    changed: Mutex<Vec<u8>>,
    /// 1: replies wait for keepers of copies. Only the core itself changes it.
    pub(super) is_held: AtomicU32,
    /// How often what was held has become void. Only the core itself changes it.
    pub(super) voids: AtomicU64,
    /// The peer that has been awaited for longest, and since when.
    pub(super) waiting: Mutex<Option<(u16, Ns)>>,
    pub(super) waker: Mutex<Option<WakeCore>>,
}

impl CoreState {
    pub(super) fn wake(&self) {
        if let Some(wake) = &*lock(&self.waker) {
            wake();
        }
    }

    /// The key moves with its shard.
    pub(super) fn note(&self, shard: ShardId, hash: KeyHash, key: &[u8]) {
        let key = match key {
            [] => NotedKey::Hash(hash.to_bytes()),
            key => NotedKey::Key(key.into()),
        };
        lock(&self.noted).entry(shard).or_default().insert(key);
    }

    pub(super) fn take_noted(&self, shard: ShardId) -> BTreeSet<NotedKey> {
        lock(&self.noted).remove(&shard).unwrap_or_default()
    }

    /// The keeper of a copy is to be told of the key.
    pub(super) fn push_changed(&self, hash: KeyHash, key: &[u8]) {
        let mut changed = lock(&self.changed);
        changed.push(NAMED);
        changed.extend_from_slice(&hash.to_bytes());
        changed.push(key.len() as u8);
        changed.extend_from_slice(key);
    }

    pub(super) fn take_changed(&self, into: &mut Vec<u8>) {
        into.clear();
        std::mem::swap(into, &mut lock(&self.changed));
    }
}
