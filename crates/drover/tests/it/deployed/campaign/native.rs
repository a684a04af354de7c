//! [`Native`]: a native client, which asks the member that owns a key, over shared memory.

use super::conn::{Answer, Ask, Item, ttl_s};
use super::draw::Draw;
use super::load::BATCH;
use super::report::Record;
use crate::deployed::bed::CLUSTER;
use crate::deployed::process::now;
use drover_client::{CallError, Client, PutOptions};

pub struct Native {
    client: Client,
    draw: Draw,
    /// The key that has no service, which is asked for until it has.
    again: Option<u32>,
}

impl Native {
    pub fn connect(draw: Draw) -> Native {
        let client = Client::connect(CLUSTER).expect("a service with members");
        let again = None;
        Native { client, draw, again }
    }

    /// Executes some commands, one after the other.
    pub fn batch(&mut self, record: &mut Record) {
        for _ in 0..BATCH {
            let (key, ask) = match self.again.take() {
                Some(key) => (key, Ask::Get),
                None => self.draw.next(),
            };
            let called_at = now();
            let answer = self.execute(key, ask);
            if !record.add(self.draw.number, key, ask, called_at, Some((answer, now()))) {
                self.again = Some(key);
            }
        }
    }

    fn execute(&mut self, key: u32, ask: Ask) -> Answer {
        let name = format!("key-{key}").into_bytes();
        let done = match ask {
            Ask::Get => self.client.get_item(&name).map(|found| {
                let item = found.map(|found| item(key, &found));
                Answer::Done(item.is_some(), item)
            }),
            Ask::Put(value) => {
                let options = PutOptions {
                    ttl_s: ttl_s(key) as u32,
                    flags: key,
                    ..PutOptions::default()
                };
                let stored = self
                    .client
                    .put_with(&name, value.to_string().as_bytes(), &options);
                stored.map(|_| Answer::Done(true, None))
            }
            Ask::Delete => self.client.delete(&name).map(|found| Answer::Done(found, None)),
        };
        done.unwrap_or_else(|error| match error {
            CallError::Indeterminate => Answer::Unknown,
            CallError::Refused(_) | CallError::Submit(_) => Answer::Refused,
            other => panic!("{ask:?} of {key}: {other}"),
        })
    }
}

/// An item without the time that it has left, which native clients do not read.
fn item(key: u32, found: &drover_client::Item) -> Item {
    let text = std::str::from_utf8(&found.value).expect("a number");
    Item {
        value: text.parse().expect("a number"),
        flags: found.flags,
        ttl_s: ttl_s(key),
        cas: found.version,
    }
}
