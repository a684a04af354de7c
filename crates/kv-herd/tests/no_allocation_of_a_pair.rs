//! No allocation per operation on either side: server and client on shared memory, in one thread, under an allocator that
//! counts. Control messages and set-up may allocate; GETs and PUTs of small items may not, on either side.

use drover_base::{Actor, Cpu};
use drover_kv::{KvClient, Op, Outcome};
use drover_kv_herd::client::{ClientOptions, Dial, HerdClient};
use drover_kv_herd::server::{Acceptor, Server, ServerOptions, Worker};
use drover_mem::CountingAlloc;
use drover_rt::control::ControlStream;
use drover_store::PartitionOptions;
use drover_verbs::{Context, Device};
use drover_verbs_shm::{Shm, ShmDevice};
use std::rc::Rc;
use std::sync::{Arc, Mutex};

#[global_allocator]
static ALLOC: CountingAlloc = CountingAlloc::new();

const KEYS: u64 = 1000;
const WINDOW: usize = 16;

struct Pair {
    acceptor: Acceptor<Shm>,
    worker: Worker<Shm>,
    client: HerdClient<Shm>,
    ctx: Rc<<Shm as drover_verbs::Provider>::Context>,
}

impl Pair {
    fn new() -> Pair {
        let device = ShmDevice::default();
        let options = ServerOptions {
            partition: PartitionOptions {
                log_bytes: 1 << 21,
                bucket_count: 1 << 11,
                ..PartitionOptions::default()
            },
            idle_sweeps: 1,
            ..ServerOptions::default()
        };
        let (mut acceptor, mut workers) = Server::<Shm>::in_pieces(&device, &options).expect("a server");
        let worker = workers.remove(0);
        let ctx = Rc::new(device.context().expect("a context"));
        let knocking: Arc<Mutex<Vec<ControlStream>>> = Arc::default();
        let door = knocking.clone();
        let dial = Dial::new(move || {
            let (ours, theirs) = ControlStream::pair();
            door.lock().expect("not poisoned").push(theirs);
            Ok(ours)
        });
        let options = ClientOptions {
            window: WINDOW,
            slot_bytes: 128,
            ..ClientOptions::default()
        };
        let mut client = HerdClient::new(ctx.clone(), dial, options);
        client.poll(ctx.cpu(), &mut |_| {});
        for stream in knocking.lock().expect("not poisoned").drain(..) {
            acceptor.adopt(stream);
        }
        let mut pair = Pair {
            acceptor,
            worker,
            client,
            ctx,
        };
        for _ in 0..1_000_000 {
            pair.ctx.cpu().refresh();
            pair.client.poll(pair.ctx.cpu(), &mut |_| {});
            if pair.client.is_ready() {
                return pair;
            }
            pair.step_server(true);
        }
        panic!("no connection: {:?}", pair.client.take_error());
    }

    fn step_server(&mut self, control: bool) {
        if control {
            let ctx = self.acceptor.context();
            ctx.cpu().refresh();
            self.acceptor.step(ctx.cpu());
        }
        let ctx = self.worker.context();
        ctx.cpu().refresh();
        self.worker.step(ctx.cpu());
    }

    /// `count` operations, every twentieth a PUT; returns how many GETs hit.
    fn run(&mut self, count: u64, mut each: impl FnMut()) -> u64 {
        let (mut submitted, mut done, mut hits) = (0u64, 0u64, 0u64);
        let value = [7; 32];
        while done < count {
            self.ctx.cpu().refresh();
            while submitted < count {
                let mut key = *b"key-000000000000";
                key[8..].copy_from_slice(&(submitted % KEYS).to_le_bytes());
                let op = if submitted.is_multiple_of(20) || submitted < KEYS {
                    Op::Put {
                        key: &key,
                        value: &value,
                        ttl_s: 0,
                    }
                } else {
                    Op::Get { key: &key }
                };
                if self.client.submit(self.ctx.cpu(), &op, submitted).is_err() {
                    break;
                }
                submitted += 1;
                each();
            }
            self.client.poll(self.ctx.cpu(), &mut |completion| {
                done += 1;
                hits += u64::from(matches!(completion.outcome, Outcome::Value(_)));
            });
            self.step_server(false);
        }
        hits
    }
}

/// Allocations of `count` operations after `count` to warm up, with `each` called per operation.
fn allocations(count: u64, each: impl FnMut()) -> u64 {
    let mut pair = Pair::new();
    assert!(pair.run(count, || {}) > 0, "GETs hit");
    let before = ALLOC.count();
    pair.run(count, each);
    ALLOC.count() - before
}

/// One test, one thread: the counter is the process's.
#[test]
fn gets_and_puts_do_not_allocate() {
    let few = allocations(50_000, || {});
    // The control channel is looked at every millisecond or so and may allocate: a handful, not per operation.
    assert!(few < 100, "{few} allocations in 50,000 operations");
    // The canary: an allocation in one operation of a hundred is noticed.
    let mut n = 0u64;
    let planted = allocations(50_000, || {
        n += 1;
        if n.is_multiple_of(100) {
            drop(std::hint::black_box(Box::new(n)));
        }
    });
    assert!(
        planted >= 500,
        "the planted allocations were not counted: {planted}"
    );
    println!("{few} allocations in 50,000 operations, {planted} with one planted per hundred");
}
