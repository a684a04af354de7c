//! What a request costs that another member answers: `cargo run --release -p drover-memcached --example members [WINDOW [COUNT]]`.
//!
//! One thread plays two members of one core each, joined by a link over loopback, so that the processor time is that of both. WINDOW requests of
//! a connection are in flight: 32 by default, and 1600 are those of 50 connections in one batch. Keys have 16 bytes, values 32. It prints, interleaved, the nanoseconds of a GET
//! without a cluster, of one that this member serves, and of one that the other member serves; least and median of several rounds.

use drover_base::{Cpu, HashSeed, KeyHash, Ns};
use drover_cluster::{
    Advert, Draft, Map, Member, Ownership, Published, SHARD_COUNT, ServedShards, ShardId, Standing,
};
use drover_links::{
    AcceptorOptions, LinkAcceptor, LinkHandler, LinkReply, Links, LinksOptions, MemberIdentity, PeerAddr,
};
use drover_mem::NativeCpu;
use drover_memcached::{
    Core, Delivery, Executor, LinkRefused, MemberRouter, NoHooks, PeerLinks, Rings, Server, Session,
    Settings, Source,
};
use drover_net::{Output, PendingReply, Protocol};
use drover_store::{Hint, Mode, Partition, PartitionOptions};
use rustix::time::{ClockId, clock_gettime};
use std::fmt::Write;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

const KEYS: usize = 4096;
const ROUNDS: usize = 9;
const SEED: HashSeed = HashSeed::new(1, 2);

/// The links of a core whose peers have one core each.
struct OneCoreLinks(Links);

impl PeerLinks for OneCoreLinks {
    fn route(&mut self, peer: u16, _hash: KeyHash) -> Option<usize> {
        Some(self.0.route(peer, 0))
    }

    fn routes(&mut self, peer: u16) -> Vec<usize> {
        vec![self.0.route(peer, 0)]
    }

    fn has_space(&mut self, route: usize, bytes: usize) -> bool {
        self.0.has_space(route, bytes)
    }

    fn send(&mut self, route: usize, pending: PendingReply, pieces: &[&[u8]]) -> Result<(), LinkRefused> {
        self.0.send(route, pending, pieces).map_err(|_| LinkRefused::Full)
    }
}

struct Site {
    partition: Partition,
    cpu: NativeCpu,
    core: Core,
    server: Server,
    rings: Rings,
    links: OneCoreLinks,
    session: Session<NativeCpu>,
    output: Output,
    _acceptor: LinkAcceptor,
}

struct Incoming<'a, 'd> {
    executor: &'a mut Executor<'d, NativeCpu>,
    output: &'a mut Output,
}

impl LinkHandler for Incoming<'_, '_> {
    type Hint = Hint;
    const NO_HINT: Hint = Hint::NONE;

    fn arrived(&mut self) {
        self.executor.begin_arrivals();
    }

    fn prefetch(&mut self, message: &[u8]) {
        self.executor.prefetch(message);
    }

    fn hint(&mut self, message: &[u8]) -> Hint {
        self.executor.hint(message)
    }

    fn serve(&mut self, source: drover_links::Source, message: &[u8], hint: Hint, reply: &mut Output) {
        self.executor.set_source(Source::Link(source.0));
        self.executor.serve(message, hint, reply);
    }

    fn fill(&mut self, pending: PendingReply, reply: LinkReply<'_>) {
        let LinkReply::Bytes(bytes) = reply else {
            panic!("the link broke")
        };
        self.executor
            .take_reply(pending, bytes, &mut |pending, delivery| {
                let Delivery::Reply(reply) = delivery else {
                    panic!("it failed")
                };
                self.output.fill(pending, reply);
            });
    }

    fn unsent(&mut self, _route: usize, _pending: PendingReply, _message: &[u8]) {
        panic!("the link broke");
    }
}

impl Site {
    fn new(core: Core, peer: Option<SocketAddr>) -> Site {
        let identity = Arc::new(MemberIdentity {
            service: "bench".into(),
            member: if peer.is_some() { "m0" } else { "m1" }.into(),
            secret: [1; 32],
        });
        let find = move |_| {
            Some(PeerAddr {
                name: "m1".into(),
                addr: peer?,
            })
        };
        let links =
            Links::new(identity.clone(), LinksOptions::default(), Box::new(find)).expect("descriptors");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let inboxes = vec![links.inbox()];
        let acceptor = LinkAcceptor::start(listener, identity, inboxes, |_| {}, AcceptorOptions::default());
        let options = PartitionOptions {
            mode: Mode::S3_FIFO,
            log_bytes: 1 << 22,
            bucket_count: 1 << 13,
            hash_seed: Some(SEED),
            ..Default::default()
        };
        let settings = Settings {
            requests_per_event: 100_000,
            ..Settings::default()
        };
        Site {
            partition: Partition::create(&options).expect("memory"),
            cpu: NativeCpu::new(1),
            core,
            server: Server::new(SEED.hasher(), 1_700_000_000, 1, settings, Box::new(NoHooks)),
            rings: Rings::between(1, 64).expect("memory").remove(0),
            links: OneCoreLinks(links),
            session: Session::new(false),
            output: Output::new(1, 1 << 24),
            _acceptor: acceptor.expect("a thread"),
        }
    }

