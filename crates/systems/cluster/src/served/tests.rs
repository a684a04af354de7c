//! What cores are told, and what they tell.

use super::*;
use crate::{Advert, Draft, Map, Member, Ownership, Standing};

fn member(name: &str) -> Member {
    let addresses = vec![format!("tcp://{name}:1")];
    let advert = Advert::new(name, 1, addresses).expect("a sound advert");
    Member {
        advert,
        incarnation: 7,
    }
}

/// The map of two members, of which `a` owns shard 0 and `b` shard 1 of three.
fn map() -> Arc<Map> {
    let mut draft = Draft::after(&Map::none(3));
    for (index, name) in ["a", "b"].into_iter().enumerate() {
        draft.add(member(name), Standing::Joining);
        draft.assign(ShardId(index as u16), index as u16);
    }
    Arc::new(draft.finish().expect("a change"))
}

/// Any hash of the shard.
fn hash(shard: u16) -> KeyHash {
    let mut hashes = (0..1 << 14).map(|step| KeyHash {
        low: 0,
        high: step << 50,
    });
    let hash = hashes.find(|hash| ShardId::of(*hash, 3) == ShardId(shard));
    hash.expect("every shard has hashes")
}

#[test]
fn cores_do_as_the_ownership_says_while_the_lease_lives() {
    let mut ownership = Ownership::new(3);
    ownership.set_id(Some(member("a").id()));
    ownership.learn(&map(), |_| None);
    let served = ServedShards::new(3, 2);
    served.publish_all(&ownership, &Published::default());
    served.set_stop_at(Ns(100));
    assert_eq!(served.verdict(hash(0), Ns(99)), Verdict::Serve);
    assert_eq!(served.verdict(hash(0), Ns(100)), Verdict::Nowhere);
    assert_eq!(served.verdict(hash(2), Ns(99)), Verdict::Nowhere);
    let Verdict::Peer(number) = served.verdict(hash(1), Ns(99)) else {
        panic!("shard 1 is the peer's")
    };
    assert_eq!(served.peer(number).map(|peer| peer.id), Some(member("b").id()));
    assert_eq!(served.epoch(), Epoch(1));
}

#[test]
fn changes_of_moving_shards_are_noted_once() {
    let mut ownership = Ownership::new(3);
    ownership.set_id(Some(member("a").id()));
    ownership.learn(&map(), |_| None);
    let served = ServedShards::new(3, 2);
    served.set_stop_at(Ns(100));
    let noted = |shard| shard == ShardId(0);
    served.publish_all(
        &ownership,
        &Published {
            noted: &noted,
            ..Published::default()
        },
    );
    assert_eq!(served.verdict(hash(0), Ns(0)), Verdict::ServeNoted(ShardId(0)));
    for key in [&b"b"[..], b"a", b"b"] {
        served.note(1, ShardId(0), hash(0), key);
    }
    assert!(served.take_noted(0, ShardId(0)).is_empty());
    let keys: Vec<NotedKey> = served.take_noted(1, ShardId(0)).into_iter().collect();
    let key = |bytes: &[u8]| NotedKey::Key(bytes.into());
    assert_eq!(keys, [key(b"a"), key(b"b")]);
    assert!(served.take_noted(1, ShardId(0)).is_empty());
}

#[test]
fn peers_that_the_map_has_no_more_have_ended() {
    let mut ownership = Ownership::new(3);
    ownership.set_id(Some(member("a").id()));
    ownership.learn(&map(), |_| None);
    let served = ServedShards::new(3, 1);
    served.publish_all(&ownership, &Published::default());
    assert_eq!((served.ended_count(), served.ended_peers()), (0, vec![]));
    let mut draft = Draft::after(&map());
    draft.remove(|member| &**member.advert.name() == "b");
    ownership.learn(&Arc::new(draft.finish().expect("a change")), |_| None);
    served.publish_all(&ownership, &Published::default());
    let ended = served.ended_peers();
    assert_eq!((served.ended_count(), ended.len()), (1, 1));
    let peer = served.peer(ended[0]).expect("it had a number");
    assert_eq!(peer.id, member("b").id());
}

#[test]
fn a_barrier_waits_for_every_core() {
    let served = ServedShards::new(3, 2);
    let rounds = served.rounds();
    served.begin_round(0);
    assert!(!served.has_passed(&rounds));
    served.begin_round(1);
    assert!(served.has_passed(&rounds));
}

/// The map of [`map`], in which `b` keeps a copy of shard 0, and `a` one of shard 1.
fn copied() -> Arc<Map> {
    let mut draft = Draft::after(&map());
    assert!(draft.begin_copy(ShardId(0), 1) && draft.begin_copy(ShardId(1), 0));
    Arc::new(draft.finish().expect("a change"))
}

