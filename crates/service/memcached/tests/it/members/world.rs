//! Members of a service in one thread, scheduled by a seed: cores without threads, connections without sockets, links in memory.

use super::client::Connection;
use super::control::{Control, Work};
use super::network::{CoreNumber, Network, TestLinks};
use super::{CORES, Clock, Flaw, KEYS, MEMBERS, NOW_S, SHARDS, START_NS, name};
use crate::bed::{partition_as, server, settings};
use drover_base::{Cpu, KeyHash, Ns, Rng};
use drover_cluster::{NotedKey, ServedShards};
use drover_memcached::{
    Core, Delivery, Executor, Inbound, MemberCounters, MemberRouter, NoHooks, Outbound, Receiver, Rings,
    Server, Source,
};
use drover_net::{Need, Output, PendingReply, Protocol};
use drover_store::{Hint, Key, Partition, PutOutcome, Sharing};
use drover_testkit::history::{Event, History};
use drover_verbs::Waker;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// Connections on each core.
const CONNECTIONS: usize = 2;
/// Rings so short that they are sometimes full.
const RING_BYTES: usize = 512;

/// A core of a member.
pub struct Site<S: Sharing> {
    pub partition: Partition<S>,
    core: Core,
    pub counters: Arc<MemberCounters>,
    outbound: Outbound,
    inbound: Inbound,
    links: TestLinks,
    pub connections: Vec<Connection<S>>,
    server: Arc<Server>,
    clock: Clock,
    flaw: Option<Flaw>,
    /// [`Flaw::NoHold`]: the last number that a source was given.
    sources: u64,
}

pub struct World<S: Sharing> {
    rng: Rng,
    time: Rc<Cell<u64>>,
    pub sites: Vec<Site<S>>,
    network: Rc<RefCell<Network>>,
    pub control: Rc<RefCell<Control>>,
    history: History,
    values: u64,
    clients: u32,
    links_cut: u64,
    breaks_links: bool,
}

