//! Cores without threads, connections without sockets, and native clients without a fabric, scheduled by a seed.

use super::workers::{Asked, Interrupted, NOW_S, Workers, long, name, number};
use drover_base::{HashSeed, Rng};
use drover_mem::NativeCpu;
use drover_memcached::{
    Core, Executor, Inbound, NoHooks, Outbound, Receiver, Rings, Server, Session, Settings,
};
use drover_net::{Need, Output, PendingReply, Protocol};
use drover_store::{Hint, Partition, Sharing};
use drover_testkit::history::{Call, Event, History, Swapped};
use drover_verbs::Waker;
use std::collections::{BTreeMap, VecDeque};
use std::io::IoSlice;
use std::rc::Rc;
use std::sync::Arc;

pub const CORES: usize = 3;
/// Connections on each core.
const CONNECTIONS: usize = 2;
/// Rings so short that they are sometimes full.
const RING_BYTES: usize = 512;
/// Requests in flight per connection.
const PIPELINE: usize = 4;

/// A mistake planted in the cluster, which the checker must find.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flaw {
    /// Native requests go to the wrong core, so the two kinds of clients see different items.
    NativeGoesElsewhere,
    /// `cas` looks first and writes later.
    CasInTwoSteps,
    /// A write for another core is acknowledged before it arrives there.
    AnswersBeforeTheOtherCore,
}

/// A simulated server with its clients.
pub struct Cluster<S: Sharing> {
    rng: Rng,
    flaw: Option<Flaw>,
    cores: Vec<Site<S>>,
    /// The cores' partitions, and their native clients.
    workers: Rc<Workers<S>>,
    server: Arc<Server>,
}

struct Site<S: Sharing> {
    core: Core,
    outbound: Outbound,
    inbound: Inbound,
    connections: Vec<Connection<S>>,
}

struct Connection<S: Sharing> {
    client: u32,
    session: Session<Interrupted<S>, S>,
    input: Vec<u8>,
    output: Output,
    need: Need,
    told: Vec<u8>,
    asked: VecDeque<Asked>,
    /// Per key: value and CAS last read.
    read: BTreeMap<u64, (u64, u64)>,
    /// [`Flaw::CasInTwoSteps`]: a check that found the value unchanged.
    to_write: Option<(u64, u64)>,
}