    fn advance(&mut self, input: &[u8]) -> usize {
        let mut router = MemberRouter::new(&mut self.rings.outbound, &mut self.links);
        let mut executor = Executor {
            partition: &mut self.partition,
            cpu: &self.cpu,
            now_s: 100,
            core: &mut self.core,
            server: &self.server,
            router: &mut router,
        };
        self.session.advance(&mut executor, input, &mut self.output).used
    }

    fn step_links(&mut self) {
        let mut executor = Executor {
            partition: &mut self.partition,
            cpu: &self.cpu,
            now_s: 100,
            core: &mut self.core,
            server: &self.server,
            router: &mut self.rings.outbound,
        };
        executor.begin_round();
        let mut incoming = Incoming {
            executor: &mut executor,
            output: &mut self.output,
        };
        let now = self.cpu.refresh();
        self.links.0.step(&mut incoming, now);
        let _ = self.links.0.flush();
    }
}

/// The shards of two members, each of which has every other shard.
fn shards() -> [Arc<ServedShards>; 2] {
    let member = |name: &str| Member {
        advert: Advert::new(name, 1, vec![format!("member://{name}")]).expect("a sound advert"),
        incarnation: 1,
    };
    let mut draft = Draft::after(&Map::none(SHARD_COUNT));
    for name in ["m0", "m1"] {
        assert!(draft.add(member(name), Standing::Joining));
    }
    (0..SHARD_COUNT).for_each(|shard| draft.assign(ShardId(shard as u16), (shard % 2) as u16));
    let map = Arc::new(draft.finish().expect("a change"));
    ["m0", "m1"].map(|name| {
        let (mut ownership, shards) = (Ownership::new(SHARD_COUNT), ServedShards::new(SHARD_COUNT, 1));
        ownership.set_id(Some(member(name).id()));
        ownership.learn(&map, |_| None);
        shards.publish_all(&ownership, &Published::default());
        shards.set_stop_at(Ns::MAX);
        shards
    })
}

fn thread_time() -> Ns {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Ns(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Sends `input` to the first member until all is answered, with the second member's help.
fn ask(site: &mut Site, mut peer: Option<&mut Site>, input: &[u8]) {
    let mut used = 0;
    while used < input.len() || site.output.has_holes() {
        used += site.advance(&input[used..]);
        site.output.wrote(site.output.ready_bytes());
        if let Some(peer) = &mut peer {
            site.step_links();
            peer.step_links();
            site.step_links();
        }
    }
    site.output.wrote(site.output.ready_bytes());
}

fn main() {
    let arg = |nth, usual| {
        std::env::args()
            .nth(nth)
            .map_or(usual, |arg| arg.parse().expect("a number"))
    };
    let (window, count): (usize, usize) = (arg(1, 32), arg(2, 200_000));
    let [own, peers] = shards();
    let is_own = |key: &String| own.shard_of(SEED.hash(key.as_bytes())).index().is_multiple_of(2);
    let (own_keys, peer_keys): (Vec<String>, Vec<String>) = (0..2 * KEYS)
        .map(|nth| format!("user{nth:012}"))
        .partition(is_own);
    let mut alone = Site::new(Core::default(), None);
    let mut peer = Site::new(Core::of_member(peers, 0, Arc::default()), None);
    let addr = peer._acceptor.addr();
    let mut site = Site::new(Core::of_member(own.clone(), 0, Arc::default()), Some(addr));
    for key in own_keys.iter().chain(&peer_keys) {
        let set = format!("set {key} 0 0 32\r\n{:032}\r\n", 7);
        ask(&mut site, Some(&mut peer), set.as_bytes());
        ask(&mut alone, None, set.as_bytes());
    }
    let inputs = |keys: &[String]| -> Vec<String> {
        let batches = keys.chunks(window.min(keys.len()));
        let input = |keys: &[String]| {
            keys.iter().fold(String::new(), |mut input, key| {
                write!(input, "get {key}\r\n").expect("into memory");
                input
            })
        };
        batches.map(input).collect()
    };
    let [own_inputs, peer_inputs] = [&own_keys, &peer_keys].map(|keys| inputs(keys));
    let mut times = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        for (nth, times) in times.iter_mut().enumerate() {
            let inputs = if nth == 2 { &peer_inputs } else { &own_inputs };
            let (mut asked, begun) = (0, thread_time());
            for input in inputs.iter().cycle() {
                match nth {
                    0 => ask(&mut alone, None, input.as_bytes()),
                    1 => ask(&mut site, None, input.as_bytes()),
                    _ => ask(&mut site, Some(&mut peer), input.as_bytes()),
                }
                asked += window.min(KEYS);
                if asked >= count {
                    break;
                }
            }
            times.push((thread_time().0 - begun.0) as f64 / asked as f64);
        }
    }
    for (name, times) in ["no cluster", "own shard", "peer's shard"].iter().zip(&mut times) {
        times.sort_by(f64::total_cmp);
        println!(
            "{name:>12}: {:6.1} ns least, {:6.1} median",
            times[0],
            times[ROUNDS / 2]
        );
    }
}
