//! [`Burst`]: writes as fast as a member executes them, so that the member is lost in the middle of many.
//!
//! The ordinary load rests between its batches: when a member dies, hardly ever is a write on its way from there to the keeper of a copy. A
//! reply that leaves before the keeper has the change is found only if there is one.

use super::conn::{Ask, Conn};
use super::report::Record;
use crate::deployed::process::{now, pass, since};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Number of the first burst's first writer among the clients.
pub const FIRST_NUMBER: u32 = 10_000;
/// Connections of a burst; each is one client of the record.
pub const WRITERS: u32 = 4;
/// Keys of all writers. Each key has one writer and at most one write under way, so that its history is quickly checked.
pub const KEYS: usize = 256;
/// Writes that are sent at a time.
const BATCH: usize = 8;
/// Most writes of a writer: the record keeps them all.
const WRITES_MAX: usize = 5000;
/// The burst is under way when so many writes have been answered ...
const WARM: usize = 2000;
/// ... or after this time.
const WARM_TIME: Duration = Duration::from_millis(300);

/// Clients of a member that write until they are told to stop.
pub struct Burst {
    progress: Arc<Progress>,
    writers: Vec<JoinHandle<Record>>,
}

/// What the writers and the campaign tell each other.
#[derive(Default)]
struct Progress {
    /// No more writes are to be sent.
    is_over: AtomicBool,
    /// Answers of all writers.
    answers: AtomicUsize,
}

impl Burst {
    /// Starts writers of these keys through the member called `name`, which has the keys. The writers have the client numbers from
    /// `number` on. Returns when the burst is under way.
    pub fn start(name: &str, keys: &[u32], number: u32) -> Burst {
        let progress = Arc::new(Progress::default());
        let start = now();
        let per_writer = keys.len().div_ceil(WRITERS as usize).max(1);
        let writers = (number..).zip(keys.chunks(per_writer)).map(|(number, keys)| {
            let conn = Conn::open(name).expect("it listens");
            let writer = Writer {
                number,
                keys: keys.to_vec(),
                values: 0,
                progress: progress.clone(),
            };
            std::thread::spawn(move || writer.run(conn))
        });
        let writers = writers.collect();
        while progress.answers.load(Ordering::Relaxed) < WARM && since(start) < WARM_TIME {
            pass(Duration::from_millis(1));
        }
        Burst { progress, writers }
    }

    /// Number of writes that have been answered.
    pub fn answers(&self) -> usize {
        self.progress.answers.load(Ordering::Relaxed)
    }

    /// No more writes are sent; those under way may still be answered.
    pub fn end(&self) {
        self.progress.is_over.store(true, Ordering::Relaxed);
    }

    /// Waits until every write is answered or its connection is closed. Returns what the writers recorded.
    pub fn finish(self) -> Record {
        self.end();
        let mut record = Record::default();
        for writer in self.writers {
            record.merge(writer.join().expect("a writer that answers for itself"));
        }
        record
    }
}

/// One of a burst's clients.
struct Writer {
    /// Its number among the clients.
    number: u32,
    keys: Vec<u32>,
    /// Number of values that it has written.
    values: u64,
    progress: Arc<Progress>,
}

impl Writer {
    /// Writes all its keys again and again.
    fn run(mut self, mut conn: Conn) -> Record {
        let mut record = Record::default();
        let batches: Vec<Vec<u32>> = self.keys.chunks(BATCH).map(<[u32]>::to_vec).collect();
        let mut next_batches = batches.iter().cycle();
        let mut under_way = VecDeque::new();
        // What was sent to a broken connection may have arrived, and answers that had come before it broke are still there.
        let (mut can_send, mut can_receive) = (true, true);
        loop {
            while can_send && under_way.len() < batches.len() && self.goes_on() {
                let Some(keys) = next_batches.next() else { break };
                let asks: Vec<(u32, Ask)> = keys.iter().map(|key| (*key, self.put())).collect();
                let called_at = now();
                can_send = conn.send(&asks);
                under_way.push_back((called_at, asks));
            }
            let Some((called_at, asks)) = under_way.pop_front() else {
                return record;
            };
            for (key, ask) in asks {
                let answer = if can_receive { conn.receive(ask) } else { None };
                can_receive &= answer.is_some();
                if answer.is_some() {
                    self.progress.answers.fetch_add(1, Ordering::Relaxed);
                }
                record.add(self.number, key, ask, called_at, answer);
            }
        }
    }

    fn goes_on(&self) -> bool {
        (self.values as usize) < WRITES_MAX && !self.progress.is_over.load(Ordering::Relaxed)
    }

    /// The next value, which no other client writes.
    fn put(&mut self) -> Ask {
        self.values += 1;
        Ask::Put(u64::from(self.number + 1) << 32 | self.values)
    }
}
