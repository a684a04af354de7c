//! The partitions of a simulated server, and native clients, whose requests their workers execute: between the steps of other
//! actors, and in the midst of a session's step on another core, as the owner of a partition writes while others read it.

use super::cluster::Flaw;
use drover_base::{Cpu, KeyHash, Line, Ns, Rng};
use drover_mem::{NativeCpu, PageWish};
use drover_memcached::Server;
use drover_store::{Key, Mode, Partition, PartitionOptions, PutOutcome, Sharing};
use drover_testkit::history::{Call, Event, History};
use std::cell::{Cell, RefCell, RefMut};
use std::rc::Rc;
use std::sync::Arc;

const NATIVES: usize = 3;
const KEYS: u64 = 10;
/// Keys from this one on have long values, whose items have several lines, and no arithmetic.
const LONG_KEYS: u64 = 3;
const LONG_BYTES: usize = 100;
/// One line in so many is touched while other cores do something, and that is at most so many steps of native clients.
const INTERRUPTED: u64 = 6;
const INTERRUPTION: u64 = 12;
pub const NOW_S: u32 = 100;

#[derive(Clone, Copy, Debug)]
pub struct Asked {
    pub key: u64,
    pub call: Call,
    pub called_at: u64,
}

/// A native client: at most one request, which waits until its core takes it; its reply waits until the client takes
/// it.
struct Native {
    client: u32,
    asked: Option<Asked>,
    done: Option<Call>,
}

pub struct Workers<S: Sharing> {
    partitions: Vec<RefCell<Partition<S>>>,
    natives: RefCell<Vec<Native>>,
    rng: RefCell<Rng>,
    pub history: RefCell<History>,
    values: Cell<u64>,
    /// Time; advances with every step.
    now: Cell<u64>,
    flaw: Option<Flaw>,
    server: Arc<Server>,
}

pub fn name(key: u64) -> String {
    format!("key{key}")
}

pub fn is_long(key: u64) -> bool {
    key >= LONG_KEYS
}

/// The text of a value.
pub fn long(key: u64, value: u64) -> String {
    match is_long(key) {
        true => format!("{value:LONG_BYTES$}"),
        false => value.to_string(),
    }
}

pub fn number(bytes: &[u8]) -> u64 {
    let text = std::str::from_utf8(bytes).expect("text");
    text.trim().parse().expect("a number")
}

fn partition<S: Sharing>() -> Partition<S> {
    let options = PartitionOptions {
        mode: Mode::Store,
        log_bytes: 1 << 18,
        bucket_count: 1 << 6,
        pages: PageWish::Small,
        ..PartitionOptions::default()
    };
    Partition::create(&options).expect("memory")
}

impl<S: Sharing> Workers<S> {
    pub fn new(seed: u64, core_count: usize, flaw: Option<Flaw>, server: Arc<Server>) -> Workers<S> {
        let native = |i| Native {
            client: 100 + i as u32,
            asked: None,
            done: None,
        };
        Workers {
            partitions: (0..core_count).map(|_| RefCell::new(partition())).collect(),
            natives: RefCell::new((0..NATIVES).map(native).collect()),
            rng: RefCell::new(Rng::new(seed, 1, 0x4157)),
            history: RefCell::default(),
            values: Cell::new(0),
            now: Cell::new(0),
            flaw,
            server,
        }
    }

    pub fn partition(&self, core: usize) -> RefMut<'_, Partition<S>> {
        self.partitions[core].borrow_mut()
    }

    pub fn tick(&self) {
        self.now.set(self.now.get() + 1);
    }

    pub fn now(&self) -> u64 {
        self.now.get()
    }

    pub fn value(&self) -> u64 {
        self.values.set(self.values.get() + 1);
        self.values.get() << 16
    }

    fn below(&self, end: u64) -> u64 {
        self.rng.borrow_mut().below(end)
    }

    pub fn key(&self) -> u64 {
        self.below(KEYS)
    }

    pub fn record(&self, key: u64, event: Event) {
        self.history.borrow_mut().push(name(key).as_bytes(), event);
    }

    /// A native client, chosen at random, makes a step, or its core.
    pub fn native(&self) {
        self.native_on(self.below(NATIVES as u64) as usize, true);
    }

    /// Lets all native clients finish.
    pub fn finish(&self) {
        (0..NATIVES).for_each(|which| self.native_on(which, false));
    }

    /// Other cores do something while this one touches a line.
    fn interrupt(&self) {
        if self.below(INTERRUPTED) == 0 {
            for _ in 0..self.below(INTERRUPTION) {
                self.tick();
                self.native();
            }
        }
    }

    /// A native client sends a request, or its core serves it, or the client takes the reply.
    fn native_on(&self, which: usize, asks: bool) {
        let native = &mut self.natives.borrow_mut()[which];
        if let Some(call) = native.done.take() {
            let asked = native.asked.take().expect("it asked");
            let event = Event {
                client: native.client,
                call,
                called_at: asked.called_at,
                returned_at: Some(self.now()),
            };
            return self.record(asked.key, event);
        }
        if let Some(asked) = native.asked {
            native.done = self.execute(asked);
        } else if asks {
            let key = self.key();
            let call = match self.below(10) {
                0..3 => Call::Get(None),
                3..7 => Call::Put(self.value()),
                _ => Call::Delete(None),
            };
            native.asked = Some(Asked {
                key,
                call,
                called_at: self.now(),
            });
        }
    }

    /// Executes a request as a worker does; `None` if that is in the midst of something else.
    fn execute(&self, asked: Asked) -> Option<Call> {
        let name = name(asked.key);
        let hash: KeyHash = self.server.hasher.hash(name.as_bytes());
        let astray = usize::from(self.flaw == Some(Flaw::NativeGoesElsewhere));
        let cores = self.partitions.len();
        let owner = (hash.partition_index(cores) + astray) % cores;
        let (mut partition, cpu) = (self.partitions[owner].try_borrow_mut().ok()?, NativeCpu::new(1));
        let key = Key {
            hash,
            bytes: name.as_bytes(),
        };
        Some(match asked.call {
            Call::Get(_) => Call::Get(
                partition
                    .get(&cpu, key, NOW_S)
                    .map(|item| number(&item.to_value())),
            ),
            Call::Put(id) => {
                let put = partition.put(&cpu, key, long(asked.key, id).as_bytes(), 0, NOW_S);
                assert!(matches!(put, PutOutcome::Stored { .. }), "{put:?}");
                Call::Put(id)
            }
            _ => Call::Delete(Some(partition.delete(&cpu, key, NOW_S))),
        })
    }
}

/// The core that steps a session, during which other cores do something.
pub struct Interrupted<S: Sharing> {
    cpu: NativeCpu,
    workers: Rc<Workers<S>>,
}

impl<S: Sharing> Interrupted<S> {
    pub fn new(workers: &Rc<Workers<S>>) -> Interrupted<S> {
        Interrupted {
            cpu: NativeCpu::new(1),
            workers: workers.clone(),
        }
    }
}

impl<S: Sharing> Cpu for Interrupted<S> {
    fn now(&self) -> Ns {
        self.cpu.now()
    }

    fn refresh(&self) -> Ns {
        self.cpu.refresh()
    }

    fn touch(&self, _line: Line) {
        self.workers.interrupt();
    }

    fn prefetch(&self, _line: Line) {}

    fn random(&self) -> u64 {
        self.cpu.random()
    }
}
