//! A client that writes other senders' numbers into its own lane of shared memory: it stays itself.

use crate::planted::Planted;
use crate::server::fake::send as say;
use drover_base::{Actor, Cpu, KeyHash, Ns};
use drover_control::{ControlStream, LocalListener};
use drover_kv::{KvClient, Op, Outcome};
use drover_kv_herd::client::{ClientOptions, Dial, HerdClient};
use drover_kv_herd::control::{Format, FrontEnd, Hello, Message, PROTOCOL_VERSION};
use drover_kv_herd::layout::{Commit, SlotOp};
use drover_kv_herd::server::{Acceptor, ClientLimits, Mistake, Server, ServerOptions, Worker};
use drover_mem::Region;
use drover_verbs::*;
use drover_verbs_shm::{Shm, ShmContext, ShmDevice};
use std::rc::Rc;
use std::sync::atomic::Ordering;

const KEY: &[u8] = b"key";

struct World {
    device: ShmDevice,
    acceptor: Acceptor<Shm, Planted>,
    worker: Worker<Shm, Planted>,
}

impl World {
    fn new(mistake: Option<Mistake>) -> World {
        let device = ShmDevice::default();
        let options = ServerOptions {
            clients: ClientLimits {
                datagram_recvs: 256,
                ..ClientLimits::default()
            },
            idle_sweeps: 1,
            ..ServerOptions::default()
        };
        let (acceptor, mut workers) =
            Server::<Shm>::in_pieces_as(&device, &options, Planted(mistake)).expect("a server");
        World {
            device,
            acceptor,
            worker: workers.remove(0),
        }
    }

    fn step(&mut self) {
        let (control, ctx) = (self.acceptor.context(), self.worker.context());
        control.cpu().refresh();
        self.acceptor.step(control.cpu());
        ctx.cpu().refresh();
        self.worker.step(ctx.cpu());
    }
}

/// A correct client that sends datagrams.
struct Victim {
    ctx: Rc<ShmContext>,
    client: HerdClient<Shm>,
}

impl Victim {
    fn connect(world: &mut World) -> Victim {
        let listener = LocalListener::new();
        let wishes = ClientOptions {
            window: 4,
            deadline: Ns::from_ms(500),
            front_end: FrontEnd::Datagrams,
            ..ClientOptions::default()
        };
        let ctx = Rc::new(world.device.context().expect("a context"));
        let mut client: HerdClient<Shm> = HerdClient::new(ctx.clone(), Dial::at(&listener), wishes);
        client.poll(ctx.cpu(), &mut |_| {});
        world
            .acceptor
            .adopt(listener.accept().expect("the first poll dials"));
        while !client.is_ready() {
            ctx.cpu().refresh();
            client.poll(ctx.cpu(), &mut |_| {});
            world.step();
        }
        Victim { ctx, client }
    }

    /// Executes `op`, and returns its outcome as text: what a value is, or that there is none.
    fn call(&mut self, world: &mut World, op: &Op<'_>) -> String {
        self.client.submit(self.ctx.cpu(), op, 0).expect("a free window");
        let mut ended = None;
        while ended.is_none() {
            self.ctx.cpu().refresh();
            self.client.poll(self.ctx.cpu(), &mut |completion| {
                ended = Some(match completion.outcome {
                    Outcome::Value(value) => String::from_utf8_lossy(value).into_owned(),
                    other => format!("{other:?}"),
                });
            });
            world.step();
        }
        ended.expect("the loop ends with it")
    }
}

/// The server's next message.
fn next(world: &mut World, ctx: &ShmContext, stream: &mut ControlStream) -> Message {
    loop {
        world.step();
        if let Some(frame) = stream.recv(ctx.cpu().now()).expect("a server that lives") {
            return Message::decode(frame.kind, &frame.body, frame.fds).expect("our own bytes");
        }
    }
}

/// A client that has been let in, and writes its lane by hand.
struct Forger {
    lane: Region,
    lines: u64,
    qkey: u32,
    position: u64,
    /// What it holds so that it stays connected.
    held: (ControlStream, ShmContext, Vec<drover_verbs_shm::ShmQp>),
    own_qpn: u32,
    hash_seed: drover_base::HashSeed,
}

/// Where the ring of a lane without RECVs begins.
const RING_AT: usize = 32 * 8;

