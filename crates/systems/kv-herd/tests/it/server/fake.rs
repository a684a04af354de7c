//! A whole server and hand-driven clients in one thread, on the loopback fabric: every step is deterministic.

use crate::planted::Planted;
use drover_base::{Actor, Cpu, HashSeed, KeyHash, Ns, Progress};
use drover_control::ControlStream;
use drover_kv_herd::control::{
    Format, FrontEnd, Hello, Message, PROTOCOL_VERSION, Resync, Resynced, Welcome,
};
use drover_kv_herd::layout::{
    BODY_BYTES_MAX, Commit, DATAGRAM_HEADER_BYTES, ReplyImm, SlotMap, SlotOp, Status, request_crc,
};
use drover_kv_herd::server::{Acceptor, Counters, IdentityOptions, Mistake, Server, ServerOptions, Worker};
use drover_mem::PageWish;
use drover_store::PartitionOptions;
use drover_verbs::*;
use drover_verbs_suite::loopback::{
    Loopback, LoopbackContext, LoopbackCq, LoopbackDevice, LoopbackMr, LoopbackOptions, LoopbackQp,
};
use std::rc::Rc;

/// The server, in pieces.
pub struct World {
    pub device: LoopbackDevice,
    pub acceptor: Acceptor<Loopback, Planted>,
    pub workers: Vec<Worker<Loopback, Planted>>,
}

/// Small, and idle after one fruitless sweep.
pub fn options() -> ServerOptions {
    ServerOptions {
        partition: PartitionOptions {
            log_bytes: 1 << 20,
            bucket_count: 1 << 10,
            pages: PageWish::Small,
            ..PartitionOptions::default()
        },
        item_bytes_max: 64 << 10,
        identity: IdentityOptions {
            hash_seed: Some(HashSeed::new(1, 2)),
            epoch: Some(7),
            ..IdentityOptions::default()
        },
        idle_sweeps: 1,
        ..ServerOptions::default()
    }
}

impl World {
    pub fn new(options: &ServerOptions) -> World {
        World::with(options, None)
    }

    /// Of a server that makes a mistake.
    pub fn with(options: &ServerOptions, mistake: Option<Mistake>) -> World {
        World::on(LoopbackDevice::new(), options, mistake)
    }

    /// A fabric that does not keep the order of a WRITE's bytes.
    pub fn unordered(options: &ServerOptions, mistake: Option<Mistake>) -> World {
        let mut fabric = LoopbackOptions::default();
        fabric.caps.writes.ordered = false;
        World::on(LoopbackDevice::with_options(fabric), options, mistake)
    }

    pub fn on(device: LoopbackDevice, options: &ServerOptions, mistake: Option<Mistake>) -> World {
        let (acceptor, workers) = Server::in_pieces_as(&device, options, Planted(mistake)).expect("server");
        World {
            device,
            acceptor,
            workers,
        }
    }

    /// One step of a worker.
    pub fn step(&mut self, worker: usize) -> Progress {
        let ctx = self.workers[worker].context();
        ctx.cpu().refresh();
        self.workers[worker].step(ctx.cpu())
    }

    /// Steps everybody until nobody has anything to do. Panics when that takes too long: a livelock.
    pub fn settle(&mut self) {
        for _ in 0..10_000 {
            let ctx = self.acceptor.context();
            ctx.cpu().refresh();
            let mut busy = self.acceptor.step(ctx.cpu()) == Progress::Busy;
            for worker in 0..self.workers.len() {
                busy |= self.step(worker) == Progress::Busy;
            }
            if !busy {
                return;
            }
        }
        panic!("the server never comes to rest");
    }

    pub fn counters(&self) -> Counters {
        *self.workers[0].counters()
    }

    pub fn connect(&mut self) -> Fake {
        self.connect_as(hello())
    }

    pub fn connect_as(&mut self, hello: Hello) -> Fake {
        Fake::connect(self, hello).expect("welcome")
    }
}

/// The usual wishes.
pub fn hello() -> Hello {
    Hello {
        protocol_version: PROTOCOL_VERSION,
        format: Format::D,
        front_end: FrontEnd::Slots,
        window: 4,
        slot_bytes: 1024,
        crc: false,
        resume_epoch: 0,
        auth: Vec::new(),
    }
}

/// A reply as it arrived.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reply {
    pub partition: usize,
    pub slot: usize,
    pub seq: u32,
    pub status: Status,
    pub payload: Vec<u8>,
}

