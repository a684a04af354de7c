//! What the map should become, given who is registered.

use crate::placement::{Candidate, Preferences, place};
use crate::{Draft, Map, MapMember, Member, MemberId, Standing};

/// Changes a draft so that it fits the members that are registered: members that are gone leave it and their shards go to the keepers of
/// complete copies, or elsewhere, without items; new members enter it; shards that should be elsewhere begin to move there; with 2
/// `replicas`, shards without a copy get one. Returns the members that are gone: the draft must not become the map unless they are
/// (see [`Transaction`](crate::Transaction)).
///
/// Every member plans alike, and the registry accepts one plan per epoch; so it does not matter which of them does.
pub fn plan(draft: &mut Draft, registered: &[Member], replicas: u8) -> Vec<MemberId> {
    let is_registered = |member: &Member| registered.iter().any(|it| it == member);
    let listed = draft.map().members().to_vec();
    let gone = listed.iter().filter(|it| !is_registered(&it.member));
    let gone: Vec<MemberId> = gone.map(|it| it.member.id()).collect();
    draft.remove(|member| !is_registered(member));
    for member in registered {
        let name = member.advert.name();
        let before = listed.iter().find(|it| it.member.advert.name() == name);
        if before.is_none_or(|it| it.member != *member) {
            // An operator's wish outlives the member's life. A member for which there is no space has to wait.
            let is_drained = draft.map().drained().contains(name);
            let standing = if is_drained {
                Standing::Draining
            } else {
                Standing::Joining
            };
            draft.add(member.clone(), standing);
        }
    }
    place_shards(draft);
    if replicas > 1 {
        place_copies(draft);
    }
    gone
}

/// Begins copies of shards that have none, or whose keeper is to give everything away. A copy stays where it is otherwise, though a favourite of
/// its shard has come: until it is complete elsewhere, the shard would have none.
fn place_copies(draft: &mut Draft) {
    let keepers = keepers(draft.map());
    for (shard, keeper) in draft.map().shards().zip(keepers) {
        if let Some(keeper) = keeper {
            draft.begin_copy(shard, keeper);
        }
    }
}

/// Member that should keep a copy of each shard of the map; `None`: there is none beside the owner.
fn keepers(map: &Map) -> Vec<Option<u16>> {
    let candidates = candidates(map);
    let preferences = Preferences::new(&candidates);
    let takes = |index: u16| candidates[usize::from(index)].weight > 0;
    let keeper = |shard| {
        let copy = map.copy(shard).filter(|copy| takes(copy.keeper));
        let owner = map.tenure(shard).owner;
        let others =
            (0..candidates.len()).filter(|index| Some(*index as u16) != owner && takes(*index as u16));
        let favourite = || preferences.favourite(shard, others);
        copy.map(|copy| copy.keeper)
            .or_else(|| favourite().map(|index| index as u16))
    };
    map.shards().map(keeper).collect()
}

/// Assigns shards that nobody owns, and begins to move those that should be elsewhere.
fn place_shards(draft: &mut Draft) {
    let targets = targets(draft.map());
    for (shard, target) in draft.map().shards().zip(&targets) {
        let Some(target) = *target else { continue };
        if draft
            .map()
            .moving(shard)
            .is_some_and(|moving| moving.to != target)
        {
            draft.cancel_move(shard);
        }
        match draft.map().tenure(shard).owner {
            None => draft.assign(shard, target),
            Some(owner) if owner != target => _ = draft.begin_move(shard, target),
            Some(_) => {}
        }
    }
    // A member has joined when nothing more is on its way to it.
    let expects = |index: usize| {
        let mut shards = draft.map().shards().zip(&targets);
        let index = Some(index as u16);
        shards.any(|(shard, target)| *target == index && draft.map().tenure(shard).owner != index)
    };
    let members = draft.map().members().iter().enumerate();
    let joined = members.filter(|(index, it)| it.standing == Standing::Joining && !expects(*index));
    let joined: Vec<_> = joined.map(|(_, it)| it.member.advert.name().clone()).collect();
    for name in joined {
        draft.set_standing(&name, Standing::Settled);
    }
}

/// The members of the map, as far as placement is concerned.
fn candidates<'m>(map: &'m Map) -> Vec<Candidate<'m>> {
    // If all are drained, shards that nobody owns still have to go somewhere.
    let all_drain = map.members().iter().all(|it| it.standing == Standing::Draining);
    let candidate = |MapMember { member, standing }: &'m MapMember| {
        let takes = all_drain || *standing != Standing::Draining;
        Candidate {
            name: member.advert.name(),
            weight: if takes { member.advert.weight() } else { 0 },
            is_new: *standing == Standing::Joining,
        }
    };
    map.members().iter().map(candidate).collect()
}