impl<S: Sharing + 'static> Cluster<S> {
    pub fn new(seed: u64, flaw: Option<Flaw>) -> Cluster<S> {
        let hasher = HashSeed::new(1, 2).hasher();
        let server = Arc::new(Server::new(
            hasher,
            1_700_000_000,
            CORES,
            Settings::default(),
            Box::new(NoHooks),
        ));
        let rings = Rings::between(CORES, RING_BYTES).expect("memory");
        let site = |(index, rings): (usize, Rings)| {
            rings.set_waker(Waker::new(|| ()));
            let client = |i| (1 + index * CONNECTIONS + i) as u32;
            Site {
                core: Core::default(),
                outbound: rings.outbound,
                inbound: rings.inbound,
                connections: (0..CONNECTIONS).map(|i| Connection::new(client(i))).collect(),
            }
        };
        Cluster {
            rng: Rng::new(seed, 0, 0x4157),
            flaw,
            cores: rings.into_iter().enumerate().map(site).collect(),
            workers: Rc::new(Workers::new(seed, CORES, flaw, server.clone())),
            server,
        }
    }

    /// Number of GETs that were read in place.
    pub fn read_in_place(&self) -> u64 {
        self.cores.iter().map(|site| site.core.read_in_place()).sum()
    }

    /// Picks one actor at random and lets it make one step.
    pub fn step(&mut self) {
        self.workers.tick();
        let (at, which) = (
            self.rng.below(CORES as u64) as usize,
            self.rng.below(CONNECTIONS as u64) as usize,
        );
        match self.rng.below(10) {
            0 | 1 => self.ask(at, which),
            2..4 => self.serve(at, which),
            4 | 5 => self.cross(at),
            6 | 7 => self.hear(at, which),
            _ => self.workers.native(),
        }
    }

    /// Finishes all requests, reads every key and returns the history.
    pub fn finish(&mut self) -> History {
        for _ in 0..1000 {
            self.workers.tick();
            for at in 0..CORES {
                for which in 0..CONNECTIONS {
                    self.serve(at, which);
                    self.cross(at);
                    self.hear(at, which);
                }
            }
            self.workers.finish();
        }
        let left = |connection: &Connection<S>| connection.asked.len();
        let under_way: usize = self
            .cores
            .iter()
            .flat_map(|site| &site.connections)
            .map(left)
            .sum();
        assert_eq!(under_way, 0, "requests that are never answered");
        self.workers.history.take()
    }

    /// A connection's client writes a request.
    fn ask(&mut self, at: usize, which: usize) {
        let key = self.workers.key();
        let (kind, value) = (self.rng.below(100), self.workers.value());
        let two_steps = self.flaw == Some(Flaw::CasInTwoSteps);
        let connection = &mut self.cores[at].connections[which];
        if connection.asked.len() >= PIPELINE {
            return;
        }
        let (text, name) = (long(key, value), name(key));
        let len = text.len();
        let (from, cas) = connection.read.get(&key).copied().unwrap_or_default();
        let (call, text) = match kind {
            0..35 => (Call::Get(None), format!("gets {name}\r\n")),
            35..55 => (Call::Put(value), format!("set {name} 3 0 {len}\r\n{text}\r\n")),
            55..62 => (Call::Delete(None), format!("delete {name}\r\n")),
            62..85 if two_steps => {
                if !connection.asked.is_empty() {
                    return;
                }
                connection.to_write = Some((from, value));
                (Call::Get(None), format!("gets {name}\r\n"))
            }
            62..85 => {
                let said = Swapped::Missing;
                let swap = Call::Swap {
                    from,
                    to: value,
                    said,
                };
                (swap, format!("cas {name} 4 0 {len} {cas}\r\n{text}\r\n"))
            }
            _ if super::workers::is_long(key) => (Call::Get(None), format!("gets {name}\r\n")),
            _ => (Call::Add { by: 1, sum: None }, format!("incr {name} 1\r\n")),
        };
        let called_at = self.workers.now();
        connection.input.extend_from_slice(text.as_bytes());
        connection.asked.push_back(Asked { key, call, called_at });
    }

    /// A core serves a connection.
    fn serve(&mut self, at: usize, which: usize) {
        let (site, workers) = (&mut self.cores[at], &self.workers);
        if site.outbound.has_space_again() {
            let waiting = site
                .connections
                .iter_mut()
                .filter(|other| other.need == Need::Route);
            waiting.for_each(|connection| connection.need = Need::Turn);
        }
        let connection = &mut site.connections[which];
        let is_due = match connection.need {
            Need::Input { at_least } => connection.input.len() >= at_least,
            Need::Turn | Need::OutputSpace => true,
            Need::Replies | Need::Route | Need::Notification | Need::Tick | Need::Close => false,
        };
        if is_due {
            let cpu = Interrupted::new(workers);
            let mut executor = Executor {
                partition: &mut *workers.partition(at),
                cpu: &cpu,
                now_s: NOW_S,
                core: &mut site.core,
                server: &self.server,
                router: &mut site.outbound,
            };
            let advance =
                connection
                    .session
                    .advance(&mut executor, &connection.input, &mut connection.output);
            connection.input.drain(..advance.used);
            connection.need = advance.need;
        }
        site.outbound.publish();
        connection.write();
    }

    /// A core handles the messages in its rings.
    fn cross(&mut self, at: usize) {
        let Site {
            core,
            outbound,
            inbound,
            connections,
        } = &mut self.cores[at];
        let mut glue = Glue {
            partition: &mut *self.workers.partition(at),
            cpu: &NativeCpu::new(1),
            core,
            server: &self.server,
            outbound,
            connections,
        };
        inbound.step(&mut glue, &mut Output::new(0, usize::MAX));
        connections.iter_mut().for_each(Connection::write);
    }

    /// A client reads its replies.
    fn hear(&mut self, at: usize, which: usize) {
        let early = self.flaw == Some(Flaw::AnswersBeforeTheOtherCore);
        let connection = &mut self.cores[at].connections[which];
        while let Some(asked) = connection.asked.front().copied() {
            let Some(call) = connection.answer(asked) else {
                break;
            };
            connection.asked.pop_front();
            let returned_at = match (early, call) {
                (true, Call::Put(_)) => asked.called_at + 1,
                _ => self.workers.now(),
            };
            let event = Event {
                client: connection.client,
                call,
                called_at: asked.called_at,
                returned_at: Some(returned_at),
            };
            self.workers.record(asked.key, event);
            if let Some((from, to)) = connection.to_write.take() {
                connection.write_later(asked, call, (from, to), self.workers.now());
            }
        }
    }
}

impl<S: Sharing> Connection<S> {
    fn new(client: u32) -> Connection<S> {
        Connection {
            client,
            session: Session::new(false),
            input: Vec::new(),
            output: Output::new(client.into(), 1 << 14),
            need: Need::Input { at_least: 1 },
            told: Vec::new(),
            asked: VecDeque::new(),
            read: BTreeMap::new(),
            to_write: None,
        }
    }

