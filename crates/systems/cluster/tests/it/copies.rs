//! What becomes of copies when their shards' owners, their keepers and they themselves come and go.

use crate::drafts::{changed, member};
use drover_cluster::{Change, Copy, Draft, Epoch, Map, Member, Ownership, ShardId, Standing, Tenure};
use std::sync::Arc;

const SHARD: ShardId = ShardId(1);

/// Members `a`, `b` and `c`, of which `a` has both shards, and `b` a copy of one, which has just begun.
fn copied() -> Arc<Map> {
    let map = changed(&Map::none(2), |draft| {
        for (name, incarnation) in [("a", 1), ("b", 2), ("c", 3)] {
            draft.add(member(name, incarnation), Standing::Settled);
        }
        draft.assign(ShardId(0), 0);
        draft.assign(SHARD, 0);
        assert!(
            !draft.begin_copy(SHARD, 1),
            "the owner's tenure begins with this map"
        );
    });
    changed(&map, |draft| {
        assert!(!draft.begin_copy(SHARD, 0), "the owner keeps no copy");
        assert!(draft.begin_copy(SHARD, 1) && !draft.begin_copy(SHARD, 1));
    })
}

fn complete(map: &Map) -> Arc<Map> {
    let tenure = map.copy(SHARD).expect("a copy").tenure;
    changed(map, |draft| draft.complete_copy(SHARD, tenure))
}

fn without(map: &Map, name: &str) -> Arc<Map> {
    changed(map, |draft| draft.remove(|it| **it.advert.name() == *name))
}

/// The ownership of a member that learns these maps, and what the last of them changes.
fn learned(id: &Member, maps: &[&Arc<Map>]) -> (Ownership, Vec<Change>) {
    let mut ownership = Ownership::new(2);
    ownership.set_id(Some(id.id()));
    let mut changes = Vec::new();
    for map in maps {
        changes = ownership.learn(map, |_| None);
    }
    (ownership, changes)
}

#[test]
fn a_complete_copy_is_promoted_and_an_incomplete_one_is_not() {
    let begun = copied();
    let incomplete = without(&begun, "a");
    assert_eq!(incomplete.tenure(SHARD).owner, None, "a hole");
    assert_eq!(incomplete.copy(SHARD), None);
    let promoted = without(&complete(&begun), "a");
    let since = begun.epoch();
    assert_eq!(
        promoted.tenure(SHARD),
        Tenure {
            owner: Some(0),
            since
        }
    );
    assert_eq!(promoted.owner(SHARD), Some(&member("b", 2)));
    assert_eq!(promoted.copy(SHARD), None, "it is an owner now");
    assert_eq!(promoted.tenure(ShardId(0)).owner, None, "there was no copy of it");
}

#[test]
fn a_copy_goes_with_its_keeper_and_stays_when_others_go() {
    let map = complete(&copied());
    assert_eq!(without(&map, "b").copy(SHARD), None);
    let copy = map.copy(SHARD).expect("a copy");
    assert_eq!(without(&map, "c").copy(SHARD), Some(copy));
    let both = changed(&map, |draft| draft.remove(|it| **it.advert.name() != *"c"));
    assert_eq!(both.tenure(SHARD).owner, None, "nobody has its items");
}

#[test]
fn a_copy_that_begins_again_is_another_one() {
    let map = complete(&copied());
    let Copy { tenure, .. } = map.copy(SHARD).expect("a copy");
    let again = changed(&map, |draft| draft.restart_copy(SHARD, tenure));
    let expected = Copy {
        keeper: 1,
        tenure: again.epoch(),
        is_complete: false,
    };
    assert_eq!(again.copy(SHARD), Some(expected));
    let mut late = Draft::after(&again);
    late.complete_copy(SHARD, tenure);
    late.restart_copy(SHARD, tenure);
    assert_eq!(late.finish(), None, "that one is no more");
}

