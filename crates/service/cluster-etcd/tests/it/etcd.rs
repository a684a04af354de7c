//! The questions that tests ask an etcd.

use drover_base::Ns;
use drover_cluster::{Advert, MemberId, Registry, RegistryEvent, RegistryReply, RegistryRequest};
use drover_cluster_etcd::{EtcdOptions, EtcdRegistry};
use drover_testkit::etcd::Etcd;
use std::time::Duration;

/// Longest wait for anything; a test that reaches it has failed.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time to live of registrations in tests. etcd makes about two seconds of it.
pub const TTL: Ns = Ns::from_s(1);

/// A registry of the service `service` in `etcd`, once that answers.
pub fn open_registry(etcd: &Etcd, service: &str) -> EtcdRegistry {
    open_registry_at(EtcdOptions::new(service, &[&etcd.url()]))
}

/// A registry, once its etcd answers.
pub fn open_registry_at(options: EtcdOptions) -> EtcdRegistry {
    let mut registry = EtcdRegistry::open(options).expect("a proper name");
    until_answered(&mut registry, RegistryRequest::Look);
    registry
}

/// The reply to a request; `None`, if it has failed.
pub fn ask(registry: &mut EtcdRegistry, request: RegistryRequest) -> Option<RegistryReply> {
    registry.submit(Ns::ZERO, 7, request);
    loop {
        match registry.wait(PATIENCE) {
            Some(RegistryEvent::Reply { ticket: 7, reply }) => return Some(reply),
            Some(RegistryEvent::Failed { ticket: 7 }) => return None,
            Some(_) => {}
            None => panic!("no event"),
        }
    }
}

/// The reply to a request, which is repeated until it does not fail.
pub fn until_answered(registry: &mut EtcdRegistry, request: RegistryRequest) -> RegistryReply {
    loop {
        if let Some(reply) = ask(registry, request.clone()) {
            return reply;
        }
    }
}

/// The request by which a member called `name` registers.
pub fn registration(name: &str, instance: u64) -> RegistryRequest {
    let advert = Advert::new(name, 1, vec![format!("tcp://{name}:1")]).expect("a sound advert");
    let ttl = TTL;
    RegistryRequest::Register {
        advert,
        instance,
        ttl,
    }
}

/// Registers a member.
pub fn register(registry: &mut EtcdRegistry, name: &str, instance: u64) -> MemberId {
    match until_answered(registry, registration(name, instance)) {
        RegistryReply::Registered(id) => id,
        other => panic!("{other:?}"),
    }
}

/// Waits until a view is reported in which these members are registered.
pub fn until_seen(registry: &mut EtcdRegistry, names: &[&str]) {
    loop {
        let event = registry.wait(PATIENCE).expect("an event");
        if let RegistryEvent::Changed(view) = event {
            let members = view.members.iter().map(|member| &**member.advert.name());
            if members.eq(names.iter().copied()) {
                return;
            }
        }
    }
}
