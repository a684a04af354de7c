//! [`Draft`]: the next map, in the making.

use super::{Copy, MEMBERS_MAX, MOVES_MAX, Map, MapMember, Move, Standing, Tenure};
use crate::{Epoch, Member, ShardId};

/// The map that follows another one. Each method is one kind of change; [`finish`](Draft::finish) gives the map, if there was
/// any.
pub struct Draft {
    map: Map,
    changed: bool,
}

impl Draft {
    /// Begins the map after `map`.
    pub fn after(map: &Map) -> Draft {
        let mut map = map.clone();
        map.epoch = map.epoch.next();
        Draft { map, changed: false }
    }

    /// The map so far.
    pub fn map(&self) -> &Map {
        &self.map
    }

    /// The map, or `None` if it would say what the one before said.
    pub fn finish(self) -> Option<Map> {
        self.changed.then_some(self.map)
    }

    /// Takes members out. Those that are drained stay so when they come back. A shard of theirs with a complete copy belongs to the keeper of the copy from now on; others become holes.
    /// Moves from and to them end, and copies that they keep.
    pub fn remove(&mut self, is_gone: impl Fn(&Member) -> bool) {
        let mut kept = 0;
        let index_after = |listed: &MapMember| {
            let stays = !is_gone(&listed.member);
            kept += u16::from(stays);
            stays.then(|| kept - 1)
        };
        let after: Vec<Option<u16>> = self.map.members.iter().map(index_after).collect();
        if after.iter().all(Option::is_some) {
            return;
        }
        self.changed = true;
        let moved = |index: u16| after[usize::from(index)];
        let is_lost = |listed: &&MapMember| is_gone(&listed.member) && listed.standing == Standing::Draining;
        let drained = self.map.members.iter().filter(is_lost);
        let drained = drained.map(|listed| listed.member.advert.name().clone());
        self.map.drained.extend(drained);
        // So many that stay away for ever are forgotten.
        let excess = self.map.drained.len().saturating_sub(MEMBERS_MAX);
        self.map.drained.drain(..excess);
        self.map.members.retain(|listed| !is_gone(&listed.member));
        self.map.moves.retain_mut(|moving| {
            let owner = self.map.shards[moving.shard.index()].owner;
            let to = moved(moving.to);
            moving.to = to.unwrap_or_default();
            to.is_some() && owner.and_then(moved).is_some()
        });
        for (tenure, copy) in self.map.shards.iter_mut().zip(&mut self.map.copies) {
            let moved_copy = |it: Copy| moved(it.keeper).map(|keeper| Copy { keeper, ..it });
            *copy = copy.and_then(moved_copy);
            let was_owned = tenure.owner.is_some();
            tenure.owner = tenure.owner.and_then(moved);
            if was_owned && tenure.owner.is_none() {
                let promoted = copy.take().filter(|it| it.is_complete);
                *tenure = promoted.map_or(*tenure, |it| Tenure {
                    owner: Some(it.keeper),
                    since: it.tenure,
                });
            }
        }
    }

    /// Adds a member that owns nothing yet; returns whether there was space for it.
    pub fn add(&mut self, member: Member, standing: Standing) -> bool {
        let fits = self.map.members.len() < MEMBERS_MAX;
        if fits {
            self.changed = true;
            self.map.drained.retain(|name| name != member.advert.name());
            self.map.members.push(MapMember { member, standing });
        }
        fits
    }

    /// Changes a member's standing: an operator drains it, or has it join again. Returns whether there is such a member.
    pub fn set_standing(&mut self, name: &str, standing: Standing) -> bool {
        let mut members = self.map.members.iter_mut();
        let Some(found) = members.find(|listed| &**listed.member.advert.name() == name) else {
            return false;
        };
        self.changed |= found.standing != standing;
        found.standing = standing;
        true
    }

    /// An operator wants a member that is away to take shards when it comes back. Returns whether it was [drained](Map::drained).
    pub fn undrain_absent(&mut self, name: &str) -> bool {
        let before = self.map.drained.len();
        self.map.drained.retain(|drained| &**drained != name);
        let was_drained = before != self.map.drained.len();
        self.changed |= was_drained;
        was_drained
    }

