//! [`Member`]: the only member of a service that is kept in etcd.

use drover_base::{HashSeed, Ns};
use drover_cluster::{
    Advert, Draft, Map, Ownership, Published, Registry, RegistryEvent, RegistryReply, RegistryRequest,
    SECRET_BYTES, SHARD_COUNT, ServedShards, ServiceSettings, Standing, Transaction,
};
use drover_cluster_etcd::{EtcdOptions, EtcdRegistry};
use drover_control::ControlListener;
use drover_kv::{Hosting, HostingJob, HostingService, HostingSystem, Service, SystemTable};
use drover_systems::System;
use drover_testkit::etcd::Etcd;
use drover_verbs_shm::{Shm, ShmDevice};
use std::sync::Arc;
use std::time::Duration;

const NAME: &str = "c-suite";
const SEED: HashSeed = HashSeed::new(3, 4);
/// Longer than the test. Nobody renews the lease.
const TTL: Ns = Ns::from_s(100_000);

/// Its etcd and its service end with it.
pub struct Member {
    etcd: Etcd,
    service: Option<Box<dyn HostingService>>,
}

impl Member {
    /// Starts it at the address `addr`; `None` where there is no etcd.
    pub fn start(addr: &str) -> Option<Member> {
        let etcd = Etcd::start()?;
        let served = ServedShards::new(SHARD_COUNT, crate::SIZES.shard_count);
        served.set_stop_at(Ns::MAX);
        let job = Start {
            addr,
            served: served.clone(),
        };
        let mut all = System::ALL.iter().copied();
        let system = all.find(|system| system.facts().cluster.is_ok()).expect("HERD");
        let service = system.hosting(job).ok().expect("HERD hosts");
        join(&etcd, addr, &served);
        let service = Some(service);
        Some(Member { etcd, service })
    }

    /// The address of the service.
    pub fn url(&self) -> String {
        format!("etcd://{}/{NAME}", self.etcd.host_port())
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if let Some(service) = self.service.take() {
            Service::stop(service);
        }
    }
}

struct Start<'a> {
    addr: &'a str,
    served: Arc<ServedShards>,
}

impl HostingJob for Start<'_> {
    type Answer = Box<dyn HostingService>;

    fn run<S: HostingSystem>(self) -> Box<dyn HostingService> {
        let plan = S::plan(&crate::SIZES).expect("enough memory");
        let addr = self.addr.parse().expect("an address");
        let listeners = vec![ControlListener::bind(&addr).expect("a free address")];
        let hosting = Hosting::<Shm> {
            hash_seed: Some(SEED),
            served: Some(self.served),
            ..Hosting::default()
        };
        S::start_hosting::<Shm>(&ShmDevice::default(), &plan, listeners, Box::new(|_| {}), hosting)
            .expect("a service")
    }
}

/// Registers the member at `addr`, and gives it all shards.
fn join(etcd: &Etcd, addr: &str, served: &ServedShards) {
    let mut registry =
        EtcdRegistry::open(EtcdOptions::new(NAME, &[&etcd.url()])).expect("a thread, and a proper name");
    let settings = ServiceSettings {
        hash_seed: SEED,
        secret: [7; SECRET_BYTES],
        replicas: 1,
        lease_s: None,
    };
    ask(&mut registry, &RegistryRequest::Settings(Some(settings)));
    let register = RegistryRequest::Register {
        advert: Advert::new("a", 1, vec![addr.to_owned()]).expect("a sound advert"),
        instance: 1,
        ttl: TTL,
    };
    let RegistryReply::Registered(id) = ask(&mut registry, &register) else {
        panic!("there is no other member");
    };
    let RegistryReply::View(view) = ask(&mut registry, &RegistryRequest::Look) else {
        panic!("a view");
    };
    let mut draft = Draft::after(&Map::none(SHARD_COUNT));
    draft.add(view.members[0].clone(), Standing::Settled);
    for shard in Map::none(SHARD_COUNT).shards() {
        draft.assign(shard, 0);
    }
    let map = Arc::new(draft.finish().expect("a change"));
    let mut ownership = Ownership::new(SHARD_COUNT);
    ownership.set_id(Some(id));
    ownership.learn(&map, |_| None);
    served.publish_all(&ownership, &Published::default());
    let transaction = Transaction {
        map,
        alive: Vec::new(),
        gone: Vec::new(),
    };
    let committed = ask(&mut registry, &RegistryRequest::Commit(transaction));
    assert_eq!(committed, RegistryReply::Committed);
}

/// The reply to a request, which is repeated until etcd answers.
fn ask(registry: &mut EtcdRegistry, request: &RegistryRequest) -> RegistryReply {
    loop {
        registry.submit(Ns::ZERO, 1, request.clone());
        loop {
            match registry.wait(Duration::from_secs(60)).expect("an event") {
                RegistryEvent::Reply { reply, .. } => return reply,
                RegistryEvent::Failed { .. } => break,
                RegistryEvent::Changed(_) => {}
            }
        }
    }
}