/// A request's bytes, for sending them again or elsewhere.
#[derive(Clone, Debug)]
pub struct Request {
    pub commit: Commit,
    pub hash: KeyHash,
    pub body: Vec<u8>,
}

const RECVS: usize = 256;
const RECV_BYTES: usize = GRH_BYTES + BODY_BYTES_MAX;

/// A client that does what the test says and nothing by itself.
pub struct Fake {
    pub ctx: Rc<LoopbackContext>,
    pub stream: ControlStream,
    pub welcome: Welcome,
    pub map: SlotMap,
    pub remote: Option<RemoteRegion>,
    uc: LoopbackQp,
    uc_cq: LoopbackCq,
    ud: LoopbackQp,
    ud_cq: LoopbackCq,
    inbox: LoopbackMr,
    outbox: LoopbackMr,
    datagrams: Vec<UdDest>,
    pub front_end: FrontEnd,
    next_r: Vec<u64>,
    pub seed: HashSeed,
}

impl Fake {
    /// The handshake; `Err` with the server's refusal.
    pub fn connect(world: &mut World, hello: Hello) -> Result<Fake, Message> {
        let ctx = Rc::new(world.device.context().expect("context"));
        let (mut stream, server) = ControlStream::pair();
        world.acceptor.adopt(server);
        let front_end = hello.front_end;
        send(&mut stream, &Message::Hello(hello));
        world.settle();
        let welcome = match receive(&ctx, &mut stream) {
            Some(Message::Welcome(welcome)) => *welcome,
            Some(other) => return Err(other),
            None => panic!("no answer to Hello"),
        };
        let map = SlotMap {
            slot_bytes: usize::from(welcome.slot_bytes),
            window: usize::from(welcome.window),
            partition_count: usize::from(welcome.partition_count),
        };
        let mut datagrams = Vec::new();
        while let Some(Message::Partition { ud, .. }) = receive(&ctx, &mut stream) {
            datagrams.push(ctx.create_ah(&ud).expect("address"));
        }
        let (uc_cq, ud_cq) = (ctx.create_cq(512).expect("cq"), ctx.create_cq(512).expect("cq"));
        let mut uc = ctx
            .create_qp(&QpOptions::<Loopback>::new(QpKind::Uc, &uc_cq, ctx.caps()))
            .expect("uc");
        let mut ud_options = QpOptions::<Loopback>::new(QpKind::Ud, &ud_cq, ctx.caps());
        ud_options.recv_depth = RECVS;
        ud_options.qkey = 0x1234;
        let ud = ctx.create_qp(&ud_options).expect("ud");
        let remote =
            (front_end == FrontEnd::Slots).then(|| ctx.import_region(&welcome.slots.region).expect("region"));
        if front_end == FrontEnd::Slots {
            uc.connect(&welcome.slots.uc).expect("connect");
            let export = uc.export().expect("export");
            send(&mut stream, &Message::Attach { uc: export });
        }
        for partition in 0..welcome.partition_count {
            let ud = ud.export().expect("export");
            send(&mut stream, &Message::Replies { partition, ud });
        }
        let inbox = ctx.alloc(RECVS * RECV_BYTES, PageWish::Small).expect("memory");
        let inbox = ctx.register(&inbox, Access::LOCAL).expect("mr");
        let outbox = ctx.alloc(4096, PageWish::Small).expect("memory");
        let outbox = ctx.register(&outbox, Access::LOCAL_READ).expect("mr");
        let seed = welcome.hash_seed;
        let next_r = vec![0; map.partition_count];
        let mut fake = Fake {
            ctx,
            stream,
            welcome,
            map,
            remote,
            uc,
            uc_cq,
            ud,
            ud_cq,
            inbox,
            outbox,
            datagrams,
            front_end,
            next_r,
            seed,
        };
        (0..RECVS).for_each(|piece| fake.post_recv(piece));
        world.settle();
        match receive(&fake.ctx, &mut fake.stream) {
            Some(Message::Ready) => Ok(fake),
            other => panic!("expected Ready, not {other:?}"),
        }
    }

    fn post_recv(&mut self, piece: usize) {
        let mut list = RecvList::default();
        let sge = self.inbox.sge(piece * RECV_BYTES, RECV_BYTES);
        list.push(RecvWr {
            wr_id: WrId(piece as u64),
            sge,
        });
        self.ud.post_recv(self.ctx.cpu(), &list).expect("recv");
    }

