//! [`Load`]: clients that never stop and record everything.

use super::draw::Draw;
use super::native::Native;
use super::report::{Record, Wait};
use super::session::Session;
use crate::deployed::process::pass;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Number of keys.
pub const KEYS: u32 = 5000;
/// Clients of each member: one at a time may wait for a member that stands still.
const CLIENTS_PER_MEMBER: usize = 2;
/// Clients that ask the members themselves.
const NATIVE_CLIENTS: usize = 2;
/// Commands that a client sends at a time.
pub const BATCH: usize = 8;
/// Between two batches, so that members, clients and etcd share few cores.
const REST: Duration = Duration::from_millis(8);

/// Running clients.
pub struct Load {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Record>>,
    report: Sender<Wait>,
    longest: Receiver<Wait>,
}

impl Load {
    /// Starts clients of the members with these names.
    pub fn start(names: &[String], seed: u64) -> Load {
        let (report, longest) = channel();
        let mut load = Load {
            stop: Arc::new(AtomicBool::new(false)),
            threads: Vec::new(),
            report,
            longest,
        };
        let mut draws = (0..).map(|number| Draw::new(seed, number));
        for name in names {
            for draw in draws.by_ref().take(CLIENTS_PER_MEMBER) {
                let mut session = Session::new(name, draw);
                load.spawn(move || move |record: &mut Record| session.batch(record));
            }
        }
        for draw in draws.take(NATIVE_CLIENTS) {
            load.spawn(move || {
                let mut native = Native::connect(draw);
                move |record: &mut Record| native.batch(record)
            });
        }
        load
    }

    /// Starts the client that `make` returns on its own thread, and has it record one batch after the other.
    fn spawn<B: FnMut(&mut Record)>(&mut self, make: impl FnOnce() -> B + Send + 'static) {
        let (stop, report) = (self.stop.clone(), self.report.clone());
        self.threads.push(std::thread::spawn(move || {
            let (mut batch, mut record) = (make(), Record::default());
            while !stop.load(Ordering::Relaxed) {
                let before = std::mem::take(&mut record.longest);
                batch(&mut record);
                // Nobody listens any more at the end.
                let _ = report.send(record.longest);
                record.longest = record.longest.max(before);
                pass(REST);
            }
            record
        }));
    }

    /// The longest wait until a key was served, of those that have ended since the last call.
    pub fn longest(&self) -> Wait {
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