    /// Gives a shard to a member, without its items. Only for shards that nobody serves: see [`Transaction`](crate::Transaction).
    pub fn assign(&mut self, shard: ShardId, owner: u16) {
        self.cancel_move(shard);
        self.set(shard, owner, self.map.epoch);
    }

    /// Begins to hand a shard over, unless it has no owner or as many move as can. Returns whether it begins. A copy that the next owner
    /// keeps ends: its items would be in the way.
    pub fn begin_move(&mut self, shard: ShardId, to: u16) -> bool {
        let place = self.map.moves.binary_search_by_key(&shard, |moving| moving.shard);
        let owner = self.map.tenure(shard).owner;
        let (Err(place), true, true) = (
            place,
            owner.is_some_and(|owner| owner != to),
            self.map.moves.len() < MOVES_MAX,
        ) else {
            return false;
        };
        let tenure = self.map.epoch;
        self.map.moves.insert(place, Move { shard, to, tenure });
        self.map.copies[shard.index()].take_if(|copy| copy.keeper == to);
        self.changed = true;
        true
    }

    /// Ends a move: the shard stays with its owner, which serves it again once it sees this map.
    pub fn cancel_move(&mut self, shard: ShardId) {
        let before = self.map.moves.len();
        self.map.moves.retain(|moving| moving.shard != shard);
        self.changed |= before != self.map.moves.len();
    }

    /// Completes a move, if it is still the one with this tenure: the shard and its items belong to the next owner.
    pub fn complete_move(&mut self, shard: ShardId, tenure: Epoch) {
        if let Some(moving) = self.map.moving(shard).filter(|moving| moving.tenure == tenure) {
            self.cancel_move(shard);
            self.set(shard, moving.to, tenure);
        }
    }

    /// Begins a copy of a shard at a keeper, in the place of one that another member keeps. Returns whether it begins: not at the owner
    /// or where it is already, not while the shard moves, since it would end with the move, and not in the epoch that
    /// began the owner's tenure, since no two tenures of a shard may be the same.
    pub fn begin_copy(&mut self, shard: ShardId, keeper: u16) -> bool {
        let (owned, epoch) = (self.map.tenure(shard), self.map.epoch);
        let is_due = owned.owner.is_some_and(|owner| owner != keeper)
            && owned.since < epoch
            && self.map.moving(shard).is_none()
            && self.map.copy(shard).is_none_or(|copy| copy.keeper != keeper);
        if is_due {
            self.set_copy(
                shard,
                Copy {
                    keeper,
                    tenure: epoch,
                    is_complete: false,
                },
            );
        }
        is_due
    }

    /// The copy of this tenure has everything from now on, and may be promoted.
    pub fn complete_copy(&mut self, shard: ShardId, tenure: Epoch) {
        let copy = self.map.copy(shard).filter(|copy| copy.tenure == tenure);
        if let Some(copy) = copy.filter(|copy| !copy.is_complete) {
            let is_complete = true;
            self.set_copy(shard, Copy { is_complete, ..copy });
        }
    }

    /// The copy of this tenure lacks something, or may: its keeper begins it again, without items and under a new tenure.
    pub fn restart_copy(&mut self, shard: ShardId, tenure: Epoch) {
        let copy = self.map.copy(shard).filter(|copy| copy.tenure == tenure);
        if let Some(copy) = copy.filter(|copy| copy.tenure < self.map.epoch) {
            self.set_copy(
                shard,
                Copy {
                    keeper: copy.keeper,
                    tenure: self.map.epoch,
                    is_complete: false,
                },
            );
        }
    }

    fn set_copy(&mut self, shard: ShardId, copy: Copy) {
        self.map.copies[shard.index()] = Some(copy);
        self.changed = true;
    }

    /// Whatever was copied of the shard was of another tenure.
    fn set(&mut self, shard: ShardId, owner: u16, since: Epoch) {
        let owner = Some(owner);
        self.map.copies[shard.index()] = None;
        self.map.shards[shard.index()] = Tenure { owner, since };
        self.changed = true;
    }
}
