//! The bytes of maps: they come back as they were, and anything else is refused.

use drover_cluster::{
    ADDRESS_BYTES_MAX, ADDRESSES_MAX, Advert, BadMapBytes, Draft, Epoch, MEMBERS_MAX, MOVES_MAX, Map,
    MapMember, Member, NAME_BYTES_MAX, SHARD_COUNT, ShardId, Standing, fuzz_map,
};
use proptest::prelude::*;
use std::sync::Arc;

fn member(name: &str, incarnation: u64) -> Member {
    let advert = Advert::new(name, 9, vec![format!("tcp://{name}:1")]).expect("a sound advert");
    Member { advert, incarnation }
}

/// A map after changes drawn by `choices`: members come and go, shards are assigned, moved, copied, left alone.
fn map_of(shard_count: usize, choices: &[(u8, u16, u16)]) -> Arc<Map> {
    let mut map = Map::none(shard_count);
    for (step, (what, shard, member_index)) in (1..).zip(choices) {
        let mut draft = Draft::after(&map);
        let shard = ShardId(shard % shard_count as u16);
        let count = map.members().len() as u16;
        let index = member_index % count.max(1);
        match what % 7 {
            0 => {
                let standing = [Standing::Joining, Standing::Settled, Standing::Draining];
                let standing = standing[usize::from(member_index % 3)];
                draft.add(member(&format!("m{step}"), step), standing);
            }
            1 if count > 0 => draft.assign(shard, index),
            2 if count > 0 => _ = draft.begin_move(shard, index),
            3 if count > 0 => {
                let gone = map.members()[usize::from(index)].member.clone();
                draft.remove(|member| *member == gone);
            }
            4 => {
                let tenure = map.moving(shard).map_or(Epoch(0), |moving| moving.tenure);
                draft.complete_move(shard, tenure);
            }
            5 if count > 0 => _ = draft.begin_copy(shard, index),
            6 => {
                let tenure = map.copy(shard).map_or(Epoch(0), |copy| copy.tenure);
                match member_index % 3 {
                    0 => draft.restart_copy(shard, tenure),
                    _ => draft.complete_copy(shard, tenure),
                }
            }
            _ => {}
        }
        if let Some(next) = draft.finish() {
            map = Arc::new(next);
        }
    }
    map
}

/// The largest map there can be.
fn largest() -> Map {
    let mut draft = Draft::after(&Map::none(SHARD_COUNT));
    for index in 0..MEMBERS_MAX {
        let name = format!("{index:0NAME_BYTES_MAX$}");
        let addresses = vec!["a".repeat(ADDRESS_BYTES_MAX / ADDRESSES_MAX); ADDRESSES_MAX];
        let advert = Advert::new(&name, u32::MAX, addresses).expect("a sound advert");
        let incarnation = u64::MAX;
        assert!(draft.add(Member { advert, incarnation }, Standing::Draining));
    }
    assert!(!draft.add(member("one-more", 1), Standing::Joining));
    for shard in draft.map().shards() {
        draft.assign(shard, 1);
    }
    let mut draft = Draft::after(&draft.finish().expect("a change"));
    let moves = draft
        .map()
        .shards()
        .filter(|shard| draft.begin_move(*shard, 2))
        .count();
    assert_eq!(moves, MOVES_MAX);
    for shard in draft.map().shards() {
        assert_ne!(draft.begin_copy(shard, 3), draft.map().moving(shard).is_some());
    }
    // As many again were drained before they left.
    let mut draft = Draft::after(&draft.finish().expect("a change"));
    let members = draft.map().members().to_vec();
    for MapMember { member, .. } in &members[4..] {
        draft.remove(|other| other == member);
        let name = format!(
            "{:x>NAME_BYTES_MAX$}",
            &member.advert.name()[NAME_BYTES_MAX - 2..]
        );
        let addresses = member.advert.addresses().to_vec();
        let advert = Advert::new(&name, u32::MAX, addresses).expect("a sound advert");
        assert!(draft.add(Member { advert, ..*member }, Standing::Draining));
    }
    assert_eq!(draft.map().drained().len(), MEMBERS_MAX - 4);
    draft.finish().expect("a change")
}

#[test]
fn the_largest_map_is_within_its_bounds() {
    let map = largest();
    let bytes = map.to_bytes();
    assert!(bytes.len() <= 128 << 10, "{}", bytes.len());
    assert_eq!(Map::from_bytes(&bytes), Ok(map));
}

#[test]
fn a_map_of_another_version_is_named() {
    let mut bytes = largest().to_bytes();
    bytes[0] = 3;
    assert_eq!(Map::from_bytes(&bytes), Err(BadMapBytes::Version { version: 3 }));
}

#[test]
fn maps_without_copies_are_written_as_before_there_were_any() {
    let mut draft = Draft::after(&Map::none(1));
    draft.add(member("a", 1), Standing::Settled);
    draft.add(member("b", 2), Standing::Settled);
    draft.assign(ShardId(0), 0);
    let map = draft.finish().expect("a change");
    assert_eq!(map.to_bytes()[..2], [1, 0]);
    let mut draft = Draft::after(&map);
    assert!(draft.begin_copy(ShardId(0), 1));
    let copied = draft.finish().expect("a change").to_bytes();
    assert_eq!(copied[..2], [2, 0]);
    // Number of copies, the copy, number of drained members.
    assert_eq!(copied.len(), map.to_bytes().len() + 2 + 13 + 2);
}

proptest! {
    #[test]
    fn maps_come_back_with_their_holes_moves_and_copies(
        shard_count in 1..40usize,
        choices in prop::collection::vec(any::<(u8, u16, u16)>(), 0..60),
    ) {
        let map = map_of(shard_count, &choices);
        if map.epoch() > Epoch::NONE {
            prop_assert_eq!(Map::from_bytes(&map.to_bytes()), Ok((*map).clone()));
        } else {
            prop_assert!(Map::from_bytes(&map.to_bytes()).is_err(), "what stands for a map is none");
        }
    }

    #[test]
    fn damaged_maps_are_refused_or_sound(
        choices in prop::collection::vec(any::<(u8, u16, u16)>(), 1..60),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = map_of(9, &choices).to_bytes();
        fuzz_map(&bytes[..cut.index(bytes.len())]);
        for (index, byte) in damage {
            let index = index.index(bytes.len());
            bytes[index] = byte;
        }
        fuzz_map(&bytes);
    }

    #[test]
    fn any_bytes_are_refused_or_sound(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        fuzz_map(&bytes);
    }
}
