//! What an operation costs a one-sided system's client or server, in instructions: `one_sided_instructions SYSTEM get|put|idle
//! COUNT`, to be run under callgrind with `--toggle-collect='one_sided_instructions::turn*'` (the client, with the posting over
//! shared memory and the loop around it) or `--toggle-collect='one_sided_instructions::serve*'` (the server). `idle` counts server steps
//! that find nothing to do, `tick` those whose clock has moved, `poll` counts the client's polls, and `late` GETs whose server does
//! nothing before the client has polled 20 times, `turns` GETs that take turns with their READs. `get-1` and so on are the same with
//! one operation in flight instead of 16, `poll-1x6` is with six shards
//! and `idle-1x1x9` with nine clients. Without callgrind it says how long an operation takes.
//!
//! Shared memory, one process, one shard, window 16, 16-byte keys, 32-byte values, 10,000 keys, all hits.

use drover_base::{Actor, Cpu, HashKind, HashSeed, Ns};
use drover_control::{Dial, LocalListener};
use drover_kv::{
    Capacity, Channels, Completion, ConnectOptions, FetchChoice, KvClient, Op, Outcome, ServiceClient, Shard,
    ShardPlan, ShardedJob, ShardedSystem, SystemTable, TablePlan,
};
use drover_mem::{NativeCpu, PageWish};
use drover_systems::System;
use drover_verbs::{Context, Device, Provider};
use drover_verbs_shm::{Shm, ShmDevice};
use std::rc::Rc;

const WINDOW: usize = 16;
/// Polls of the client before the server answers, if it is late: fewer than a client makes before it pauses.
const LATE_POLLS: usize = 20;
/// Turns without a result after which time goes on.
const QUIET_TURNS: u32 = 100;
const KEYS: usize = 10_000;
const ENTRIES: usize = 1 << 14;
const VALUE: [u8; 32] = [7; 32];

/// Where a run is.
#[derive(Default)]
struct Progress {
    sent: usize,
    good: usize,
    /// Operations in flight.
    window: usize,
}

/// The client's part: the window is filled, and what has been answered is looked at.
#[inline(never)]
fn turn<C: KvClient<Shm>>(
    client: &mut C,
    cpu: &NativeCpu,
    put: bool,
    keys: &[[u8; 16]],
    count: usize,
    at: &mut Progress,
) {
    while at.sent < count && client.in_flight() < at.window {
        let key = &keys[at.sent % KEYS];
        let op = match put {
            true => Op::put(key, &VALUE),
            false => Op::Get { key },
        };
        client.submit(cpu, &op, 0).expect("the window has space");
        at.sent += 1;
    }
    let mut count = |completion: Completion<'_>| {
        at.good += usize::from(matches!(completion.outcome, Outcome::Stored | Outcome::Value(_)));
    };
    client.poll(cpu, &mut count);
}

/// The server's part.
#[inline(never)]
fn serve<S: Actor<NativeCpu>>(server: &mut S, cpu: &NativeCpu) {
    server.step(cpu);
}

/// What is measured, and among how many.
#[derive(Clone, Copy)]
struct Sizes {
    /// Operations in flight.
    window: usize,
    shards: usize,
    /// Clients; all but the first do nothing.
    clients: usize,
    /// Polls of the client before each step of the servers.
    polls: usize,
    /// Time between two looks of a server at its control channels.
    look_every: Ns,
    /// Whether calls take turns with their READs.
    takes_turns: bool,
}

impl Sizes {
    /// The operation in `text`, and what follows it after a `-`.
    fn parse(text: &str) -> (&str, Sizes) {
        let (operation, rest) = text.split_once('-').unwrap_or((text, ""));
        let mut numbers = rest.split('x').map(|number| number.parse().ok());
        let mut number = |default| numbers.next().flatten().unwrap_or(default);
        let sizes = Sizes {
            window: number(WINDOW),
            shards: number(1),
            clients: number(1),
            polls: if operation == "late" { LATE_POLLS } else { 1 },
            look_every: match operation {
                "tick" => Ns::from_ms(100),
                _ => Ns::from_us(20),
            },
            takes_turns: operation == "turns",
        };
        (operation, sizes)
    }
}

type Core = Rc<<Shm as Provider>::Context>;

/// Servers and clients in one thread.
struct Pair<S: ShardedSystem> {
    servers: Vec<(S::Shard<Shm>, Core)>,
    clients: Vec<(S::Client<Shm>, Core)>,
    keys: Vec<[u8; 16]>,
    sizes: Sizes,
}

impl<S: ShardedSystem> Pair<S> {
    fn connect(sizes: Sizes) -> Pair<S> {
        let device = ShmDevice::default();
        let plan = ShardPlan {
            look_every: sizes.look_every,
            ..plan::<S>(sizes.shards)
        };
        let common = Default::default();
        let open = |index| {
            let server = <S::Shard<Shm> as Shard<Shm>>::open(
                &device,
                &plan,
                index,
                HashSeed::of(HashKind::Aes, 1, 2),
                &common,
            );
            let server = server.expect("a server");
            let ctx = server.context();
            (server, ctx)
        };
        let mut pair = Pair::<S> {
            servers: (0..sizes.shards).map(open).collect(),
            clients: Vec::new(),
            keys: (0..KEYS as u64).map(key).collect(),
            sizes,
        };
        for _ in 0..sizes.clients {
            pair.enter(&device);
        }
        // From here on time stands still, so control channels are not looked at again and every run is the same.
        pair.sizes.polls = 1;
        pair.run(true, KEYS);
        Pair { sizes, ..pair }
    }