/// The ownership of `a`, with copies.
fn with_copies() -> Ownership {
    let mut ownership = Ownership::new(3);
    ownership.set_id(Some(member("a").id()));
    ownership.learn(&copied(), |_| None);
    ownership
}

fn publish(served: &ServedShards, ownership: &Ownership, stage: CopyStage) {
    let published = Published {
        copied: &|_| stage,
        keeps: &|_| true,
        ..Published::default()
    };
    served.publish_all(ownership, &published);
    served.set_stop_at(Ns(100));
}

/// Names that a core has changed, as [`ServedShards::take_changed`] says them.
fn name(hash: KeyHash, key: &[u8]) -> Vec<u8> {
    [&[2], &hash.to_bytes()[..], &[key.len() as u8], key].concat()
}

#[test]
fn changes_of_copied_shards_are_told_to_keepers_and_hold_the_core_once_they_are_gated() {
    let (served, ownership) = (ServedShards::new(3, 1), with_copies());
    let mut changed = vec![1, 2, 3];
    publish(&served, &ownership, CopyStage::None);
    assert_eq!(served.verdict(hash(0), Ns(0)), Verdict::Serve);
    assert_eq!(served.sent_copy(ShardId(0)), None);
    for (stage, is_gated) in [(CopyStage::Filling, false), (CopyStage::Gated, true)] {
        publish(&served, &ownership, stage);
        assert_eq!(served.verdict(hash(0), Ns(0)), Verdict::ServeNoted(ShardId(0)));
        let sent = served.sent_copy(ShardId(0)).expect("a copy");
        assert_eq!((sent.tenure, sent.is_gated), (Epoch(2), is_gated));
        assert_eq!(served.peer(sent.peer).map(|peer| peer.id), Some(member("b").id()));
        served.note(0, ShardId(0), hash(0), b"key");
        served.note(0, ShardId(0), hash(0), b"");
        assert_eq!(served.is_held(0), is_gated);
        served.take_changed(0, &mut changed);
        assert_eq!(changed, [name(hash(0), b"key"), name(hash(0), b"")].concat());
    }
    served.release(0);
    served.take_changed(0, &mut changed);
    assert!(changed.is_empty() && !served.is_held(0));
    assert!(served.take_noted(0, ShardId(0)).is_empty(), "it does not move");
}

#[test]
fn changes_of_a_shard_that_moves_and_is_copied_are_for_both() {
    let (served, ownership) = (ServedShards::new(3, 1), with_copies());
    let published = Published {
        noted: &|_| true,
        copied: &|_| CopyStage::Gated,
        ..Published::default()
    };
    served.publish_all(&ownership, &published);
    served.note(0, ShardId(0), hash(0), b"key");
    let mut changed = Vec::new();
    served.take_changed(0, &mut changed);
    assert_eq!(changed, name(hash(0), b"key"));
    assert_eq!(served.take_noted(0, ShardId(0)).len(), 1);
}

#[test]
fn what_changes_in_a_shard_that_is_lost_holds_the_core() {
    let (served, mut ownership) = (ServedShards::new(3, 1), with_copies());
    publish(&served, &ownership, CopyStage::Gated);
    assert!(served.holds(ShardId(0)));
    ownership.set_id(None);
    publish(&served, &ownership, CopyStage::None);
    // The process stood still between the verdict and the execution.
    served.note(0, ShardId(0), hash(0), b"key");
    assert!(served.is_held(0) && !served.holds(ShardId(0)));
    assert_eq!(served.sent_copy(ShardId(0)), None);
}

#[test]
fn without_copies_nothing_ever_holds_a_core() {
    let mut ownership = Ownership::new(3);
    ownership.set_id(Some(member("a").id()));
    ownership.learn(&map(), |_| None);
    let served = ServedShards::new(3, 1);
    served.publish_all(&ownership, &Published::default());
    ownership.set_id(None);
    served.publish_all(&ownership, &Published::default());
    served.note(0, ShardId(0), hash(0), b"key");
    assert!(!served.is_held(0));
    assert_eq!(served.take_noted(0, ShardId(0)).len(), 1);
}

#[test]
fn a_copy_is_kept_until_it_is_promoted() {
    let (served, mut ownership) = (ServedShards::new(3, 1), with_copies());
    publish(&served, &ownership, CopyStage::None);
    assert_eq!(served.kept_copy(ShardId(1)), Some(Epoch(2)));
    assert!(matches!(served.verdict(hash(1), Ns(0)), Verdict::Peer(_)));
    let mut draft = Draft::after(&copied());
    draft.complete_copy(ShardId(1), Epoch(2));
    draft.remove(|it| it.is(&member("b").id()));
    ownership.learn(&Arc::new(draft.finish().expect("a change")), |_| None);
    publish(&served, &ownership, CopyStage::None);
    assert_eq!(served.kept_copy(ShardId(1)), None);
    assert_eq!(served.verdict(hash(1), Ns(0)), Verdict::Serve);
}