    pub fn hash(&self, key: &[u8]) -> KeyHash {
        self.seed.hash(key)
    }

    pub fn partition(&self, key: &[u8]) -> usize {
        self.hash(key).partition_index(self.map.partition_count)
    }

    /// The request for the partition's next position, not sent.
    pub fn next(&mut self, op: SlotOp, key: &[u8], value: &[u8], ttl_s: u32) -> (usize, usize, Request) {
        let partition = self.partition(key);
        let r = self.next_r[partition];
        self.next_r[partition] += 1;
        let slot = r as usize % self.map.window;
        let seq = (r / self.map.window as u64 + 1) as u32;
        (partition, slot, self.request(op, seq, key, value, ttl_s))
    }

    pub fn request(&self, op: SlotOp, seq: u32, key: &[u8], value: &[u8], ttl_s: u32) -> Request {
        let commit = Commit::new(op, seq, key.len(), value.len(), self.welcome.crc);
        let hash = self.hash(key);
        let mut body = Vec::new();
        if op.has_ttl() {
            body.extend_from_slice(&ttl_s.to_le_bytes());
        }
        body.extend_from_slice(value);
        body.extend_from_slice(key);
        if self.welcome.crc {
            let crc = request_crc(&body, hash, commit);
            body.extend_from_slice(&crc.to_le_bytes());
        }
        Request { commit, hash, body }
    }

    /// Sends the partition's next request; returns where it is, for [`again`](Fake::again).
    pub fn send(&mut self, op: SlotOp, key: &[u8], value: &[u8]) -> (usize, usize, Request) {
        let (partition, slot, request) = self.next(op, key, value, 0);
        self.write(partition, slot, &request);
        (partition, slot, request)
    }

    /// A retransmission.
    pub fn again(&mut self, sent: &(usize, usize, Request), attempt: u32) {
        let (partition, slot, request) = sent;
        let request = Request {
            commit: request.commit.with_attempt(attempt),
            ..request.clone()
        };
        self.write(*partition, *slot, &request);
    }

    /// A whole request.
    pub fn write(&mut self, partition: usize, slot: usize, request: &Request) {
        let mut bytes = request.body.clone();
        bytes.extend_from_slice(&request.hash.to_bytes());
        bytes.extend_from_slice(&request.commit.0.to_le_bytes());
        match self.front_end {
            FrontEnd::Slots => self.write_end(partition, slot, &bytes),
            FrontEnd::Datagrams => self.send_datagram(partition, slot, &bytes),
        }
    }

    /// Bytes that end where the slot ends.
    pub fn write_end(&mut self, partition: usize, slot: usize, bytes: &[u8]) {
        let at = self.map.slot_offset(partition, slot) + self.map.slot_bytes - bytes.len();
        self.write_at(at, bytes).expect("posted");
    }

    /// Any bytes anywhere in the region; says how it completed.
    pub fn write_at(&mut self, offset: usize, bytes: &[u8]) -> Result<WcStatus, PostError> {
        self.outbox.region().copy_in(0, bytes);
        let remote = self.remote.expect("slots").at(offset);
        let mut list = SendList::default();
        list.push(SendWr::write(remote, self.outbox.sge(0, bytes.len())).signaled(WrId(0)));
        self.uc.post_send(self.ctx.cpu(), &list)?;
        let mut wcs = [Wc::default(); 4];
        assert_eq!(self.uc_cq.poll(self.ctx.cpu(), &mut wcs), 1);
        Ok(wcs[0].status)
    }

    fn send_datagram(&mut self, partition: usize, slot: usize, bytes: &[u8]) {
        let mut message = Vec::with_capacity(DATAGRAM_HEADER_BYTES + bytes.len());
        message.extend_from_slice(&self.welcome.client_id.to_le_bytes());
        message.extend_from_slice(&(slot as u16).to_le_bytes());
        message.extend_from_slice(&(self.welcome.generation as u16).to_le_bytes());
        message.extend_from_slice(bytes);
        self.send_raw(partition, &message);
    }

    /// Any datagram.
    pub fn send_raw(&mut self, partition: usize, message: &[u8]) {
        self.outbox.region().copy_in(0, message);
        let mut list = SendList::default();
        let payload = self.outbox.sge(0, message.len());
        list.push(SendWr::send_to(self.datagrams[partition], payload).signaled(WrId(u64::MAX)));
        self.ud.post_send(self.ctx.cpu(), &list).expect("posted");
    }

