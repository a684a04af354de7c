//! Sessions on several cores, one thread each, with keys on all cores. The rings are so small that they are always
//! full, in both directions, and some values are longer than a ring.

use crate::bed::{partition, server, settings};
use drover_mem::NativeCpu;
use drover_memcached::{Core, Executor, Inbound, NoHooks, Outbound, Receiver, Rings, Server, Session};
use drover_net::{Consumed, Need, Output, PendingReply, Protocol};
use drover_store::{Hint, Partition};
use drover_verbs::Waker;
use std::collections::BTreeMap;
use std::io::IoSlice;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

const CORES: usize = 3;
const KEYS: usize = 7;
const ROUNDS: usize = if cfg!(miri) { 5 } else { 400 };
const LONG: usize = 3000;
const RING_BYTES: usize = 256;
/// Deadline that only a deadlock reaches.
const PATIENCE: Duration = Duration::from_secs(120);

/// State of one core.
struct Site {
    partition: Partition,
    cpu: NativeCpu,
    core: Core,
    server: Arc<Server>,
    outbound: Outbound,
    inbound: Inbound,
}

/// A connection of the core.
struct Connection {
    session: Session<NativeCpu>,
    number: u64,
    input: Vec<u8>,
    output: Output,
    need: Need,
    told: Vec<u8>,
}

/// Receiver of a core while its inbound rings are stepped.
struct Glue<'s> {
    partition: &'s mut Partition,
    cpu: &'s NativeCpu,
    core: &'s mut Core,
    server: &'s Server,
    outbound: &'s mut Outbound,
    connection: &'s mut Connection,
}

impl Glue<'_> {
    fn executor(&mut self) -> Executor<'_, NativeCpu> {
        Executor {
            partition: self.partition,
            cpu: self.cpu,
            now_s: 100,
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
        if pending_reply.connection == self.connection.number {
            self.connection.output.fill(pending_reply, reply);
            self.connection.need = Need::Turn;
        }
    }
}

impl Connection {
    fn new(number: u64, input: Vec<u8>) -> Connection {
        Connection {
            session: Session::new(false),
            number,
            input,
            output: Output::new(number, 1 << 14),
            need: Need::Turn,
            told: Vec::new(),
        }
    }

    /// Passes output to the client as far as possible.
    fn write(&mut self) {
        while self.output.ready_bytes() > 0 {
            let before = self.told.len();
            let mut slices = [IoSlice::new(&[]); 4];
            let count = self.output.slices(&mut slices);
            slices[..count]
                .iter()
                .for_each(|slice| self.told.extend_from_slice(slice));
            let written = self.told.len() - before;
            self.output.wrote(written);
            if self.need == Need::OutputSpace {
                self.need = Need::Turn;
            }
        }
    }

    fn is_done(&self) -> bool {
        self.input.is_empty() && self.output.is_empty()
    }
}

impl Site {
    fn new(rings: Rings, server: Arc<Server>) -> Site {
        rings.set_waker(Waker::new(|| ()));
        Site {
            partition: partition(1 << 20),
            cpu: NativeCpu::new(1),
            core: Core::default(),
            server,
            outbound: rings.outbound,
            inbound: rings.inbound,
        }
    }

    fn all(count: usize) -> Vec<Site> {
        let server = Arc::new(server(count, settings(), Box::new(NoHooks)));
        let rings = Rings::between(count, RING_BYTES).expect("memory");
        rings
            .into_iter()
            .map(|rings| Site::new(rings, server.clone()))
            .collect()
    }

    /// One turn of the session, if it may advance, and one of the rings. Returns whether anything moved.
    fn step(&mut self, connection: &mut Connection) -> bool {
        if self.outbound.has_space_again() && connection.need == Need::Route {
            connection.need = Need::Turn;
        }
        let mut moved = false;
        if connection.need == Need::Turn {
            let mut executor = Executor {
                partition: &mut self.partition,
                cpu: &self.cpu,
                now_s: 100,
                core: &mut self.core,
                server: &self.server,
                router: &mut self.outbound,
            };
            let Consumed { used, need } =
                connection
                    .session
                    .advance(&mut executor, &connection.input, &mut connection.output);
            connection.input.drain(..used);
            connection.need = need;
            moved = true;
        }
        self.outbound.publish();
        moved |= self.receive(connection);
        connection.write();
        moved
    }

