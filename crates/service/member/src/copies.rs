//! [`Copies`]: how far the copies of this member's shards have come that other members keep.
//!
//! ```text
//!   (none) --take_set--> Filling --gate--> Gated --filled--> Gated, and complete in the map
//!      ^                    |                |
//!      '------ the map names another tenure, or no copy --'
//! ```
//! A copy that lacks something, or may, is never mended: the map begins it again under another tenure, and its keeper clears what it has.

use drover_cluster::{CopyStage, Epoch, Ownership, ShardId};
use std::collections::BTreeMap;

/// A shard and the tenure of its copy.
pub(crate) type Copied = (ShardId, Epoch);

/// One copy.
struct Copy {
    tenure: Epoch,
    stage: CopyStage,
    /// It is to begin again, as soon as a map says so.
    has_failed: bool,
}

/// Copies by shard.
#[derive(Default)]
pub(crate) struct Copies {
    by_shard: BTreeMap<ShardId, Copy>,
    /// Index of the keeper of the last set: others come first.
    last_keeper: u16,
}

impl Copies {
    /// Forgets copies that the map does not have any more. To be called when the map, or what the member owns, has changed.
    pub(crate) fn follow(&mut self, ownership: &Ownership) {
        let tenure_of = |shard| ownership.copy(shard).map(|copy| copy.tenure);
        self.by_shard
            .retain(|shard, copy| tenure_of(*shard) == Some(copy.tenure));
    }

    /// What the cores do for the copy of a shard.
    pub(crate) fn stage(&self, shard: ShardId) -> CopyStage {
        self.by_shard
            .get(&shard)
            .map_or(CopyStage::None, |copy| copy.stage)
    }

    /// Takes the copies that one keeper is to have and that nothing has been sent to yet, of shards that are `ready`: what changes in
    /// these is sent from now on. Keepers come in turns.
    pub(crate) fn take_set(&mut self, ownership: &Ownership, ready: impl Fn(ShardId) -> bool) -> Vec<Copied> {
        let mut by_keeper: BTreeMap<u16, Vec<Copied>> = BTreeMap::new();
        for shard in ownership.map().shards() {
            let is_new = !self.by_shard.contains_key(&shard) && ready(shard);
            if let Some(copy) = ownership.copy(shard).filter(|_| is_new) {
                by_keeper
                    .entry(copy.keeper)
                    .or_default()
                    .push((shard, copy.tenure));
            }
        }
        let next = by_keeper.range(self.last_keeper + 1..).next();
        let Some((keeper, set)) = next.or(by_keeper.first_key_value()) else {
            return Vec::new();
        };
        self.last_keeper = *keeper;
        for (shard, tenure) in set {
            let copy = Copy {
                tenure: *tenure,
                stage: CopyStage::Filling,
                has_failed: false,
            };
            self.by_shard.insert(*shard, copy);
        }
        set.clone()
    }

    /// Leaves those of a set that the map still has and that have not failed.
    pub(crate) fn retain_current(&self, set: &mut Vec<Copied>) {
        set.retain(|(shard, tenure)| {
            let copy = self.by_shard.get(shard);
            copy.is_some_and(|copy| copy.tenure == *tenure && !copy.has_failed)
        });
    }

    /// Replies wait for the keeper of these copies, which are current, from now on.
    pub(crate) fn gate(&mut self, set: &[Copied]) {
        for (shard, _) in set {
            if let Some(copy) = self.by_shard.get_mut(shard) {
                copy.stage = CopyStage::Gated;
            }
        }
    }

    /// These copies, which are current, are to begin again. Replies go on to wait for the keepers of gated ones, until a map says that they are not
    /// complete any more.
    pub(crate) fn fail(&mut self, set: &[Copied]) {
        for (shard, _) in set {
            if let Some(copy) = self.by_shard.get_mut(shard) {
                copy.has_failed = true;
            }
        }
    }

    /// The gated copies that the member with this index keeps, but for those that have failed.
    pub(crate) fn gated_at(&self, ownership: &Ownership, keeper: u16) -> Vec<Copied> {
        let is_there = |shard| ownership.copy(shard).is_some_and(|copy| copy.keeper == keeper);
        self.by_shard
            .iter()
            .filter(|(shard, copy)| copy.stage == CopyStage::Gated && !copy.has_failed && is_there(**shard))
            .map(|(shard, copy)| (*shard, copy.tenure))
            .collect()
    }
}
