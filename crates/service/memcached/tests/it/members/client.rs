//! A client's connection: what it asks, and what it is told.

use super::{Clock, KEYS, name};
use drover_base::Rng;
use drover_memcached::Session;
use drover_net::{Need, Output};
use drover_store::Sharing;
use drover_testkit::history::{Call, Event};
use std::collections::VecDeque;
use std::io::IoSlice;

/// Requests in flight.
const PIPELINE: usize = 4;
/// Why a request was certainly not executed, and why it may have been.
const GAVE_UP: &str = "SERVER_ERROR drover: no member serves this key now";
const LOST: &str = "SERVER_ERROR drover: member ";

/// A request that waits for its reply.
#[derive(Debug)]
struct Asked {
    calls: Vec<(u64, Call)>,
    called_at: u64,
    noreply: bool,
}

pub struct Connection<S: Sharing> {
    pub number: u32,
    pub session: Session<Clock, S>,
    pub input: Vec<u8>,
    pub output: Output,
    pub need: Need,
    told: Vec<u8>,
    asked: VecDeque<Asked>,
    /// The server has closed it.
    pub is_closed: bool,
}

impl<S: Sharing> Connection<S> {
    pub fn new(number: u32) -> Connection<S> {
        Connection {
            number,
            session: Session::new(false),
            input: Vec::new(),
            output: Output::new(number.into(), 1 << 14),
            need: Need::Input { at_least: 1 },
            told: Vec::new(),
            asked: VecDeque::new(),
            is_closed: false,
        }
    }

    pub fn is_idle(&self) -> bool {
        self.asked.is_empty()
    }

    /// Writes a request, unless enough are in flight.
    pub fn ask(&mut self, rng: &mut Rng, value: u64, now: u64) {
        if self.asked.len() >= PIPELINE || self.is_closed {
            return;
        }
        let key = rng.below(KEYS);
        let (key_name, text) = (name(key), value.to_string());
        let len = text.len();
        let (calls, request, noreply) = match rng.below(20) {
            0..6 => (vec![(key, Call::Get(None))], format!("get {key_name}\r\n"), false),
            6..9 => {
                let keys: Vec<u64> = (0..2 + rng.below(4)).map(|_| rng.below(KEYS)).collect();
                let names: Vec<String> = keys.iter().map(|key| name(*key)).collect();
                let calls = keys.iter().map(|key| (*key, Call::Get(None))).collect();
                (calls, format!("get {}\r\n", names.join(" ")), false)
            }
            9..14 => (
                vec![(key, Call::Put(value))],
                format!("set {key_name} 0 0 {len}\r\n{text}\r\n"),
                false,
            ),
            14 => (
                vec![(key, Call::Put(value))],
                format!("set {key_name} 0 0 {len} noreply\r\n{text}\r\n"),
                true,
            ),
            15 | 16 => (
                vec![(key, Call::Delete(None))],
                format!("delete {key_name}\r\n"),
                false,
            ),
            _ => (
                vec![(key, Call::Add { by: 1, sum: None })],
                format!("incr {key_name} 1\r\n"),
                false,
            ),
        };
        self.input.extend_from_slice(request.as_bytes());
        self.asked.push_back(Asked {
            calls,
            called_at: now,
            noreply,
        });
    }

    /// Asks for something more if the last requests want no reply: they have returned when that has.
    pub fn ask_to_end(&mut self, now: u64) {
        if self.asked.back().is_some_and(|asked| asked.noreply) {
            self.input
                .extend_from_slice(format!("get {}\r\n", name(0)).as_bytes());
            self.asked.push_back(Asked {
                calls: vec![(0, Call::Get(None))],
                called_at: now,
                noreply: false,
            });
        }
    }

    /// Takes the bytes that the server has written.
    pub fn write(&mut self) {
        while self.output.ready_bytes() > 0 {
            let before = self.told.len();
            let mut slices = [IoSlice::new(&[]); 4];
            let count = self.output.slices(&mut slices);
            self.told
                .extend(slices[..count].iter().flat_map(|slice| slice.iter()));
            self.output.wrote(self.told.len() - before);
        }
    }

