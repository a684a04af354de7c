//! [`Service`]: members of one service, which come and go.

use super::Flaw;
use super::copies::CopyLinks;
use super::core::{Job, TestCore};
use super::network::{Reachable, Shared, TestNetwork};
use drover_base::{Cpu, Ns};
use drover_cluster::{
    Advert, Draft, HandoverTimes, LeaseTerms, LocalRegistry, Map, OnRegistryLoss, Registry, RegistryEvent,
    RegistryReply, RegistryRequest, ServedShards, Standing, Transaction, View,
};
use drover_links::{AcceptorOptions, LinkAcceptor, MemberIdentity};
use drover_mem::NativeCpu;
use drover_member::{LinkNetwork, MemberOptions, MemberStatus, Network, RunningMember};
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::Duration;

/// Shards of the service.
pub const SHARDS: usize = 256;
/// A lease that does not run out while a busy machine delays the test.
pub const LONG: LeaseTerms = LeaseTerms {
    ttl: Ns::from_s(100),
    renew_every: Ns::from_ms(100),
    on_loss: OnRegistryLoss::Stop,
};
/// A lease that runs out soon.
pub const SHORT: LeaseTerms = LeaseTerms {
    ttl: Ns::from_ms(900),
    renew_every: Ns::from_ms(50),
    on_loss: OnRegistryLoss::Stop,
};

struct Running {
    member: Option<RunningMember>,
    _acceptor: Option<LinkAcceptor>,
    host_port: String,
    stop: Arc<AtomicBool>,
    cores: Vec<JoinHandle<()>>,
}

pub struct Service {
    pub registry: LocalRegistry,
    pub network: Arc<TestNetwork>,
    terms: LeaseTerms,
    flaw: Option<Flaw>,
    members: BTreeMap<String, Running>,
    started: usize,
    /// Whether members reach each other over TCP.
    pub is_linked: bool,
    /// Memory for items of one core.
    pub log_bytes: usize,
    /// Members that have each item.
    pub replicas: u8,
}

impl Service {
    pub fn new(terms: LeaseTerms, flaw: Option<Flaw>) -> Service {
        Service {
            registry: LocalRegistry::default(),
            network: Arc::new(TestNetwork::with(flaw)),
            terms,
            flaw,
            members: BTreeMap::new(),
            started: 0,
            is_linked: false,
            log_bytes: 8 << 20,
            replicas: 1,
        }
    }

    /// Starts a member with this many cores.
    pub fn join(&mut self, name: &str, core_count: usize) {
        self.join_with(name, core_count, self.registry.clone());
    }

    /// As `join`, with a way of its own to the registry.
    pub fn join_with(&mut self, name: &str, core_count: usize, registry: impl Registry + Send + 'static) {
        self.started += 1;
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let host_port = match self.is_linked {
            true => listener.local_addr().expect("an address").to_string(),
            false => format!("{name}:{}", self.started),
        };
        let identity = Arc::new(MemberIdentity {
            service: "test".to_string(),
            member: name.to_string(),
            secret: [7; 32],
        });
        let (wanted, inboxes) = channel();
        let shards = ServedShards::new(SHARDS, core_count);
        let stop = Arc::new(AtomicBool::new(false));
        let (mut cores, mut threads) = (Vec::new(), Vec::new());
        let mut link_inboxes = Vec::new();
        for index in 0..core_count {
            let (sender, inbox) = channel();
            cores.push(sender);
            let core = TestCore {
                index,
                shards: shards.clone(),
                flaw: self.flaw,
                log_bytes: self.log_bytes,
                inbox,
                copies: (self.replicas > 1).then(|| CopyLinks::new(shards.clone(), self.network.clone())),
                linked: self.is_linked.then(|| (identity.clone(), wanted.clone())),
                stop: stop.clone(),
            };
            threads.push(std::thread::spawn(move || core.run()));
            if self.is_linked {
                link_inboxes.push(inboxes.recv().expect("the core's inbox"));
            }
        }
        let mut reachable = Reachable { cores, control: None };
        self.network.set(&host_port, reachable.clone());
        let addresses = vec![format!("member://{host_port}?cores={core_count}")];
        let network: Arc<dyn Network> = match self.is_linked {
            true => Arc::new(LinkNetwork::new(identity.clone())),
            false => Arc::new(Shared(self.network.clone())),
        };
        let options = MemberOptions {
            advert: Advert::new(name, 100, addresses).expect("a sound advert"),
            terms: self.terms,
            handover: HandoverTimes {
                // Busy machines delay replies.
                give_up_after: Ns::from_s(20),
                ..HandoverTimes::default()
            },
            handovers_max: 64,
            replicas: self.replicas,
            shards,
            network,
        };
        let member = RunningMember::start(options, registry).expect("threads");
        let control = member.control_handler();
        let acceptor = self.is_linked.then(|| {
            let (control, options) = (control.clone(), AcceptorOptions::default());
            let serve = move |link| control.serve(link);
            LinkAcceptor::start(listener, identity, link_inboxes, serve, options).expect("a thread")
        });
        reachable.control = Some(control);
        self.network.set(&host_port, reachable);
        let running = Running {
            member: Some(member),
            _acceptor: acceptor,
            host_port,
            stop,
            cores: threads,
        };
        assert!(self.members.insert(name.to_string(), running).is_none(), "{name}");
    }

