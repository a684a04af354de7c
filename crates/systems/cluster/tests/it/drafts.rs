//! Members, and maps made from others.

use drover_cluster::{Advert, Draft, Map, Member};
use std::sync::Arc;

pub fn member(name: &str, incarnation: u64) -> Member {
    let advert = Advert::new(name, 1, vec!["shm:x".to_string()]).expect("a sound advert");
    Member { advert, incarnation }
}

/// The map after a change of `map`.
pub fn changed<R>(map: &Map, change: impl FnOnce(&mut Draft) -> R) -> Arc<Map> {
    let mut draft = Draft::after(map);
    change(&mut draft);
    Arc::new(draft.finish().expect("a change"))
}