    fn receive(&mut self, connection: &mut Connection) -> bool {
        let mut glue = Glue {
            partition: &mut self.partition,
            cpu: &self.cpu,
            core: &mut self.core,
            server: &self.server,
            outbound: &mut self.outbound,
            connection,
        };
        self.inbound.step(&mut glue, &mut Output::new(0, usize::MAX))
    }
}

fn counter(key: usize) -> String {
    format!("counter-{key}")
}

/// Input of client `me`: increments of shared counters, and long values that it writes and reads back.
fn said(me: usize) -> Vec<u8> {
    let mut text = String::new();
    for key in 0..KEYS {
        text += &format!("add {} 0 0 1 noreply\r\n0\r\n", counter(key));
    }
    for round in 0..ROUNDS {
        text += &format!("incr {} 1\r\n", counter((round * 5 + me) % KEYS));
        if round % 8 == me {
            let value = format!("{round:0LONG$}");
            text += &format!("set own-{me}-{round} 0 0 {LONG}\r\n{value}\r\nget own-{me}-{round}\r\n");
        }
    }
    text.into_bytes()
}

/// Checks the replies to client `me`; adds the counter values that it saw to `seen`.
fn check(me: usize, told: &[u8], seen: &mut BTreeMap<usize, Vec<u64>>) {
    let told = std::str::from_utf8(told).expect("text");
    let mut lines = told.split_terminator("\r\n");
    let mut latest = [0; KEYS];
    for round in 0..ROUNDS {
        let key = (round * 5 + me) % KEYS;
        let line = lines.next().expect("a count");
        let count = line
            .parse()
            .unwrap_or_else(|_| panic!("client {me}, round {round}: {line}"));
        assert!(count > latest[key], "client {me} saw {} go back", counter(key));
        latest[key] = count;
        seen.entry(key).or_default().push(count);
        if round % 8 == me {
            assert_eq!(lines.next(), Some("STORED"));
            assert_eq!(
                lines.next(),
                Some(format!("VALUE own-{me}-{round} 0 {LONG}").as_str())
            );
            assert_eq!(lines.next(), Some(format!("{round:0LONG$}").as_str()));
            assert_eq!(lines.next(), Some("END"));
        }
    }
    assert_eq!(lines.next(), None);
}