    /// Connects one more client.
    fn enter(&mut self, device: &ShmDevice) {
        let ctx = Rc::new(device.context().expect("a context"));
        let listeners: Vec<_> = self.servers.iter().map(|_| LocalListener::new()).collect();
        let options = ConnectOptions {
            window: self.sizes.window,
            // Results that are late are not pushed for that.
            fetch: (self.sizes.polls > 1 || self.sizes.takes_turns).then_some(FetchChoice {
                slow_reads: u32::MAX,
                first_bytes: VALUE.len(),
                takes_turns: self.sizes.takes_turns,
            }),
            ..ConnectOptions::default()
        };
        let dials = listeners.iter().map(Dial::at).collect();
        let mut client = S::Client::<Shm>::open(ctx.clone(), dials, &options);
        while !client.is_ready() {
            ctx.cpu().refresh();
            client.poll(ctx.cpu(), &mut |_| {});
            for ((server, ctx), listener) in self.servers.iter_mut().zip(&listeners) {
                if let Some(stream) = listener.accept() {
                    server.adopt(stream);
                }
                ctx.cpu().refresh();
                server.step(ctx.cpu());
            }
        }
        self.clients.push((client, ctx));
    }

    fn run(&mut self, put: bool, count: usize) {
        let mut at = Progress {
            window: self.sizes.window,
            ..Progress::default()
        };
        let mut quiet = 0;
        while at.sent < count || self.clients[0].0.in_flight() > 0 {
            let good = at.good;
            for _ in 0..self.sizes.polls {
                let (client, ctx) = &mut self.clients[0];
                turn(client, ctx.cpu(), put, &self.keys, count, &mut at);
            }
            self.step();
            quiet = if at.good > good { 0 } else { quiet + 1 };
            // Some operations wait for a time, as where a table grows.
            if quiet == QUIET_TURNS {
                quiet = 0;
                self.clients[0].1.cpu().refresh();
                self.tick();
            }
        }
        assert_eq!(at.good, count, "every operation succeeds");
    }

    fn step(&mut self) {
        for (server, ctx) in &mut self.servers {
            serve(server, ctx.cpu());
        }
    }

    /// A step at a later time.
    fn tick(&mut self) {
        self.servers.iter().for_each(|(_, ctx)| _ = ctx.cpu().refresh());
        self.step();
    }

    fn poll(&mut self, count: usize) {
        let (client, ctx) = &mut self.clients[0];
        for _ in 0..count {
            turn(client, ctx.cpu(), false, &self.keys, 0, &mut Progress::default());
        }
    }

    fn measure(mut self, operation: &str, count: usize) {
        let cpu = self.servers[0].1.clone();
        let before = cpu.cpu().refresh();
        match operation {
            "get" | "late" | "turns" => self.run(false, count),
            "put" | "update" => self.run(true, count),
            "idle" => (0..count).for_each(|_| self.step()),
            "tick" => (0..count).for_each(|_| self.tick()),
            "poll" => self.poll(count),
            other => panic!("no operation {other}"),
        }
        let took = cpu.cpu().refresh().since(before);
        println!("{:.1} ns per operation", took.0 as f64 / count as f64);
    }
}

fn key(index: u64) -> [u8; 16] {
    let mut key = *b"key-000000000000";
    key[8..].copy_from_slice(&drover_base::mix(index).to_le_bytes());
    key
}

/// Shards whose records are used again at once, because time stands still.
fn plan<S: ShardedSystem>(shard_count: usize) -> ShardPlan {
    let sizes = drover_kv::Sizes {
        shard_count,
        capacity: Capacity::Items {
            count: KEYS as u64,
            key_bytes: 16,
        },
        value_bytes_max: VALUE.len(),
        window: WINDOW,
    };
    let usual = S::plan(&sizes).expect("a plan by items has the memory it needs");
    ShardPlan {
        table: TablePlan::fixed(usual.table.shape, ENTRIES),
        record_bytes: 4 << 20,
        item_bytes_max: 1 << 20,
        // What they are measured for is what they have in common, lists in the order of use among it.
        evicts: S::FACTS.channels == Channels::OneShard,
        pages: PageWish::Small,
        grace: Ns::ZERO,
        ..usual
    }
}

/// What was asked for.
struct Measure {
    operation: String,
    count: usize,
}

impl ShardedJob for Measure {
    type Answer = ();

    fn run<S: ShardedSystem>(self) {
        let (operation, sizes) = Sizes::parse(&self.operation);
        Pair::<S>::connect(sizes).measure(operation, self.count);
    }
}

fn main() {
    let mut args = std::env::args().skip(1);
    let mut arg = || args.next().unwrap_or_default();
    let (system, operation) = (arg(), arg());
    let count = arg().parse().unwrap_or(100_000);
    let system = System::named(&system).expect("the name of a system");
    let done = system.sharded(Measure { operation, count });
    assert!(done.is_ok(), "{system} has no shards");
}