    fn write(&mut self) {
        while self.output.ready_bytes() > 0 {
            let before = self.told.len();
            let mut slices = [IoSlice::new(&[]); 4];
            let count = self.output.slices(&mut slices);
            let bytes = slices[..count].iter().flat_map(|slice| slice.iter());
            self.told.extend(bytes);
            let written = self.told.len() - before;
            self.output.wrote(written);
        }
    }

    /// The reply to the oldest request, if complete.
    fn answer(&mut self, asked: Asked) -> Option<Call> {
        let text = std::str::from_utf8(&self.told).expect("text");
        let lines: Vec<&str> = text
            .split_inclusive("\r\n")
            .take_while(|line| line.ends_with("\r\n"))
            .collect();
        let first = lines.first()?.trim_end();
        let words: Vec<&str> = first.split(' ').collect();
        let (count, call) = match (asked.call, words[0]) {
            (Call::Get(_), "VALUE") => {
                let value = number(lines.get(1)?.as_bytes());
                lines.get(2)?;
                let cas = words[4].parse().expect("a number");
                self.read.insert(asked.key, (value, cas));
                (3, Call::Get(Some(value)))
            }
            (Call::Get(_), "END") => (1, Call::Get(None)),
            (Call::Put(id), "STORED") => (1, Call::Put(id)),
            (Call::Delete(_), "DELETED") => (1, Call::Delete(Some(true))),
            (Call::Delete(_), "NOT_FOUND") => (1, Call::Delete(Some(false))),
            (Call::Swap { from, to, .. }, said) => {
                let said = match said {
                    "STORED" => Swapped::Done,
                    "EXISTS" => Swapped::Other,
                    "NOT_FOUND" => Swapped::Missing,
                    other => panic!("{other}"),
                };
                (1, Call::Swap { from, to, said })
            }
            (Call::Add { by, .. }, "NOT_FOUND") => (1, Call::Add { by, sum: None }),
            (Call::Add { by, .. }, sum) => (
                1,
                Call::Add {
                    by,
                    sum: Some(number(sum.as_bytes())),
                },
            ),
            (call, other) => panic!("{call:?}: {other}"),
        };
        let bytes: usize = lines[..count].iter().map(|line| line.len()).sum();
        self.told.drain(..bytes);
        Some(call)
    }

    /// [`Flaw::CasInTwoSteps`]: the check succeeded earlier, so the value is written regardless of later changes.
    fn write_later(&mut self, asked: Asked, seen: Call, (from, to): (u64, u64), now: u64) {
        if seen != Call::Get(Some(from)) {
            return;
        }
        let text = long(asked.key, to);
        let set = format!("set {} 4 0 {}\r\n{text}\r\n", name(asked.key), text.len());
        self.input.extend_from_slice(set.as_bytes());
        self.asked.push_back(Asked {
            key: asked.key,
            call: Call::Swap {
                from,
                to,
                said: Swapped::Done,
            },
            called_at: now,
        });
    }
}

/// Receiver of a core while its rings are stepped.
struct Glue<'s, S: Sharing> {
    partition: &'s mut Partition<S>,
    cpu: &'s NativeCpu,
    core: &'s mut Core,
    server: &'s Server,
    outbound: &'s mut Outbound,
    connections: &'s mut [Connection<S>],
}

impl<S: Sharing> Glue<'_, S> {
    fn executor(&mut self) -> Executor<'_, NativeCpu, S> {
        Executor {
            partition: self.partition,
            cpu: self.cpu,
            now_s: NOW_S,
            core: self.core,
            server: self.server,
            router: self.outbound,
        }
    }
}

impl<S: Sharing> Receiver for Glue<'_, S> {
    fn prefetch(&mut self, message: &[u8]) {
        self.executor().prefetch(message);
    }

    fn hint(&mut self, message: &[u8]) -> Hint {
        self.executor().hint(message)
    }

    fn serve(&mut self, message: &[u8], hint: Hint, reply: &mut Output) {
        self.executor().serve(message, hint, reply);
    }

    fn fill(&mut self, pending_reply: PendingReply, reply: &[u8]) {
        let own = self
            .connections
            .iter_mut()
            .find(|connection| u64::from(connection.client) == pending_reply.connection);
        if let Some(connection) = own {
            connection.output.fill(pending_reply, reply);
            if connection.need == Need::Replies {
                connection.need = Need::Turn;
            }
        }
    }
}
