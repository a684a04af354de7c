//! Requests that clients draw, their answers, and the history that records both.

use drover_base::Rng;
use drover_testkit::history::{Call, Event, History, Swapped};

/// Number of keys in a round.
pub const KEYS: u64 = 6;
/// Maximum number of operations of a client in flight.
const BATCH_MAX: u64 = 5;

/// Time of the machine's monotonic clock, nanoseconds.
pub fn now() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Operation to execute on a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ask {
    Get,
    Put(u64),
    Delete,
    /// `cas`: stores this value if nobody has written since the client last read the key.
    Swap(u64),
    Add(i64),
}

/// Result of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// The operation was done; for GET and addition, with the value.
    Done(Option<u64>),
    Missing,
    Swapped(Swapped),
}

/// An operation on a key.
#[derive(Clone, Debug)]
pub struct Request {
    pub key: String,
    pub ask: Ask,
    /// For `Swap`: the value that the client has read, set when the request is sent.
    pub from: u64,
}

/// A connection of a client, memcached's or native.
pub trait Voice {
    /// Whether the connection can execute `cas` and additions.
    fn is_memcached(&self) -> bool;

    /// Sends all requests of a batch and waits. Returns each answer with the time when it arrived; `None`: no answer
    /// came.
    fn ask(&mut self, batch: &mut [Request]) -> Vec<Option<(Answer, u64)>>;
}

/// Draws requests for the keys of a round, sends them through `voice`, and records requests and answers in a history.
pub struct Client<'a> {
    pub voice: &'a mut dyn Voice,
    pub number: u32,
    pub rng: Rng,
    values: u64,
}

impl<'a> Client<'a> {
    pub fn new(voice: &'a mut dyn Voice, number: u32, seed: u64) -> Client<'a> {
        Client {
            voice,
            number,
            rng: Rng::new(seed, number.into(), 0x9157),
            values: 0,
        }
    }

    /// Executes one batch of random requests; returns false if an answer is missing.
    pub fn batch(&mut self, round: u64, history: &mut History) -> bool {
        let mut batch: Vec<Request> = (0..=self.rng.below(BATCH_MAX))
            .map(|_| self.draw(round))
            .collect();
        self.execute(&mut batch, history)
    }

    /// Reads all keys of the round; returns false if an answer is missing.
    pub fn audit(&mut self, round: u64, history: &mut History) -> bool {
        let mut batch: Vec<Request> = (0..KEYS).map(|key| request(round, key, Ask::Get)).collect();
        self.execute(&mut batch, history)
    }

    fn execute(&mut self, batch: &mut [Request], history: &mut History) -> bool {
        let called_at = now();
        let answers = self.voice.ask(batch);
        for (request, answer) in batch.iter().zip(&answers) {
            let event = Event {
                client: self.number,
                call: call(request, answer.map(|(answer, _)| answer)),
                called_at,
                returned_at: answer.map(|(_, at)| at),
            };
            history.push(request.key.as_bytes(), event);
        }
        answers.iter().all(Option::is_some)
    }

    /// A value that is never written twice; its low 16 bits are left for additions.
    fn value(&mut self) -> u64 {
        self.values += 1;
        (u64::from(self.number) << 24 | self.values) << 16
    }

    /// Draws a request. Keys with odd numbers get additions; the others never get a value twice, so that a value
    /// identifies the write that a swap has read.
    fn draw(&mut self, round: u64) -> Request {
        let key = self.rng.below(KEYS);
        let is_counter = key % 2 == 1;
        let ask = match self.rng.below(100) {
            0..35 => Ask::Get,
            35..55 => Ask::Put(self.value()),
            55..62 => Ask::Delete,
            62.. if !self.voice.is_memcached() => Ask::Get,
            62..85 if !is_counter => Ask::Swap(self.value()),
            _ if is_counter && self.rng.chance(0.4) => Ask::Add(-(self.rng.below(3) as i64)),
            _ => Ask::Add(1 + self.rng.below(3) as i64),
        };
        request(round, key, ask)
    }
}

fn request(round: u64, key: u64, ask: Ask) -> Request {
    let key = format!("round{round}-key{key}");
    Request { key, ask, from: 0 }
}

fn call(request: &Request, answer: Option<Answer>) -> Call {
    let value = match answer {
        Some(Answer::Done(value)) => value,
        _ => None,
    };
    match request.ask {
        Ask::Get => Call::Get(value),
        Ask::Put(id) => Call::Put(id),
        Ask::Delete => Call::Delete(answer.map(|answer| answer == Answer::Done(None))),
        Ask::Swap(to) => Call::Swap {
            from: request.from,
            to,
            said: match answer {
                Some(Answer::Swapped(said)) => said,
                _ => Swapped::Missing,
            },
        },
        Ask::Add(by) => Call::Add { by, sum: value },
    }
}
