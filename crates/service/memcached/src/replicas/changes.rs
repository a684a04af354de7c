//! [`Changes`]: what a keeper does not have as it is now, by name.

use crate::handover::{Entries, Entry, ShardSet};
use drover_cluster::ShardId;

/// Names of keys, as [entries to look up](crate::handover::Name::put) with their hashes, and shards of which all items were deleted. The memory is kept.
#[derive(Default, Debug)]
pub(super) struct Changes {
    /// Shards that were flushed. They are sent first: what was stored since then is looked up afterwards.
    pub(super) flushed: Vec<ShardId>,
    /// Keys whose changes hold the core.
    pub(super) gated: Vec<u8>,
    /// Keys whose changes do not.
    pub(super) free: Vec<u8>,
}

impl Changes {
    pub(super) fn is_empty(&self) -> bool {
        self.flushed.is_empty() && self.gated.is_empty() && self.free.is_empty()
    }

    /// Whether there is anything of `shards`.
    pub(super) fn has_any(&self, shards: &ShardSet) -> bool {
        self.flushed.iter().any(|shard| shards.has(*shard))
            || [&self.gated, &self.free]
                .into_iter()
                .any(|list| names(list).any(|name| shards.contains(name.name.hash)))
    }

    /// Bytes of names.
    pub(super) fn bytes(&self) -> usize {
        self.gated.len() + self.free.len()
    }

    /// Takes over what `other` has.
    pub(super) fn append(&mut self, other: &mut Changes) {
        self.flushed.append(&mut other.flushed);
        self.gated.append(&mut other.gated);
        self.free.append(&mut other.free);
    }

    pub(super) fn clear(&mut self) {
        self.flushed.clear();
        self.gated.clear();
        self.free.clear();
    }

    /// Moves what belongs to `shards`, by `shard_of` a name, to `other`.
    pub(super) fn move_shards(
        &mut self,
        shards: &[ShardId],
        shard_of: impl Fn(&Entry<'_>) -> ShardId,
        other: &mut Changes,
    ) {
        let is_moved = |shard: &ShardId| shards.contains(shard);
        other
            .flushed
            .extend(self.flushed.iter().copied().filter(is_moved));
        self.flushed.retain(|shard| !is_moved(shard));
        for (from, to) in [
            (&mut self.gated, &mut other.gated),
            (&mut self.free, &mut other.free),
        ] {
            retain(from, |name| {
                let stays = !is_moved(&shard_of(name));
                if !stays {
                    to.extend_from_slice(name.bytes());
                }
                stays
            });
        }
    }
}

/// The names in a list that this core has written.
pub(super) fn names(list: &[u8]) -> Entries<'_> {
    Entries::known(list)
}

/// Takes out of a list the names that `keep` does not want.
pub(super) fn retain(list: &mut Vec<u8>, mut keep: impl FnMut(&Entry<'_>) -> bool) {
    let (mut read, mut kept) = (0, 0);
    while read < list.len() {
        let Some(name) = names(&list[read..]).next() else {
            break;
        };
        let (len, keeps) = (name.bytes().len(), keep(&name));
        if keeps {
            list.copy_within(read..read + len, kept);
            kept += len;
        }
        read += len;
    }
    list.truncate(kept);
}

/// Leaves each name once.
#[cold]
pub(super) fn compact(list: &mut Vec<u8>) {
    let mut all: Vec<&[u8]> = names(list).map(|name| name.bytes()).collect();
    all.sort_unstable();
    all.dedup();
    *list = all.concat();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handover::Name;
    use drover_base::KeyHash;

    fn list(keys: &[&str]) -> Vec<u8> {
        let mut list = Vec::new();
        for key in keys {
            let (hash, key) = (KeyHash::default(), key.as_bytes());
            Name { hash, key }.put(&mut list);
        }
        list
    }

    #[test]
    fn names_are_kept_in_order_or_once() {
        let mut changed = list(&["a", "long", "b", "a"]);
        retain(&mut changed, |name| name.name.key.len() == 1);
        assert_eq!(changed, list(&["a", "b", "a"]));
        compact(&mut changed);
        assert_eq!(changed, list(&["a", "b"]));
    }

    #[test]
    fn what_belongs_to_a_shard_is_moved() {
        let (mut from, mut to) = (Changes::default(), Changes::default());
        from.gated = list(&["a", "bb", "c"]);
        from.free = list(&["dd"]);
        from.flushed = vec![ShardId(1), ShardId(2)];
        let by_len = |name: &Entry<'_>| ShardId(name.name.key.len() as u16);
        from.move_shards(&[ShardId(2)], by_len, &mut to);
        assert_eq!((from.gated, from.flushed), (list(&["a", "c"]), vec![ShardId(1)]));
        assert!(from.free.is_empty());
        assert_eq!((to.gated, to.free), (list(&["bb"]), list(&["dd"])));
        assert_eq!(to.flushed, [ShardId(2)]);
    }
}