impl<S: Sharing + 'static> World<S> {
    /// `breaks_links`: whether links break now and then.
    pub fn new(seed: u64, flaw: Option<Flaw>, breaks_links: bool) -> World<S> {
        let shards: Vec<Arc<ServedShards>> = (0..MEMBERS).map(|_| ServedShards::new(SHARDS, CORES)).collect();
        let control = Rc::new(RefCell::new(Control::new(seed, &shards)));
        let (time, network) = (Rc::new(Cell::new(START_NS)), Rc::new(RefCell::default()));
        let mut world = World {
            rng: Rng::new(seed, 0, 0x4157),
            time: time.clone(),
            sites: Vec::new(),
            network,
            control,
            history: History::default(),
            values: 0,
            clients: 0,
            links_cut: 1000,
            breaks_links,
        };
        for (member, shards) in shards.iter().enumerate() {
            let server = Arc::new(server(CORES, settings(), Box::new(NoHooks)));
            for (core, rings) in Rings::between(CORES, RING_BYTES)
                .expect("memory")
                .into_iter()
                .enumerate()
            {
                rings.set_waker(Waker::new(|| ()));
                let counters: Arc<MemberCounters> = Arc::default();
                let connections = (0..CONNECTIONS).map(|_| world.connection()).collect();
                world.sites.push(Site {
                    partition: partition_as(1 << 20),
                    core: Core::of_member(shards.clone(), core, counters.clone()),
                    counters,
                    outbound: rings.outbound,
                    inbound: rings.inbound,
                    links: TestLinks {
                        own: member * CORES + core,
                        shards: shards.clone(),
                        network: world.network.clone(),
                    },
                    connections,
                    server: server.clone(),
                    clock: Clock::new(
                        time.clone(),
                        world.control.clone(),
                        seed + (member * CORES + core) as u64,
                    ),
                    flaw,
                    sources: 1 << 32,
                });
            }
        }
        world
    }

    fn connection(&mut self) -> Connection<S> {
        self.clients += 1;
        Connection::new(self.clients)
    }

    pub fn now(&self) -> Ns {
        Ns(self.time.get())
    }

    pub fn pass(&mut self, time: Ns) {
        self.time.set(self.time.get() + time.0);
    }

    /// One actor does something.
    pub fn step(&mut self) {
        let time = Ns(1 + self.rng.below(60_000));
        self.pass(time);
        let at = self.rng.below(self.sites.len() as u64) as usize;
        let which = self.rng.below(CONNECTIONS as u64) as usize;
        match self.rng.below(16) {
            0..3 => {
                self.values += 1;
                let (value, now) = (self.values << 20, self.now().0);
                self.sites[at].connections[which].ask(&mut self.rng, value, now);
            }
            3..6 => self.sites[at].serve(which),
            6..8 => self.sites[at].cross(),
            8..11 => self.link(at),
            11 => _ = self.sites[at].retry(),
            12 | 13 => self.hear(at, which),
            14 if self.breaks_links && self.rng.chance(0.02) => self.cut(at),
            _ => self.control(),
        }
    }

    /// Answers all requests and returns the history.
    pub fn finish(&mut self) -> History {
        self.control.borrow_mut().is_restless = false;
        for _ in 0..4000 {
            self.pass(Ns::from_us(50));
            self.control();
            self.step_all();
            let is_idle = self
                .sites
                .iter()
                .all(|site| site.connections.iter().all(Connection::is_idle));
            if is_idle && self.control.borrow().is_settled() {
                break;
            }
            self.end_noreply();
        }
        let left = self.sites.iter().flat_map(|site| &site.connections);
        let left = left.filter(|connection| !connection.is_idle()).count();
        assert_eq!(left, 0, "connections whose requests are never answered");
        std::mem::take(&mut self.history)
    }

    /// Every core and client makes a step.
    pub fn step_all(&mut self) {
        for at in 0..self.sites.len() {
            for which in 0..CONNECTIONS {
                self.sites[at].serve(which);
                self.hear(at, which);
            }
            self.sites[at].cross();
            for _ in 0..MEMBERS * CORES {
                self.link(at);
            }
            self.sites[at].retry();
        }
    }

    /// A request without a reply has returned when one after it has.
    fn end_noreply(&mut self) {
        let now = self.now().0;
        for site in &mut self.sites {
            for connection in &mut site.connections {
                if !connection.is_idle() {
                    connection.ask_to_end(now);
                }
            }
        }
    }

    pub fn control(&mut self) {
        let now = self.now();
        let work = self.control.borrow_mut().work();
        match work {
            None => self.control.borrow_mut().step(now),
            Some(work) => {
                self.do_work(work);
                self.control.borrow_mut().done(work);
            }
        }
    }

    fn hear(&mut self, at: usize, which: usize) {
        let now = self.now().0;
        let (history, connection) = (&mut self.history, &mut self.sites[at].connections[which]);
        let mut record = |key: u64, event: Event| history.push(name(key).as_bytes(), event);
        connection.read(now, self.breaks_links, &mut record);
        if connection.is_closed {
            connection.abandon(&mut record);
            self.sites[at].connections[which] = self.connection();
        }
    }

    /// A core handles what has come on one of its links, in or out.
    pub fn link(&mut self, at: usize) {
        let other = self.rng.below(self.sites.len() as u64) as usize;
        let count = 1 + self.rng.below(4);
        for _ in 0..count {
            self.sites[at].serve_link(other);
            self.sites[at].take_replies(other);
        }
    }

    /// The link from a core to another breaks.
    pub fn cut(&mut self, at: usize) {
        let other = self.rng.below(self.sites.len() as u64) as usize;
        self.links_cut += 1;
        let cut = {
            let mut network = self.network.borrow_mut();
            let link = network.links.get_mut(&(at, other));
            link.map(|link| link.cut(self.links_cut))
        };
        if let Some((lost, number)) = cut {
            self.sites[at].lose(&lost, other / CORES);
            self.sites[other].core.forget_link(number);
        }
    }

    /// Copies or drops items of a shard.
    fn do_work(&mut self, work: Work) {
        let cpu = drover_mem::NativeCpu::new(1);
        let hasher = self.sites[0].server.hasher.clone();
        let (shard, keys): (_, Vec<Vec<u8>>) = match work {
            Work::Copy { shard, .. } | Work::Drop { shard, .. } => {
                (shard, (0..KEYS).map(|key| name(key).into_bytes()).collect())
            }
            Work::CopyNoted { shard, from, .. } => {
                let shards = self.sites[from * CORES].links.shards.clone();
                let noted = (0..CORES).flat_map(|core| shards.take_noted(core, shard));
                let bytes = |noted| match noted {
                    NotedKey::Key(key) => Vec::from(key),
                    NotedKey::Hash(hash) => panic!("no client of this test has {hash:?}"),
                };
                (shard, noted.map(bytes).collect())
            }
        };
        for bytes in &keys {
            let hash: KeyHash = hasher.hash(bytes);
            let key = Key { hash, bytes };
            if self.sites[0].links.shards.shard_of(hash) != shard {
                continue;
            }
            let core = hash.partition_index(CORES);
            let (from, to) = match work {
                Work::Copy { from, to, .. } | Work::CopyNoted { from, to, .. } => (Some(from), to),
                Work::Drop { of, .. } => (None, of),
            };
            let source = from.map(|from| &mut self.sites[from * CORES + core].partition);
            let value = source.and_then(|source| source.get(&cpu, key, NOW_S).map(|item| item.to_value()));
            let target = &mut self.sites[to * CORES + core].partition;
            match value {
                Some(value) => {
                    let put = target.put(&cpu, key, &value, 0, NOW_S);
                    assert!(matches!(put, PutOutcome::Stored { .. }), "{put:?}");
                }
                None => _ = target.delete(&cpu, key, NOW_S),
            }
        }
    }
}

