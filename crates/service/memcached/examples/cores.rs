//! Requests of a connection to one core about keys of that core or another, so that a tool can count their instructions:
//! `valgrind --tool=callgrind --toggle-collect=cores::ask cores OPERATION COUNT`.
//!
//! OPERATION is what the requests are and where they are executed: `own`, `in-place` or `forward` (GETs), `set` (of an own
//! key) or `set-forward`; with `-32` behind it the connection sends 32 at a time. COUNT is the number of requests. The functions are
//! `ask` (all that the connection's core does before a request leaves or its reply is written), `serve` (the other core's
//! part) and `fill` (when the reply arrives). Keys are 16 bytes, values 32.

use drover_base::{HashKind, HashSeed, KeyHash};
use drover_mem::{NativeCpu, PageWish};
use drover_memcached::{Core, Executor, NoHooks, Receiver, Rings, Server, Session, Settings};
use drover_net::{Output, PendingReply, Protocol};
use drover_store::{Exclusive, Hint, Mode, Partition, PartitionOptions, SharedReads, Sharing};
use std::fmt::Write;
use std::hint::black_box;

const KEYS: usize = 4096;
const SEED: HashSeed = HashSeed::of(HashKind::Aes, 1, 2);

struct Site<S: Sharing> {
    partition: Partition<S>,
    core: Core,
    rings: Rings,
    session: Session<NativeCpu, S>,
    output: Output,
    /// For replies to the other core.
    reply: Output,
}

impl<S: Sharing + 'static> Site<S> {
    fn new(rings: Rings) -> Site<S> {
        let options = PartitionOptions {
            mode: Mode::S3_FIFO,
            log_bytes: 1 << 22,
            bucket_count: 1 << 13,
            pages: PageWish::Small,
            hash_seed: Some(SEED),
            ..Default::default()
        };
        Site {
            partition: Partition::create(&options).expect("memory"),
            core: Core::default(),
            rings,
            session: Session::new(false),
            output: Output::new(1, 1 << 20),
            reply: Output::new(0, usize::MAX),
        }
    }

    fn advance(&mut self, server: &Server, input: &[u8]) {
        let mut executor = Executor {
            partition: &mut self.partition,
            cpu: &NativeCpu::new(1),
            now_s: 100,
            core: &mut self.core,
            server,
            router: &mut self.rings.outbound,
        };
        let consumed = self.session.advance(&mut executor, input, &mut self.output);
        assert_eq!(consumed.used, input.len());
        self.rings.outbound.publish();
    }

    /// Messages from the other core; also `fill` of replies.
    fn receive(&mut self, server: &Server) {
        let mut executor = Executor {
            partition: &mut self.partition,
            cpu: &NativeCpu::new(1),
            now_s: 100,
            core: &mut self.core,
            server,
            router: &mut self.rings.outbound,
        };
        let mut incoming = Incoming {
            executor: &mut executor,
            output: &mut self.output,
        };
        self.rings.inbound.step(&mut incoming, &mut self.reply);
        self.output.wrote(self.output.ready_bytes());
    }
}

struct Incoming<'a, 'd, S: Sharing> {
    executor: &'a mut Executor<'d, NativeCpu, S>,
    output: &'a mut Output,
}

impl<S: Sharing> Receiver for Incoming<'_, '_, S> {
    fn prefetch(&mut self, message: &[u8]) {
        self.executor.prefetch(message);
    }

    fn hint(&mut self, message: &[u8]) -> Hint {
        self.executor.hint(message)
    }

    fn serve(&mut self, message: &[u8], hint: Hint, reply: &mut Output) {
        self.executor.serve(message, hint, reply);
    }

    fn fill(&mut self, pending: PendingReply, reply: &[u8]) {
        self.output.fill(pending, reply);
    }
}

// Each has a body of its own, or they would be one function.
#[inline(never)]
fn ask(work: &mut dyn FnMut()) {
    work();
    black_box(0);
}

#[inline(never)]
fn serve(work: &mut dyn FnMut()) {
    work();
    black_box(1);
}

#[inline(never)]
fn fill(work: &mut dyn FnMut()) {
    work();
    black_box(2);
}

fn run<S: Sharing + 'static>(command: &str, owner: usize, each: usize, count: usize) {
    let hasher = SEED.hasher();
    let settings = Settings {
        requests_per_event: 1000,
        ..Settings::default()
    };
    let server = Server::new(hasher, 1_700_000_000, 2, settings, Box::new(NoHooks));
    let rings = Rings::between(2, 64 << 10).expect("memory");
    let mut sites: Vec<Site<S>> = rings.into_iter().map(Site::new).collect();
    let keys = (0..).map(|i| format!("user{i:012}"));
    let owned = |key: &String| {
        let hash: KeyHash = SEED.hash(key.as_bytes());
        hash.partition_index(2) == owner
    };
    let keys: Vec<String> = keys.filter(owned).take(KEYS).collect();
    let set = |key: &String| format!("set {key} 0 0 32\r\n{:032}\r\n", 7);
    for key in &keys {
        let site = &mut sites[owner];
        site.advance(&server, set(key).as_bytes());
        site.output.wrote(site.output.ready_bytes());
    }
    sites[0].advance(&server, b"mn\r\n");
    let inputs: Vec<String> = keys
        .chunks_exact(each)
        .map(|keys| {
            keys.iter().fold(String::new(), |mut input, key| {
                match command {
                    "set" => input += &set(key),
                    _ => write!(input, "get {key}\r\n").expect("into memory"),
                }
                input
            })
        })
        .collect();
    for i in 0..count / each {
        let input = inputs[i % inputs.len()].as_bytes();
        ask(&mut || {
            let site = &mut sites[0];
            site.advance(&server, input);
            site.output.wrote(site.output.ready_bytes());
        });
        while sites[0].output.has_holes() {
            serve(&mut || sites[1].receive(&server));
            fill(&mut || sites[0].receive(&server));
        }
    }
}

fn main() {
    let mut args = std::env::args().skip(1);
    let operation = args.next().expect("an operation");
    let count: usize = args.next().and_then(|count| count.parse().ok()).expect("a count");
    let (operation, each) = match operation.strip_suffix("-32") {
        Some(operation) => (operation, 32),
        None => (&operation[..], 1),
    };
    match operation {
        "own" => run::<SharedReads>("get", 0, each, count),
        "in-place" => run::<SharedReads>("get", 1, each, count),
        "forward" => run::<Exclusive>("get", 1, each, count),
        "set" => run::<SharedReads>("set", 0, each, count),
        "set-forward" => run::<SharedReads>("set", 1, each, count),
        other => panic!("no operation {other}"),
    }
}
