//! Members die, lose their leases or their names, and lose the registry: what they had is gone, nothing old is ever read, and the
//! service goes on.

use crate::bed::core::{Answer, Op};
use crate::bed::fresh_seed;
use crate::bed::load::{Client, Load, key, put_all};
use crate::bed::service::{LONG, SHARDS, SHORT, Service};
use drover_base::Ns;
use drover_cluster::{LeaseTerms, LocalRegistry, OnRegistryLoss, Registry, RegistryEvent, RegistryRequest};
use drover_testkit::linear::Model;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn the_shards_of_a_member_that_dies_begin_empty_elsewhere() {
    let seed = fresh_seed();
    let mut service = Service::new(SHORT, None);
    service.join("a", 2);
    service.join("b", 1);
    service.settle(&["a", "b"]);
    let load = Load::start(&service.network, 3, 40, seed);
    for _ in 0..3 {
        service.crash("b");
        service.settle(&["a"]);
        service.join("b", 2);
        service.settle(&["a", "b"]);
    }
    load.finish().check(Model::Cache).expect("nothing old is read");
    assert!(service.status("a").tally.lost_shards > 0);
}

#[test]
fn a_member_that_dies_while_it_hands_over_is_not_waited_for() {
    let seed = fresh_seed();
    let mut service = Service::new(SHORT, None);
    service.join("a", 1);
    service.settle(&["a"]);
    let mut client = Client::new(service.network.clone());
    let kept = put_all(&mut client, 1_000..2_000);
    let load = Load::start(&service.network, 3, 40, seed);
    service.network.is_slow.store(true, Ordering::SeqCst);
    service.join("b", 2);
    service.until("some items have been copied", || {
        service.status("b").tally.copied_items > 0
    });
    service.crash("a");
    service.settle(&["b"]);
    service.network.is_slow.store(false, Ordering::SeqCst);
    service.join("a", 1);
    service.settle(&["a", "b"]);
    load.finish().check(Model::Cache).expect("nothing old is read");
    // What has come over is there as it was, and nothing else.
    let found = kept
        .iter()
        .filter(|(number, kept)| match client.get(&key(**number)) {
            Some(found) => {
                assert_eq!(found, **kept);
                true
            }
            None => false,
        });
    println!("{} of {} keys are left", found.count(), kept.len());
}

#[test]
fn the_next_owner_may_die_while_shards_come_to_it() {
    let seed = fresh_seed();
    let mut service = Service::new(SHORT, None);
    service.join("a", 1);
    service.settle(&["a"]);
    let load = Load::start(&service.network, 3, 40, seed);
    service.network.is_slow.store(true, Ordering::SeqCst);
    for _ in 0..3 {
        service.join("b", 2);
        service.until("some items have been copied", || {
            service.status("b").tally.copied_items > 0
        });
        service.crash("b");
        service.settle(&["a"]);
    }
    load.finish().check(Model::Cache).expect("nothing old is read");
}

#[test]
fn a_member_that_leaves_gives_its_shards_away_at_once() {
    let mut service = Service::new(LONG, None);
    service.join("a", 1);
    service.join("b", 1);
    service.settle(&["a", "b"]);
    service.leave("a");
    // Its lease would live for longer than the test.
    service.settle(&["b"]);
    assert_eq!(service.status("b").shards.served, SHARDS);
}

#[test]
fn a_name_is_taken_until_the_lease_of_its_owner_has_run_out() {
    let mut service = Service::new(SHORT, None);
    service.join("a", 1);
    service.settle(&["a"]);
    service.crash("a");
    service.join("a", 1);
    service.until("the name is taken", || service.status("a").registry.name_taken);
    service.settle(&["a"]);
    assert!(!service.status("a").registry.name_taken);
}

/// A way to a registry that can be cut.
struct Cut {
    registry: LocalRegistry,
    is_cut: Arc<AtomicBool>,
    failed: Vec<u64>,
}

