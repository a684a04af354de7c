//! What a client process tells its parent: every call before it is made, every answer when it is there.
//! The last record of a killed process is known.

use std::io::{Read, Result, Write};
use std::time::Duration;

/// One record: five words, little endian.
pub const RECORD_BYTES: usize = 40;

/// Nanoseconds of the clock that all processes of a machine share.
pub fn now() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// [`now`] as it will be after `time`.
pub fn in_future(time: Duration) -> u64 {
    now() + time.as_nanos() as u64
}

/// Time since it was `at` by [`now`].
pub fn since(at: u64) -> Duration {
    Duration::from_nanos(now().saturating_sub(at))
}

/// A key: used in one round only, by one client or by all.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Key {
    /// Histories stay short this way.
    pub round: u32,
    /// Place of the client that writes it, or [`Key::SHARED`].
    pub owner: u8,
    /// Which of them.
    pub index: u8,
}

impl Key {
    /// Owner of keys that everybody writes.
    pub const SHARED: u8 = 255;

    /// As the service sees it.
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

/// What is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ask {
    Get,
    Put(u64),
    Delete,
}

/// What is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// Nobody can know.
    Unknown,
    Missing,
    Done,
    Value(u64),
    /// No server answered in time, and the operation was not executed.
    Refused,
}

/// What a client says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Record {
    /// Connected.
    Ready,
    /// The next operation; they count from 0.
    Call { key: Key, ask: Ask, at: u64 },
    /// Operation `op` has ended.
    Return { op: u64, answer: Answer, at: u64 },
    /// Every key of this round was read once more.
    Audited { round: u64 },
}

/// What a client is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    /// Make load with the keys of this round.
    Go(u32),
    /// Stop, and read all keys of the round.
    Stop,
}

impl Record {
    /// Bytes.
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

    /// The next one; an error at the end, which for a client that was killed may be within a record.
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
    /// Says it.
    pub fn write(self, to: &mut impl Write) -> Result<()> {
        to.write_all(&match self {
            Command::Go(round) => words([1, u64::from(round), 0, 0, 0]),
            Command::Stop => words([2, 0, 0, 0, 0]),
        })
    }

    /// Hears it.
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