    /// Takes what the server has said.
    pub fn take_told(&mut self) -> String {
        self.write();
        String::from_utf8(std::mem::take(&mut self.told)).expect("text")
    }

    /// Reads the replies that have come whole.
    /// `may_lose`: what wants no reply may have been lost on its way, and nobody says so.
    pub fn read(&mut self, now: u64, may_lose: bool, record: &mut dyn FnMut(u64, Event)) {
        // What wants no reply has returned when a later request has.
        while let Some(nth) = self.asked.iter().position(|asked| !asked.noreply) {
            let Some(calls) = self.reply_to(nth) else { return };
            for asked in self.asked.drain(..nth) {
                for (key, call) in asked.calls {
                    let event = Event {
                        client: self.number,
                        call,
                        called_at: asked.called_at,
                        returned_at: (!may_lose).then_some(now),
                    };
                    record(key, event);
                }
            }
            let asked = self.asked.pop_front().expect("it is the first now");
            for (key, call, is_known) in calls {
                let event = Event {
                    client: self.number,
                    call,
                    called_at: asked.called_at,
                    returned_at: is_known.then_some(now),
                };
                record(key, event);
            }
        }
    }

    /// Nobody knows whether the requests in flight were executed.
    pub fn abandon(&mut self, record: &mut dyn FnMut(u64, Event)) {
        for asked in self.asked.drain(..) {
            for (key, call) in asked.calls {
                let event = Event {
                    client: self.number,
                    call,
                    called_at: asked.called_at,
                    returned_at: None,
                };
                record(key, event);
            }
        }
    }

    /// The calls of a request with their results, if its reply has come whole, and whether they are known; without those that were
    /// not executed.
    fn reply_to(&mut self, nth: usize) -> Option<Vec<(u64, Call, bool)>> {
        let text = String::from_utf8(self.told.clone()).expect("text");
        let mut lines = text.split_inclusive("\r\n").filter(|line| line.ends_with("\r\n"));
        let (mut used, mut found) = (0, Vec::new());
        let asked = &self.asked[nth];
        let calls = loop {
            let line = lines.next()?;
            used += line.len();
            let line = line.trim_end();
            if line == GAVE_UP {
                break Vec::new();
            }
            if line.starts_with(LOST) {
                break asked
                    .calls
                    .iter()
                    .map(|(key, call)| (*key, *call, false))
                    .collect();
            }
            let (key, call) = asked.calls[0];
            let call = match (call, line.split(' ').collect::<Vec<_>>().as_slice()) {
                (Call::Get(_), ["VALUE", name, ..]) => {
                    let value = lines.next()?;
                    used += value.len();
                    found.push((name.to_string(), value.trim().parse().expect("a number")));
                    continue;
                }
                (Call::Get(_), ["END"]) => break gets(&asked.calls, found),
                (Call::Put(id), ["STORED"]) => Call::Put(id),
                (Call::Delete(_), ["DELETED"]) => Call::Delete(Some(true)),
                (Call::Delete(_), ["NOT_FOUND"]) => Call::Delete(Some(false)),
                (Call::Add { by, .. }, ["NOT_FOUND"]) => Call::Add { by, sum: None },
                (Call::Add { by, .. }, [sum]) => Call::Add {
                    by,
                    sum: Some(sum.trim().parse().expect("a number")),
                },
                (call, line) => panic!("{call:?}: {line:?} in {text:?}"),
            };
            break vec![(key, call, true)];
        };
        self.told.drain(..used);
        Some(calls)
    }
}

/// The results of a fetch of keys: the values are in their order.
fn gets(calls: &[(u64, Call)], found: Vec<(String, u64)>) -> Vec<(u64, Call, bool)> {
    let mut found = found.into_iter().peekable();
    let results = calls.iter().map(|(key, _)| {
        let value = found
            .next_if(|(found, _)| *found == name(*key))
            .map(|(_, value)| value);
        (*key, Call::Get(value), true)
    });
    let results = results.collect();
    assert!(found.next().is_none(), "values in the order of their keys");
    results
}