    pub fn status(&self, name: &str) -> MemberStatus {
        self.members[name].member.as_ref().expect("it runs").status()
    }

    /// Has the cores of a member flush all items, as `flush_all` does.
    pub fn flush(&self, name: &str) {
        let cores = self
            .network
            .get(&self.members[name].host_port)
            .expect("it runs")
            .cores;
        for core in cores {
            let (reply, answered) = channel();
            // Head of a message between cores: no key, kind `f`, no connection; now.
            let mut message = vec![0; 25];
            message[16] = b'f';
            core.send(Job::Message(message, reply)).expect("it runs");
            answered.recv().expect("it answers");
        }
    }

    /// The member ends its registration and its process.
    pub fn leave(&mut self, name: &str) {
        let member = self.members.get_mut(name).and_then(|it| it.member.take());
        member.expect("it runs").leave();
        self.end(name);
    }

    /// The member's process ends without a word.
    pub fn crash(&mut self, name: &str) {
        self.end(name);
    }

    fn end(&mut self, name: &str) {
        let running = self.members.remove(name).expect("a member");
        self.network.remove(&running.host_port);
        running.stop.store(true, Ordering::Relaxed);
        drop(running.member);
        running
            .cores
            .into_iter()
            .for_each(|thread| thread.join().expect("no panic"));
    }

    /// What the registry knows.
    pub fn view(&self) -> View {
        let mut registry = self.registry.clone();
        match self.ask(&mut registry, RegistryRequest::Look) {
            RegistryReply::View(view) => view,
            other => panic!("{other:?}"),
        }
    }

    pub fn map(&self) -> Arc<Map> {
        self.view().map.unwrap_or_else(|| Map::none(SHARDS))
    }

    /// An operator's wish.
    pub fn drain(&self, name: &str) {
        self.change(|draft| draft.set_standing(name, Standing::Draining));
    }

    /// The wish is over, whether the member is there or not.
    pub fn undrain(&self, name: &str) {
        self.change(|draft| draft.undrain_absent(name) || draft.set_standing(name, Standing::Joining));
    }

    fn change(&self, change: impl Fn(&mut Draft) -> bool) {
        let mut registry = self.registry.clone();
        loop {
            let mut draft = Draft::after(&self.map());
            assert!(change(&mut draft), "no such member");
            let transaction = Transaction {
                map: Arc::new(draft.finish().expect("a change")),
                alive: vec![],
                gone: vec![],
            };
            if self.ask(&mut registry, RegistryRequest::Commit(transaction)) == RegistryReply::Committed {
                return;
            }
        }
    }

    fn ask(&self, registry: &mut LocalRegistry, request: RegistryRequest) -> RegistryReply {
        let now = NativeCpu::new(0).refresh();
        registry.submit(now, 1, request);
        loop {
            if let Some(RegistryEvent::Reply { ticket: 1, reply }) = registry.poll(now) {
                return reply;
            }
        }
    }

    /// Waits until nothing moves and each of these members, and nobody else, owns about its share.
    pub fn settle(&self, owners: &[&str]) {
        self.until(&format!("settled at {owners:?}"), || {
            let map = self.map();
            let counts: BTreeMap<_, _> = map
                .members()
                .iter()
                .map(|it| it.member.advert.name().to_string())
                .zip(map.counts())
                .filter(|(_, count)| *count > 0)
                .collect();
            let owned: usize = owners
                .iter()
                .filter_map(|name| counts.get(*name).map(|_| self.status(name).shards.served))
                .sum();
            map.moves().is_empty() && counts.len() == owners.len() && owned == SHARDS
        });
    }

    /// Waits until each shard has a complete copy.
    pub fn copied(&self) {
        self.until("every shard has a copy", || {
            let map = self.map();
            let is_copied = |shard| map.copy(shard).is_some_and(|copy| copy.is_complete);
            map.moves().is_empty() && map.shards().all(is_copied)
        });
    }

    /// Waits for a condition; with all members in the message if it does not come.
    pub fn until(&self, what: &str, condition: impl Fn() -> bool) {
        let cpu = NativeCpu::new(0);
        let end = cpu.refresh() + Ns::from_s(60);
        while !condition() {
            let all: Vec<_> = self.members.keys().map(|name| self.status(name)).collect();
            assert!(cpu.refresh() < end, "{what}: {all:#?}");
            std::thread::park_timeout(Duration::from_millis(2));
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let names: Vec<_> = self.members.keys().cloned().collect();
        names.iter().for_each(|name| self.end(name));
    }
}
