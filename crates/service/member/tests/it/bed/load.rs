//! Clients that read and write keys, and record what they see.

use super::core::{Answer, Found, Job, Op, SEED};
use super::network::TestNetwork;
use drover_base::{Cpu, Ns, Rng};
use drover_mem::NativeCpu;
use drover_testkit::history::{Call, Event, History};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;
use std::time::Duration;

/// Pause of a client that finds nobody who serves a key.
const PAUSE: Duration = Duration::from_micros(500);

/// The order in which calls and returns happen, for all clients.
#[derive(Clone, Default)]
pub struct Order(Arc<AtomicU64>);

impl Order {
    fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}

/// A client that asks member after member until one serves its key.
pub struct Client {
    network: Arc<TestNetwork>,
    last: usize,
}

impl Client {
    pub fn new(network: Arc<TestNetwork>) -> Client {
        Client { network, last: 0 }
    }

    /// The answer; `None`: the member was lost before it answered, or nobody serves the key and `gives_up` says so.
    pub fn ask(&mut self, key: &[u8], op: &Op, gives_up: &dyn Fn() -> bool) -> Option<Answer> {
        let hash = SEED.hasher().hash(key);
        loop {
            let addresses = self.network.addresses();
            for step in 0..addresses.len() {
                let at = (self.last + step) % addresses.len();
                let Some(member) = self.network.get(&addresses[at]) else {
                    continue;
                };
                let core = hash.partition_index(member.cores.len());
                let (answer, answered) = sync_channel(1);
                let (key, op) = (key.to_vec(), op.clone());
                if member.cores[core].send(Job::Request { key, op, answer }).is_err() {
                    continue;
                }
                match answered.recv() {
                    Ok(Answer::Elsewhere) => {}
                    Ok(answer) => {
                        self.last = at;
                        return Some(answer);
                    }
                    Err(_) => return None,
                }
            }
            if gives_up() {
                return None;
            }
            std::thread::park_timeout(PAUSE);
        }
    }

    pub fn get(&mut self, key: &[u8]) -> Option<Found> {
        match self.ask(key, &Op::Get, &|| false) {
            Some(Answer::Value(found)) => found,
            other => panic!("{other:?}"),
        }
    }
}

/// Stores keys of these numbers, each with a value of its own; returns what a client then sees of them.
pub fn put_all(client: &mut Client, numbers: Range<u64>) -> BTreeMap<u64, Found> {
    let mut kept = BTreeMap::new();
    for number in numbers {
        let op = Op::Put {
            value: number,
            flags: number as u32 * 3,
            ttl_s: (number % 2) as u32 * 10_000,
        };
        assert_eq!(client.ask(&key(number), &op, &|| false), Some(Answer::Stored));
        kept.insert(number, client.get(&key(number)).expect("just stored"));
    }
    kept
}

/// Clients at work, each in a thread of its own.
pub struct Load {
    stop: Arc<AtomicBool>,
    order: Order,
    clients: Vec<JoinHandle<(History, Ns)>>,
}

impl Load {
    /// Starts clients that read, write and delete `key_count` keys.
    pub fn start(network: &Arc<TestNetwork>, client_count: u32, key_count: u64, seed: u64) -> Load {
        let (stop, order) = (Arc::new(AtomicBool::new(false)), Order::default());
        let clients = (0..client_count).map(|number| {
            let worker = Worker {
                number,
                key_count,
                rng: Rng::new(seed, u64::from(number), 0),
                client: Client::new(network.clone()),
                stop: stop.clone(),
                order: order.clone(),
            };
            std::thread::spawn(move || worker.run())
        });
        let clients = clients.collect();
        Load { stop, order, clients }
    }

    /// Waits until so many operations more have begun or ended.
    pub fn goes_on(&self, count: u64) {
        let until = self.order.next() + count;
        while self.order.0.load(Ordering::SeqCst) < until {
            std::thread::park_timeout(PAUSE);
        }
    }

    /// Ends it, and returns what the clients have seen. Prints how long the slowest operation took.
    pub fn finish(self) -> History {
        self.stop.store(true, Ordering::Relaxed);
        let (mut history, mut longest) = (History::default(), Ns::ZERO);
        for client in self.clients {
            let (seen, took) = client.join().expect("no panic");
            history.merge(seen);
            longest = longest.max(took);
        }
        println!(
            "{} operations; the longest pause of a key: {longest}",
            history.len()
        );
        history
    }
}

struct Worker {
    number: u32,
    key_count: u64,
    rng: Rng,
    client: Client,
    stop: Arc<AtomicBool>,
    order: Order,
}

impl Worker {
    fn run(mut self) -> (History, Ns) {
        let (mut history, mut count, mut longest) = (History::default(), 0, Ns::ZERO);
        let cpu = NativeCpu::new(0);
        while !self.stop.load(Ordering::Relaxed) {
            count += 1;
            let key = key(self.rng.below(self.key_count));
            let value = (u64::from(self.number) << 40) | count;
            let op = match self.rng.below(10) {
                0..5 => Op::Get,
                5..9 => Op::Put {
                    value,
                    flags: 0,
                    ttl_s: 0,
                },
                _ => Op::Delete,
            };
            let called_at = self.order.next();
            let (stop, start) = (&self.stop, cpu.refresh());
            let answer = self.client.ask(&key, &op, &|| stop.load(Ordering::Relaxed));
            longest = longest.max(cpu.refresh().since(start));
            let call = match (&op, answer) {
                (Op::Get, Some(Answer::Value(found))) => Call::Get(found.map(|found| found.value)),
                (Op::Get, _) => continue,
                (Op::Put { value, .. }, _) => Call::Put(*value),
                (Op::Delete, Some(Answer::Deleted(was_there))) => Call::Delete(Some(was_there)),
                (Op::Delete, _) => Call::Delete(None),
            };
            let event = Event {
                client: self.number,
                call,
                called_at,
                returned_at: answer.map(|_| self.order.next()),
            };
            history.push(&key, event);
        }
        (history, longest)
    }
}

/// Key number `number`.
pub fn key(number: u64) -> Vec<u8> {
    format!("key-{number}").into_bytes()
}
