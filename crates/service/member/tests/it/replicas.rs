//! With two replicas: what was acknowledged is there after any member has died, one at a time.

use crate::bed::core::{Answer, Op};
use crate::bed::fresh_seed;
use crate::bed::load::{Client, Load, key, put_all};
use crate::bed::service::{LONG, SHORT, Service};
use drover_cluster::LeaseTerms;
use drover_testkit::linear::Model;
use std::sync::atomic::Ordering;

/// Keys that nobody changes, with numbers after those of the load.
const KEPT: std::ops::Range<u64> = 1_000..2_000;

fn service(terms: LeaseTerms) -> Service {
    let mut service = Service::new(terms, None);
    service.replicas = 2;
    service
}

#[test]
fn what_a_member_had_goes_on_at_those_that_keep_its_copies() {
    let seed = fresh_seed();
    let mut service = service(SHORT);
    for name in ["a", "b", "c"] {
        service.join(name, 2);
    }
    service.settle(&["a", "b", "c"]);
    service.copied();
    let mut client = Client::new(service.network.clone());
    let kept = put_all(&mut client, KEPT);
    let load = Load::start(&service.network, 3, 40, seed);
    for name in ["a", "b", "c", "a"] {
        load.goes_on(500);
        service.crash(name);
        let others: Vec<&str> = ["a", "b", "c"].into_iter().filter(|it| *it != name).collect();
        service.settle(&others);
        service.copied();
        service.join(name, 2);
        service.settle(&["a", "b", "c"]);
        service.copied();
        for (number, kept) in &kept {
            let found = client.get(&key(*number)).expect("it was acknowledged");
            assert_eq!(
                (found.value, found.flags),
                (kept.value, kept.flags),
                "key {number}"
            );
        }
    }
    let lost = ["a", "b", "c"].map(|name| service.status(name).tally.lost_shards);
    load.finish().check(Model::Register).expect("nothing is lost");
    assert_eq!(lost, [0; 3]);
}

#[test]
fn planned_changes_lose_nothing_and_copies_follow() {
    let seed = fresh_seed();
    let mut service = service(LONG);
    service.join("a", 1);
    service.settle(&["a"]);
    let mut client = Client::new(service.network.clone());
    let kept = put_all(&mut client, KEPT);
    let load = Load::start(&service.network, 3, 40, seed);
    service.join("b", 2);
    service.settle(&["a", "b"]);
    service.copied();
    service.join("c", 1);
    service.settle(&["a", "b", "c"]);
    service.copied();
    service.drain("a");
    service.settle(&["b", "c"]);
    service.leave("a");
    service.copied();
    for (number, kept) in &kept {
        assert_eq!(client.get(&key(*number)), Some(*kept), "key {number}");
    }
    load.finish().check(Model::Register).expect("nothing is lost");
}

#[test]
fn a_member_that_leaves_without_being_drained_loses_nothing() {
    let seed = fresh_seed();
    let mut service = service(LONG);
    service.join("a", 1);
    service.join("b", 2);
    service.settle(&["a", "b"]);
    service.copied();
    let load = Load::start(&service.network, 3, 40, seed);
    load.goes_on(1_000);
    service.leave("a");
    service.settle(&["b"]);
    load.goes_on(1_000);
    load.finish().check(Model::Register).expect("nothing is lost");
}

#[test]
fn lost_messages_about_copies_cost_time_and_nothing_else() {
    let seed = fresh_seed();
    let mut service = service(SHORT);
    service.network.copies_per_loss.store(5, Ordering::Relaxed);
    for name in ["a", "b"] {
        service.join(name, 2);
    }
    service.settle(&["a", "b"]);
    service.copied();
    let load = Load::start(&service.network, 3, 40, seed);
    load.goes_on(500);
    service.crash("a");
    service.settle(&["b"]);
    service.join("a", 1);
    service.settle(&["a", "b"]);
    service.copied();
    load.goes_on(500);
    service.crash("b");
    service.settle(&["a"]);
    load.finish().check(Model::Register).expect("nothing is lost");
}

#[test]
fn a_keeper_that_takes_nothing_is_not_waited_for_long() {
    let mut service = service(LONG);
    service.join("a", 1);
    service.join("b", 1);
    service.settle(&["a", "b"]);
    service.copied();
    service.network.copies_per_loss.store(1, Ordering::Relaxed);
    let mut client = Client::new(service.network.clone());
    for number in 0..50 {
        let put = Op::Put {
            value: number,
            flags: 0,
            ttl_s: 0,
        };
        assert_eq!(client.ask(&key(number), &put, &|| false), Some(Answer::Stored));
    }
    let restarts = |name| service.status(name).tally.restarted_copies;
    assert!(restarts("a") > 0 && restarts("b") > 0);
    service.network.copies_per_loss.store(0, Ordering::Relaxed);
    service.copied();
}
