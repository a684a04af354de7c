//! [`Record`]: every operation of a run with its client, its times and its result.

use crate::reply::{replied, written};
use drover_kv::{Outcome, Refusal};
use drover_testkit::history::{Call, Event, History};
use drover_testkit::kv_conformance::value_bytes;

/// Number of the key that a load of a [hot key](crate::load::Load::hot_key) reads.
pub const HOT_KEY: u64 = 0;

/// How an operation ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The operation has not ended.
    Pending,
    /// The client returned an answer at this time, picoseconds.
    Answered(u64),
    /// The client reported at this time, picoseconds, that the outcome is indeterminate.
    Unknown(u64),
    /// The operation was refused at this time, picoseconds, for this reason, and did not happen.
    Refused(u64, Refusal),
    /// The client crashed before the operation ended, or returned a result that makes no sense.
    Orphaned,
}

/// One operation of a run.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Number of the client; a client that replaces a crashed one has a new number.
    pub client: u32,
    /// Number of the key: see [`key_text`].
    pub key: u64,
    /// The operation and, once it is answered, its result.
    pub call: Call,
    /// PUT: length of the value in bytes; otherwise 0.
    pub value_len: u32,
    /// PUT: time to live in seconds; 0: the item does not expire.
    pub ttl_s: u32,
    /// Time of the call, in picoseconds of the cluster's clock.
    pub called_at: u64,
    /// How the operation ended.
    pub end: End,
}

/// Record of a run: all operations, in the order of their calls, and what else the checks need. The index of an
/// operation is its token, and identifies the value that it stores.
#[derive(Debug, Default)]
pub struct Record {
    /// The operations.
    pub entries: Vec<Entry>,
    /// Descriptions of results that are wrong regardless of the order of operations, such as a value that nobody
    /// stored.
    pub nonsense: Vec<String>,
    /// All stops of clients' cores.
    pub stalls: Vec<Stall>,
}

/// A period in which a client's core was stopped.
#[derive(Clone, Copy, Debug)]
pub struct Stall {
    /// Number of the client whose core was stopped.
    pub client: u32,
    /// Start of the stop, picoseconds.
    pub from: u64,
    /// Duration of the stop, picoseconds.
    pub time: u64,
}

impl Record {
    /// Adds an operation and returns its token.
    pub fn call(&mut self, entry: Entry) -> u64 {
        self.entries.push(entry);
        self.entries.len() as u64 - 1
    }

    /// Removes the operation added last, because the client did not accept it.
    pub fn undo(&mut self) {
        self.entries.pop();
    }

    /// Records that operation `token` ended with `outcome` at `now` (picoseconds). A wrong token, a second end, an
    /// outcome that does not fit the operation, or a value that no PUT of the key wrote, is described in `nonsense`; in
    /// the latter two cases the operation becomes orphaned.
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
            (Call::Get(_), Outcome::Value(bytes) | Outcome::Found { value: bytes, .. }) => {
                match self.identify(bytes, entry.key) {
                    Ok(id) => (Call::Get(Some(id)), End::Answered(now)),
                    Err(why) => {
                        self.nonsense
                            .push(format!("GET {token} of key {}: {why}", entry.key));
                        (entry.call, End::Orphaned)
                    }
                }
            }
            (call, Outcome::Indeterminate) if !matches!(call, Call::Get(_)) => (call, End::Unknown(now)),
            (call, Outcome::Refused(why)) => (call, End::Refused(now, why)),
            (call, outcome) => match replied(call, outcome) {
                Some(call) => (call, End::Answered(now)),
                None => {
                    self.nonsense
                        .push(format!("{call:?} answered {}", brief(outcome)));
                    (call, End::Orphaned)
                }
            },
        };
        self.entries[token as usize] = Entry { call, end, ..entry };
    }

    /// Returns the token of the PUT that stored this value; an error if there is none, or it has another key.
    fn identify(&self, bytes: &[u8], key: u64) -> Result<u64, String> {
        let head: [u8; 8] = match bytes.first_chunk() {
            Some(head) => *head,
            None => return Err(format!("{} bytes that nobody put", bytes.len())),
        };
        let id = u64::from_le_bytes(head);
        let Some(put) = self.entries.get(id as usize) else {
            return Err(format!("a value that begins with {id}, which nobody put"));
        };
        if written(put.call).is_none() || put.key != key {
            return Err(format!("the value of {put:?}"));
        }
        if bytes != value_bytes(id, put.value_len as usize) {
            return Err(format!("{} bytes mixed from value {id} and others", bytes.len()));
        }
        Ok(id)
    }

    /// Marks the pending operations of `client`, which has crashed, as orphaned.
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

    /// Returns the history to check for linearizability, per key in the order of calls: answered operations, and PUTs
    /// and DELETEs that may or may not have happened (indeterminate or orphaned); not pending and refused ones.
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
        Outcome::Value(bytes) | Outcome::Found { value: bytes, .. } => {
            format!("a value of {} bytes", bytes.len())
        }
        other => format!("{other:?}"),
    }
}

/// Returns the bytes of key number `key`: 16 bytes, for which clients have a fast path, or for every third key 17 to
/// `bytes_max`, if that is more than 16.
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