impl Forger {
    fn connect(world: &mut World) -> Forger {
        let ctx = world.device.context().expect("a context");
        let (mut stream, server) = ControlStream::pair();
        world.acceptor.adopt(server);
        let hello = Message::Hello(Hello {
            protocol_version: PROTOCOL_VERSION,
            format: Format::D,
            front_end: FrontEnd::Datagrams,
            window: 4,
            slot_bytes: 1024,
            crc: false,
            resume_epoch: 0,
            auth: Vec::new(),
        });
        say(&mut stream, &hello);
        let Message::Welcome(welcome) = next(world, &ctx, &mut stream) else {
            panic!("no welcome");
        };
        let Message::Partition { ud, .. } = next(world, &ctx, &mut stream) else {
            panic!("no partition");
        };
        let cq = ctx.create_cq(16).expect("a completion queue");
        let options = QpOptions::<Shm>::new(QpKind::Ud, &cq, ctx.caps());
        let qp = ctx.create_qp(&options).expect("a queue pair");
        let dest = ctx.create_ah(&ud).expect("an address");
        let bytes = ud.fds[0].try_clone().expect("a descriptor");
        let size = std::fs::File::from(bytes.try_clone().expect("a descriptor"))
            .metadata()
            .expect("its length")
            .len();
        let lane = Region::from_fd(bytes, size as usize, true).expect("a mapping");
        let export = qp.export().expect("an export");
        let replies = Message::Replies {
            partition: 0,
            ud: export,
        };
        say(&mut stream, &replies);
        assert!(matches!(next(world, &ctx, &mut stream), Message::Ready));
        Forger {
            lane,
            lines: 1 << ud.bytes[16],
            qkey: dest.qkey,
            position: 0,
            own_qpn: qp.qpn().0,
            hash_seed: welcome.hash_seed,
            held: (stream, ctx, vec![qp]),
        }
    }

    /// Writes a datagram into the own lane that says it is from queue pair `src`.
    fn write(&mut self, world: &mut World, src: u32, payload: &[u8]) {
        assert!(payload.len() <= 40, "a message of one line");
        let at = RING_AT + (self.position % self.lines) as usize * 64;
        let mut bytes = [0; 40];
        bytes[..payload.len()].copy_from_slice(payload);
        self.lane.copy_in(at + 24, &bytes);
        self.lane
            .store_u64(at + 8, u64::from(src) << 32, Ordering::Relaxed);
        self.lane
            .store_u64(at + 16, u64::from(self.qkey), Ordering::Relaxed);
        let lap = self.position / self.lines + 1;
        self.lane
            .store_u64(at, lap | (payload.len() as u64) << 32, Ordering::Release);
        self.position += 1;
        world.step();
    }

    /// A PUT as the client with this id and generation would send it.
    fn put(&self, (client, generation): (u32, u16), slot: u16, seq: u32) -> Vec<u8> {
        let hash: KeyHash = self.hash_seed.hash(KEY);
        let commit = Commit::new(SlotOp::Put, seq, KEY.len(), 1, false);
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&client.to_le_bytes());
        bytes.extend_from_slice(&slot.to_le_bytes());
        bytes.extend_from_slice(&generation.to_le_bytes());
        bytes.extend_from_slice(b"X");
        bytes.extend_from_slice(KEY);
        bytes.extend_from_slice(&hash.to_bytes());
        bytes.extend_from_slice(&commit.0.to_le_bytes());
        bytes
    }
}

/// What the victim reads after it has stored "mine", and another client has forged requests in its name; the number of datagrams
/// that were dropped for that.
fn attacked(mistake: Option<Mistake>) -> (String, u64) {
    let mut world = World::new(mistake);
    let mut victim = Victim::connect(&mut world);
    let mut forger = Forger::connect(&mut world);
    assert_eq!(victim.call(&mut world, &Op::put(KEY, b"mine")), "Stored");
    // The lane's first message says who the forger is.
    let harmless = forger.put((u32::MAX, 0), 0, 1);
    forger.write(&mut world, forger.own_qpn, &harmless);
    // In one process numbers of queue pairs follow each other.
    for distance in 1..40 {
        for slot in 0..4 {
            for identity in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                let request = forger.put(identity, slot, 2);
                forger.write(&mut world, forger.own_qpn - distance, &request);
            }
        }
    }
    let value = victim.call(&mut world, &Op::Get { key: KEY });
    (value, world.worker.context().stats().dropped_forged_sender)
}

#[test]
fn forged_sender_is_dropped() {
    let (value, dropped) = attacked(None);
    assert_eq!((&*value, dropped), ("mine", 39 * 4 * 4));
}

#[test]
fn flaw_trusts_senders_is_caught() {
    let (value, dropped) = attacked(Some(Mistake::TrustsSenders));
    assert_ne!(value, "mine");
    assert_eq!(dropped, 0);
}

/// Clients that are gone, but hold on to their lanes, cost the server nothing.
#[test]
fn lanes_of_clients_that_are_gone_are_dropped() {
    let mut world = World::new(None);
    let mut victim = Victim::connect(&mut world);
    let mut kept = Vec::new();
    for _ in 0..20 {
        let mut forger = Forger::connect(&mut world);
        let (stream, ..) = &mut forger.held;
        stream.close();
        kept.push(forger);
    }
    for _ in 0..1000 {
        world.step();
    }
    // The receiver says in word 24 of a lane that it receives no more.
    let open = kept
        .iter()
        .filter(|forger| forger.lane.load_u64(24 * 8, Ordering::Acquire) == 0);
    assert_eq!(open.count(), 0);
    assert_eq!(victim.call(&mut world, &Op::put(KEY, b"mine")), "Stored");
}