/// Gives a pending reply to its connection.
fn deliver<S: Sharing>(connections: &mut [Connection<S>], pending: PendingReply, delivery: Delivery<'_>) {
    let own = connections
        .iter_mut()
        .find(|connection| u64::from(connection.number) == pending.connection);
    let Some(connection) = own else { return };
    match delivery {
        Delivery::Close => connection.is_closed = true,
        Delivery::Reply(reply) => connection.output.fill(pending, reply),
    }
    if connection.need == Need::Replies {
        connection.need = Need::Turn;
    }
}

impl<S: Sharing + 'static> Site<S> {
    /// Runs a part of a step of the core.
    pub fn run<T>(
        &mut self,
        run: impl FnOnce(&mut Executor<'_, Clock, S>, &mut [Connection<S>], &mut Inbound) -> T,
    ) -> T {
        self.clock.refresh();
        let mut router = MemberRouter::new(&mut self.outbound, &mut self.links);
        let mut executor = Executor {
            partition: &mut self.partition,
            cpu: &self.clock,
            now_s: NOW_S,
            core: &mut self.core,
            server: &self.server,
            router: &mut router,
        };
        executor.begin_round();
        executor.begin_step();
        run(&mut executor, &mut self.connections, &mut self.inbound)
    }

    pub fn shards(&self) -> &ServedShards {
        &self.links.shards
    }

    /// A fetch of a key, as a core of a peer sends it.
    pub fn fetch_message(&self, key: &str) -> Vec<u8> {
        let hash: KeyHash = self.server.hasher.hash(key.as_bytes());
        let mut message = hash.to_bytes().to_vec();
        message.extend_from_slice(b"g\0\0\0\0\0\0\0\0\0\0");
        message.extend_from_slice(key.as_bytes());
        message
    }

    /// The core serves a message of a peer.
    pub fn serve_message(&mut self, message: &[u8], reply: &mut Output) {
        self.run(|executor, _, _| {
            executor.begin_arrivals();
            executor.set_source(Source::Link(1));
            executor.serve(message, Hint::NONE, reply);
        });
    }

    /// The core serves a connection.
    pub fn serve(&mut self, which: usize) {
        let again = self.outbound.has_space_again();
        for connection in &mut self.connections {
            // The links of this test do not say when they have space.
            if connection.need == Need::Route && (again || self.clock.random().is_multiple_of(4)) {
                connection.need = Need::Turn;
            }
        }
        let connection = &self.connections[which];
        let is_due = match connection.need {
            Need::Input { at_least } => connection.input.len() >= at_least,
            Need::Turn | Need::OutputSpace => true,
            _ => false,
        };
        if is_due && !connection.is_closed {
            self.run(|executor, connections, _| {
                let connection = &mut connections[which];
                let consumed =
                    connection
                        .session
                        .advance(executor, &connection.input, &mut connection.output);
                connection.input.drain(..consumed.used);
                connection.need = consumed.need;
            });
        }
        self.outbound.publish();
        self.connections[which].write();
    }

    /// The core handles the messages in its rings.
    pub fn cross(&mut self) {
        let (flaw, mut sources) = (self.flaw, self.sources);
        self.run(|executor, connections, inbound| {
            let mut incoming = Incoming {
                executor,
                connections,
                flaw,
                sources: &mut sources,
            };
            inbound.step(&mut incoming, &mut Output::new(0, usize::MAX));
        });
        self.sources = sources;
        self.connections.iter_mut().for_each(Connection::write);
    }

    /// The core serves a message of another member's core.
    fn serve_link(&mut self, from: CoreNumber) {
        let network = self.links.network.clone();
        let taken = {
            let mut network = network.borrow_mut();
            let link = network.links.get_mut(&(from, self.links.own));
            link.and_then(|link| Some((link.number, link.messages.pop_front()?)))
        };
        let Some((number, (pending, message))) = taken else {
            return;
        };
        self.sources += 1;
        let number = if self.flaw == Some(Flaw::NoHold) {
            self.sources
        } else {
            number
        };
        let before = under_way(&network.borrow(), self.links.own);
        let reply = self.run(|executor, _, _| {
            executor.begin_arrivals();
            executor.set_source(Source::Link(number));
            let mut reply = Output::new(0, usize::MAX);
            executor.serve(&message, Hint::NONE, &mut reply);
            crate::bed::take(&mut reply)
        });
        let mut network = network.borrow_mut();
        assert_eq!(
            under_way(&network, self.links.own),
            before,
            "no message is sent on"
        );
        let link = network
            .links
            .get_mut(&(from, self.links.own))
            .expect("it was there");
        link.replies.push_back((pending, reply));
    }

    /// The core takes a reply of another member's core.
    fn take_replies(&mut self, other: CoreNumber) {
        let network = self.links.network.clone();
        let reply = {
            let mut network = network.borrow_mut();
            let link = network.links.get_mut(&(self.links.own, other));
            link.and_then(|link| link.take_reply())
        };
        let Some((pending, reply)) = reply else { return };
        self.run(|executor, connections, _| {
            let deliver = &mut |pending, delivery: Delivery<'_>| deliver(connections, pending, delivery);
            executor.take_reply(pending, &reply, deliver);
        });
        self.connections.iter_mut().for_each(Connection::write);
    }

    /// The core loses its link to a core of a member.
    fn lose(&mut self, lost: &[PendingReply], member: usize) {
        self.run(|executor, connections, _| {
            for pending in lost {
                let deliver = &mut |pending, delivery: Delivery<'_>| deliver(connections, pending, delivery);
                executor.take_lost(*pending, &format!("m{member}"), deliver);
            }
        });
        self.connections.iter_mut().for_each(Connection::write);
    }

    /// The core sends parked messages again.
    pub fn retry(&mut self) -> bool {
        let done = self.run(|executor, connections, _| {
            let deliver = &mut |pending, delivery: Delivery<'_>| deliver(connections, pending, delivery);
            executor.step_parked(deliver)
        });
        self.outbound.publish();
        self.connections.iter_mut().for_each(Connection::write);
        done
    }
}

