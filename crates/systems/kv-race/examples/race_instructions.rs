//! Instructions of an operation of a client: `race_instructions get|miss|update|both|hot COUNT [TASKS]`, to be
//! run under callgrind with `--toggle-collect='race_instructions::turn*'`, which leaves out the memory node and the lease.
//! `both` is an insertion and a deletion, `hot` an update of a key that all tasks update. Without callgrind it prints nanoseconds per operation.
//!
//! Shared memory, one thread, one node, 8-byte keys and values; `docs/race-costs.md` says what is made of the counts.

use drover_base::{Actor, Cpu, HashSeed, Ns};
use drover_control::{Dial, LocalListener};
use drover_index::race::Shape;
use drover_kv_race::{ItemMeta, POOL_KIND, Race, RaceOptions, TableHeader};
use drover_mem::NativeCpu;
use drover_memnode::node::{Node, NodeOptions};
use drover_memnode::{Arena, Lease, LeaseTimes, Opening, PoolMembership, PoolOptions};
use drover_rt::{ConflictOptions, Posting, TaskOptions, TaskPool};
use drover_verbs::{Context, Device, DomainOptions};
use drover_verbs_shm::{Shm, ShmDevice, ShmOptions};
use std::cell::Cell;
use std::rc::Rc;

const KEYS: u64 = 10_000;
/// Keys that insertions and deletions take turns with.
const OTHER_KEYS: u64 = 64;
const VALUE: [u8; 8] = [7; 8];
const META: ItemMeta = ItemMeta {
    flags: 0,
    expire_s: 0,
};

/// A step of the client's thread: the only thing that is counted.
#[inline(never)]
fn turn(tasks: &mut TaskPool<Shm>, cpu: &NativeCpu) {
    tasks.step(cpu);
}

fn key(index: u64) -> [u8; 8] {
    drover_base::mix(index).to_le_bytes()
}

/// Everything in one thread.
struct Bed {
    node: Node<Shm>,
    node_ctx: Rc<<Shm as drover_verbs::Provider>::Context>,
    lease: Lease<Shm>,
    tasks: TaskPool<Shm>,
    ctx: Rc<<Shm as drover_verbs::Provider>::Context>,
    race: Race<Shm>,
}

impl Bed {
    fn open(task_count: usize) -> Bed {
        let device = ShmDevice::open(ShmOptions::default());
        let place = PoolMembership {
            pool: 1,
            index: 0,
            count: 1,
            kind: POOL_KIND,
        };
        let options = NodeOptions {
            look_every: Ns::from_us(20),
            times: LeaseTimes {
                renew_every: Ns::from_us(100),
                ..LeaseTimes::default()
            },
            place: Some(place),
            ..NodeOptions::new(64 << 20)
        };
        let mut node = Node::<Shm>::new(&device, &options).expect("a node");
        let node_ctx = node.context();
        let listener = LocalListener::new();
        let domain = device.domain(&DomainOptions::default()).expect("a domain");
        let own = listener.clone();
        let dial = Dial::new("node".to_owned(), move || Ok(own.connect()));
        let mut opening =
            Opening::<Shm>::new(&domain, vec![dial], PoolOptions::new(POOL_KIND)).expect("a context");
        let (pool, mut lease) = loop {
            if let Some(opened) = opening.poll(opening.context().cpu().refresh()) {
                break opened.expect("a pool");
            }
            while let Some(stream) = listener.accept() {
                node.adopt(stream);
            }
            node_ctx.cpu().refresh();
            node.step(node_ctx.cpu());
        };
        let ctx = Rc::new(pool.context().expect("a context"));
        let options = TaskOptions {
            task_count_max: task_count.max(1),
            posting: Posting::PerSync,
            conflicts: ConflictOptions::OFF,
            ..TaskOptions::default()
        };
        let mut tasks = TaskPool::<Shm>::new(&ctx, &options).expect("tasks");
        let deadline = ctx.cpu().refresh() + Ns::from_s(5);
        let mut joining = pool.join(&ctx, &tasks, deadline).expect("asked");
        let nodes = loop {
            if let Some(nodes) = joining.poll(&mut tasks, ctx.cpu().refresh()) {
                break nodes.expect("connections");
            }
            node_ctx.cpu().refresh();
            node.step(node_ctx.cpu());
            lease.context().cpu().refresh();
            let cpu = lease.context().clone();
            lease.step(cpu.cpu());
        };
        let (arena, caps, flight) = (Arena::new(&nodes), ctx.caps().clone(), tasks.single_flight());
        let header = TableHeader {
            seed: HashSeed::new(1, 2),
            shape: Shape::new(1 << 13).expect("groups"),
            depth_max: 8,
            item_bytes_max: u32::MAX,
            tables: 1,
            evicts: false,
        };
        let race = Rc::new(Cell::new(None));
        let put = race.clone();
        let opened = tasks.spawn(|cx| async move {
            let options = RaceOptions {
                create: Some(header),
                ..RaceOptions::default()
            };
            let race = Race::open(&cx, &arena, &caps, flight, options).await;
            put.set(Some(race.expect("a table")));
        });
        opened.expect("space");
        let race = loop {
            ctx.cpu().refresh();
            tasks.step(ctx.cpu());
            if let Some(race) = race.take() {
                break race;
            }
        };
        Bed {
            node,
            node_ctx,
            lease,
            tasks,
            ctx,
            race,
        }
    }

