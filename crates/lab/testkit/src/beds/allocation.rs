//! [`allocates_nothing`]: checks that GETs and PUTs of a system of shards allocate nothing, in client, server and
//! provider.

use super::shards::ShardOptions;
use drover_base::{Actor, Cpu};
use drover_control::{Dial, LocalListener};
use drover_kv::{Completion, ConnectOptions, KvClient, Op, Outcome, ServiceClient, Shard, ShardedSystem};
use drover_mem::CountingAlloc;
use drover_verbs::{Context, Device};
use drover_verbs_shm::{Shm, ShmDevice};
use std::rc::Rc;

const KEYS: u64 = 64;
const WINDOW: usize = 8;
/// Operations before counting begins: enough for every buffer to reach its final size.
const WARM_UP: u64 = 20_000;
const COUNTED: u64 = 4_096;

/// A server and a client in one thread.
struct Pair<S: ShardedSystem> {
    server: S::Shard<Shm>,
    client: S::Client<Shm>,
    ctx: Rc<<Shm as drover_verbs::Provider>::Context>,
    failed: u64,
}

impl<S: ShardedSystem> Pair<S> {
    fn new(options: &ShardOptions<S, Shm>) -> Pair<S> {
        let device = ShmDevice::default();
        let listener = LocalListener::new();
        let ctx = Rc::new(device.context().expect("a context"));
        let dials = vec![Dial::at(&listener)];
        let mut pair = Pair::<S> {
            server: <S::Shard<Shm> as Shard<Shm>>::with_options(&device, options, &Default::default())
                .expect("a shard"),
            client: S::Client::<Shm>::open(ctx.clone(), dials, &ConnectOptions::default()),
            ctx,
            failed: 0,
        };
        while !pair.client.is_ready() {
            if let Some(stream) = listener.accept() {
                pair.server.adopt(stream);
            }
            pair.turn();
        }
        pair
    }

    fn turn(&mut self) {
        self.ctx.cpu().refresh();
        let failed = &mut self.failed;
        let mut take = |completion: Completion<'_>| {
            *failed += u64::from(!matches!(completion.outcome, Outcome::Stored | Outcome::Value(_)));
        };
        self.client.poll(self.ctx.cpu(), &mut take);
        let core = self.server.context();
        core.cpu().refresh();
        self.server.step(core.cpu());
    }

    fn ask(&mut self, put: bool, count: u64) {
        for number in 0..count {
            let key = (number % KEYS).to_le_bytes();
            let op = match put {
                true => Op::put(&key, &[7; 32]),
                false => Op::Get { key: &key },
            };
            while self.client.in_flight() >= WINDOW {
                self.turn();
            }
            self.client.submit(self.ctx.cpu(), &op, number).expect("space");
        }
        while self.client.in_flight() > 0 {
            self.turn();
        }
    }
}

/// Checks that, after a warm-up, PUTs and GETs of a client and a shard with `options`, in one thread over shared
/// memory, allocate nothing. `alloc` must be the global allocator of the program.
///
/// # Panics
/// If something is allocated, an operation fails, or `alloc` is not the global allocator.
pub fn allocates_nothing<S: ShardedSystem>(alloc: &CountingAlloc, options: &ShardOptions<S, Shm>) {
    let mut pair = Pair::<S>::new(options);
    for put in [true, false] {
        pair.ask(put, WARM_UP);
        let before = alloc.count();
        pair.ask(put, COUNTED);
        assert_eq!(alloc.count() - before, 0, "put: {put}");
    }
    assert_eq!(pair.failed, 0);
    let before = alloc.count();
    drop(std::hint::black_box(Box::new(0)));
    assert!(alloc.count() > before, "one that allocates is noticed");
}