/// Owner that each shard of the map should have.
fn targets(map: &Map) -> Vec<Option<u16>> {
    let owner = |shard| map.tenure(shard).owner.map(usize::from);
    // A shard that moves counts for where it goes, so that plans do not change their mind.
    let next = |shard| map.moving(shard).map(|moving| usize::from(moving.to));
    let owners: Vec<_> = map.shards().map(|shard| next(shard).or(owner(shard))).collect();
    let placed = place(&candidates(map), &owners);
    placed
        .into_iter()
        .map(|owner| owner.map(|index| index as u16))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Advert, SHARD_COUNT};
    use std::sync::Arc;

    fn member(name: &str, incarnation: u64) -> Member {
        let advert = Advert::new(name, 100, vec![format!("tcp://{name}:1")]).expect("a sound advert");
        Member { advert, incarnation }
    }

    /// The next map, and who must be gone.
    fn next(map: &Map, registered: &[Member]) -> (Option<Map>, Vec<MemberId>) {
        let mut draft = Draft::after(map);
        let gone = plan(&mut draft, registered, 1);
        (draft.finish(), gone)
    }

    /// Plans and completes moves until nothing is left to do.
    fn settled(map: &Map, registered: &[Member]) -> Map {
        let mut map = map.clone();
        loop {
            let mut draft = Draft::after(&map);
            for moving in map.moves() {
                draft.complete_move(moving.shard, moving.tenure);
            }
            plan(&mut draft, registered, 1);
            match draft.finish() {
                Some(next) => map = next,
                None => return map,
            }
        }
    }

    fn drain(draft: &mut Draft, name: &str) -> bool {
        draft.set_standing(name, Standing::Draining)
    }

    #[test]
    fn the_first_member_owns_all_and_a_second_one_is_handed_its_share() {
        let none = Map::none(SHARD_COUNT);
        let alone = [member("a", 1)];
        let (map, gone) = next(&none, &alone);
        let map = map.expect("a change");
        assert_eq!((map.counts(), gone), (vec![SHARD_COUNT], vec![]));
        assert_eq!(next(&map, &alone).0, None, "nothing is left to do");
        let both = [member("a", 1), member("b", 2)];
        let (moving, _) = next(&map, &both);
        let moving = moving.expect("a change");
        assert_eq!(moving.counts(), [SHARD_COUNT, 0], "nothing is taken away");
        assert_eq!(moving.moves().len(), crate::MOVES_MAX);
        let counts = settled(&map, &both).counts();
        assert!(
            counts.iter().all(|count| (1900..2200).contains(count)),
            "{counts:?}"
        );
    }

    #[test]
    fn a_restarted_member_owns_nothing_until_the_map_says_so() {
        let (a, b) = (member("a", 1), member("b", 2));
        let map = settled(&Map::none(64), &[a.clone(), b.clone()]);
        let again = member("b", 3);
        let (after, gone) = next(&map, &[a, again.clone()]);
        let after = after.expect("a change");
        assert_eq!(gone, [b.id()]);
        assert_eq!(after.index_of(&b.id()), None);
        for shard in map.shards().filter(|shard| map.owner(*shard) == Some(&b)) {
            assert_eq!(after.owner(shard), Some(&again));
            assert_eq!(after.tenure(shard).since, after.epoch(), "without items");
        }
    }

    #[test]
    fn a_drained_member_hands_everything_over_unless_it_is_the_last() {
        let members = [member("a", 1), member("b", 2), member("c", 3)];
        let map = settled(&Map::none(SHARD_COUNT), &members);
        let mut draft = Draft::after(&map);
        assert!(drain(&mut draft, "b") && !drain(&mut draft, "d"));
        let drained = settled(&draft.finish().expect("a change"), &members);
        assert_eq!(drained.counts()[1], 0);
        let stays = |shard: &crate::ShardId| {
            map.owner(*shard) == Some(&members[1]) || map.owner(*shard) == drained.owner(*shard)
        };
        assert!(map.shards().all(|shard| stays(&shard)));
        let mut draft = Draft::after(&drained);
        drain(&mut draft, "a");
        drain(&mut draft, "c");
        let all = draft.finish().expect("a change");
        let all = settled(&all, &members);
        assert_eq!(all.counts(), drained.counts(), "they stay with the last ones");
        let restarted = [member("a", 1), member("b", 9), member("c", 3)];
        let (again, _) = next(&Arc::new(all), &restarted);
        let again = again.expect("a change");
        assert!(
            again.members().iter().all(|it| it.standing == Standing::Draining),
            "a restart does not undo it"
        );
        let (left, _) = next(&again, &restarted[..1]);
        let left = left.expect("a change");
        let mut names: Vec<&str> = left.drained().iter().map(|name| &**name).collect();
        names.sort_unstable();
        assert_eq!(names, ["b", "c"]);
        let back = [member("a", 1), member("b", 10), member("c", 11)];
        let mut draft = Draft::after(&left);
        assert!(draft.undrain_absent("c") && !draft.undrain_absent("c"));
        plan(&mut draft, &back, 1);
        let back = draft.finish().expect("a change");
        let standing = |name: &str| {
            let mut members = back.members().iter();
            members
                .find(|it| &**it.member.advert.name() == name)
                .map(|it| it.standing)
        };
        assert_eq!(standing("b"), Some(Standing::Draining), "nor does a long absence");
        assert_eq!(
            standing("c"),
            Some(Standing::Joining),
            "it was undrained meanwhile"
        );
        assert!(back.drained().is_empty());
        let restarted = [member("a", 7), member("b", 8), member("c", 9)];
        let (all_restarted, _) = next(&again, &restarted);
        let counts = all_restarted.expect("a change").counts();
        assert_eq!(counts.iter().sum::<usize>(), SHARD_COUNT, "nobody else is there");
    }

    /// Plans and completes moves and copies until nothing is left to do.
    fn copied(map: &Map, registered: &[Member]) -> Map {
        let mut map = map.clone();
        loop {
            let mut draft = Draft::after(&map);
            for moving in map.moves() {
                draft.complete_move(moving.shard, moving.tenure);
            }
            for shard in map.shards() {
                if let Some(copy) = map.copy(shard) {
                    draft.complete_copy(shard, copy.tenure);
                }
            }
            plan(&mut draft, registered, 2);
            match draft.finish() {
                Some(next) => map = next,
                None => return map,
            }
        }
    }

    /// Number of copies at each member of shards that another one owns, by owner and keeper.
    fn pairs(map: &Map) -> Vec<Vec<usize>> {
        let count = map.members().len();
        let mut pairs = vec![vec![0; count]; count];
        for shard in map.shards() {
            let owner = map.tenure(shard).owner.expect("an owner");
            let copy = map.copy(shard).expect("a copy");
            assert!(copy.is_complete && copy.keeper != owner);
            pairs[usize::from(owner)][usize::from(copy.keeper)] += 1;
        }
        pairs
    }

    #[test]
    fn copies_of_each_members_shards_are_spread_over_the_others() {
        let none = Map::none(SHARD_COUNT);
        let alone = copied(&none, &[member("a", 1)]);
        assert!(
            alone.shards().all(|shard| alone.copy(shard).is_none()),
            "there is nobody"
        );
        let four = ["a", "b", "c", "d"].map(|name| member(name, 1));
        let map = copied(&none, &four);
        for (owner, copies) in pairs(&map).iter().enumerate() {
            let fair = map.counts()[owner] / 3;
            for (keeper, count) in copies.iter().enumerate().filter(|(keeper, _)| *keeper != owner) {
                assert!(
                    (fair * 3 / 4..=fair * 5 / 4).contains(count),
                    "{count} of {fair} from {owner} at {keeper}"
                );
            }
        }
    }

    #[test]
    fn a_member_that_is_gone_leaves_its_shards_to_keepers_and_they_find_others() {
        let three = ["a", "b", "c"].map(|name| member(name, 1));
        let map = copied(&Map::none(SHARD_COUNT), &three);
        let mut draft = Draft::after(&map);
        let gone = plan(&mut draft, &three[1..], 2);
        assert_eq!(gone, [three[0].id()]);
        let after = draft.finish().expect("a change");
        for shard in map.shards() {
            let before = map.owner(shard).expect("an owner");
            let keeper = map
                .copy(shard)
                .map(|copy| &map.members()[usize::from(copy.keeper)].member);
            let expected = if *before == three[0] { keeper } else { Some(before) };
            assert_eq!(after.owner(shard), expected);
            assert!(after.copy(shard).is_some(), "another copy begins");
        }
        pairs(&copied(&after, &three[1..]));
    }

    #[test]
    fn a_member_that_is_drained_keeps_no_copies() {
        let three = ["a", "b", "c"].map(|name| member(name, 1));
        let mut draft = Draft::after(&copied(&Map::none(SHARD_COUNT), &three));
        drain(&mut draft, "b");
        let map = copied(&draft.finish().expect("a change"), &three);
        assert_eq!(map.counts()[1], 0);
        assert!(pairs(&map).iter().all(|of_owner| of_owner[1] == 0));
    }
}
