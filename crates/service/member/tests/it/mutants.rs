//! Planted mistakes are found by the checks that the other tests make.

use crate::bed::core::{Answer, Op};
use crate::bed::load::{Client, Load, key, put_all};
use crate::bed::service::{LONG, SHORT, Service};
use crate::bed::{Flaw, fresh_seed};
use drover_testkit::linear::Model;
use std::sync::atomic::Ordering;

/// Attempts to find a mistake that only some runs show.
const ATTEMPTS: u32 = 20;

/// Members come and go under load; returns what the check says.
fn changes(flaw: Flaw, seed: u64) -> Result<(), String> {
    let mut service = Service::new(LONG, Some(flaw));
    service.join("a", 1);
    service.settle(&["a"]);
    let load = Load::start(&service.network, 4, 12, seed);
    for _ in 0..2 {
        service.join("b", 1);
        service.settle(&["a", "b"]);
        service.drain("b");
        service.settle(&["a"]);
        service.leave("b");
        service.until("it is gone", || service.map().members().len() == 1);
        service.undrain("b");
    }
    load.finish().check(Model::Register)
}

fn is_found(flaw: Flaw, run: fn(Flaw, u64) -> Result<(), String>) {
    let mut seed = fresh_seed();
    for attempt in 1..=ATTEMPTS {
        if let Err(text) = run(flaw, seed) {
            println!(
                "{flaw:?} is found by attempt {attempt}: {}",
                text.lines().next().unwrap_or_default()
            );
            return;
        }
        seed = seed.wrapping_add(1);
    }
    panic!("{flaw:?} is not found by {ATTEMPTS} attempts");
}

#[test]
fn a_barrier_that_waits_for_nothing() {
    is_found(Flaw::RoundsCountForNothing, changes);
}

#[test]
fn noted_keys_that_are_not_sent() {
    is_found(Flaw::NotedKeysNotSent, changes);
}

/// A key that is deleted while its shard is elsewhere stays deleted when the shard comes back. Returns how many do not.
fn keys_that_come_back(flaw: Option<Flaw>) -> usize {
    let mut service = Service::new(LONG, flaw);
    service.join("a", 2);
    service.settle(&["a"]);
    let mut client = Client::new(service.network.clone());
    let kept = put_all(&mut client, 0..500);
    service.join("b", 1);
    service.settle(&["a", "b"]);
    for number in kept.keys() {
        let deleted = client.ask(&key(*number), &Op::Delete, &|| false);
        assert_eq!(deleted, Some(Answer::Deleted(true)));
    }
    service.drain("b");
    service.settle(&["a"]);
    kept.keys()
        .filter(|number| client.get(&key(**number)).is_some())
        .count()
}

#[test]
fn void_items_that_are_kept() {
    assert_eq!(keys_that_come_back(None), 0);
    let count = keys_that_come_back(Some(Flaw::DiscardSkipped));
    println!("{count} of 500 keys come back");
    assert!(count > 100);
}

/// Two members with copies of each other's shards, which come slowly.
fn two_replicas(flaw: Flaw) -> Service {
    let mut service = Service::new(SHORT, Some(flaw));
    service.replicas = 2;
    service.network.copies_per_loss.store(2, Ordering::Relaxed);
    service.join("a", 1);
    service.join("b", 1);
    service.settle(&["a", "b"]);
    service.copied();
    service
}

/// A member dies under load; returns what the check says.
fn deaths(flaw: Flaw, seed: u64) -> Result<(), String> {
    let mut service = two_replicas(flaw);
    let load = Load::start(&service.network, 4, 12, seed);
    load.goes_on(1_000);
    service.crash("b");
    service.settle(&["a"]);
    load.goes_on(200);
    load.finish().check(Model::Register)
}

#[test]
fn replies_that_do_not_wait_for_copies() {
    is_found(Flaw::RepliesLeaveEarly, deaths);
}

/// A member dies as soon as its shards have copies, so they say; returns whether something is missing then.
fn death_after_filling(flaw: Flaw, _: u64) -> Result<(), String> {
    let mut service = two_replicas(flaw);
    let mut client = Client::new(service.network.clone());
    let kept = put_all(&mut client, 0..500);
    service.crash("b");
    service.settle(&["a"]);
    // The next copies never arrive.
    service.network.copies_per_loss.store(1, Ordering::Relaxed);
    service.join("b", 1);
    service.settle(&["a", "b"]);
    service.copied();
    service.crash("a");
    service.settle(&["b"]);
    let missing = kept.keys().filter(|number| client.get(&key(**number)).is_none());
    match missing.count() {
        0 => Ok(()),
        count => Err(format!("{count} of {} keys are missing", kept.len())),
    }
}

#[test]
fn copies_that_are_complete_before_their_keeper_has_everything() {
    is_found(Flaw::DrainCountsForNothing, death_after_filling);
}
