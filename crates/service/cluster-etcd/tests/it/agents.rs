//! Three members agree over etcd on who owns what, and one of them dies.

use crate::etcd::{TTL, open_registry};
use drover_base::Ns;
use drover_cluster::{Action, Advert, Agent, AgentOptions, HandoverReply, HandoverTimes, LeaseTerms};
use drover_cluster_etcd::EtcdRegistry;
use drover_testkit::etcd::Etcd;
use std::time::Instant;

/// Enough for each to have some.
const SHARD_COUNT: usize = 64;

/// A member without items.
struct Host {
    agent: Agent,
    registry: EtcdRegistry,
}

impl Host {
    fn new(etcd: &Etcd, name: &str) -> Host {
        let advert = Advert::new(name, 1, vec![format!("tcp://{name}:1")]).expect("a sound advert");
        let terms = LeaseTerms {
            ttl: TTL,
            renew_every: Ns::from_ms(100),
            ..LeaseTerms::default()
        };
        let agent = Agent::new(AgentOptions {
            advert,
            terms,
            handover: HandoverTimes::default(),
            handovers_max: 16,
            shard_count: SHARD_COUNT,
            instance: drover_testkit::seeds::fresh_seed(),
            replicas: 1,
        });
        let registry = open_registry(etcd, "cache");
        Host { agent, registry }
    }

    /// Number of shards that it would answer for.
    fn served(&self, now: Ns) -> usize {
        let (ownership, stop_at) = (self.agent.ownership(), self.agent.stop_at());
        let serves = |shard: &_| now < stop_at && ownership.serves(*shard);
        self.agent.map().shards().filter(serves).count()
    }
}

/// One step of every member; hand-overs have no items, and take no time.
fn step(hosts: &mut [Host], now: Ns) {
    for index in 0..hosts.len() {
        let mut actions = Vec::new();
        let host = &mut hosts[index];
        host.agent.step(now, &mut host.registry, &mut actions);
        for action in actions {
            let Action::Ask { to, request } = action else {
                continue;
            };
            let owner = hosts.iter_mut().find(|host| host.agent.id() == Some(&to));
            if owner.is_some_and(|owner| owner.agent.answer(&request)) {
                let (to, next) = (request, None);
                hosts[index].agent.receive(&HandoverReply { to, next }, now);
            }
        }
    }
}

/// Steps until every shard is served, by all members.
fn settle(hosts: &mut [Host], clock: &impl Fn() -> Ns) {
    loop {
        step(hosts, clock());
        let now = clock();
        let served: Vec<usize> = hosts.iter().map(|host| host.served(now)).collect();
        let sum: usize = served.iter().sum();
        assert!(sum <= SHARD_COUNT, "some shard is served twice: {served:?}");
        if sum == SHARD_COUNT && served.iter().all(|count| *count > 0) {
            return;
        }
        // Everything else depends on etcd.
        std::thread::yield_now();
    }
}

#[test]
fn three_members_share_the_shards_and_two_take_over_from_one_that_died() {
    let Some(etcd) = Etcd::start() else { return };
    #[allow(
        clippy::disallowed_methods,
        reason = "leases of a real etcd need a real clock"
    )]
    let start = Instant::now();
    #[allow(clippy::disallowed_methods, reason = "as above")]
    let clock = || Ns(start.elapsed().as_nanos() as u64);
    let mut hosts: Vec<Host> = ["a", "b", "c"].map(|name| Host::new(&etcd, name)).into();
    settle(&mut hosts, &clock);
    let before = hosts[0].agent.map().epoch();
    // Its process dies: nothing is said.
    drop(hosts.remove(0));
    settle(&mut hosts, &clock);
    assert!(hosts[0].agent.map().epoch() > before);
}