/// Messages that a core has sent over its links.
fn under_way(network: &Network, from: CoreNumber) -> usize {
    let own = network.links.iter().filter(|((place, _), _)| *place == from);
    own.map(|(_, link)| link.messages.len()).sum()
}

struct Incoming<'a, 'd, S: Sharing> {
    executor: &'a mut Executor<'d, Clock, S>,
    connections: &'a mut [Connection<S>],
    flaw: Option<Flaw>,
    sources: &'a mut u64,
}

impl<S: Sharing> Receiver for Incoming<'_, '_, S> {
    fn prefetch(&mut self, message: &[u8]) {
        self.executor.prefetch(message);
    }

    fn hint(&mut self, message: &[u8]) -> Hint {
        self.executor.hint(message)
    }

    fn arrived(&mut self, from: usize) {
        self.executor.begin_arrivals();
        self.executor.set_source(Source::Core(from));
    }

    fn serve(&mut self, message: &[u8], hint: Hint, reply: &mut Output) {
        match self.flaw {
            Some(Flaw::NoHold) => {
                *self.sources += 1;
                self.executor.set_source(Source::Link(*self.sources));
                self.executor.serve(message, hint, reply);
            }
            Some(Flaw::NoVerdict) => {
                let member = std::mem::take(self.executor.core);
                self.executor.serve(message, hint, reply);
                *self.executor.core = member;
            }
            _ => self.executor.serve(message, hint, reply),
        }
    }

    fn reply(&mut self, pending: PendingReply, reply: &[u8]) {
        let connections = &mut *self.connections;
        let deliver = &mut |pending, delivery: Delivery<'_>| deliver(connections, pending, delivery);
        self.executor.take_reply(pending, reply, deliver);
    }

    fn fill(&mut self, _pending: PendingReply, _reply: &[u8]) {}
}