#[test]
fn requests_of_all_cores_happen_once_and_are_answered_in_order() {
    let (done, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let (sender, finished) = mpsc::channel();
    for (me, mut site) in Site::all(CORES).into_iter().enumerate() {
        let (done, stop, sender) = (done.clone(), stop.clone(), sender.clone());
        std::thread::spawn(move || {
            let mut connection = Connection::new(me as u64, said(me));
            let mut is_counted = false;
            while done.load(Ordering::Acquire) < CORES && !stop.load(Ordering::Relaxed) {
                if !site.step(&mut connection) {
                    std::thread::yield_now();
                }
                if connection.is_done() && !is_counted {
                    is_counted = true;
                    done.fetch_add(1, Ordering::Release);
                }
            }
            let _ = sender.send((me, connection.told));
        });
    }
    drop(sender);
    let mut seen = BTreeMap::new();
    for _ in 0..CORES {
        let told = finished.recv_timeout(PATIENCE);
        stop.fetch_or(told.is_err(), Ordering::Relaxed);
        let (me, told) = told.expect("all cores end: nothing waits for ever");
        check(me, &told, &mut seen);
    }
    for (key, mut counts) in seen {
        counts.sort_unstable();
        let all: Vec<u64> = (1..=counts.len() as u64).collect();
        assert_eq!(counts, all, "each increment of {} happened once", counter(key));
    }
}

/// A key that lives on core 1 of 2.
fn key_of_the_other(server: &Server) -> String {
    (0..)
        .map(|i| format!("key-{i}"))
        .find(|key| server.hasher.hash(key.as_bytes()).partition_index(2) == 1)
        .expect("half of them do")
}

#[test]
fn two_cores_whose_rings_are_full_both_ways_go_on() {
    let [mut a, mut b] = <[Site; 2]>::try_from(Site::all(2)).ok().expect("two");
    let there = key_of_the_other(&a.server);
    let here = (0..)
        .map(|i| format!("key-{i}"))
        .find(|key| a.server.hasher.hash(key.as_bytes()).partition_index(2) == 0)
        .expect("half of them do");
    let say = |key: &str| {
        let set = format!("set {key} 0 0 {LONG}\r\n{}\r\n", "x".repeat(LONG));
        (set + &format!("get {key}\r\n").repeat(200)).into_bytes()
    };
    let (mut of_a, mut of_b) = (Connection::new(1, say(&there)), Connection::new(2, say(&here)));
    // Both send until their rings are full; no core takes anything.
    for (site, connection) in [(&mut a, &mut of_a), (&mut b, &mut of_b)] {
        for _ in 0..100 {
            let mut executor = Executor {
                partition: &mut site.partition,
                cpu: &site.cpu,
                now_s: 100,
                core: &mut site.core,
                server: &site.server,
                router: &mut site.outbound,
            };
            let advance =
                connection
                    .session
                    .advance(&mut executor, &connection.input, &mut connection.output);
            connection.input.drain(..advance.used);
            connection.need = advance.need;
        }
        assert_eq!(connection.need, Need::Route);
    }
    for _ in 0..10_000 {
        a.step(&mut of_a);
        b.step(&mut of_b);
    }
    for connection in [&of_a, &of_b] {
        assert!(
            connection.is_done(),
            "{} bytes left to say",
            connection.input.len()
        );
        let values = connection
            .told
            .windows(LONG)
            .filter(|w| w.iter().all(|&b| b == b'x'));
        assert_eq!(values.count(), 200);
    }
}

#[test]
fn a_reply_to_a_connection_that_is_gone_is_dropped_and_nothing_stays() {
    let [mut a, mut b] = <[Site; 2]>::try_from(Site::all(2)).ok().expect("two");
    let key = key_of_the_other(&a.server);
    let mut idle = Connection::new(9, Vec::new());
    let mut gone = Connection::new(1, format!("get {key}\r\n").into_bytes());
    a.step(&mut gone);
    assert!(gone.output.has_holes());
    let mut next = Connection::new(2, format!("set {key} 0 0 1\r\nv\r\n").into_bytes());
    for _ in 0..4 {
        a.step(&mut next);
        b.step(&mut idle);
    }
    assert!(next.is_done() && next.told == b"STORED\r\n");
    assert!(
        !a.receive(&mut next) && !b.receive(&mut idle),
        "the rings are empty"
    );
}

/// Panics at the first request.
struct Clumsy(bool);

impl Receiver for Clumsy {
    fn serve(&mut self, _message: &[u8], _hint: Hint, reply: &mut Output) {
        reply.push(b"half a rep");
        if !std::mem::replace(&mut self.0, true) {
            std::panic::resume_unwind(Box::new("on purpose"));
        }
        reply.push(b"ly\r\n");
    }

    fn fill(&mut self, _hole: PendingReply, _reply: &[u8]) {}
}

#[test]
fn a_request_that_makes_its_core_panic_is_answered_and_the_next_one_too() {
    let [mut a, mut b] = <[Site; 2]>::try_from(Site::all(2)).ok().expect("two");
    let key = key_of_the_other(&a.server);
    let mut client = Connection::new(1, format!("get {key}\r\nget {key}\r\n").into_bytes());
    a.step(&mut client);
    let mut clumsy = Clumsy(false);
    let step = std::panic::AssertUnwindSafe(|| b.inbound.step(&mut clumsy, &mut Output::new(0, usize::MAX)));
    assert!(std::panic::catch_unwind(step).is_err());
    b.inbound.recover();
    b.inbound.step(&mut clumsy, &mut Output::new(0, usize::MAX));
    for _ in 0..4 {
        a.step(&mut client);
    }
    let told = String::from_utf8(client.told).expect("text");
    assert!(
        told.starts_with("SERVER_ERROR ") && told.contains("half a reply\r\n"),
        "{told}"
    );
}
