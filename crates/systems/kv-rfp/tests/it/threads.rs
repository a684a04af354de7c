//! Several workers serve the same keys, on real threads: what they answer is linearizable, and without the locks of the
//! store it is not.

use drover_base::{Cpu, HashSeed, Ns, Rng};
use drover_control::{ControlAddr, ControlListener};
use drover_kv::{Capacity, Completion, ConnectOptions, KvClient, Op, Outcome, Sizes, System, connect, dials};
use drover_kv_rfp::RdmaMemcached;
use drover_mem::{NativeCpu, PageWish, Region};
use drover_store::{
    Condition, FullyGuarded, Key, Mode, PartitionOptions, PutOutcome, StripedGuards, StripedStore,
};
use drover_testkit::history::{Call, Event, History};
use drover_testkit::kv_conformance::{value_bytes, value_id};
use drover_testkit::linear::Model;
use drover_verbs::{Context, Device};
use drover_verbs_shm::{Shm, ShmDevice};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

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
                    let put = store.put(&cpu, key, &value, (0, 1), Condition::Always);
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
                Call::Put(_) => Op::Put {
                    key: &name,
                    value: &value,
                    ttl_s: 0,
                },
                Call::Delete(_) => Op::Delete { key: &name },
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

#[test]
fn rfp_workers_of_one_store_are_linearizable_over_shared_memory() {
    let seed = fresh_seed();
    let path = std::env::temp_dir().join(format!("drover-workers-{}-{seed}", std::process::id()));
    let addr: ControlAddr = format!("unix:{}", path.display()).parse().expect("an address");
    let sizes = Sizes {
        shard_count: SHARDS,
        capacity: Capacity::Memory { bytes: 4 << 20 },
        value_bytes_max: 100_000,
        window: WINDOW,
    };
    let plan = RdmaMemcached::plan(&sizes).expect("enough memory");
    let listener = ControlListener::bind(&addr).expect("a free address");
    let service = RdmaMemcached::start::<Shm>(&ShmDevice::default(), &plan, vec![listener], Box::new(|_| {}));
    let service = service.expect("a service");
    let ticks = Ticks::default();
    let history = histories(|thread| play(&addr, &ticks, thread, seed, 3000)).expect("no panic");
    history.check(Model::Cache).expect("linearizable");
    let counters = service
        .counters(std::time::Duration::from_secs(10))
        .expect("answers");
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
