//! [`Record`]: every operation of a run: its client, its times, its result.

use drover_kv::{Outcome, Refusal};
use drover_testkit::history::{Call, Event, History};
use drover_testkit::kv_conformance::value_bytes;

/// How an operation ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// It has not ended.
    Pending,
    /// With an answer, at this time.
    Answered(u64),
    /// With an indeterminate outcome, reported at this time.
    Unknown(u64),
    /// It was refused at this time and did not happen.
    Refused(u64, Refusal),
    /// Its client crashed before it ended.
    Orphaned,
}

/// One operation.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Number of the client; a client that replaces a crashed one has a new number.
    pub client: u32,
    /// Number of the key.
    pub key: u64,
    /// The operation and its result.
    pub call: Call,
    /// PUT: length of the value, bytes.
    pub value_len: u32,
    /// PUT: time to live, seconds; 0 = for ever.
    pub ttl_s: u32,
    /// Time of the call, in picoseconds of the cluster's clock.
    pub called_at: u64,
    /// How the operation ended.
    pub end: End,
}

/// All operations, in the order of their calls. The index of an operation is its token, and identifies the value that
/// it stores.
#[derive(Debug, Default)]
pub struct Record {
    /// The operations.
    pub entries: Vec<Entry>,
    /// Answers that are wrong regardless of the order of operations.
    pub nonsense: Vec<String>,
    /// Stops of clients' cores.
    pub stalls: Vec<Stall>,
}

/// A stop of a client's core.
#[derive(Clone, Copy, Debug)]
pub struct Stall {
    /// Number of the client.
    pub client: u32,
    /// Start of the stop, picoseconds.
    pub from: u64,
    /// Duration of the stop, picoseconds.
    pub time: u64,
}

impl Record {
    /// Adds an operation; returns its token.
    pub fn call(&mut self, entry: Entry) -> u64 {
        self.entries.push(entry);
        self.entries.len() as u64 - 1
    }

    /// Removes the last operation, which the client did not accept.
    pub fn undo(&mut self) {
        self.entries.pop();
    }

    /// Records that operation `token` ended at `now`.
    pub fn complete(&mut self, token: u64, outcome: Outcome<'_>, now: u64) {
        let Some(&entry) = self.entries.get(token as usize) else {
            return self.nonsense.push(format!("token {token} was never given"));
        };
        if entry.end != End::Pending {
            let text = format!(
                "operation {token} came back twice: {entry:?}, then {}",
                brief(outcome)
            );
            return self.nonsense.push(text);
        }
        let (call, end) = match (entry.call, outcome) {
            (Call::Get(_), Outcome::Value(bytes)) => match self.identify(bytes, entry.key) {
                Ok(id) => (Call::Get(Some(id)), End::Answered(now)),
                Err(why) => {
                    self.nonsense
                        .push(format!("GET {token} of key {}: {why}", entry.key));
                    (entry.call, End::Orphaned)
                }
            },
            (Call::Get(_), Outcome::NotFound) => (Call::Get(None), End::Answered(now)),
            (Call::Put(_), Outcome::Stored) => (entry.call, End::Answered(now)),
            (Call::Delete(_), Outcome::Deleted) => (Call::Delete(Some(true)), End::Answered(now)),
            (Call::Delete(_), Outcome::NotFound) => (Call::Delete(Some(false)), End::Answered(now)),
            (Call::Put(_) | Call::Delete(_), Outcome::Indeterminate) => (entry.call, End::Unknown(now)),
            (_, Outcome::Refused(why)) => (entry.call, End::Refused(now, why)),
            (call, outcome) => {
                self.nonsense
                    .push(format!("{call:?} answered {}", brief(outcome)));
                (call, End::Orphaned)
            }
        };
        self.entries[token as usize] = Entry { call, end, ..entry };
    }

