//! [`MemberView`]: a member, as registry and map together have it.

use drover_cluster::{Map, Member, ShardId, Standing, View};
use serde::Serialize;

/// What a member is in its service.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It takes its share of the shards.
    Joining,
    /// It keeps what it has.
    Settled,
    /// It gives its shards away.
    Draining,
    /// It is registered, and not in the map yet.
    Waiting,
    /// It is in the map, but its lease is over: its shards go to others, without items.
    Gone,
}

impl State {
    /// The word for tables.
    pub fn name(self) -> &'static str {
        match self {
            State::Joining => "joining",
            State::Settled => "settled",
            State::Draining => "draining",
            State::Waiting => "waiting",
            State::Gone => "gone",
        }
    }
}

/// A member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemberView {
    /// Who it is, and where.
    pub member: Member,
    /// What it is in its service.
    pub state: State,
    /// Shards that it owns.
    pub shards: usize,
    /// Shards on their way to it.
    pub moving_in: usize,
    /// Shards on their way to others.
    pub moving_out: usize,
    /// Shards that it owns and of which another member keeps a complete copy.
    pub copied: usize,
    /// Shards of others of which it keeps a copy, complete or not.
    pub kept: usize,
}

/// All members, in the order of names; those that are gone behind.
pub fn of(view: &View, map: &Map) -> Vec<MemberView> {
    let counts = map.counts();
    let listed = map.members().iter().enumerate().map(|(index, listed)| {
        let is_registered = view.members.contains(&listed.member);
        let index = index as u16;
        let moves_from = |shard| map.tenure(shard).owner == Some(index);
        let copies = map.shards().filter_map(|shard| map.copy(shard));
        let is_copied = |shard: &ShardId| map.copy(*shard).is_some_and(|copy| copy.is_complete);
        MemberView {
            member: listed.member.clone(),
            state: match (is_registered, listed.standing) {
                (false, _) => State::Gone,
                (true, Standing::Joining) => State::Joining,
                (true, Standing::Settled) => State::Settled,
                (true, Standing::Draining) => State::Draining,
            },
            shards: counts[usize::from(index)],
            moving_in: map.moves().iter().filter(|moving| moving.to == index).count(),
            moving_out: map
                .moves()
                .iter()
                .filter(|moving| moves_from(moving.shard))
                .count(),
            copied: map
                .shards()
                .filter(|shard| moves_from(*shard) && is_copied(shard))
                .count(),
            kept: copies.filter(|copy| copy.keeper == index).count(),
        }
    });
    let is_listed = |member: &&Member| map.members().iter().any(|listed| listed.member == **member);
    let waiting = view.members.iter().filter(|member| !is_listed(member));
    let waiting = waiting.map(|member| MemberView {
        member: member.clone(),
        state: State::Waiting,
        shards: 0,
        moving_in: 0,
        moving_out: 0,
        copied: 0,
        kept: 0,
    });
    let mut all: Vec<MemberView> = listed.chain(waiting).collect();
    all.sort_by_key(|it| (it.state == State::Gone, it.member.advert.name().clone()));
    all
}

/// Shards that have an owner, and no complete copy at another member: what only a machine has is lost with it.
pub fn singles(map: &Map) -> usize {
    let is_single = |shard: &ShardId| {
        let is_copied = map.copy(*shard).is_some_and(|copy| copy.is_complete);
        map.tenure(*shard).owner.is_some() && !is_copied
    };
    map.shards().filter(is_single).count()
}

/// Shards that nobody owns.
pub fn holes(map: &Map) -> usize {
    map.shards()
        .filter(|shard| map.tenure(*shard).owner.is_none())
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use drover_cluster::{Advert, Draft};
    use std::sync::Arc;

    fn member(name: &str) -> Member {
        let advert =
            Advert::new(name, 1, vec![format!("member://{name}:1?cores=1")]).expect("a sound advert");
        Member {
            advert,
            incarnation: 7,
        }
    }

    #[test]
    fn only_complete_copies_count() {
        let mut draft = Draft::after(&Map::none(4));
        draft.add(member("a"), Standing::Settled);
        draft.add(member("b"), Standing::Settled);
        for shard in 0..3 {
            draft.assign(ShardId(shard), 0);
        }
        let owned = draft.finish().expect("a change");
        let mut draft = Draft::after(&owned);
        draft.begin_copy(ShardId(0), 1);
        draft.begin_copy(ShardId(1), 1);
        let begun = draft.finish().expect("a change");
        let mut draft = Draft::after(&begun);
        draft.complete_copy(ShardId(1), begun.epoch());
        let map = draft.finish().expect("a change");
        let view = View {
            revision: 3,
            members: Arc::new(vec![member("a"), member("b")]),
            map: None,
        };
        let copies: Vec<_> = of(&view, &map).iter().map(|it| (it.copied, it.kept)).collect();
        assert_eq!(copies, [(1, 0), (0, 2)]);
        assert_eq!((singles(&map), holes(&map)), (2, 1));
    }

    #[test]
    fn registered_and_listed_members_are_told_apart() {
        let mut draft = Draft::after(&Map::none(4));
        draft.add(member("b"), Standing::Settled);
        draft.add(member("a"), Standing::Draining);
        draft.assign(ShardId(0), 0);
        draft.assign(ShardId(1), 1);
        let first = draft.finish().expect("a change");
        let mut draft = Draft::after(&first);
        draft.begin_move(ShardId(1), 0);
        let map = draft.finish().expect("a change");
        let view = View {
            revision: 3,
            members: Arc::new(vec![member("a"), member("c")]),
            map: None,
        };
        let seen = of(&view, &map);
        let seen: Vec<_> = seen
            .iter()
            .map(|it| {
                (
                    &**it.member.advert.name(),
                    it.state,
                    it.shards,
                    it.moving_in,
                    it.moving_out,
                )
            })
            .collect();
        assert_eq!(
            seen,
            [
                ("a", State::Draining, 1, 0, 1),
                ("c", State::Waiting, 0, 0, 0),
                ("b", State::Gone, 1, 1, 0)
            ]
        );
        assert_eq!(holes(&map), 2);
    }
}
