//! Messages between a client process and its parent: the client reports every call before it makes it and every answer
//! as it arrives, so that the last record of a killed process is known.

use std::io::{Read, Result, Write};
use std::time::Duration;

/// Size of a record or command: five little-endian words.
pub const RECORD_BYTES: usize = 40;

/// Time of the monotonic clock that all processes of the machine share, nanoseconds.
pub fn now() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The value of [`now`] after `time` has passed.
pub fn in_future(time: Duration) -> u64 {
    now() + time.as_nanos() as u64
}

/// Time that has passed since [`now`] was `at`.
pub fn since(at: u64) -> Duration {
    Duration::from_nanos(now().saturating_sub(at))
}

/// A key, used in one round only and written by one client or by all.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Key {
    /// Round in which the key is used, so that histories stay short.
    pub round: u32,
    /// Place of the client that writes the key, or [`Key::SHARED`].
    pub owner: u8,
    /// Index among the keys of this round and owner.
    pub index: u8,
}

impl Key {
    /// Owner of keys that all clients write.
    pub const SHARED: u8 = 255;

    /// The key's text in the service.
    pub fn text(self) -> String {
        format!("round{}-owner{}-key{}", self.round, self.owner, self.index)
    }

    fn word(self) -> u64 {
        u64::from(self.round) << 16 | u64::from(self.owner) << 8 | u64::from(self.index)
    }

    fn of(word: u64) -> Key {
        Key {
            round: (word >> 16) as u32,
            owner: (word >> 8) as u8,
            index: word as u8,
        }
    }
}

/// Operation to execute on a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ask {
    Get,
    Put(u64),
    Delete,
}

/// Result of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// It is unknown whether the operation was executed.
    Unknown,
    Missing,
    Done,
    Value(u64),
    /// No server answered in time, and the operation was not executed.
    Refused,
}

/// Report of a client process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Record {
    /// The client is connected.
    Ready,
    /// The client is about to begin its next operation; operations are numbered from 0.
    Call { key: Key, ask: Ask, at: u64 },
    /// Operation `op` has ended with `answer` at time `at`.
    Return { op: u64, answer: Answer, at: u64 },
    /// The client has read every key of this round once more.
    Audited { round: u64 },
}

/// Command of the parent to a client process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    /// Make load with the keys of this round.
    Go(u32),
    /// Stop, and read all keys of the round.
    Stop,
}

impl Record {
    /// Encodes the record.
    pub fn encode(self) -> [u8; RECORD_BYTES] {
        words(match self {
            Record::Ready => [0; 5],
            Record::Call { key, ask, at } => match ask {
                Ask::Get => [1, key.word(), 0, 0, at],
                Ask::Put(id) => [1, key.word(), 1, id, at],
                Ask::Delete => [1, key.word(), 2, 0, at],
            },
            Record::Return { op, answer, at } => match answer {
                Answer::Unknown => [2, op, 0, 0, at],
                Answer::Missing => [2, op, 1, 0, at],
                Answer::Done => [2, op, 2, 0, at],
                Answer::Value(id) => [2, op, 3, id, at],
                Answer::Refused => [2, op, 4, 0, at],
            },
            Record::Audited { round } => [3, round, 0, 0, 0],
        })
    }

    /// Reads the next record; an error at the end of the stream, which may be within a record if the client was killed.
    pub fn read(from: &mut impl Read) -> Result<Record> {
        let [tag, first, kind, id, at] = read_words(from)?;
        Ok(match tag {
            0 => Record::Ready,
            1 => Record::Call {
                key: Key::of(first),
                ask: [Ask::Get, Ask::Put(id), Ask::Delete][kind as usize],
                at,
            },
            2 => Record::Return {
                op: first,
                answer: match kind {
                    0 => Answer::Unknown,
                    1 => Answer::Missing,
                    2 => Answer::Done,
                    3 => Answer::Value(id),
                    _ => Answer::Refused,
                },
                at,
            },
            _ => Record::Audited { round: first },
        })
    }
}

impl Command {
    /// Writes the command.
    pub fn write(self, to: &mut impl Write) -> Result<()> {
        to.write_all(&match self {
            Command::Go(round) => words([1, u64::from(round), 0, 0, 0]),
            Command::Stop => words([2, 0, 0, 0, 0]),
        })
    }

    /// Reads the next command.
    pub fn read(from: &mut impl Read) -> Result<Command> {
        Ok(match read_words(from)? {
            [1, round, ..] => Command::Go(round as u32),
            _ => Command::Stop,
        })
    }
}

fn words(words: [u64; 5]) -> [u8; RECORD_BYTES] {
    let mut bytes = [0; RECORD_BYTES];
    for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

fn read_words(from: &mut impl Read) -> Result<[u64; 5]> {
    let mut bytes = [0; RECORD_BYTES];
    from.read_exact(&mut bytes)?;
    Ok(std::array::from_fn(|i| {
        u64::from_le_bytes(std::array::from_fn(|j| bytes[8 * i + j]))
    }))
}