    /// The token of the PUT that stored this value. Errors: there is none, or it has another key.
    fn identify(&self, bytes: &[u8], key: u64) -> Result<u64, String> {
        let head: [u8; 8] = match bytes.first_chunk() {
            Some(head) => *head,
            None => return Err(format!("{} bytes that nobody put", bytes.len())),
        };
        let id = u64::from_le_bytes(head);
        let Some(put) = self.entries.get(id as usize) else {
            return Err(format!("a value that begins with {id}, which nobody put"));
        };
        if !matches!(put.call, Call::Put(_)) || put.key != key {
            return Err(format!("the value of {put:?}"));
        }
        if bytes != value_bytes(id, put.value_len as usize) {
            return Err(format!("{} bytes mixed from value {id} and others", bytes.len()));
        }
        Ok(id)
    }

    /// Marks the unfinished operations of `client`, which has crashed.
    pub fn orphan(&mut self, client: u32) {
        for entry in &mut self.entries {
            if entry.client == client && entry.end == End::Pending {
                entry.end = End::Orphaned;
            }
        }
    }

    /// Number of operations whose end satisfies `which`.
    pub fn count(&self, which: impl Fn(&End) -> bool) -> usize {
        self.entries.iter().filter(|entry| which(&entry.end)).count()
    }

    /// The history to check for linearizability: every answer, and updates with an indeterminate outcome; per key in
    /// the order of calls.
    pub fn history(&self) -> History {
        let mut history = History::default();
        for entry in &self.entries {
            let returned_at = match entry.end {
                End::Answered(now) => Some(now),
                End::Unknown(_) | End::Orphaned if !matches!(entry.call, Call::Get(_)) => None,
                _ => continue,
            };
            let event = Event {
                client: entry.client,
                call: entry.call,
                called_at: entry.called_at,
                returned_at,
            };
            history.push(key_text(entry.key, 0).as_slice(), event);
        }
        history
    }
}

/// Text of an outcome without the bytes of its value.
fn brief(outcome: Outcome<'_>) -> String {
    match outcome {
        Outcome::Value(bytes) => format!("a value of {} bytes", bytes.len()),
        other => format!("{other:?}"),
    }
}

/// The bytes of key number `key`: 16 bytes, which clients treat specially, or another length up to `bytes_max`.
pub fn key_text(key: u64, bytes_max: usize) -> Vec<u8> {
    let mut text = format!("key-{key:012}").into_bytes();
    if key % 3 == 2 && bytes_max > 16 {
        text.resize(17 + key as usize % (bytes_max - 16), b'.');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use drover_testkit::linear::Model;

    fn entry(call: Call, called_at: u64) -> Entry {
        Entry {
            client: 1,
            key: 5,
            call,
            value_len: 20,
            ttl_s: 0,
            called_at,
            end: End::Pending,
        }
    }

    fn put_and_get(record: &mut Record, value: &[u8]) {
        let put = record.call(entry(Call::Put(0), 1));
        record.complete(put, Outcome::Stored, 10);
        let get = record.call(entry(Call::Get(None), 11));
        record.complete(get, Outcome::Value(value), 12);
    }

    #[test]
    fn values_say_who_put_them() {
        let mut record = Record::default();
        put_and_get(&mut record, &value_bytes(0, 20));
        assert!(record.nonsense.is_empty());
        assert_eq!(record.entries[1].call, Call::Get(Some(0)));
        assert!(record.history().check(Model::Register).is_ok());
    }

    #[test]
    fn wrong_values_are_noticed() {
        let mut torn = value_bytes(0, 20);
        torn[12] ^= 1;
        for value in [
            torn.as_slice(),
            &value_bytes(1, 20),
            &value_bytes(77, 20),
            &[1, 2],
            &value_bytes(0, 19),
        ] {
            let mut record = Record::default();
            put_and_get(&mut record, value);
            assert_eq!(record.nonsense.len(), 1, "{value:?}");
        }
    }

    #[test]
    fn a_second_answer_is_noticed() {
        let mut record = Record::default();
        let put = record.call(entry(Call::Put(0), 1));
        record.complete(put, Outcome::Indeterminate, 2);
        record.complete(put, Outcome::Stored, 3);
        assert_eq!(record.nonsense.len(), 1);
    }
}
