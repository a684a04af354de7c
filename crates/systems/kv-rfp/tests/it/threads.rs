//! Several workers serve the same keys, on real threads: what they answer is linearizable, and without the locks of the
//! store it is not.

use drover_base::{Cpu, HashSeed, Ns, Rng};
use drover_control::{ControlAddr, ControlListener, Dial};
use drover_kv::{
    Capacity, Completion, ConnectOptions, Facts, KvClient, Op, Outcome, Planted, Service, Sizes, System,
    connect, dials,
};
use drover_kv_rfp::{Flaw, MemcachedVariant, RdmaMemcached, Rfp, Variant};
use drover_mem::{NativeCpu, PageWish, Region};
use drover_rpc::fetch::{Guarded, Transfer};
use drover_store::{FullyGuarded, Key, Mode, PartitionOptions, PutOutcome, StripedGuards, StripedStore};
use drover_testkit::history::{Call, Event, History};
use drover_testkit::kv_conformance::{value_bytes, value_id};
use drover_testkit::linear::Model;
use drover_verbs::{Context, Device, Provider};
use drover_verbs_shm::{Shm, ShmDevice};
use std::fs::File;
use std::io::Read as _;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const THREADS: u64 = 3;
const KEYS: u64 = 4;
const SHARDS: usize = 2;
const WINDOW: usize = 4;

/// A clock that all threads share: it ticks when it is read.
#[derive(Default)]
struct Ticks(AtomicU64);

impl Ticks {
    fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}

fn fresh_seed() -> u64 {
    let seed = NativeCpu::new(0).random();
    println!("seed {seed}");
    seed
}

/// What a thread does next: a key and a call. Identities of values are distinct.
fn draw(rng: &mut Rng, thread: u64, number: u64) -> (u64, Call) {
    let call = match rng.below(10) {
        0..4 => Call::Put(thread << 32 | number),
        4 => Call::Delete(None),
        _ => Call::Get(None),
    };
    (rng.below(KEYS), call)
}

/// Runs `work` in all threads; their histories together, or `None` if one panicked.
fn histories(work: impl Fn(u64) -> History + Sync) -> Option<History> {
    std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| scope.spawn(move || work(thread)))
            .collect();
        let mut all = Some(History::default());
        for thread in threads {
            match (thread.join(), &mut all) {
                (Ok(history), Some(all)) => all.merge(history),
                _ => all = None,
            }
        }
        all
    })
}

/// The threads share a store of this kind. What is wrong with it, if anything.
fn trouble_of_store<G: StripedGuards>(seed: u64, rounds: u64) -> Option<String> {
    let options = PartitionOptions {
        mode: Mode::Lru,
        log_bytes: 1 << 20,
        bucket_count: 4,
        ..PartitionOptions::default()
    };
    let hash_seed = HashSeed::new(seed, 1);
    let bytes = StripedStore::<G>::memory_bytes(&options);
    let region = Region::private(bytes, PageWish::Small).expect("memory");
    let store = StripedStore::<G>::in_region(&options, hash_seed.hasher(), region);
    let ticks = Ticks::default();
    let history = histories(|thread| {
        let (cpu, mut rng) = (NativeCpu::new(thread), Rng::new(seed, thread, 0));
        let mut history = History::default();
        for number in 0..rounds {
            let (key, call) = draw(&mut rng, thread, number);
            let name = key.to_le_bytes();
            let key = Key {
                hash: hash_seed.hash(&name),
                bytes: &name,
            };
            let called_at = ticks.next();
            let call = match call {
                Call::Put(id) => {
                    let value = value_bytes(id, 8 + rng.below(2000) as usize);
                    let put = store.put(&cpu, key, &value, 0, 1);
                    assert!(matches!(put, PutOutcome::Stored { .. }), "{put:?}");
                    Call::Put(id)
                }
                Call::Delete(_) => Call::Delete(Some(store.delete(&cpu, key, 1))),
                _ => Call::Get(store.get(&cpu, key, 1, |item| value_id(&item.to_value()))),
            };
            let returned_at = Some(ticks.next());
            history.push(
                &name,
                Event {
                    client: thread as u32,
                    call,
                    called_at,
                    returned_at,
                },
            );
        }
        history
    });
    match history {
        None => Some("a thread panicked".to_owned()),
        Some(history) => history.check(Model::Cache).err(),
    }
}

#[test]
fn rfp_threads_of_one_store_are_linearizable() {
    let seed = fresh_seed();
    for round in 0..5 {
        let trouble = trouble_of_store::<FullyGuarded>(seed.wrapping_add(round), 4000);
        assert_eq!(trouble, None, "round {round}");
    }
}