    /// Runs `count` operations, `task_count` at a time.
    fn run(&mut self, operation: &str, count: u64, task_count: u64) {
        for task in 0..task_count {
            let (race, operation) = (self.race.clone(), operation.to_owned());
            let spawned = self.tasks.spawn(|cx| async move {
                let mut index = task;
                while index < count {
                    let at = key(index % KEYS);
                    let other = key(KEYS + index / task_count % OTHER_KEYS * task_count + task);
                    let good = match operation.as_str() {
                        "put" => race.put(&cx, &at, &VALUE, META).await.map(|()| true),
                        "get" => race.get(&cx, &at).await.map(|found| found.is_some()),
                        "miss" => race.get(&cx, &other).await.map(|found| found.is_none()),
                        "update" => race.update(&cx, &at, &VALUE, META).await,
                        // One of the two deletes what the other inserts.
                        "both" => match race.add(&cx, &other, &VALUE, META).await {
                            Ok(true) => race.delete(&cx, &other).await,
                            other => other,
                        },
                        "hot" => race.update(&cx, &key(0), &VALUE, META).await,
                        other => panic!("no operation {other}"),
                    };
                    assert!(good.expect("an operation"), "{operation} {index}");
                    index += task_count;
                }
            });
            spawned.expect("space for a task");
        }
        while self.tasks.task_count() > 0 {
            self.ctx.cpu().refresh();
            turn(&mut self.tasks, self.ctx.cpu());
            self.node_ctx.cpu().refresh();
            self.node.step(self.node_ctx.cpu());
            let cpu = self.lease.context().clone();
            cpu.cpu().refresh();
            self.lease.step(cpu.cpu());
        }
    }
}

fn main() {
    let mut args = std::env::args().skip(1);
    let operation = args.next().expect("an operation");
    let mut number = |default| args.next().and_then(|n| n.parse().ok()).unwrap_or(default);
    let (count, task_count) = (number(10_000), number(1));
    let mut bed = Bed::open(task_count as usize);
    bed.run("put", KEYS, task_count);
    let before = (bed.ctx.cpu().refresh(), bed.tasks.stats());
    bed.run(&operation, count, task_count);
    let (took, stats) = (bed.ctx.cpu().refresh().since(before.0), bed.tasks.stats());
    let each = |after: u64, before: u64| (after - before) as f64 / count as f64;
    println!(
        "{:.1} ns, {:.3} suspensions, {:.3} requests, {:.3} lists, {:.3} retries each",
        took.0 as f64 / count as f64,
        each(stats.suspensions, before.1.suspensions),
        each(stats.requests.posted, before.1.requests.posted),
        each(stats.requests.doorbells, before.1.requests.doorbells),
        each(stats.conflicts.retries, before.1.conflicts.retries),
    );
}