#[test]
fn moves_end_copies_and_promotions_end_moves() {
    let map = complete(&copied());
    let to_keeper = changed(&map, |draft| draft.begin_move(SHARD, 1));
    assert_eq!(to_keeper.copy(SHARD), None);
    let moving = changed(&map, |draft| {
        assert!(draft.begin_move(SHARD, 2) && !draft.begin_copy(SHARD, 2));
    });
    assert_eq!(moving.copy(SHARD), map.copy(SHARD));
    let moved = changed(&moving, |draft| draft.complete_move(SHARD, moving.epoch()));
    assert_eq!(moved.copy(SHARD), None);
    let promoted = without(&moving, "a");
    assert_eq!(promoted.owner(SHARD), Some(&member("b", 2)));
    assert_eq!(promoted.moves(), []);
}

#[test]
fn a_keeper_adopts_the_copy_that_is_promoted() {
    let begun = copied();
    let (keeper, changes) = learned(&member("b", 2), &[&begun]);
    assert_eq!(changes, [Change::Keep(SHARD)]);
    assert_eq!(keeper.kept(SHARD), Some(begun.epoch()));
    assert!(!keeper.serves(SHARD) && !keeper.holds(SHARD) && keeper.copy(SHARD).is_none());
    let promoted = without(&complete(&begun), "a");
    let (keeper, changes) = learned(&member("b", 2), &[&begun, &promoted]);
    assert_eq!(changes, [Change::Adopt(SHARD)]);
    assert!(keeper.serves(SHARD) && keeper.kept(SHARD).is_none());
    let (_, changes) = learned(&member("b", 2), &[&promoted]);
    assert_eq!(changes, [Change::Begin(SHARD)], "it has nothing of this copy");
}

#[test]
fn a_keeper_discards_what_is_not_promoted() {
    let begun = complete(&copied());
    let tenure = begun.copy(SHARD).expect("a copy").tenure;
    let again = changed(&begun, |draft| draft.restart_copy(SHARD, tenure));
    let (keeper, changes) = learned(&member("b", 2), &[&begun, &again]);
    assert_eq!(changes, [Change::Discard(SHARD), Change::Keep(SHARD)]);
    assert_eq!(keeper.kept(SHARD), Some(again.epoch()));
    let given = changed(&without(&again, "a"), |draft| draft.assign(SHARD, 0));
    let (_, changes) = learned(&member("b", 2), &[&again, &given]);
    assert_eq!(
        changes,
        [Change::Discard(SHARD), Change::Begin(SHARD)],
        "its own, but as a shard without items"
    );
    let moving = changed(&begun, |draft| draft.begin_move(SHARD, 1));
    let (keeper, changes) = learned(&member("b", 2), &[&begun, &moving]);
    assert_eq!(changes, [Change::Discard(SHARD)], "a hand-over brings them all");
    assert_eq!(keeper.kept(SHARD), None);
    let (mut keeper, _) = learned(&member("b", 2), &[&begun]);
    assert_eq!(
        keeper.set_id(None),
        [Change::Discard(SHARD)],
        "another life keeps nothing"
    );
}

#[test]
fn an_owner_knows_of_its_copies_even_while_a_shard_is_frozen() {
    let map = complete(&copied());
    let moving = changed(&map, |draft| draft.begin_move(SHARD, 2));
    let (mut owner, _) = learned(&member("a", 1), &[&map, &moving]);
    assert!(owner.freeze(SHARD, moving.epoch()));
    assert!(!owner.serves(SHARD) && owner.holds(SHARD));
    assert_eq!(owner.copy(SHARD), map.copy(SHARD));
    assert_eq!(owner.copy(ShardId(0)), None);
    let promoted = without(&moving, "a");
    owner.learn(&promoted, |_| None);
    assert!(!owner.holds(SHARD) && owner.copy(SHARD).is_none());
    assert_ne!(promoted.tenure(SHARD).since, Epoch::NONE);
}