/// The planted mistake `unlocked`: a GET lets go of its stripe before it has read the item. Simulated cores step one after
/// the other, so only threads can find it.
#[test]
fn rfp_threads_that_do_not_lock_are_found() {
    struct Unlocked;
    impl StripedGuards for Unlocked {
        const LOCKS: bool = false;
    }
    let seed = fresh_seed();
    let found =
        (0..1000).find(|round| trouble_of_store::<Unlocked>(seed.wrapping_add(*round), 4000).is_some());
    println!("found in round {}", found.expect("trouble in one of 1000 rounds"));
}

/// An operation under way.
struct Pending {
    key: u64,
    call: Call,
    called_at: u64,
}

/// One client's operations over shared memory, a few at a time.
fn play(addr: &ControlAddr, ticks: &Ticks, thread: u64, seed: u64, rounds: u64) -> History {
    const LENGTHS: [usize; 5] = [8, 100, 3000, 9000, 40_000];
    let ctx = Rc::new(ShmDevice::default().context().expect("a context"));
    let ways = dials(&RdmaMemcached::FACTS, addr, SHARDS, None);
    let patience = Ns::from_s(20);
    let options = ConnectOptions {
        deadline: patience,
        ..ConnectOptions::default()
    };
    let mut client: <RdmaMemcached as System>::Client<Shm> =
        connect(&ctx, ways, &options, patience).expect("a session");
    let mut rng = Rng::new(seed, thread, 0);
    let mut history = History::default();
    let mut pending: Vec<Option<Pending>> = (0..WINDOW).map(|_| None).collect();
    let mut number = 0;
    while number < rounds || pending.iter().any(Option::is_some) {
        for (token, place) in pending
            .iter_mut()
            .enumerate()
            .filter(|(_, place)| place.is_none())
        {
            if number == rounds {
                break;
            }
            let (key, call) = draw(&mut rng, thread, number);
            number += 1;
            let name = key.to_le_bytes();
            let value = match call {
                Call::Put(id) => value_bytes(id, LENGTHS[rng.below(LENGTHS.len() as u64) as usize]),
                _ => Vec::new(),
            };
            let op = match call {
                Call::Put(_) => Op::put(&name, &value),
                Call::Delete(_) => Op::delete(&name),
                _ => Op::Get { key: &name },
            };
            let called_at = ticks.next();
            client
                .submit(ctx.cpu(), &op, token as u64)
                .expect("space in the window");
            *place = Some(Pending { key, call, called_at });
        }
        ctx.cpu().refresh();
        let done = client.poll(ctx.cpu(), &mut |done: Completion<'_>| {
            let Pending { key, call, called_at } = pending[done.token as usize]
                .take()
                .expect("an operation under way");
            let call = match (call, done.outcome) {
                (Call::Put(_), Outcome::Stored) => call,
                (Call::Delete(_), Outcome::Deleted) => Call::Delete(Some(true)),
                (Call::Delete(_), Outcome::NotFound) => Call::Delete(Some(false)),
                (Call::Get(_), Outcome::Value(value)) => Call::Get(Some(value_id(value))),
                (Call::Get(_), Outcome::NotFound) => Call::Get(None),
                other => panic!("{other:?}"),
            };
            let event = Event {
                client: thread as u32,
                call,
                called_at,
                returned_at: Some(ticks.next()),
            };
            history.push(&key.to_le_bytes(), event);
        });
        if done == 0 {
            std::thread::yield_now();
        }
    }
    history
}

/// A service of `SHARDS` workers over shared memory, and its address.
fn start<V: Variant>(seed: u64) -> (Box<dyn Service>, ControlAddr) {
    let path = std::env::temp_dir().join(format!("drover-workers-{}-{seed}", std::process::id()));
    let addr: ControlAddr = format!("unix:{}", path.display()).parse().expect("an address");
    let sizes = Sizes {
        shard_count: SHARDS,
        capacity: Capacity::Memory { bytes: 4 << 20 },
        value_bytes_max: 100_000,
        window: WINDOW,
    };
    let plan = Rfp::<V>::plan(&sizes).expect("enough memory");
    let listener = ControlListener::bind(&addr).expect("a free address");
    let service = Rfp::<V>::start::<Shm>(&ShmDevice::default(), &plan, vec![listener], Box::new(|_| {}));
    (service.expect("a service"), addr)
}

