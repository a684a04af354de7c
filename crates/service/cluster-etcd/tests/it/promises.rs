//! What is promised of every registry holds of etcd.

use crate::etcd::{ask, open_registry, register, registration, until_seen};
use drover_cluster::{Draft, Map, MemberId, RegistryReply, RegistryRequest, Standing, Transaction};
use drover_cluster_etcd::EtcdRegistry;
use drover_testkit::etcd::Etcd;
use std::sync::Arc;

#[test]
fn a_name_has_one_member_at_a_time_and_each_life_is_another() {
    let Some(etcd) = Etcd::start() else { return };
    let (mut one, mut other) = (open_registry(&etcd, "cache"), open_registry(&etcd, "cache"));
    let mut watcher = open_registry(&etcd, "cache");
    let first = register(&mut one, "a", 1);
    assert_eq!(register(&mut one, "a", 1), first, "the same process asks again");
    assert_eq!(
        ask(&mut other, registration("a", 2)),
        Some(RegistryReply::NameTaken)
    );
    assert_eq!(
        ask(&mut one, RegistryRequest::Renew(first.clone())),
        Some(RegistryReply::Renewed)
    );
    assert_eq!(
        ask(&mut other, RegistryRequest::Renew(first.clone())),
        Some(RegistryReply::LeaseLost),
        "it is not its own"
    );
    until_seen(&mut watcher, &["a"]);
    // Nobody renews it any more.
    until_seen(&mut watcher, &[]);
    assert_eq!(
        ask(&mut one, RegistryRequest::Renew(first.clone())),
        Some(RegistryReply::LeaseLost)
    );
    let second = register(&mut other, "a", 2);
    assert!(second.incarnation > first.incarnation);
    assert_eq!(
        ask(&mut one, RegistryRequest::Leave(first)),
        Some(RegistryReply::Left),
        "of a past life"
    );
    assert_eq!(
        ask(&mut other, RegistryRequest::Renew(second.clone())),
        Some(RegistryReply::Renewed)
    );
    assert_eq!(
        ask(&mut other, RegistryRequest::Leave(second.clone())),
        Some(RegistryReply::Left)
    );
    assert_eq!(
        ask(&mut other, RegistryRequest::Renew(second)),
        Some(RegistryReply::LeaseLost)
    );
}

/// A map after `map` that differs from it.
fn changed(map: &Map, registry: &mut EtcdRegistry) -> Arc<Map> {
    let Some(RegistryReply::View(view)) = ask(registry, RegistryRequest::Look) else {
        panic!("no view");
    };
    let mut draft = Draft::after(map);
    draft.remove(|_| true);
    draft.add(view.members[0].clone(), Standing::Joining);
    Arc::new(draft.finish().expect("a change"))
}

#[test]
fn a_transaction_takes_effect_once_and_only_if_its_conditions_hold() {
    let Some(etcd) = Etcd::start() else { return };
    let mut registry = open_registry(&etcd, "cache");
    let a = register(&mut registry, "a", 1);
    let stranger = MemberId {
        name: "b".into(),
        incarnation: a.incarnation,
    };
    let first = changed(&Map::none(16), &mut registry);
    let second = changed(&first, &mut registry);
    let mut commit = |map: &Arc<Map>, alive: &[&MemberId], gone: &[&MemberId]| {
        let copy = |ids: &[&MemberId]| ids.iter().map(|id| (*id).clone()).collect();
        let (map, alive, gone) = (map.clone(), copy(alive), copy(gone));
        let request = RegistryRequest::Commit(Transaction { map, alive, gone });
        ask(&mut registry, request).expect("a reply")
    };
    assert_eq!(
        commit(&second, &[&a], &[]),
        RegistryReply::Conflict,
        "there is no map of epoch 1"
    );
    assert_eq!(commit(&first, &[&stranger], &[]), RegistryReply::Conflict);
    assert_eq!(commit(&first, &[], &[&a]), RegistryReply::Conflict);
    assert_eq!(commit(&first, &[&a], &[&stranger]), RegistryReply::Committed);
    assert_eq!(
        commit(&first, &[&a], &[]),
        RegistryReply::Conflict,
        "a second time"
    );
    assert_eq!(commit(&second, &[&a], &[]), RegistryReply::Committed);
    let Some(RegistryReply::View(view)) = ask(&mut registry, RegistryRequest::Look) else {
        panic!("no view");
    };
    assert_eq!(view.map, Some(second));
    let mut elsewhere = open_registry(&etcd, "another");
    let Some(RegistryReply::View(view)) = ask(&mut elsewhere, RegistryRequest::Look) else {
        panic!("no view");
    };
    assert!(
        view.map.is_none() && view.members.is_empty(),
        "services share nothing"
    );
}
