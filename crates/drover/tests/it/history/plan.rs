//! What is asked, what is answered, and how both are written down.

use drover_base::Rng;
use drover_testkit::history::{Call, Event, History, Swapped};

/// Keys of each round.
pub const KEYS: u64 = 6;
/// Operations that a client has under way at most.
const BATCH_MAX: u64 = 5;

/// Nanoseconds on the clock of this machine.
pub fn now() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// What is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ask {
    Get,
    Put(u64),
    Delete,
    /// Write this if nobody wrote since it was last read.
    Swap(u64),
    Add(i64),
}

/// What is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// It was done; GET and addition: with this value.
    Done(Option<u64>),
    Missing,
    Swapped(Swapped),
}

/// A request.
#[derive(Clone, Debug)]
pub struct Request {
    pub key: String,
    pub ask: Ask,
    /// Of a swap: what was read.
    pub from: u64,
}

/// A client of either kind.
pub trait Voice {
    /// Whether it knows `cas` and `incr`.
    fn is_memcached(&self) -> bool;

    /// Asks all at once. The answer to each, with the time when it was there; `None`: the server went away before.
    fn ask(&mut self, batch: &mut [Request]) -> Vec<Option<(Answer, u64)>>;
}

/// Draws requests for the keys of a round, asks `voice`, and writes down what came of it.
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

    /// One batch; `false` if the server went away meanwhile.
    pub fn batch(&mut self, round: u64, history: &mut History) -> bool {
        let mut batch: Vec<Request> = (0..=self.rng.below(BATCH_MAX))
            .map(|_| self.draw(round))
            .collect();
        self.execute(&mut batch, history)
    }

    /// Reads all keys of the round.
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

    /// No value is written twice: 16 bits are left for additions.
    fn value(&mut self) -> u64 {
        self.values += 1;
        (u64::from(self.number) << 24 | self.values) << 16
    }

    /// Of keys with odd numbers, numbers go up and down; of the others no value comes twice, so that who swaps knows
    /// what it has read by its value.
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