#[test]
fn rfp_workers_of_one_store_are_linearizable_over_shared_memory() {
    let seed = fresh_seed();
    let (service, addr) = start::<MemcachedVariant>(seed);
    let ticks = Ticks::default();
    let history = histories(|thread| play(&addr, &ticks, thread, seed, 3000)).expect("no panic");
    history.check(Model::Cache).expect("linearizable");
    let counters = service.counters(Duration::from_secs(10)).expect("answers");
    let of = |name: &str| {
        let at = RdmaMemcached::FACTS
            .counters
            .iter()
            .position(|counter| counter.name == name)
            .expect("a counter");
        counters.iter().map(|shard| shard[at]).collect::<Vec<u64>>()
    };
    assert!(
        of("gets").iter().all(|&gets| gets > 0),
        "each worker has a client"
    );
    assert!(of("in_place").iter().all(|&reads| reads > 0));
    assert_eq!(of("items")[0], of("items")[1], "both report the items of all");
    println!(
        "stripes waited for: {:?} of {:?}",
        of("stripe_waits"),
        of("stripes_locked")
    );
    service.stop();
}

/// RDMA-Memcached whose workers panic in the middle of a PUT of [`POISON`].
#[derive(Clone, Copy, Debug)]
struct Panicking;

/// See [`Panicking`].
#[derive(Clone, Copy, Debug)]
struct PanickingGuards;

const POISON: &[u8] = b"poison";

impl Variant for Panicking {
    const FACTS: Facts = MemcachedVariant::FACTS;
    const TRANSFER: Transfer = MemcachedVariant::TRANSFER;
    const CURVE: &'static str = MemcachedVariant::CURVE;
    const PLANTED: &'static [Planted<Flaw>] = &[];
    type Guards = Guarded;
    type Store = Arc<StripedStore<PanickingGuards>>;
}

impl StripedGuards for PanickingGuards {
    fn in_put(key: Key<'_>) {
        assert!(key.bytes != POISON, "on purpose, with a stripe held");
    }
}

/// What a client of one worker does.
struct Asker {
    ctx: Rc<<Shm as Provider>::Context>,
    client: <Rfp<Panicking> as System>::Client<Shm>,
}

impl Asker {
    fn new(addr: &ControlAddr, shard: u16, deadline: Ns) -> Asker {
        let ctx = Rc::new(ShmDevice::default().context().expect("a context"));
        let dials = vec![Dial::to_shard(addr.clone(), shard)];
        let options = ConnectOptions {
            deadline,
            ..ConnectOptions::default()
        };
        let client = connect(&ctx, dials, &options, Ns::from_s(20)).expect("a session");
        Asker { ctx, client }
    }

    /// How an operation ends; every operation does, by its deadline.
    fn ask(&mut self, op: &Op<'_>) -> String {
        self.client
            .submit(self.ctx.cpu(), op, 0)
            .expect("space in the window");
        let mut answer = None;
        while answer.is_none() {
            self.ctx.cpu().refresh();
            self.client.poll(self.ctx.cpu(), &mut |done: Completion<'_>| {
                answer = Some(format!("{:?}", done.outcome));
            });
            std::thread::yield_now();
        }
        answer.expect("the outcome")
    }
}

/// A worker panics while it changes an item. Returns whether the other worker has answered then.
fn goes_on_after_a_panic(seed: u64) -> bool {
    let (service, addr) = start::<Panicking>(seed);
    let (short, long) = (Ns::from_ms(300), Ns::from_s(20));
    let mut first = Asker::new(&addr, 0, short);
    let mut second = Asker::new(&addr, 1, long);
    let mut third = Asker::new(&addr, 1, short);
    let put = |key| Op::put(key, b"value");
    assert_eq!(second.ask(&put(b"key")), "Stored");
    assert_eq!(first.ask(&put(POISON)), "Indeterminate");
    // Until a thread has ended by itself.
    let ended = service.ended().try_clone_to_owned().expect("a descriptor");
    File::from(ended).read_exact(&mut [0]).expect("word of the end");
    assert_eq!(service.why(), "drover-shard-0 panicked");
    assert_eq!(first.ask(&Op::Get { key: b"key" }), "Refused(Unavailable)");
    let answer = second.ask(&Op::Get { key: b"key" });
    let value = format!("{:?}", Outcome::Value(b"value"));
    assert!(
        [value.as_str(), "Refused(Unavailable)"].contains(&answer.as_str()),
        "{answer}"
    );
    assert_eq!(third.ask(&Op::Get { key: POISON }), "Refused(Unavailable)");
    let counters = service.counters(Duration::from_millis(10));
    assert_eq!(counters, Err("no answer from shards [0, 1]".to_owned()));
    service.stop();
    answer == value
}

/// A worker that panics with a stripe ends, and the service says so: `drover serve` then ends. Until it does, clients of
/// another worker go on; one that needs the broken stripe gets no value but an error, and so do all once that worker has
/// met it.
#[test]
fn rfp_a_worker_that_panics_with_a_stripe_ends_the_service() {
    let seed = fresh_seed();
    // The two keys have one stripe of a thousand.
    let mut rounds = (0..3).map(|round| goes_on_after_a_panic(seed.wrapping_add(round)));
    assert!(rounds.any(|goes_on| goes_on), "nobody is served");
}
