//! An actor that shares a worker's core: it is woken for its descriptor, has its turn beside busy native clients, sees the same
//! items, and outlives a panic, which costs the items.

use drover_base::{HashSeed, Ns, Progress};
use drover_kv::{CoActor, MakeCoActor};
use drover_kv_herd::server::{ClockStart, IdentityOptions, Server, ServerOptions};
use drover_mem::NativeCpu;
use drover_rt::WakeFd;
use drover_store::{Key, Partition, PartitionOptions};
use drover_verbs_shm::{Shm, ShmDevice};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

const SEED: HashSeed = HashSeed::new(1, 2);
/// Longer than any answer takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// What it is asked.
enum Ask {
    Put(&'static str),
    Has(&'static str),
    Panic,
}

/// Answers a list of questions when its descriptor says that there are some.
struct Guest {
    bell: WakeFd,
    asks: Arc<Mutex<mpsc::Receiver<Ask>>>,
    answers: mpsc::Sender<bool>,
    steps: Arc<AtomicU64>,
}

impl CoActor<NativeCpu> for Guest {
    fn step(&mut self, cpu: &NativeCpu, partition: &mut Partition, _now: Ns, now_s: u32) -> Progress {
        self.steps.fetch_add(1, Ordering::Relaxed);
        self.bell.clear();
        let Ok(ask) = self.asks.lock().expect("nobody panicked with it").try_recv() else {
            return Progress::Idle { wake_at: Ns::MAX };
        };
        let key = |name: &'static str| Key {
            hash: SEED.hash(name.as_bytes()),
            bytes: name.as_bytes(),
        };
        let answer = match ask {
            Ask::Put(name) => {
                partition.put(cpu, key(name), b"value", 0, now_s);
                true
            }
            Ask::Has(name) => partition.get(cpu, key(name), now_s).is_some(),
            Ask::Panic => std::panic::resume_unwind(Box::new("on purpose")),
        };
        let _ = self.answers.send(answer);
        Progress::Busy
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.bell.fd()
    }

    fn restarted(&mut self) {
        let _ = self.answers.send(false);
    }
}

struct Cluster {
    server: Server<Shm>,
    bell: WakeFd,
    asks: mpsc::Sender<Ask>,
    answers: mpsc::Receiver<bool>,
    steps: Arc<AtomicU64>,
}

impl Cluster {
    fn new() -> Cluster {
        let options = ServerOptions {
            partition: PartitionOptions {
                log_bytes: 1 << 16,
                bucket_count: 1 << 8,
                ..PartitionOptions::default()
            },
            identity: IdentityOptions {
                hash_seed: Some(SEED),
                ..IdentityOptions::default()
            },
            ..ServerOptions::default()
        };
        let bell = WakeFd::new().expect("a descriptor");
        let (asks, asked) = mpsc::channel();
        let (answers, answered) = mpsc::channel();
        let (asked, steps) = (Arc::new(Mutex::new(asked)), Arc::new(AtomicU64::new(0)));
        let (theirs, counted, answers) = (bell.clone(), steps.clone(), Mutex::new(answers));
        let make: MakeCoActor<Shm> = Arc::new(move |core_info| {
            assert_eq!((core_info.index, core_info.count), (0, 1));
            Ok(Box::new(Guest {
                bell: theirs.clone(),
                asks: asked.clone(),
                answers: answers.lock().expect("nobody panicked with it").clone(),
                steps: counted.clone(),
            }))
        });
        let device = ShmDevice::default();
        let server = Server::start_with(&device, None, &options, |_| {}, Some(make)).expect("it starts");
        Cluster {
            server,
            bell,
            asks,
            answers: answered,
            steps,
        }
    }

    fn ask(&self, ask: Ask) -> bool {
        self.asks.send(ask).expect("it lives");
        self.bell.wake();
        self.answers.recv_timeout(PATIENCE).expect("an answer in time")
    }

    /// Waits until the core sleeps: until it makes no step while we wait for one.
    fn asleep(&self) {
        for _ in 0..10_000 {
            let before = self.steps.load(Ordering::Relaxed);
            for _ in 0..2000 {
                std::thread::yield_now();
            }
            if self.steps.load(Ordering::Relaxed) == before {
                return;
            }
        }
        panic!("the core never sleeps");
    }
}

#[test]
fn a_lodger_is_woken_shares_the_items_and_outlives_a_panic() {
    let cluster = Cluster::new();
    assert!(cluster.ask(Ask::Put("a")));
    for _ in 0..3 {
        cluster.asleep();
        assert!(cluster.ask(Ask::Has("a")), "woken for its descriptor");
    }
    let stats = cluster.server.stats().expect("the worker answers");
    assert_eq!(stats.workers[0].partition.items, 1);
    assert!(!cluster.ask(Ask::Panic), "it is told that the worker began again");
    assert!(!cluster.ask(Ask::Has("a")), "the items are gone");
    assert!(cluster.ask(Ask::Put("b")) && cluster.ask(Ask::Has("b")));
    assert_eq!(
        cluster.server.stats().expect("the worker answers").workers[0].restarts,
        1
    );
    cluster.server.stop();
}

#[test]
fn who_cannot_make_its_lodger_has_no_server() {
    let make: MakeCoActor<Shm> = Arc::new(|_| Err("no cluster".to_owned()));
    let options = ServerOptions::default();
    let started = Server::<Shm>::start_with(&ShmDevice::default(), None, &options, |_| {}, Some(make));
    assert_eq!(
        started.err().map(|error| error.to_string()),
        Some("no cluster".to_owned())
    );
}

/// Items expire by this clock on every core, so laying out the memory of one core must not delay another core's start.
#[test]
fn all_workers_count_from_the_moment_they_are_given_or_from_one_moment() {
    for given in [None, Some(Ns(1))] {
        let (starts, seen) = mpsc::channel();
        let starts = Mutex::new(starts);
        let make: MakeCoActor<Shm> = Arc::new(move |core_info| {
            let starts = starts.lock().expect("nobody panicked with it");
            starts.send(core_info.started).expect("somebody receives");
            Err("seen enough".to_owned())
        });
        let options = ServerOptions {
            partition_count: 2,
            clock: ClockStart {
                started: given,
                ..ClockStart::default()
            },
            ..ServerOptions::default()
        };
        let server = Server::<Shm>::start_with(&ShmDevice::default(), None, &options, |_| {}, Some(make));
        assert!(server.is_err());
        let [first, second] = [0, 1].map(|_| seen.recv().expect("each worker makes one"));
        assert_eq!(first, second);
        assert_eq!(given.unwrap_or(first), first);
    }
}
