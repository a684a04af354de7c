//! [`TestService`]: members, and a registry that does as the test says.

use drover_base::{Cpu, HashSeed, Ns};
use drover_client::{Client, Connected, Options, Pipeline, connect_through};
use drover_cluster::{
    Advert, Draft, LocalRegistry, Map, MemberId, Ownership, Published, Registry, RegistryEvent,
    RegistryReply, RegistryRequest, SECRET_BYTES, ServedShards, ServiceSettings, ShardId, Standing,
    Transaction, View,
};
use drover_control::ControlListener;
use drover_kv::{
    Capacity, ConnectError, Hosting, HostingJob, HostingService, HostingSystem, Service, Sizes, SystemTable,
};
use drover_mem::NativeCpu;
use drover_systems::System;
use drover_verbs_shm::{Shm, ShmDevice};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

pub const SHARDS: usize = 8;
const SEED: HashSeed = HashSeed::new(3, 4);
const CORES: usize = 2;

struct Start<'a> {
    addr: &'a str,
    served: Arc<ServedShards>,
}

impl HostingJob for Start<'_> {
    type Answer = Box<dyn HostingService>;

    fn run<S: HostingSystem>(self) -> Box<dyn HostingService> {
        let sizes = Sizes {
            shard_count: CORES,
            capacity: Capacity::Memory { bytes: 8 << 20 },
            value_bytes_max: 64 << 10,
            window: 16,
        };
        let plan = S::plan(&sizes).expect("enough memory");
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

/// A member; without a service it is registered, and nobody answers at its addresses.
pub struct TestMember {
    id: MemberId,
    ownership: Ownership,
    pub served: Arc<ServedShards>,
    pub addr: String,
    service: Option<Box<dyn HostingService>>,
}

impl TestMember {
    /// Ends its process, as it were.
    pub fn stop(&mut self) {
        if let Some(service) = self.service.take() {
            Service::stop(service);
        }
    }

    /// Number of requests that it has answered "elsewhere".
    pub fn refusals(&self) -> u64 {
        let names = system().facts().counters.iter().map(|counter| counter.name);
        let at = names
            .into_iter()
            .position(|name| name == "elsewhere")
            .expect("a counter");
        let service = self.service.as_ref().expect("a service");
        let of_cores = service.counters(Duration::from_secs(60)).expect("workers answer");
        of_cores.iter().map(|of_core| of_core[at]).sum()
    }

    /// Whether it serves what is its own. A member that does not is frozen, or its lease may have run out.
    pub fn set_serving(&self, is_serving: bool) {
        let stop_at = if is_serving { Ns::MAX } else { Ns::ZERO };
        self.served.set_stop_at(stop_at);
    }
}

/// The system whose services span members.
fn system() -> System {
    let mut all = System::ALL.iter().copied();
    all.find(|system| system.facts().cluster.is_ok())
        .expect("there is one")
}

pub struct TestService {
    pub registry: LocalRegistry,
    cpu: NativeCpu,
    map: Arc<Map>,
    pub members: Vec<TestMember>,
}

impl TestService {
    /// Members of these names, the first of which has all shards.
    pub fn new(names: &[&str]) -> TestService {
        let mut this = TestService {
            registry: LocalRegistry::default(),
            cpu: NativeCpu::new(0),
            map: Map::none(SHARDS),
            members: Vec::new(),
        };
        let secret = [7; SECRET_BYTES];
        let settings = ServiceSettings {
            hash_seed: SEED,
            secret,
            replicas: 1,
            lease_s: None,
        };
        this.ask(RegistryRequest::Settings(Some(settings)));
        for name in names {
            let addr = unused_address();
            this.add(name, &[&addr]);
            this.start(this.members.len() - 1);
        }
        if !names.is_empty() {
            this.give(0..SHARDS, 0);
        }
        this
    }

    fn ask(&mut self, request: RegistryRequest) -> RegistryReply {
        let now = self.cpu.refresh();
        self.registry.submit(now, 9, request);
        loop {
            match self.registry.poll(now) {
                Some(RegistryEvent::Reply { ticket: 9, reply }) => return reply,
                Some(_) => {}
                None => panic!("a registry in this process answers at once"),
            }
        }
    }

    /// Registers a member that advertises `addresses`; its service, if it gets one, is at the last of them.
    pub fn add(&mut self, name: &str, addresses: &[&str]) {
        let addresses: Vec<String> = addresses.iter().map(|addr| addr.to_string()).collect();
        let addr = addresses.last().expect("an address").clone();
        let request = RegistryRequest::Register {
            advert: Advert::new(name, 1, addresses).expect("a sound advert"),
            instance: self.members.len() as u64,
            ttl: Ns::from_s(100_000),
        };
        let RegistryReply::Registered(id) = self.ask(request) else {
            panic!("{name} is registered");
        };
        let mut ownership = Ownership::new(SHARDS);
        ownership.set_id(Some(id.clone()));
        let served = ServedShards::new(SHARDS, CORES);
        served.set_stop_at(Ns::MAX);
        let RegistryReply::View(View { members, .. }) = self.ask(RegistryRequest::Look) else {
            panic!("a view");
        };
        let member = members.iter().find(|member| member.is(&id)).expect("registered");
        let member = member.clone();
        self.members.push(TestMember {
            id,
            ownership,
            served,
            addr,
            service: None,
        });
        self.change(0, |draft| {
            draft.add(member, Standing::Joining);
        });
    }

    /// Starts the service of a member.
    pub fn start(&mut self, index: usize) {
        let member = &mut self.members[index];
        let served = member.served.clone();
        let job = Start {
            addr: &member.addr,
            served,
        };
        let service = system().hosting(job).ok().expect("it hosts");
        member.service = Some(service);
    }

    /// The next map, which the member `last` learns after the others have stopped serving what is not theirs by it. The registry has it
    /// at the end, so that clients are refused first.
    fn change(&mut self, last: usize, change: impl FnOnce(&mut Draft)) {
        let mut draft = Draft::after(&self.map);
        change(&mut draft);
        self.map = Arc::new(draft.finish().expect("a change"));
        let (before, after) = self.members.split_at_mut(last);
        for member in before.iter_mut().chain(after.iter_mut().rev()) {
            member.ownership.learn(&self.map, |_| None);
            member
                .served
                .publish_all(&member.ownership, &Published::default());
        }
        let transaction = Transaction {
            map: self.map.clone(),
            alive: Vec::new(),
            gone: Vec::new(),
        };
        let reply = self.ask(RegistryRequest::Commit(transaction));
        assert_eq!(reply, RegistryReply::Committed);
    }

    /// Gives shards to a member, without their items.
    pub fn give(&mut self, shards: std::ops::Range<usize>, to: usize) {
        let index = self.map.index_of(&self.members[to].id).expect("a member");
        self.change(to, |draft| {
            for shard in shards {
                draft.assign(ShardId(shard as u16), index);
            }
        });
    }

    /// Takes a member out of the map; nobody has its shards then.
    pub fn remove(&mut self, index: usize) {
        let id = self.members[index].id.clone();
        self.change(0, |draft| draft.remove(|member| member.is(&id)));
    }

    /// Waits until a member has executed some more operations.
    pub fn wait_for_operations(&self, index: usize) {
        let executed = || {
            let service = self.members[index].service.as_ref().expect("a service");
            let of_cores = service.counters(Duration::from_secs(60)).expect("workers answer");
            of_cores
                .iter()
                .map(|of_core| of_core[0] + of_core[2])
                .sum::<u64>()
        };
        let until = executed() + 20;
        while executed() < until {}
    }

    pub fn connected(&self, options: &Options) -> Result<Connected, ConnectError> {
        connect_through(Box::new(self.registry.clone()), options)
    }

    pub fn client(&self) -> Client {
        self.connected(&Options::default()).expect("members").into()
    }

    /// A client whose operations have this much time.
    pub fn client_with(&self, call_timeout: Ns) -> Client {
        let options = Options {
            call_timeout,
            ..Options::default()
        };
        self.connected(&options).expect("members").into()
    }

    pub fn pipeline(&self) -> Pipeline {
        self.connected(&Options::default()).expect("members").into()
    }
}

impl Drop for TestService {
    fn drop(&mut self) {
        self.members.iter_mut().for_each(TestMember::stop);
    }
}

/// A socket of a member's own.
pub fn unused_address() -> String {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    // Relaxed: only the number matters.
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("drover-members-{}-{number}", std::process::id()));
    format!("unix:{}", path.display())
}

/// The shard of a key.
pub fn shard_of(key: &[u8]) -> usize {
    ShardId::of(SEED.hash(key), SHARDS).index()
}

/// Some keys, of all shards.
pub fn keys() -> Vec<Vec<u8>> {
    (0..200)
        .map(|number| format!("key-{number}").into_bytes())
        .collect()
}
