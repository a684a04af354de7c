//! As many workers as a server may have: everything about them fits into the messages of the handshake, which
//! carry descriptors through a real socket. In a process of its own, because it opens many files.

use drover_base::{Actor, Cpu, Ns};
use drover_control::{ControlAddr, ControlListener};
use drover_kv::{KvClient, Op, Outcome};
use drover_kv_herd::client::{ClientOptions, Dial, HerdClient};
use drover_kv_herd::control::{FrontEnd, PARTITIONS_MAX};
use drover_kv_herd::server::{Acceptor, ClientLimits, Server, ServerOptions, Worker};
use drover_store::PartitionOptions;
use drover_testkit::alone::alone;
use drover_verbs::{Context, Device};
use drover_verbs_shm::{Shm, ShmContext, ShmDevice};
use rustix::process::{Resource, getrlimit, setrlimit};
use std::rc::Rc;

/// Descriptors that a partition with one client takes, both ends in this process.
const FDS_PER_PARTITION: u64 = 12;

/// As many partitions as there may be, or as this machine has descriptors for.
fn partition_count() -> usize {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).expect("up to the hard limit");
    let fds = limit.current.unwrap_or(u64::MAX);
    PARTITIONS_MAX.min((fds.saturating_sub(100) / FDS_PER_PARTITION) as usize)
}

/// A look at the replies takes 32 of them, and a request may be answered 6 times, once for each attempt: 360 looks for
/// 1920 requests. Ten times that is a request that nobody answers.
const ROUNDS_MAX: u32 = 3600;

struct World {
    listener: ControlListener,
    acceptor: Acceptor<Shm>,
    workers: Vec<Worker<Shm>>,
    client: HerdClient<Shm>,
    ctx: Rc<ShmContext>,
}

impl World {
    fn step(&mut self) {
        if let Ok(Some(stream)) = self.listener.accept() {
            self.acceptor.adopt(stream);
        }
        let ctx = self.acceptor.context();
        ctx.cpu().refresh();
        self.acceptor.step(ctx.cpu());
        for worker in &mut self.workers {
            let ctx = worker.context();
            ctx.cpu().refresh();
            worker.step(ctx.cpu());
        }
        self.ctx.cpu().refresh();
    }
}

fn serves_every_partition(partition_count: usize, front_end: FrontEnd) {
    let device = ShmDevice::default();
    let options = ServerOptions {
        partition_count,
        partition: PartitionOptions {
            log_bytes: 1 << 16,
            bucket_count: 1 << 8,
            ..PartitionOptions::default()
        },
        clients: ClientLimits {
            datagram_recvs: 8,
            ..ClientLimits::default()
        },
        idle_sweeps: 1,
        ..ServerOptions::default()
    };
    let (acceptor, workers) = Server::<Shm>::in_pieces(&device, &options).expect("a server");
    let path = std::env::temp_dir().join(format!("drover-many-{}-{front_end:?}.sock", std::process::id()));
    let addr: ControlAddr = format!("unix:{}", path.display()).parse().expect("an address");
    let ctx = Rc::new(device.context().expect("a context"));
    let wishes = ClientOptions {
        window: 4,
        slot_bytes: 64,
        front_end,
        // One thread is all workers and the client, so the system decides how long a round takes (12 s were seen).
        // What must not happen is told by counting rounds.
        deadline: Ns::MAX,
        ..ClientOptions::default()
    };
    let mut world = World {
        listener: ControlListener::bind(&addr).expect("a free address"),
        acceptor,
        workers,
        client: HerdClient::new(ctx.clone(), Dial::to(addr), wishes),
        ctx: ctx.clone(),
    };
    for _ in 0..10_000 {
        if world.client.is_ready() {
            break;
        }
        world.client.poll(ctx.cpu(), &mut |_| {});
        world.step();
    }
    assert!(world.client.is_ready(), "{:?}", world.client.take_error());
    let (mut done, mut next) = (0, 0u32);
    let count = 8 * partition_count as u32;
    for round in 0.. {
        if done == count {
            break;
        }
        assert!(round < ROUNDS_MAX, "{done} of {count} after {round} rounds");
        while next < count {
            let key = next.to_le_bytes();
            let op = Op::put(&key, b"v");
            if world.client.submit(ctx.cpu(), &op, next.into()).is_err() {
                break;
            }
            next += 1;
        }
        world.client.poll(ctx.cpu(), &mut |completion| {
            assert_eq!(completion.outcome, Outcome::Stored);
            done += 1;
        });
        world.step();
    }
    let idle = world
        .workers
        .iter()
        .filter(|worker| worker.counters().operations.puts == 0);
    assert!(
        idle.count() <= 1,
        "8 keys each, and all but the unluckiest has some"
    );
}

#[test]
fn a_server_may_have_as_many_workers_as_it_says() {
    alone(
        "many_partitions::a_server_may_have_as_many_workers_as_it_says",
        || {
            let partition_count = partition_count();
            assert!(partition_count > 16, "too few descriptors to tell anything");
            serves_every_partition(partition_count, FrontEnd::Slots);
            serves_every_partition(partition_count, FrontEnd::Datagrams);
        },
    );
}
