//! What an operation costs a one-sided system's client or server, in instructions: `one_sided_instructions SYSTEM get|put|idle
//! COUNT`, to be run under callgrind with `--toggle-collect='one_sided_instructions::turn*'` (the client, with the posting over
//! shared memory and the loop around it) or `--toggle-collect='one_sided_instructions::serve*'` (the server). `idle` counts server steps
//! that find nothing to do. Without callgrind it says how long an operation takes.
//!
//! Shared memory, one process, window 16, 16-byte keys, 32-byte values, 10,000 keys, all hits.

use drover_base::{Actor, Cpu, HashSeed, Ns};
use drover_control::{Dial, LocalListener};
use drover_kv::{
    Capacity, Completion, ConnectOptions, KvClient, Op, Outcome, ServiceClient, Shard, ShardPlan, ShardedJob,
    ShardedSystem, Sizes, SystemTable, TablePlan,
};
use drover_mem::{NativeCpu, PageWish};
use drover_systems::System;
use drover_verbs::{Context, Device, Provider};
use drover_verbs_shm::{Shm, ShmDevice};
use std::rc::Rc;

const WINDOW: usize = 16;
const KEYS: usize = 10_000;
const ENTRIES: usize = 1 << 14;
const VALUE: [u8; 32] = [7; 32];

/// Where a run is.
#[derive(Default)]
struct Progress {
    sent: usize,
    good: usize,
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
    while at.sent < count && client.in_flight() < WINDOW {
        let key = &keys[at.sent % KEYS];
        let op = match put {
            true => Op::Put {
                key,
                value: &VALUE,
                ttl_s: 0,
            },
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

/// A server and a client in one thread.
struct Pair<S: ShardedSystem> {
    server: S::Shard<Shm>,
    server_ctx: Rc<<Shm as Provider>::Context>,
    client: S::Client<Shm>,
    ctx: Rc<<Shm as Provider>::Context>,
    keys: Vec<[u8; 16]>,
}

impl<S: ShardedSystem> Pair<S> {
    fn connect() -> Pair<S> {
        let device = ShmDevice::default();
        let (plan, seed) = (plan::<S>(), HashSeed::new(1, 2));
        let server = <S::Shard<Shm> as Shard<Shm>>::open(&device, &plan, 0, seed, &Default::default());
        let server = server.expect("a server");
        let ctx = Rc::new(device.context().expect("a context"));
        let listener = LocalListener::new();
        let options = ConnectOptions {
            window: WINDOW,
            ..ConnectOptions::default()
        };
        let mut pair = Pair::<S> {
            server_ctx: server.context(),
            server,
            client: S::Client::<Shm>::open(ctx.clone(), vec![Dial::at(&listener)], &options),
            ctx,
            keys: (0..KEYS as u64).map(key).collect(),
        };
        while !pair.client.is_ready() {
            pair.ctx.cpu().refresh();
            pair.client.poll(pair.ctx.cpu(), &mut |_| {});
            if let Some(stream) = listener.accept() {
                pair.server.adopt(stream);
            }
            pair.server_ctx.cpu().refresh();
            pair.server.step(pair.server_ctx.cpu());
        }
        // From here on time stands still, so control channels are not looked at again and every run is the same.
        pair
    }

    fn run(&mut self, put: bool, count: usize) {
        let mut at = Progress::default();
        while at.sent < count || self.client.in_flight() > 0 {
            turn(&mut self.client, self.ctx.cpu(), put, &self.keys, count, &mut at);
            if put {
                serve(&mut self.server, self.server_ctx.cpu());
            }
        }
        assert_eq!(at.good, count, "every operation succeeds");
    }

    fn idle(&mut self, count: usize) {
        for _ in 0..count {
            serve(&mut self.server, self.server_ctx.cpu());
        }
    }

    fn measure(mut self, operation: &str, count: usize) {
        self.run(true, KEYS);
        let before = self.ctx.cpu().refresh();
        match operation {
            "get" => self.run(false, count),
            "put" => self.run(true, count),
            "idle" => self.idle(count),
            other => panic!("no operation {other}"),
        }
        let took = self.ctx.cpu().refresh().since(before);
        println!("{:.1} ns per operation", took.0 as f64 / count as f64);
    }
}

fn key(index: u64) -> [u8; 16] {
    let mut key = *b"key-000000000000";
    key[8..].copy_from_slice(&drover_base::mix(index).to_le_bytes());
    key
}

/// One shard whose records are used again at once, because time stands still.
fn plan<S: ShardedSystem>() -> ShardPlan {
    let sizes = Sizes {
        shard_count: 1,
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
        evicts: false,
        pages: PageWish::Small,
        grace: Ns::ZERO,
        look_every: Ns::from_us(20),
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
        Pair::<S>::connect().measure(&self.operation, self.count);
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
