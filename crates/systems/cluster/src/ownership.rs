//! [`Ownership`]: which shards this member may serve while its lease lives.

use crate::{Copy, Epoch, Map, MemberId, ShardId};
use std::sync::Arc;

/// What has changed for the items of a shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// The shard is this member's, and begins without items.
    Begin(ShardId),
    /// The shard is this member's, with the items that were copied under [`Handover`](crate::Handover), or those of the copy that it kept.
    Adopt(ShardId),
    /// The member keeps a copy of the shard from now on, which begins without items.
    Keep(ShardId),
    /// A hand-over has ended without success: the shard is served again.
    Resume(ShardId),
    /// The items of the shard are void. They must be dropped before anything else is done with the shard.
    Discard(ShardId),
}

/// What the member holds of a shard.
#[derive(Clone, Copy, Default)]
struct Held {
    /// Tenure whose items it has; [`Epoch::NONE`]: it has none.
    tenure: Epoch,
    /// Tenure of the next owner, for which the shard is frozen; [`Epoch::NONE`]: it is not frozen.
    frozen_for: Epoch,
    /// Tenure of the copy that it keeps; [`Epoch::NONE`]: it keeps none.
    kept: Epoch,
}

/// Says which shards this member may serve, as long as its lease lives. It belongs to one thread, and knows neither leases nor times.
///
/// The cores of the process ask the [`ServedShards`](crate::ServedShards) to which it is [published](crate::ServedShards::publish_all).
pub struct Ownership {
    id: Option<MemberId>,
    map: Arc<Map>,
    held: Vec<Held>,
}

impl Ownership {
    /// Makes the ownership of a member that is not registered yet: it serves nothing.
    ///
    /// # Panics
    /// If the number of shards is not 1 to [`SHARD_COUNT`](crate::SHARD_COUNT).
    pub fn new(shard_count: usize) -> Ownership {
        Ownership {
            id: None,
            map: Map::none(shard_count),
            held: vec![Held::default(); shard_count],
        }
    }

    /// The newest map that the member knows.
    pub fn map(&self) -> &Arc<Map> {
        &self.map
    }

    /// Whether the member serves the shard as long as its lease lives.
    pub fn serves(&self, shard: ShardId) -> bool {
        let held = self.held.get(shard.index()).copied().unwrap_or_default();
        held.tenure != Epoch::NONE && held.frozen_for == Epoch::NONE
    }

    /// Whether this index in the map is the member's own.
    pub fn is_own(&self, index: u16) -> bool {
        let own = self.id.as_ref().and_then(|id| self.map.index_of(id));
        own == Some(index)
    }

    /// The member has another identity, or none: what it holds belongs to a past life.
    pub fn set_id(&mut self, id: Option<MemberId>) -> Vec<Change> {
        self.id = id;
        let mut changes = Vec::new();
        for (shard, held) in self.map.shards().zip(&mut self.held) {
            if held.tenure != Epoch::NONE || held.kept != Epoch::NONE {
                changes.push(Change::Discard(shard));
            }
            *held = Held::default();
        }
        changes
    }

    /// Takes a map, unless it is not newer than the one it has. The first map decides how many shards there are; a later one with another
    /// number is refused. `received` says for which tenure of a shard the member has received all items.
    pub fn learn(&mut self, map: &Arc<Map>, received: impl Fn(ShardId) -> Option<Epoch>) -> Vec<Change> {
        if self.map.epoch() == Epoch::NONE {
            self.held.resize(map.shard_count(), Held::default());
        }
        if map.epoch() <= self.map.epoch() || map.shard_count() != self.held.len() {
            return Vec::new();
        }
        self.map = map.clone();
        self.compare(received)
    }

    /// Compares what is held and kept with what the map says is owned and to be kept.
    pub fn compare(&mut self, received: impl Fn(ShardId) -> Option<Epoch>) -> Vec<Change> {
        let mut changes = Vec::new();
        let own = self.id.as_ref().and_then(|id| self.map.index_of(id));
        for (shard, held) in self.map.shards().zip(&mut self.held) {
            let tenure = self.map.tenure(shard);
            let owned = Some(tenure.since).filter(|_| own.is_some() && tenure.owner == own);
            let copy = self.map.copy(shard).filter(|copy| Some(copy.keeper) == own);
            // Items of another tenure are void though the shard is ours: others may have owned it between.
            let lost = held.tenure != Epoch::NONE && owned != Some(held.tenure);
            // A copy that is promoted has the tenure that was planned for it.
            let promoted = held.kept != Epoch::NONE && owned == Some(held.kept);
            let dropped =
                held.kept != Epoch::NONE && !promoted && copy.map(|it| it.tenure) != Some(held.kept);
            if lost || dropped {
                changes.push(Change::Discard(shard));
                *held = Held::default();
            }
            if let Some(copy) = copy.filter(|_| held.kept == Epoch::NONE) {
                changes.push(Change::Keep(shard));
                held.kept = copy.tenure;
            }
            let Some(since) = owned else { continue };
            if held.tenure == Epoch::NONE {
                let has_items = promoted || received(shard) == Some(since);
                changes.push(if has_items {
                    Change::Adopt(shard)
                } else {
                    Change::Begin(shard)
                });
                (held.tenure, held.kept) = (since, Epoch::NONE);
            }
            let next = self.map.moving(shard).map_or(Epoch::NONE, |moving| moving.tenure);
            if held.frozen_for != next && held.frozen_for != Epoch::NONE {
                changes.push(Change::Resume(shard));
                held.frozen_for = Epoch::NONE;
            }
        }
        changes
    }

    /// Whether the shard is the member's, frozen or not.
    pub fn holds(&self, shard: ShardId) -> bool {
        let held = self.held.get(shard.index());
        held.is_some_and(|held| held.tenure != Epoch::NONE)
    }

    /// The copy of a shard that is this member's, if another member is to keep one.
    pub fn copy(&self, shard: ShardId) -> Option<Copy> {
        self.map.copy(shard).filter(|_| self.holds(shard))
    }

    /// Tenure of the copy of a shard that this member keeps, if it keeps one.
    pub fn kept(&self, shard: ShardId) -> Option<Epoch> {
        let held = self.held.get(shard.index())?;
        Some(held.kept).filter(|kept| *kept != Epoch::NONE)
    }

    /// Whether items of the shard may be copied to the owner of `tenure`: the member holds them, and knows of this move.
    pub fn may_copy(&self, shard: ShardId, tenure: Epoch) -> bool {
        let moving = self.map.moving(shard);
        moving.is_some_and(|moving| moving.tenure == tenure) && self.holds(shard)
    }

    /// The barrier of a hand-over: the member serves the shard no more, until a map says that the move has ended and the shard is
    /// still its own. Returns whether it [may copy](Ownership::may_copy). Frozen shards stay so if asked again.
    pub fn freeze(&mut self, shard: ShardId, tenure: Epoch) -> bool {
        let may_copy = self.may_copy(shard, tenure);
        if may_copy {
            self.held[shard.index()].frozen_for = tenure;
        }
        may_copy
    }
}
