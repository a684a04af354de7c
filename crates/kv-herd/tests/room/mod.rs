//! A HERD server and its clients in a simulated room: every worker and every client is an actor on a virtual core.
#![allow(dead_code, reason = "each of its users looks at some of it")]

use drover_base::{Actor, Cpu, HashSeed, Ns, Progress};
use drover_kv::{Completion, KvClient, Op, Outcome as Answer};
use drover_kv_herd::client::{ClientOptions, Dial, HerdClient};
use drover_kv_herd::server::{Acceptor, Server, ServerOptions};
use drover_mem::PageWish;
use drover_rt::control::ControlStream;
use drover_sim::VirtualCpu;
use drover_store::{Mode, PartitionOptions};
use drover_verbs::Device;
use drover_verbs_sim::profile::Profile;
use drover_verbs_sim::{Report, Sim, World, WorldOptions};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

/// How often the acceptor looks at its channels, which are no part of the modelled network.
const LOOK_EVERY: Ns = Ns::from_us(20);

/// Who asks what.
#[derive(Clone)]
pub struct Setup {
    pub options: WorldOptions,
    pub seed: u64,
    pub partitions: usize,
    /// Clients are dealt out to the machines in turn.
    pub clients: usize,
    pub client_machines: usize,
    pub window: usize,
    /// Of 100 operations, so many are PUTs.
    pub put_percent: u64,
    pub value_bytes: usize,
    pub keys: u64,
}

impl Setup {
    /// The server of the published experiments: six cores, 51 clients on 17 machines, 5 % PUTs, items of 48 bytes.
    pub fn new() -> Setup {
        let profile = Profile::named("apt").expect("a profile");
        let slot_poll = profile.parameters().cpu.slot_poll_ns;
        Setup {
            options: WorldOptions {
                costs: vec![("herd.poll".into(), slot_poll)],
                ..WorldOptions::new(profile)
            },
            seed: 1,
            partitions: 6,
            clients: 51,
            client_machines: 17,
            window: 4,
            put_percent: 5,
            value_bytes: 32,
            keys: 20_000,
        }
    }
}

/// What came of it.
pub struct Outcome {
    pub mops: f64,
    pub latency_us: f64,
    /// Of the GETs, so many found something.
    pub hit_share: f64,
    /// Operations that did not end well.
    pub failed: u64,
    pub report: Report,
    pub trace_hash: u64,
    pub events: u64,
    pub done: u64,
}

#[derive(Default)]
struct Tally {
    done: u64,
    gets: u64,
    hits: u64,
    failed: u64,
    latency_ns: u64,
    ready: usize,
}

type Knocking = Arc<Mutex<Vec<ControlStream>>>;

struct Doorkeeper {
    acceptor: Acceptor<Sim>,
    knocking: Knocking,
}

impl Actor<VirtualCpu> for Doorkeeper {
    fn step(&mut self, cpu: &VirtualCpu) -> Progress {
        for stream in self.knocking.lock().expect("nobody panics with it").drain(..) {
            self.acceptor.adopt(stream);
        }
        let wake_at = cpu.now() + LOOK_EVERY;
        self.acceptor.step(cpu).and(Progress::Idle { wake_at })
    }
}

/// A client that keeps its window full.
struct Asker {
    client: HerdClient<Sim>,
    setup: Rc<Setup>,
    value: Vec<u8>,
    began: Vec<Ns>,
    free: Vec<usize>,
    next: u64,
    was_ready: bool,
    tally: Rc<RefCell<Tally>>,
}

impl Asker {
    fn submit(&mut self, cpu: &VirtualCpu) {
        while let Some(token) = self.free.pop() {
            let random = cpu.random();
            let key = (random >> 8) % self.setup.keys;
            let key = drover_base::mix(key).to_ne_bytes().repeat(2);
            let op = match random % 100 < self.setup.put_percent {
                true => Op::Put {
                    key: &key,
                    value: &self.value,
                    ttl_s: 0,
                },
                false => Op::Get { key: &key },
            };
            if self
                .client
                .submit(
                    cpu,
                    &op,
                    token as u64 * 2 + u64::from(matches!(op, Op::Get { .. })),
                )
                .is_err()
            {
                self.free.push(token);
                return;
            }
            self.began[token] = cpu.now();
            self.next += 1;
        }
    }
}

