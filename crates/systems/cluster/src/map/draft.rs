//! [`Draft`]: the next map, in the making.

use super::{MEMBERS_MAX, MOVES_MAX, Map, MapMember, Move, Standing, Tenure};
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

    /// Takes members out. Their shards become holes; moves from and to them end.
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
        self.map.members.retain(|listed| !is_gone(&listed.member));
        for tenure in &mut self.map.shards {
            tenure.owner = tenure.owner.and_then(moved);
        }
        let shards = &self.map.shards;
        self.map.moves.retain_mut(|moving| {
            let to = moved(moving.to);
            moving.to = to.unwrap_or_default();
            to.is_some() && shards[moving.shard.index()].owner.is_some()
        });
    }

    /// Adds a member that owns nothing yet; returns whether there was space for it.
    pub fn add(&mut self, member: Member, standing: Standing) -> bool {
        let fits = self.map.members.len() < MEMBERS_MAX;
        if fits {
            self.changed = true;
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

    /// Gives a shard to a member, without its items. Only for shards that nobody serves: see [`Transaction`](crate::Transaction).
    pub fn assign(&mut self, shard: ShardId, owner: u16) {
        self.cancel_move(shard);
        self.set(shard, owner, self.map.epoch);
    }

    /// Begins to hand a shard over, unless it has no owner or as many move as can. Returns whether it begins.
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

    fn set(&mut self, shard: ShardId, owner: u16, since: Epoch) {
        let owner = Some(owner);
        self.map.shards[shard.index()] = Tenure { owner, since };
        self.changed = true;
    }
}
