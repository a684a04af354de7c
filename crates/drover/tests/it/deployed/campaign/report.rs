//! [`Record`]: what all clients did, and what they noticed.

use super::conn::{Answer, Ask, Item, ttl_s};
use super::load::KEYS;
use drover_testkit::history::{Call, Event, History};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Client of events that are the loss of a member.
pub const LOSS: u32 = 9000;

/// Commands that were called, one after the other, until a key was served.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Wait {
    /// From the call of the first one to the answer of the last.
    pub time: Duration,
    pub client: u32,
    pub key: u32,
    /// Answers that did not execute the command, or may not have.
    pub failures: u32,
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Wait {
            time,
            client,
            key,
            failures,
        } = self;
        write!(
            f,
            "{time:.2?} (key-{key}, by client {client}, {failures} failures)"
        )
    }
}

/// What was recorded by one client, or by all.
#[derive(Clone, Default)]
pub struct Record {
    /// Events by key.
    pub events: BTreeMap<u32, Vec<Event>>,
    /// What no item may be like.
    pub mistakes: Vec<String>,
    /// When each key's first command without success was called, since its last success, and how many there were.
    troubled: BTreeMap<u32, (u64, u32)>,
    /// The longest wait until a key was served.
    pub longest: Wait,
    /// CAS numbers of values, by key.
    cas: BTreeMap<u32, (u64, u64)>,
    refused: u64,
    unknown: u64,
}

impl Record {
    /// Adds a command that was called at `called_at`; `answer` has the time when it came, `None` if none did. Returns
    /// whether it was executed.
    pub fn add(
        &mut self,
        client: u32,
        key: u32,
        ask: Ask,
        called_at: u64,
        answer: Option<(Answer, u64)>,
    ) -> bool {
        let (call, returned_at) = match answer {
            Some((Answer::Refused, _)) => {
                self.refused += 1;
                self.is_troubled(key, called_at);
                return false;
            }
            Some((Answer::Done(found, item), at)) => (call(ask, Some((found, item))), Some(at)),
            Some((Answer::Unknown, _)) | None => (call(ask, None), None),
        };
        self.events.entry(key).or_default().push(Event {
            client,
            call,
            called_at,
            returned_at,
        });
        match (returned_at, answer) {
            (Some(at), _) => {
                let (since, failures) = self.troubled.remove(&key).unwrap_or((called_at, 0));
                self.longest = self.longest.max(Wait {
                    time: Duration::from_nanos(at.saturating_sub(since)),
                    client,
                    key,
                    failures,
                });
            }
            (None, Some(_)) => {
                self.unknown += 1;
                self.is_troubled(key, called_at);
            }
            // A connection that ends says nothing about the key: clients go to another member.
            (None, None) => self.unknown += 1,
        }
        if let Some((Answer::Done(_, Some(item)), _)) = answer {
            self.look_at(key, item);
        }
        returned_at.is_some()
    }

    fn is_troubled(&mut self, key: u32, called_at: u64) {
        self.troubled.entry(key).or_insert((called_at, 0)).1 += 1;
    }

    /// Compares an item with what was written.
    fn look_at(&mut self, key: u32, item: Item) {
        let (value, cas) = *self.cas.entry(key).or_insert((item.value, item.cas));
        let is_right = item.flags == key && (1..=ttl_s(key)).contains(&item.ttl_s);
        if !is_right || (value == item.value && cas != item.cas) {
            self.mistakes
                .push(format!("key-{key}: {item:?}, CAS number {cas} before"));
        }
        self.cas.insert(key, (item.value, item.cas));
    }

    /// What is without service is asked for no more.
    pub fn forget_troubles(&mut self) {
        self.troubled.clear();
    }

    /// The member that had the key was lost after `called_at`, and the key was served without its value at `returned_at`. `None`: it
    /// may have been another member that had the key, so the value may go at any time, or not at all.
    pub fn lose(&mut self, key: u32, called_at: u64, returned_at: Option<u64>) {
        self.events.entry(key).or_default().push(Event {
            client: LOSS,
            call: Call::Delete(None),
            called_at,
            returned_at,
        });
    }

    /// Adds what another client recorded.
    pub fn merge(&mut self, other: Record) {
        for (key, events) in other.events {
            self.events.entry(key).or_default().extend(events);
        }
        self.mistakes.extend(other.mistakes);
        self.longest = self.longest.max(other.longest);
        self.refused += other.refused;
        self.unknown += other.unknown;
    }

    /// As the checker has it.
    pub fn history(&self) -> History {
        let mut history = History::default();
        for (key, events) in &self.events {
            for event in events {
                history.push(format!("key-{key}").as_bytes(), *event);
            }
        }
        history
    }

    /// Figures of the whole campaign.
    pub fn summary(&self) -> String {
        let operations: usize = self.events.values().map(Vec::len).sum();
        format!(
            "{operations} operations on {KEYS} keys; {} refused, {} of unknown outcome; the longest wait until a key was served was {}",
            self.refused, self.unknown, self.longest
        )
    }
}

/// `outcome`: whether the key had a value, and which; `None`: nobody knows.
fn call(ask: Ask, outcome: Option<(bool, Option<Item>)>) -> Call {
    match ask {
        Ask::Get => Call::Get(outcome.and_then(|(_, item)| item).map(|item| item.value)),
        Ask::Put(value) => Call::Put(value),
        Ask::Delete => Call::Delete(outcome.map(|(found, _)| found)),
    }
}