impl Actor<VirtualCpu> for Asker {
    fn step(&mut self, cpu: &VirtualCpu) -> Progress {
        if self.client.is_ready() {
            if !std::mem::replace(&mut self.was_ready, true) {
                self.tally.borrow_mut().ready += 1;
            }
            self.submit(cpu);
        }
        let (began, free, tally) = (&self.began, &mut self.free, &self.tally);
        let mut take = |completion: Completion<'_>| {
            let (token, is_get) = ((completion.token / 2) as usize, completion.token % 2 == 1);
            let mut tally = tally.borrow_mut();
            tally.done += 1;
            tally.latency_ns += cpu.now().since(began[token]).0;
            tally.gets += u64::from(is_get);
            match completion.outcome {
                Answer::Value(_) => tally.hits += 1,
                Answer::Stored | Answer::NotFound => {}
                _ => tally.failed += 1,
            }
            free.push(token);
        };
        match self.client.poll(cpu, &mut take) {
            0 => Progress::Idle {
                wake_at: self.client.next_timer(),
            },
            _ => Progress::Busy,
        }
    }
}

/// Connects everybody, warms up, measures.
pub fn run(setup: &Setup, warm_up: Ns, measured: Ns) -> Outcome {
    let world = World::with_options(setup.options.clone(), 1 + setup.client_machines, setup.seed);
    let knocking = Knocking::default();
    serve(&world, setup, &knocking);
    let tally = Rc::new(RefCell::new(Tally::default()));
    let shared = Rc::new(setup.clone());
    for client in 0..setup.clients {
        ask(
            &world,
            &shared,
            1 + client % setup.client_machines,
            &knocking,
            &tally,
        );
    }
    let all_ready = || tally.borrow().ready < setup.clients;
    assert!(
        !world.run_while(Ns::from_s(1), all_ready),
        "somebody did not connect"
    );
    world.run_for(warm_up);
    let before = (world.report(), tally.borrow().done, tally.borrow().latency_ns);
    world.run_for(measured);
    let tally = tally.borrow();
    let done = tally.done - before.1;
    Outcome {
        mops: done as f64 / measured.0 as f64 * 1e3,
        latency_us: (tally.latency_ns - before.2) as f64 / done.max(1) as f64 / 1e3,
        hit_share: tally.hits as f64 / tally.gets.max(1) as f64,
        failed: tally.failed,
        report: world.report().since(&before.0),
        trace_hash: world.trace_hash(),
        events: world.events(),
        done: tally.done,
    }
}

fn serve(world: &World, setup: &Setup, knocking: &Knocking) {
    let options = ServerOptions {
        partition_count: setup.partitions,
        partition: PartitionOptions {
            mode: Mode::Cache { move_to_head: 1.0 },
            log_bytes: 4 << 20,
            bucket_count: 1 << 13,
            pages: PageWish::Small,
            ..PartitionOptions::default()
        },
        clients_max: setup.clients,
        hash_seed: Some(HashSeed::new(setup.seed, 7)),
        idle_sweeps: 1,
        ..ServerOptions::default()
    };
    let device = world.device(0);
    let (acceptor, workers) = Server::<Sim>::in_pieces(&device, &options).expect("a server");
    for worker in workers {
        let ctx = worker.context();
        world.spawn(&ctx, Box::new(worker));
    }
    let ctx = acceptor.context();
    let knocking = knocking.clone();
    world.spawn(&ctx, Box::new(Doorkeeper { acceptor, knocking }));
}

fn ask(world: &World, setup: &Rc<Setup>, machine: usize, knocking: &Knocking, tally: &Rc<RefCell<Tally>>) {
    let ctx = Rc::new(world.device(machine).context().expect("this thread's world"));
    let knocking = knocking.clone();
    let dial = Dial::new(move || {
        let (ours, theirs) = ControlStream::pair();
        knocking.lock().expect("nobody panics with it").push(theirs);
        Ok(ours)
    });
    let options = ClientOptions {
        window: setup.window,
        ..ClientOptions::default()
    };
    let asker = Asker {
        client: HerdClient::new(ctx.clone(), dial, options),
        value: vec![7; setup.value_bytes],
        began: vec![Ns::ZERO; setup.window],
        free: (0..setup.window).collect(),
        next: 0,
        was_ready: false,
        tally: tally.clone(),
        setup: setup.clone(),
    };
    world.spawn(&ctx, Box::new(asker));
}
