//! [`Record`]: every operation of a run, who called it, when it came back and with what.

use drover_kv::{Outcome, Refusal};
use drover_testkit::history::{Call, Event, History};
use drover_testkit::kv_conformance::value_bytes;

/// How an operation ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// Not yet.
    Pending,
    /// With an answer, at this time.
    Answered(u64),
    /// Nobody can know whether it happened; at this time it was said so.
    Unknown(u64),
    /// It did not happen.
    Refused(u64, Refusal),
    /// Its client crashed before it came back.
    Orphaned,
}

/// One operation.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Whose: clients that take the place of a crashed one have numbers of their own.
    pub client: u32,
    /// Which key.
    pub key: u64,
    /// What, and what it returned.
    pub call: Call,
    /// PUT: length of the value, bytes.
    pub value_len: u32,
    /// PUT: its time to live, 0 = for ever.
    pub ttl_s: u32,
    /// When, in picoseconds of the cluster's own clock.
    pub called_at: u64,
    /// How it ended.
    pub end: End,
}

/// All operations, in the order of their calls. The index of an operation is its token, and the identity of the value
/// that it puts.
#[derive(Debug, Default)]
pub struct Record {
    /// The operations.
    pub entries: Vec<Entry>,
    /// Answers that no state of a store explains.
    pub nonsense: Vec<String>,
    /// When clients' cores stood still.
    pub stalls: Vec<Stall>,
}

/// A client's core stood still.
#[derive(Clone, Copy, Debug)]
pub struct Stall {
    /// Whose.
    pub client: u32,
    /// Since when, in picoseconds.
    pub from: u64,
    /// For how long, in picoseconds.
    pub time: u64,
}

impl Record {
    /// A new operation; returns its token.
    pub fn call(&mut self, entry: Entry) -> u64 {
        self.entries.push(entry);
        self.entries.len() as u64 - 1
    }

    /// The last operation was not taken.
    pub fn undo(&mut self) {
        self.entries.pop();
    }

    /// Operation `token` came back at `now`.
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

    /// Who put this value. Errors: nobody, or not under this key.
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

    /// The operations of `client` that have not come back never will.
    pub fn orphan(&mut self, client: u32) {
        for entry in &mut self.entries {
            if entry.client == client && entry.end == End::Pending {
                entry.end = End::Orphaned;
            }
        }
    }

    /// How many operations ended in a way that `which` accepts.
    pub fn count(&self, which: impl Fn(&End) -> bool) -> usize {
        self.entries.iter().filter(|entry| which(&entry.end)).count()
    }

    /// What can be checked for linearizability: every answer, and updates whose fate nobody knows; per key in the order
    /// of their calls.
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

/// An outcome without the bytes of values.
fn brief(outcome: Outcome<'_>) -> String {
    match outcome {
        Outcome::Value(bytes) => format!("a value of {} bytes", bytes.len()),
        other => format!("{other:?}"),
    }
}

/// The bytes of key number `key`: of 16 bytes, which clients treat specially, or of some other length up to
/// `bytes_max`.
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
