//! Planned changes under load lose nothing: members join, are drained and leave.

use crate::bed::core::{Found, SEED};
use crate::bed::fresh_seed;
use crate::bed::load::{Client, Load, key, put_all};
use crate::bed::service::{LONG, SHARDS, Service};
use drover_cluster::{Map, ShardId};
use drover_testkit::linear::Model;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

/// Keys that nobody changes, with numbers after those of the load.
const KEPT: std::ops::Range<u64> = 1_000..3_000;

#[test]
fn join_drain_and_leave_under_load_lose_nothing() {
    changes_lose_nothing(Service::new(LONG, None));
}

#[test]
fn nor_do_they_over_links() {
    let mut service = Service::new(LONG, None);
    service.is_linked = true;
    changes_lose_nothing(service);
}

fn changes_lose_nothing(mut service: Service) {
    let seed = fresh_seed();
    service.join("a", 2);
    service.settle(&["a"]);
    let mut client = Client::new(service.network.clone());
    let kept = put_all(&mut client, KEPT);
    let load = Load::start(&service.network, 3, 40, seed);

    service.join("b", 1);
    service.settle(&["a", "b"]);
    check_all(&mut client, &kept);
    let two = service.map();
    service.join("c", 3);
    service.settle(&["a", "b", "c"]);
    check_all(&mut client, &kept);
    let moved = share_of_moved_keys(&two, &service.map());
    assert!((0.25..=0.36).contains(&moved), "{moved} of the keys have moved");
    service.drain("a");
    service.settle(&["b", "c"]);
    check_all(&mut client, &kept);
    service.leave("a");
    service.until("it has left the map", || service.map().members().len() == 2);
    service.join("a", 2);
    service.until("it is back", || service.map().members().len() == 3);
    service.settle(&["b", "c"]);
    service.undrain("a");
    service.settle(&["a", "b", "c"]);
    check_all(&mut client, &kept);

    load.finish().check(Model::Register).expect("nothing is lost");
    for name in ["a", "b", "c"] {
        let tally = service.status(name).tally;
        assert_eq!((tally.lost_shards, tally.failed_handovers), (0, 0), "{name}");
    }
}

fn check_all(client: &mut Client, kept: &BTreeMap<u64, Found>) {
    for (number, found) in kept {
        assert_eq!(client.get(&key(*number)), Some(*found), "key {number}");
    }
}

fn share_of_moved_keys(before: &Map, after: &Map) -> f64 {
    let owner = |map: &Map, number: u64| {
        let shard = ShardId::of(SEED.hasher().hash(&key(number)), SHARDS);
        map.owner(shard).map(|owner| owner.id())
    };
    let moved = KEPT
        .filter(|number| owner(before, *number) != owner(after, *number))
        .count();
    moved as f64 / (KEPT.end - KEPT.start) as f64
}

#[test]
fn a_flush_during_a_copy_is_not_undone() {
    let mut service = Service::new(LONG, None);
    service.join("a", 2);
    service.settle(&["a"]);
    let mut client = Client::new(service.network.clone());
    put_all(&mut client, KEPT);
    service.network.is_slow.store(true, Ordering::Relaxed);
    service.join("b", 2);
    service.until("some items have been copied", || {
        service.status("b").tally.copied_items > 0
    });
    // As the core of a client does with `flush_all`: one member after the other, the next owner first.
    service.flush("b");
    service.flush("a");
    service.network.is_slow.store(false, Ordering::Relaxed);
    service.settle(&["a", "b"]);
    for number in KEPT {
        assert_eq!(client.get(&key(number)), None, "key {number}");
    }
    let status = service.status("b");
    assert!(status.last_error.contains("flushed"), "{status:?}");
}
