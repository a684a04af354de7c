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
