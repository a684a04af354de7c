//! [`Own`]: the campaign's own client, which goes on until all its commands are executed.

use super::conn::{Answer, Ask, Conn};
use super::load::KEYS;
use super::report::Record;
use crate::deployed::process::{now, since, until};
use std::time::Duration;

/// Its number among the clients.
pub const NUMBER: u32 = 8000;
/// Commands that it sends at a time.
pub const BATCH: usize = 250;

/// What it recorded.
#[derive(Default)]
pub struct Own {
    pub record: Record,
    values: u64,
}

impl Own {
    /// Reads all keys through the member called `name` until each has been answered. Returns how long that took.
    pub fn sweep(&mut self, name: &str) -> Duration {
        let start = now();
        self.until_done((0..KEYS).map(|key| (key, Ask::Get)).collect(), name);
        since(start)
    }

    /// Writes keys through a member until each is written.
    pub fn write(&mut self, keys: &[u32], name: &str) {
        let mut ask = |key: &u32| {
            self.values += 1;
            (*key, Ask::Put(u64::from(NUMBER) << 32 | self.values))
        };
        let asks = keys.iter().map(&mut ask).collect();
        self.until_done(asks, name);
    }

    fn until_done(&mut self, mut asks: Vec<(u32, Ask)>, name: &str) {
        let mut conn = Conn::open(name).expect("it listens");
        until("every key is served", || {
            let mut left = Vec::new();
            for batch in asks.chunks(BATCH) {
                left.extend(self.execute(batch, &mut conn));
            }
            asks = left;
            asks.is_empty()
        });
    }

    /// Returns what is to be asked again.
    fn execute(&mut self, batch: &[(u32, Ask)], conn: &mut Conn) -> Vec<(u32, Ask)> {
        let called_at = now();
        assert!(conn.send(batch), "a member that lives reads");
        let mut left = Vec::new();
        for (key, ask) in batch {
            let answer = conn.receive(*ask);
            assert!(answer.is_some(), "a member that lives closed the connection");
            if !self.record.add(NUMBER, *key, *ask, called_at, answer) {
                left.push((*key, again(*ask, answer)));
            }
        }
        left
    }

    /// Reads keys over a connection of which the other end stands still, and goes on when `resume` is called. Returns how many
    /// commands were executed.
    pub fn ask_the_sleeper(&mut self, keys: &[u32], mut conn: Conn, resume: impl FnOnce()) -> usize {
        let asks: Vec<(u32, Ask)> = keys.iter().map(|key| (*key, Ask::Get)).collect();
        let called_at = now();
        assert!(conn.send(&asks), "its socket takes what it does not read yet");
        resume();
        let mut executed = 0;
        for (key, ask) in asks {
            let answer = conn.receive(ask);
            executed += usize::from(self.record.add(NUMBER, key, ask, called_at, answer));
        }
        executed
    }
}

/// A value that may have been written must not be written once more: the key is only read.
fn again(ask: Ask, answer: Option<(Answer, u64)>) -> Ask {
    match answer {
        Some((Answer::Refused, _)) => ask,
        _ => Ask::Get,
    }
}
