//! Cores without threads, connections without sockets, and native clients without a fabric, scheduled by a seed.

use drover_base::{HashSeed, KeyHash, Rng};
use drover_mem::{NativeCpu, PageWish};
use drover_memcached::{
    Core, Executor, Inbound, NoHooks, Outbound, Receiver, Rings, Server, Session, Settings,
};
use drover_net::{Need, Output, PendingReply, Protocol};
use drover_store::{Hint, Key, Mode, Partition, PartitionOptions, PutOutcome};
use drover_testkit::history::{Call, Event, History, Swapped};
use drover_verbs::Waker;
use std::collections::{BTreeMap, VecDeque};
use std::io::IoSlice;
use std::sync::Arc;

const CORES: usize = 3;
/// Connections on each core.
const CONNECTIONS: usize = 2;
const NATIVES: usize = 3;
const KEYS: u64 = 5;
/// Rings so short that they are sometimes full.
const RING_BYTES: usize = 512;
/// Requests in flight per connection.
const PIPELINE: usize = 4;
const NOW_S: u32 = 100;

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
pub struct Cluster {
    rng: Rng,
    flaw: Option<Flaw>,
    cores: Vec<Site>,
    natives: Vec<Native>,
    server: Arc<Server>,
    history: History,
    /// Time; advances with every step.
    now: u64,
    values: u64,
}

struct Site {
    partition: Partition,
    core: Core,
    outbound: Outbound,
    inbound: Inbound,
    connections: Vec<Connection>,
}

struct Connection {
    client: u32,
    session: Session<NativeCpu>,
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

#[derive(Clone, Copy, Debug)]
struct Asked {
    key: u64,
    call: Call,
    called_at: u64,
}

/// A native client: at most one request, which waits until its core takes it; its reply waits until the client takes
/// it.
struct Native {
    client: u32,
    asked: Option<Asked>,
    done: Option<Call>,
}

fn name(key: u64) -> String {
    format!("key{key}")
}

impl Cluster {
    pub fn new(seed: u64, flaw: Option<Flaw>) -> Cluster {
        let hasher = HashSeed::new(1, 2).hasher();
        let server = Server::new(
            hasher,
            1_700_000_000,
            CORES,
            Settings::default(),
            Box::new(NoHooks),
        );
        let rings = Rings::between(CORES, RING_BYTES).expect("memory");
        let site = |(index, rings): (usize, Rings)| {
            rings.set_waker(Waker::new(|| ()));
            let client = |i| (1 + index * CONNECTIONS + i) as u32;
            Site {
                partition: partition(),
                core: Core::default(),
                outbound: rings.outbound,
                inbound: rings.inbound,
                connections: (0..CONNECTIONS).map(|i| Connection::new(client(i))).collect(),
            }
        };
        let native = |i| Native {
            client: 100 + i as u32,
            asked: None,
            done: None,
        };
        Cluster {
            rng: Rng::new(seed, 0, 0x4157),
            flaw,
            cores: rings.into_iter().enumerate().map(site).collect(),
            natives: (0..NATIVES).map(native).collect(),
            server: Arc::new(server),
            history: History::default(),
            now: 0,
            values: 0,
        }
    }

    /// Picks one actor at random and lets it make one step.
    pub fn step(&mut self) {
        self.now += 1;
        let (at, which) = (
            self.rng.below(CORES as u64) as usize,
            self.rng.below(CONNECTIONS as u64) as usize,
        );
        match self.rng.below(10) {
            0 | 1 => self.ask(at, which),
            2..4 => self.serve(at, which),
            4 | 5 => self.cross(at),
            6 | 7 => self.hear(at, which),
            _ => self.native(),
        }
    }

    /// Finishes all requests, reads every key and returns the history.
    pub fn finish(mut self) -> History {
        for _ in 0..1000 {
            self.now += 1;
            for at in 0..CORES {
                for which in 0..CONNECTIONS {
                    self.serve(at, which);
                    self.cross(at);
                    self.hear(at, which);
                }
            }
            (0..NATIVES).for_each(|which| self.native_on(which, false));
        }
        let left = |connection: &Connection| connection.asked.len();
        let under_way: usize = self
            .cores
            .iter()
            .flat_map(|site| &site.connections)
            .map(left)
            .sum();
        assert_eq!(under_way, 0, "requests that are never answered");
        self.history
    }

    fn value(&mut self) -> u64 {
        self.values += 1;
        self.values << 16
    }

    /// A connection's client writes a request.
    fn ask(&mut self, at: usize, which: usize) {
        let key = self.rng.below(KEYS);
        let (kind, value) = (self.rng.below(100), self.value());
        let two_steps = self.flaw == Some(Flaw::CasInTwoSteps);
        let connection = &mut self.cores[at].connections[which];
        if connection.asked.len() >= PIPELINE {
            return;
        }
        let len = value.to_string().len();
        let name = name(key);
        let (from, cas) = connection.read.get(&key).copied().unwrap_or_default();
        let (call, text) = match kind {
            0..35 => (Call::Get(None), format!("gets {name}\r\n")),
            35..55 => (Call::Put(value), format!("set {name} 3 0 {len}\r\n{value}\r\n")),
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
                (swap, format!("cas {name} 4 0 {len} {cas}\r\n{value}\r\n"))
            }
            _ => (Call::Add { by: 1, sum: None }, format!("incr {name} 1\r\n")),
        };
        let called_at = self.now;
        connection.input.extend_from_slice(text.as_bytes());
        connection.asked.push_back(Asked { key, call, called_at });
    }

