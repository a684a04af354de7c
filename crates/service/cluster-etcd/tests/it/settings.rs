//! The settings of a service: the first member chooses them, all others have what it chose.

use crate::etcd::open_registry;
use drover_base::{HashKind, HashSeed};
use drover_cluster::{SECRET_BYTES, ServiceSettings};
use drover_cluster_etcd::{EtcdOptions, EtcdRegistry};
use drover_testkit::etcd::Etcd;
use std::sync::Barrier;

fn settings(of: u8) -> ServiceSettings {
    ServiceSettings {
        hash_seed: HashSeed::of(HashKind::Aes, of.into(), 2),
        secret: [of; SECRET_BYTES],
        replicas: 1,
        lease_s: Some(6),
    }
}

#[test]
fn a_service_without_members_has_no_settings_and_the_first_ones_stay() {
    let Some(etcd) = Etcd::start() else { return };
    let (mut one, mut other) = (open_registry(&etcd, "cache"), open_registry(&etcd, "cache"));
    assert_eq!(one.settings(None), Ok(None));
    assert_eq!(one.settings(Some(settings(1))), Ok(Some(settings(1))));
    assert_eq!(other.settings(Some(settings(2))), Ok(Some(settings(1))));
    assert_eq!(other.settings(None), Ok(Some(settings(1))));
    assert_eq!(open_registry(&etcd, "another").settings(None), Ok(None));
}

#[test]
fn members_that_come_at_the_same_time_agree() {
    let Some(etcd) = Etcd::start() else { return };
    let (members, together) = (4, Barrier::new(4));
    let settled = std::thread::scope(|scope| {
        let member = |of| {
            let (etcd, together) = (&etcd, &together);
            scope.spawn(move || {
                let mut registry = open_registry(etcd, "cache");
                together.wait();
                registry.settings(Some(settings(of))).expect("etcd answers")
            })
        };
        let members: Vec<_> = (0..members).map(member).collect();
        members
            .into_iter()
            .map(|it| it.join().expect("no panic"))
            .collect::<Vec<_>>()
    });
    assert!(settled[0].is_some());
    assert!(settled.iter().all(|it| *it == settled[0]), "{settled:?}");
}

#[test]
fn an_etcd_that_is_not_there_is_an_error_with_its_reason() {
    let options = EtcdOptions::new("cache", &["http://127.0.0.1:9"]);
    let mut registry = EtcdRegistry::open(options).expect("a proper name");
    let error = registry.settings(None).expect_err("nobody listens");
    assert!(!error.why.is_empty(), "{error}");
}
