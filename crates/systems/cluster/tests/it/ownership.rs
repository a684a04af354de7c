//! What a member may serve after each kind of change.

use crate::drafts::{changed, member};
use drover_base::{KeyHash, Ns};
use drover_cluster::{
    Change, Epoch, Map, MemberId, Ownership, Published, ServedShards, ShardId, Standing, Verdict,
};
use std::sync::Arc;

const SHARD: ShardId = ShardId(1);
const STOP_AT: Ns = Ns::from_ms(200);
const NOW: Ns = Ns::from_ms(100);

/// Members `a` and `b`, of which `a` has both shards; and the ownership of `a`.
fn started() -> (Arc<Map>, Ownership) {
    let map = changed(&Map::none(2), |draft| {
        draft.add(member("a", 1), Standing::Settled);
        draft.add(member("b", 2), Standing::Settled);
        draft.assign(ShardId(0), 0);
        draft.assign(SHARD, 0);
    });
    let mut ownership = Ownership::new(2);
    ownership.set_id(Some(member("a", 1).id()));
    let changes = ownership.learn(&map, |_| None);
    assert_eq!(changes, [Change::Begin(ShardId(0)), Change::Begin(SHARD)]);
    (map, ownership)
}

/// What a core is told about a key of [`SHARD`], and the owner's identity if that is another member.
fn verdict(ownership: &Ownership, now: Ns) -> (Verdict, Option<MemberId>) {
    let served = ServedShards::new(ownership.map().shard_count(), 1);
    served.publish_all(ownership, &Published::default());
    served.set_stop_at(STOP_AT);
    let hash = KeyHash {
        low: 0,
        high: u64::MAX,
    };
    assert_eq!(served.shard_of(hash), SHARD, "the last of two");
    let verdict = served.verdict(hash, now);
    let owner = match verdict {
        Verdict::Peer(number) => served.peer(number).map(|peer| peer.id),
        _ => None,
    };
    (verdict, owner)
}

fn serves(ownership: &Ownership) -> bool {
    verdict(ownership, NOW) == (Verdict::Serve, None)
}

#[test]
fn nothing_is_served_when_the_lease_ends() {
    let (_, ownership) = started();
    assert!(serves(&ownership));
    let (at_the_end, _) = verdict(&ownership, STOP_AT);
    assert_eq!(at_the_end, Verdict::Nowhere, "nor forwarded to oneself");
}

#[test]
fn what_another_member_owns_is_that_members() {
    let (map, mut ownership) = started();
    let map = changed(&map, |draft| draft.assign(SHARD, 1));
    assert_eq!(ownership.learn(&map, |_| None), [Change::Discard(SHARD)]);
    for now in [NOW, STOP_AT] {
        let (_, owner) = verdict(&ownership, now);
        assert_eq!(owner, Some(member("b", 2).id()));
    }
}

#[test]
fn a_frozen_shard_is_served_again_only_when_its_move_has_ended() {
    let (map, mut ownership) = started();
    assert!(!ownership.freeze(SHARD, Epoch(2)), "no such move");
    let moving = changed(&map, |draft| draft.begin_move(SHARD, 1));
    assert_eq!(ownership.learn(&moving, |_| None), []);
    let tenure = moving.epoch();
    assert!(ownership.may_copy(SHARD, tenure) && serves(&ownership));
    assert!(!ownership.freeze(SHARD, map.epoch()), "an earlier attempt");
    assert!(ownership.freeze(SHARD, tenure) && ownership.freeze(SHARD, tenure));
    assert!(!serves(&ownership));
    // Other changes do not wake it up, nor do old maps.
    let other = changed(&moving, |draft| draft.set_standing("b", Standing::Draining));
    assert_eq!(ownership.learn(&other, |_| None), []);
    assert_eq!(ownership.learn(&map, |_| None), []);
    assert!(!serves(&ownership));
    // Cancelled and begun again, in one step as far as this member sees: that is another move.
    let again = changed(&other, |draft| draft.cancel_move(SHARD));
    let again = changed(&again, |draft| draft.begin_move(SHARD, 1));
    assert_eq!(ownership.learn(&again, |_| None), [Change::Resume(SHARD)]);
    assert!(serves(&ownership));
    assert!(!ownership.freeze(SHARD, tenure), "the earlier attempt");
    let done = changed(&again, |draft| draft.complete_move(SHARD, again.epoch()));
    assert_eq!(ownership.learn(&done, |_| None), [Change::Discard(SHARD)]);
}

#[test]
fn items_of_an_earlier_tenure_are_void_though_no_map_in_between_was_seen() {
    let (map, mut ownership) = started();
    let lost = changed(&map, |draft| draft.assign(SHARD, 1));
    let back = changed(&lost, |draft| draft.assign(SHARD, 0));
    let changes = ownership.learn(&back, |_| None);
    assert_eq!(changes, [Change::Discard(SHARD), Change::Begin(SHARD)]);
}

#[test]
fn received_items_are_adopted_for_their_tenure_alone() {
    let (map, _) = started();
    let moving = changed(&map, |draft| draft.begin_move(SHARD, 1));
    let done = changed(&moving, |draft| draft.complete_move(SHARD, moving.epoch()));
    let given = changed(&moving, |draft| draft.assign(SHARD, 1));
    for (last, change) in [(done, Change::Adopt(SHARD)), (given, Change::Begin(SHARD))] {
        let mut next = Ownership::new(2);
        next.set_id(Some(member("b", 2).id()));
        assert_eq!(next.learn(&moving, |_| None), []);
        assert!(!serves(&next), "not before the map says so");
        assert_eq!(next.learn(&last, |_| Some(moving.epoch())), [change]);
        assert!(serves(&next));
    }
}

#[test]
fn another_life_owns_nothing() {
    let (map, mut ownership) = started();
    let both = [Change::Discard(ShardId(0)), Change::Discard(SHARD)];
    assert_eq!(ownership.set_id(None), both);
    assert!(!serves(&ownership));
    assert_eq!(ownership.set_id(Some(member("a", 3).id())), []);
    let next = changed(&map, |draft| draft.set_standing("b", Standing::Draining));
    assert_eq!(
        ownership.learn(&next, |_| None),
        [],
        "the map means the earlier life"
    );
    assert!(!serves(&ownership));
}

#[test]
fn the_first_map_says_how_many_shards_there_are() {
    let (map, _) = started();
    let mut ownership = Ownership::new(64);
    ownership.set_id(Some(member("a", 1).id()));
    assert_eq!(ownership.learn(&map, |_| None).len(), 2);
    let mut other = changed(&Map::none(3), |draft| {
        draft.add(member("a", 1), Standing::Settled)
    });
    for standing in [Standing::Joining, Standing::Draining, Standing::Joining] {
        other = changed(&other, |draft| draft.set_standing("a", standing));
    }
    assert!(other.epoch() > map.epoch());
    assert_eq!(ownership.learn(&other, |_| None), []);
    assert_eq!(ownership.map().shard_count(), 2);
}
