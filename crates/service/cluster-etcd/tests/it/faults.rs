//! etcd is away, restarted, compacted, replaced by another one.

use crate::etcd::{ask, open_registry, register, until_answered, until_seen};
use drover_base::Ns;
use drover_cluster::{Registry, RegistryEvent, RegistryReply, RegistryRequest};
use drover_cluster_etcd::{EtcdOptions, EtcdRegistry, OpenError};
use drover_testkit::etcd::Etcd;
use std::time::Duration;

#[test]
fn requests_fail_while_etcd_is_away_and_registrations_outlive_its_restart() {
    let Some(mut etcd) = Etcd::start() else { return };
    let (mut member, mut watcher) = (open_registry(&etcd, "cache"), open_registry(&etcd, "cache"));
    let id = register(&mut member, "a", 1);
    until_seen(&mut watcher, &["a"]);
    etcd.kill();
    assert_eq!(ask(&mut member, RegistryRequest::Renew(id.clone())), None);
    etcd.restart();
    let renewed = until_answered(&mut member, RegistryRequest::Renew(id.clone()));
    assert_eq!(
        renewed,
        RegistryReply::Renewed,
        "etcd knows it still, whatever time has passed"
    );
    // The watch is made again, too.
    register(&mut member, "b", 2);
    until_seen(&mut watcher, &["a", "b"]);
}

#[test]
fn a_compacted_etcd_still_reports_changes() {
    let Some(mut etcd) = Etcd::start() else { return };
    let (mut member, mut watcher) = (open_registry(&etcd, "cache"), open_registry(&etcd, "cache"));
    let id = register(&mut member, "a", 1);
    until_seen(&mut watcher, &["a"]);
    // What happens while the watcher is cut off is compacted away before it is back.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let mut client = etcd_client::Client::connect([etcd.url()], None)
            .await
            .expect("a client");
        let header = client.put("other", "x", None).await.expect("etcd answers");
        let revision = header.header().expect("a header").revision();
        client.compact(revision, None).await.expect("etcd answers");
    });
    etcd.restart();
    assert_eq!(
        until_answered(&mut member, RegistryRequest::Leave(id)),
        RegistryReply::Left
    );
    until_seen(&mut watcher, &[]);
}

#[test]
fn another_etcd_at_the_same_address_is_not_believed() {
    let Some(mut etcd) = Etcd::start() else { return };
    let mut registry = open_registry(&etcd, "cache");
    let id = register(&mut registry, "a", 1);
    etcd.replace();
    // A fresh client finds it ready.
    drop(open_registry(&etcd, "cache"));
    for _ in 0..3 {
        assert_eq!(ask(&mut registry, RegistryRequest::Look), None);
    }
    assert_ne!(
        ask(&mut registry, RegistryRequest::Renew(id)),
        Some(RegistryReply::Renewed)
    );
}

#[test]
fn an_address_where_nobody_listens_is_a_failure_and_no_wait() {
    let options = EtcdOptions::new("cache", &["http://127.0.0.1:9"]);
    let mut registry = EtcdRegistry::open(options).expect("a proper name");
    registry.submit(Ns::ZERO, 1, RegistryRequest::Look);
    let event = registry.wait(Duration::from_secs(60));
    assert_eq!(event, Some(RegistryEvent::Failed { ticket: 1 }));
}

#[test]
fn a_service_needs_a_proper_name() {
    let error = EtcdRegistry::open(EtcdOptions::new("a/b", &["http://127.0.0.1:9"])).err();
    assert!(matches!(error, Some(OpenError::Service { service }) if service == "a/b"));
}
