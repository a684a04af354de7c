//! A client that is killed, or stops for six seconds: the server notices by the control channel alone, and the other
//! clients do not notice.

use drover_base::{Actor, Cpu, HashSeed, Ns, Progress};
use drover_control::{Dial, LocalListener};
use drover_kv::{
    Capacity, ConnectOptions, KvClient, Op, ServiceClient, Shard, ShardedJob, ShardedSystem, Sizes,
    SystemTable,
};
use drover_sim::VirtualCpu;
use drover_systems::System;
use drover_verbs::Device;
use drover_verbs_sim::profile::Profile;
use drover_verbs_sim::{Sim, SimContext, World};
use std::cell::RefCell;
use std::rc::Rc;

/// Clients, each on a machine of its own; the first one departs.
const CLIENTS: usize = 5;
/// Time from one operation of a client to its next.
const THINK: Ns = Ns::from_us(100);

/// Ends of operations, and how long they took.
type Ended = Rc<RefCell<Vec<(Ns, Ns)>>>;

/// A client that does one operation at a time, PUTs and GETs in turn.
struct Looper<C> {
    client: C,
    begun_at: Option<Ns>,
    next_at: Ns,
    count: u64,
    ended: Ended,
}

impl<C: KvClient<Sim>> Actor<VirtualCpu> for Looper<C> {
    fn step(&mut self, cpu: &VirtualCpu) -> Progress {
        let Looper { client, ended, .. } = self;
        let (begun_at, now) = (self.begun_at, cpu.now());
        let done = client.poll(cpu, &mut |_| {
            let took = now.since(begun_at.expect("an operation"));
            ended.borrow_mut().push((now, took));
        });
        if done > 0 {
            self.begun_at = None;
        }
        if self.begun_at.is_none() && now >= self.next_at {
            let key = (self.count / 2 % 1_000).to_le_bytes();
            let op = match self.count % 2 {
                0 => Op::put(&key, &[7; 32]),
                _ => Op::Get { key: &key },
            };
            client.submit(cpu, &op, 0).expect("space in the window");
            self.count += 1;
            (self.begun_at, self.next_at) = (Some(now), now + THINK);
            return Progress::Busy;
        }
        let next_at = if self.begun_at.is_none() {
            self.next_at
        } else {
            Ns::MAX
        };
        Progress::Idle {
            wake_at: client.next_timer().min(next_at),
        }
    }
}

/// The server's shard, which steps on its core and is looked at by the test.
struct Open<S>(Rc<RefCell<S>>, LocalListener);

impl<S: Shard<Sim>> Actor<VirtualCpu> for Open<S> {
    fn step(&mut self, cpu: &VirtualCpu) -> Progress {
        let mut shard = self.0.borrow_mut();
        while let Some(stream) = self.1.accept() {
            shard.adopt(stream);
        }
        shard.step(cpu)
    }
}

struct Cluster<S: ShardedSystem> {
    shard: Rc<RefCell<S::Shard<Sim>>>,
    cores: Vec<Rc<SimContext>>,
    ended: Vec<Ended>,
    world: World,
}

impl<S: ShardedSystem> Cluster<S> {
    fn new() -> Cluster<S> {
        let world = World::new(Profile::named("rfp").expect("a profile"), 1 + CLIENTS, 1);
        let sizes = Sizes {
            shard_count: 1,
            capacity: Capacity::Memory { bytes: 1 << 22 },
            value_bytes_max: 1000,
            window: 1,
        };
        let plan = S::plan(&sizes).expect("enough memory");
        let shard = Shard::open(
            &world.device(0),
            &plan,
            0,
            HashSeed::new(1, 2),
            &Default::default(),
        )
        .expect("a shard");
        let shard: Rc<RefCell<S::Shard<Sim>>> = Rc::new(RefCell::new(shard));
        let listener = LocalListener::new();
        let context = shard.borrow().context();
        world.spawn(&context, Box::new(Open(shard.clone(), listener.clone())));
        let mut cluster = Cluster {
            shard,
            cores: Vec::new(),
            ended: Vec::new(),
            world,
        };
        for index in 0..CLIENTS {
            let core = cluster.world.device(1 + index).context();
            let core = Rc::new(core.expect("a core"));
            let dials = vec![Dial::at(&listener)];
            let looper = Looper {
                client: S::Client::<Sim>::open(core.clone(), dials, &ConnectOptions::default()),
                begun_at: None,
                // Not all at the same time.
                next_at: Ns(17_300 * index as u64),
                count: 0,
                ended: Ended::default(),
            };
            cluster.ended.push(looper.ended.clone());
            cluster.world.spawn(&core, Box::new(looper));
            cluster.cores.push(core);
        }
        cluster.world.run_for(Ns::from_ms(500));
        assert_eq!(cluster.clients(), CLIENTS);
        cluster
    }