    /// What has arrived, in order.
    pub fn replies(&mut self) -> Vec<Reply> {
        let mut replies = Vec::new();
        let mut wcs = [Wc::default(); 16];
        loop {
            let count = self.ud_cq.poll(self.ctx.cpu(), &mut wcs);
            for wc in &wcs[..count] {
                if wc.opcode != Opcode::Recv {
                    continue;
                }
                let piece = wc.wr_id.0 as usize;
                let mut payload = vec![0; wc.byte_len as usize - GRH_BYTES];
                self.inbox
                    .region()
                    .copy_out(piece * RECV_BYTES + GRH_BYTES, &mut payload);
                let imm = ReplyImm(wc.imm.expect("immediate").0);
                let partition = self.welcome.reply_qpns.iter().position(|&q| q == wc.src_qpn.0);
                replies.push(Reply {
                    partition: partition.expect("a worker's queue pair"),
                    slot: imm.slot_index(),
                    seq: imm.seq_low(),
                    status: imm.status().expect("status"),
                    payload,
                });
                self.post_recv(piece);
            }
            if count < wcs.len() {
                return replies;
            }
        }
    }

    /// Sends, lets the server work, and returns the one reply.
    pub fn call(&mut self, world: &mut World, op: SlotOp, key: &[u8], value: &[u8]) -> Reply {
        self.send(op, key, value);
        self.reply(world)
    }

    pub fn call_ttl(&mut self, world: &mut World, key: &[u8], value: &[u8], ttl_s: u32) -> Reply {
        let (partition, slot, request) = self.next(SlotOp::PutTtl, key, value, ttl_s);
        self.write(partition, slot, &request);
        self.reply(world)
    }

    /// Lets the server work; there must be exactly one reply.
    pub fn reply(&mut self, world: &mut World) -> Reply {
        world.settle();
        let mut replies = self.replies();
        assert_eq!(replies.len(), 1, "{replies:?}");
        replies.remove(0)
    }

    pub fn get(&mut self, world: &mut World, key: &[u8]) -> Option<Vec<u8>> {
        let reply = self.call(world, SlotOp::Get, key, b"");
        match reply.status {
            Status::Ok => Some(reply.payload),
            Status::NotFound => None,
            status => panic!("{status:?}"),
        }
    }

    pub fn put(&mut self, world: &mut World, key: &[u8], value: &[u8]) {
        assert_eq!(self.call(world, SlotOp::Put, key, value).status, Status::Ok);
    }

    pub fn send_control(&mut self, message: &Message) {
        send(&mut self.stream, message);
    }

    pub fn receive(&mut self) -> Option<Message> {
        receive(&self.ctx, &mut self.stream)
    }

    pub fn resync(&mut self, world: &mut World, partition: usize, slot: usize, seq: u32, r: u64) -> Resynced {
        let (partition, slot) = (partition as u16, slot as u16);
        self.send_control(&Message::Resync(Resync {
            partition,
            slot,
            seq,
            r,
        }));
        world.settle();
        match self.receive() {
            Some(Message::Resynced(resynced)) => resynced,
            other => panic!("expected Resynced, not {other:?}"),
        }
    }

    /// The control channel ends, as when the process dies; the queue pairs live on in this test's hands.
    pub fn hang_up(&mut self, world: &mut World) {
        self.stream.close();
        world.settle();
    }
}

pub fn send(stream: &mut ControlStream, message: &Message) {
    let frame = message.encode();
    stream.send(frame.kind, &frame.body, &frame.fds).expect("sent");
}

/// The next message, `None` when there is none or the channel has ended.
pub fn receive(ctx: &LoopbackContext, stream: &mut ControlStream) -> Option<Message> {
    let frame = stream.recv(ctx.cpu().now()).ok().flatten()?;
    Some(Message::decode(frame.kind, &frame.body, frame.fds).expect("our own bytes"))
}

/// A key of partition `partition`.
pub fn key_of(fake: &Fake, partition: usize, number: u32) -> Vec<u8> {
    (number * 1000..)
        .map(|i| format!("key{i}").into_bytes())
        .find(|key| fake.partition(key) == partition)
        .expect("some key")
}

/// A duration that any timer of the server is shorter than.
pub const LONG: Ns = Ns::from_ms(50);