    /// A core serves a connection.
    fn serve(&mut self, at: usize, which: usize) {
        let site = &mut self.cores[at];
        if site.outbound.has_space_again() {
            let waiting = site
                .connections
                .iter_mut()
                .filter(|other| other.need == Need::Others);
            waiting.for_each(|connection| connection.need = Need::Turn);
        }
        let connection = &mut site.connections[which];
        let is_due = match connection.need {
            Need::Input { at_least } => connection.input.len() >= at_least,
            Need::Turn | Need::OutputSpace => true,
            Need::Others | Need::Notification | Need::Close => false,
        };
        if is_due {
            let cpu = NativeCpu::new(1);
            let mut executor = Executor {
                partition: &mut site.partition,
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
            partition,
            core,
            outbound,
            inbound,
            connections,
        } = &mut self.cores[at];
        let mut glue = Glue {
            partition,
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
                _ => self.now,
            };
            let event = Event {
                client: connection.client,
                call,
                called_at: asked.called_at,
                returned_at: Some(returned_at),
            };
            self.history.push(name(asked.key).as_bytes(), event);
            if let Some((from, to)) = connection.to_write.take() {
                connection.write_later(asked, call, (from, to), self.now);
            }
        }
    }

    fn native(&mut self) {
        let which = self.rng.below(NATIVES as u64) as usize;
        self.native_on(which, true);
    }

    /// A native client sends a request, or its core serves it, or the client takes the reply.
    fn native_on(&mut self, which: usize, asks: bool) {
        let native = &mut self.natives[which];
        if let Some(call) = native.done.take() {
            let asked = native.asked.take().expect("it asked");
            let event = Event {
                client: native.client,
                call,
                called_at: asked.called_at,
                returned_at: Some(self.now),
            };
            return self.history.push(name(asked.key).as_bytes(), event);
        }
        if let Some(asked) = native.asked {
            let call = self.execute(asked);
            self.natives[which].done = Some(call);
        } else if asks {
            let key = self.rng.below(KEYS);
            let call = match self.rng.below(10) {
                0..5 => Call::Get(None),
                5..9 => Call::Put(self.value()),
                _ => Call::Delete(None),
            };
            self.natives[which].asked = Some(Asked {
                key,
                call,
                called_at: self.now,
            });
        }
    }

    /// Executes a request as a worker does.
    fn execute(&mut self, asked: Asked) -> Call {
        let name = name(asked.key);
        let hash: KeyHash = self.server.hasher.hash(name.as_bytes());
        let astray = usize::from(self.flaw == Some(Flaw::NativeGoesElsewhere));
        let owner = (hash.partition_index(CORES) + astray) % CORES;
        let (partition, cpu) = (&mut self.cores[owner].partition, NativeCpu::new(1));
        let key = Key {
            hash,
            bytes: name.as_bytes(),
        };
        match asked.call {
            Call::Get(_) => Call::Get(
                partition
                    .get(&cpu, key, NOW_S)
                    .map(|item| number(&item.to_value())),
            ),
            Call::Put(id) => {
                let put = partition.put(&cpu, key, id.to_string().as_bytes(), 0, NOW_S);
                assert!(matches!(put, PutOutcome::Stored { .. }), "{put:?}");
                Call::Put(id)
            }
            _ => Call::Delete(Some(partition.delete(&cpu, key, NOW_S))),
        }
    }
}

fn partition() -> Partition {
    let options = PartitionOptions {
        mode: Mode::Store,
        log_bytes: 1 << 18,
        bucket_count: 1 << 6,
        pages: PageWish::Small,
        ..PartitionOptions::default()
    };
    Partition::new(&options).expect("memory")
}

fn number(bytes: &[u8]) -> u64 {
    let text = std::str::from_utf8(bytes).expect("text");
    text.trim().parse().expect("a number")
}

impl Connection {
    fn new(client: u32) -> Connection {
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
        let set = format!("set {} 4 0 {}\r\n{to}\r\n", name(asked.key), to.to_string().len());
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
struct Glue<'s> {
    partition: &'s mut Partition,
    cpu: &'s NativeCpu,
    core: &'s mut Core,
    server: &'s Server,
    outbound: &'s mut Outbound,
    connections: &'s mut [Connection],
}

impl Glue<'_> {
    fn executor(&mut self) -> Executor<'_, NativeCpu> {
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

impl Receiver for Glue<'_> {
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
            if connection.need == Need::Others {
                connection.need = Need::Turn;
            }
        }
    }
}