    fn clients(&self) -> usize {
        self.shard.borrow().client_count()
    }

    /// 99th percentile of the latencies of all clients but the first from `from` to `until`.
    fn p99(&self, from: Ns, until: Ns) -> Ns {
        let others = self.ended[1..].iter();
        let mut took: Vec<Ns> = others
            .flat_map(|ended| ended.borrow().clone())
            .filter(|(at, _)| (from..until).contains(at))
            .map(|(_, took)| took)
            .collect();
        took.sort_unstable();
        assert!(took.len() > 1_000, "{} operations", took.len());
        took[took.len() * 99 / 100]
    }

    /// Time until the server has given the first client up, at most `longest`.
    fn given_up(&self, longest: Ns) -> Ns {
        let from = self.world.now();
        let waits = self.world.run_while(from + longest, || self.clients() == CLIENTS);
        assert!(!waits, "{longest} after its end, the client has a session");
        self.world.now().since(from)
    }

    /// Nobody else's latencies have changed in the seconds from `departed` on.
    fn others_did_not_notice(&self, departed: Ns) {
        let before = self.p99(Ns::from_ms(100), departed);
        let mut from = departed;
        while from < self.world.now() {
            let until = from + Ns::from_ms(500);
            let after = self.p99(from, until);
            let ratio = after.0 as f64 / before.0 as f64;
            println!(
                "{}: p99 {before} before, {after} after {}",
                S::FACTS.name,
                from.since(departed)
            );
            assert!((0.95..=1.05).contains(&ratio), "p99 was {before}, and is {after}");
            from = until;
        }
    }
}

/// The first client is killed: its machine is gone, and with it its control channel.
struct IsKilled;

impl ShardedJob for IsKilled {
    type Answer = ();

    fn run<S: ShardedSystem>(self) {
        let cluster = Cluster::<S>::new();
        let departed = cluster.world.now();
        cluster.world.crash(1);
        let after = cluster.given_up(Ns::from_s(4));
        println!("{}: reclaimed {after} after its client was killed", S::FACTS.name);
        cluster.world.run_until(departed + Ns::from_s(1));
        cluster.others_did_not_notice(departed);
    }
}

/// The first client stops and goes on: nobody tells the server.
struct IsStopped;

impl ShardedJob for IsStopped {
    type Answer = ();

    fn run<S: ShardedSystem>(self) {
        let cluster = Cluster::<S>::new();
        let departed = cluster.world.now();
        cluster.world.stall(&cluster.cores[0], Ns::from_s(6));
        let after = cluster.given_up(Ns::from_s(5));
        println!(
            "{}: reclaimed {after} after its client had stopped",
            S::FACTS.name
        );
        cluster.world.run_until(departed + Ns::from_s(6));
        let count = cluster.ended[0].borrow().len();
        cluster.world.run_for(Ns::from_s(1));
        assert_eq!(cluster.clients(), CLIENTS, "it is back");
        assert!(cluster.ended[0].borrow().len() > count + 1_000, "and goes on");
        cluster.others_did_not_notice(departed);
    }
}

fn with<J: ShardedJob>(system: &str, job: J) -> J::Answer {
    let system = System::named(system).expect("in the table");
    system.sharded(job).ok().expect("a system of shards")
}

#[test]
fn rfp_a_killed_client_is_reclaimed_and_others_do_not_notice() {
    with("jakiro", IsKilled);
    with("server-reply", IsKilled);
}

#[test]
fn rfp_a_stopped_client_is_reclaimed_and_goes_on_and_others_do_not_notice() {
    with("jakiro", IsStopped);
    with("server-reply", IsStopped);
}
