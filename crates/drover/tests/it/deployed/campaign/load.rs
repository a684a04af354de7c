//! [`Load`]: clients of each member, which never stop, record everything, and connect again when they have to.

use super::conn::{Ask, Conn};
use super::report::Record;
use crate::deployed::process::{now, pass};
use drover_base::Rng;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Number of keys.
pub const KEYS: u32 = 5000;
/// Clients of each member: one at a time may wait for a member that stands still.
const CLIENTS_PER_MEMBER: u32 = 2;
/// Commands in flight of a client.
const BATCH: usize = 8;
/// Between two batches, so that members, clients and etcd share few cores.
const REST: Duration = Duration::from_millis(8);

/// Running clients.
pub struct Load {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Record>>,
    longest: Receiver<Duration>,
}

impl Load {
    /// Starts clients of the members with these names.
    pub fn start(names: &[String], seed: u64) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        let (report, longest) = channel();
        for (member, name) in names.iter().enumerate() {
            for client in 0..CLIENTS_PER_MEMBER {
                let number = member as u32 * CLIENTS_PER_MEMBER + client;
                let mut client = Client {
                    name: name.clone(),
                    conn: None,
                    number,
                    rng: Rng::new(seed, number.into(), 0x10ad),
                    values: 0,
                    again: Vec::new(),
                    record: Record::default(),
                    report: report.clone(),
                };
                let stop = stop.clone();
                threads.push(std::thread::spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        client.batch();
                        pass(REST);
                    }
                    client.record
                }));
            }
        }
        Load {
            stop,
            threads,
            longest,
        }
    }

    /// The longest time that a key was without service, of those that have ended since the last call.
    pub fn longest(&self) -> Duration {
        self.longest.try_iter().max().unwrap_or_default()
    }

    /// Ends all clients. Returns what they recorded.
    pub fn stop(self) -> Record {
        self.stop.store(true, Ordering::Relaxed);
        let mut record = Record::default();
        for thread in self.threads {
            record.merge(thread.join().expect("a client that answers for itself"));
        }
        record
    }
}

struct Client {
    name: String,
    conn: Option<Conn>,
    number: u32,
    rng: Rng,
    values: u64,
    /// Keys without service, which are asked for until they have it.
    again: Vec<u32>,
    record: Record,
    report: Sender<Duration>,
}

impl Client {
    /// Sends some commands and waits for their answers.
    fn batch(&mut self) {
        let Some(mut conn) = self.conn.take().or_else(|| Conn::open(&self.name)) else {
            return;
        };
        let mut asks: Vec<(u32, Ask)> = self.again.drain(..).map(|key| (key, Ask::Get)).collect();
        while asks.len() < BATCH {
            asks.push(self.draw());
        }
        let called_at = now();
        // What was sent to a broken connection may have arrived.
        let mut is_open = conn.send(&asks);
        let before = std::mem::take(&mut self.record.longest);
        for (key, ask) in asks {
            let answer = if is_open { conn.receive(ask) } else { None };
            is_open &= answer.is_some();
            if !self.record.add(self.number, key, ask, called_at, answer) {
                self.again.push(key);
            }
        }
        if !is_open {
            // Other clients go to other members, and notice when those serve the keys.
            self.again.clear();
            self.record.forget_troubles();
        }
        // Nobody listens any more at the end.
        let _ = self.report.send(self.record.longest);
        self.record.longest = self.record.longest.max(before);
        self.conn = is_open.then_some(conn);
    }

    fn draw(&mut self) -> (u32, Ask) {
        let key = self.rng.below(KEYS.into()) as u32;
        let ask = match self.rng.below(100) {
            0..60 => Ask::Get,
            60..92 => {
                self.values += 1;
                Ask::Put(u64::from(self.number + 1) << 32 | self.values)
            }
            _ => Ask::Delete,
        };
        (key, ask)
    }
}
