//! The map of a service of several members, `m0` and so on, and how it is changed.

use drover_cluster::{Advert, Draft, Map, Member, Ownership, ShardId, Standing};
use std::sync::Arc;

fn member(index: usize) -> Member {
    let addresses = vec![format!("member://m{index}")];
    Member {
        advert: Advert::new(&format!("m{index}"), 1, addresses).expect("a sound advert"),
        incarnation: 1,
    }
}

/// A map in which each member has its share of the shards.
pub fn shared_out(member_count: usize, shard_count: usize) -> Arc<Map> {
    let mut draft = Draft::after(&Map::none(shard_count));
    for index in 0..member_count {
        assert!(draft.add(member(index), Standing::Joining));
    }
    for shard in 0..shard_count {
        draft.assign(ShardId(shard as u16), (shard % member_count) as u16);
    }
    Arc::new(draft.finish().expect("a change"))
}

/// The ownership of a member that knows this map.
pub fn ownership(index: usize, map: &Arc<Map>) -> Ownership {
    let mut ownership = Ownership::new(map.shard_count());
    ownership.set_id(Some(member(index).id()));
    ownership.learn(map, |_| None);
    ownership
}

/// Commits a change of the map, if it is one.
pub fn commit(map: &mut Arc<Map>, change: impl FnOnce(&mut Draft)) {
    let mut draft = Draft::after(map);
    change(&mut draft);
    if let Some(next) = draft.finish() {
        *map = Arc::new(next);
    }
}