impl Registry for Cut {
    fn submit(&mut self, now: Ns, ticket: u64, request: RegistryRequest) {
        if self.is_cut.load(Ordering::SeqCst) {
            self.failed.push(ticket);
        } else {
            self.registry.submit(now, ticket, request);
        }
    }

    fn poll(&mut self, now: Ns) -> Option<RegistryEvent> {
        if let Some(ticket) = self.failed.pop() {
            return Some(RegistryEvent::Failed { ticket });
        }
        match self.is_cut.load(Ordering::SeqCst) {
            true => None,
            false => self.registry.poll(now),
        }
    }
}

#[test]
fn a_member_that_is_cut_from_the_registry_stops_and_begins_again() {
    let seed = fresh_seed();
    let mut service = Service::new(SHORT, None);
    let is_cut = Arc::new(AtomicBool::new(false));
    let cut = Cut {
        registry: service.registry.clone(),
        is_cut: is_cut.clone(),
        failed: Vec::new(),
    };
    service.join("a", 1);
    service.join_with("b", 2, cut);
    service.settle(&["a", "b"]);
    let load = Load::start(&service.network, 3, 40, seed);
    for _ in 0..2 {
        is_cut.store(true, Ordering::SeqCst);
        service.until("the other member has everything", || {
            service.status("a").shards.served == SHARDS
        });
        let status = service.status("b");
        assert_eq!(status.lease_left, Ns::ZERO, "it has stopped before");
        assert!(status.registry.failures > 0);
        is_cut.store(false, Ordering::SeqCst);
        service.settle(&["a", "b"]);
    }
    load.finish().check(Model::Cache).expect("nothing old is read");
}

#[test]
fn an_outage_of_the_registry_within_the_lease_costs_nothing() {
    let mut service = Service::new(LONG, None);
    let is_cut = Arc::new(AtomicBool::new(false));
    let cut = Cut {
        registry: service.registry.clone(),
        is_cut: is_cut.clone(),
        failed: Vec::new(),
    };
    service.join_with("a", 1, cut);
    service.settle(&["a"]);
    is_cut.store(true, Ordering::SeqCst);
    service.until("it has noticed", || service.status("a").registry.failures > 2);
    let mut client = Client::new(service.network.clone());
    let put = Op::Put {
        value: 1,
        flags: 2,
        ttl_s: 0,
    };
    assert_eq!(client.ask(&key(1), &put, &|| true), Some(Answer::Stored));
    is_cut.store(false, Ordering::SeqCst);
    service.until("it answers again", || service.status("a").registry.failures == 0);
    assert_eq!(client.get(&key(1)).map(|found| found.value), Some(1));
}

#[test]
fn a_member_may_be_told_to_serve_through_an_outage() {
    let terms = LeaseTerms {
        on_loss: OnRegistryLoss::Serve,
        ..SHORT
    };
    let mut service = Service::new(terms, None);
    let is_cut = Arc::new(AtomicBool::new(false));
    let cut = Cut {
        registry: service.registry.clone(),
        is_cut: is_cut.clone(),
        failed: Vec::new(),
    };
    service.join_with("a", 1, cut);
    service.settle(&["a"]);
    is_cut.store(true, Ordering::SeqCst);
    service.until("its lease has run out", || service.view().members.is_empty());
    let mut client = Client::new(service.network.clone());
    let put = Op::Put {
        value: 1,
        flags: 2,
        ttl_s: 0,
    };
    assert_eq!(client.ask(&key(1), &put, &|| true), Some(Answer::Stored));
    assert_eq!(service.status("a").lease_left, Ns::MAX);
    // When it hears of its loss, it begins anew.
    is_cut.store(false, Ordering::SeqCst);
    service.until("it is registered again", || !service.view().members.is_empty());
    service.settle(&["a"]);
    assert_eq!(client.get(&key(1)), None);
}
