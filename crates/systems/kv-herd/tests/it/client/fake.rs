//! A server that does what the tests say: executes requests straight from the slot bytes, loses, repeats and
//! delays what it is told to, and counts what it executed.

use drover_base::{Cpu, HashSeed, KeyHash, Ns, crc32c};
use drover_control::{ControlStream, DialError, LocalListener};
use drover_kv_herd::client::Dial;
use drover_kv_herd::control::{ErrorCode, FrontEnd, Hello, Message, Resync, Resynced, SlotExports, Welcome};
use drover_kv_herd::layout::{
    BULK_BYTES, Bulk, Commit, DATAGRAM_HEADER_BYTES, ReplyImm, SlotMap, SlotOp, Status, TRAILER_BYTES,
    request_crc,
};
use drover_mem::PageWish;
use drover_rt::ChunkMap;
use drover_verbs::{
    Access, CompletionQueue, Context, Device, GRH_BYTES, Imm, MemoryRegion, QpKind, QpOptions, QueuePair,
    RecvList, RecvWr, SendList, SendWr, UdDest, Wc, WrId,
};
use drover_verbs_suite::loopback::{Loopback, LoopbackContext, LoopbackDevice, LoopbackMr, LoopbackQp};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub const ITEM_BYTES_MAX: usize = 100_000;
/// Bytes of a short chunk.
pub const SHORT_BYTES: usize = 8192;
const SEED: HashSeed = HashSeed::new(11, 22);
const DATAGRAM_BYTES: usize = GRH_BYTES + DATAGRAM_HEADER_BYTES + 1024;

/// What happens to a request or to its reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Fate {
    #[default]
    Serve,
    /// It never arrived.
    LoseRequest,
    /// It was executed, the reply got lost.
    LoseReply,
    /// Two replies.
    Duplicate,
    /// The reply waits for [`FakeServer::release`].
    Hold,
    /// Not executed; this is the answer.
    Say(Status),
    /// Not executed; this is the answer, which waits for [`FakeServer::release`].
    HoldSaying(Status),
}

/// A request as the server sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub partition: usize,
    pub slot: usize,
    pub commit: Commit,
    pub key: Vec<u8>,
}

type Script = Box<dyn FnMut(&Seen) -> Fate>;

/// Where clients dial.
#[derive(Clone, Default)]
pub struct Door {
    listener: LocalListener,
    shut: Arc<AtomicBool>,
}

impl Door {
    pub fn dial(&self) -> Dial {
        let door = self.clone();
        Dial::new("this process", move || {
            if door.shut.load(Ordering::Relaxed) {
                return Err(DialError::Refused {
                    addr: "here".to_owned(),
                });
            }
            Ok(door.listener.connect())
        })
    }

    pub fn shut(&self, shut: bool) {
        self.shut.store(shut, Ordering::Relaxed);
    }

    fn accept(&self) -> Option<ControlStream> {
        self.listener.accept()
    }
}

#[derive(Clone, Copy, Default)]
struct SlotMemory {
    last_commit: u64,
    last_seq: u32,
    last_status: Option<Status>,
}

/// One client's session.
struct FakeConn {
    control: ControlStream,
    slots: LoopbackMr,
    uc: LoopbackQp,
    workers: Vec<(LoopbackQp, Option<UdDest>)>,
    cq: <Loopback as drover_verbs::Provider>::Cq,
    datagrams: LoopbackMr,
    replies: LoopbackMr,
    memory: Vec<SlotMemory>,
    bulk: Option<(LoopbackMr, LoopbackQp, ChunkMap)>,
    held: Vec<(usize, ReplyImm, Vec<u8>)>,
    ready: bool,
}

pub struct FakeServer {
    pub ctx: LoopbackContext,
    pub map: SlotMap,
    pub store: BTreeMap<Vec<u8>, (Vec<u8>, u32)>,
    pub script: Script,
    /// Every execution of a request, in order.
    pub executed: Vec<Seen>,
    /// Everything seen, executed or not.
    pub seen: Vec<Seen>,
    pub crc_wanted: bool,
    pub crc_checked: usize,
    /// Changes the Welcome before it is sent.
    pub bend: Box<dyn FnMut(&mut Welcome)>,
    /// Resyncs wait while this is set.
    pub deaf: bool,
    pub datagrams: bool,
    /// Requests of a lane are taken in the order of their numbers, as a server does when none is lost.
    pub in_turn: bool,
    pub resyncs: Vec<Resync>,
    pub spoil_bulk: usize,
    /// Turns clients away.
    pub refuse: Option<ErrorCode>,
    door: Door,
    peer: Option<FakeConn>,
    epoch: u64,
}

impl FakeServer {
    pub fn new(device: &LoopbackDevice, map: SlotMap) -> FakeServer {
        FakeServer {
            ctx: device.context().expect("context"),
            map,
            store: BTreeMap::new(),
            script: Box::new(|_| Fate::Serve),
            executed: Vec::new(),
            seen: Vec::new(),
            crc_wanted: false,
            crc_checked: 0,
            bend: Box::new(|_| {}),
            deaf: false,
            datagrams: false,
            in_turn: false,
            resyncs: Vec::new(),
            spoil_bulk: 0,
            refuse: None,
            door: Door::default(),
            peer: None,
            epoch: 100,
        }
    }

    pub fn door(&self) -> Door {
        self.door.clone()
    }

    /// The session dies.
    pub fn kill(&mut self) {
        self.peer = None;
    }

    /// Sends anything on the control channel.
    pub fn send(&mut self, message: &Message) {
        send(&mut self.peer.as_mut().expect("a client").control, message);
    }

    /// Sends an arbitrary datagram as a reply.
    pub fn reply_raw(&mut self, partition: usize, imm: Option<Imm>, payload: &[u8]) {
        let (ctx, peer) = (&self.ctx, self.peer.as_mut().expect("a client"));
        post_reply(ctx, peer, partition, imm, payload);
    }

    /// Sends the replies held so far; `keep` keeps them to be sent again.
    pub fn release(&mut self, keep: bool) {
        let (ctx, peer) = (&self.ctx, self.peer.as_mut().expect("a client"));
        let held = std::mem::take(&mut peer.held);
        for (partition, imm, payload) in &held {
            post_reply(ctx, peer, *partition, Some(Imm(imm.0)), payload);
        }
        if keep {
            peer.held = held;
        }
    }

    /// Sends the replies held, the last first.
    pub fn release_reversed(&mut self) {
        self.peer.as_mut().expect("a client").held.reverse();
        self.release(false);
    }

    /// How often requests of this op on this key were executed.
    pub fn executions(&self, key: &[u8], op: SlotOp) -> usize {
        self.executed
            .iter()
            .filter(|seen| seen.key == key && seen.commit.op() == Some(op))
            .count()
    }

    pub fn step(&mut self) {
        if let Some(control) = self.door.accept() {
            self.welcome(control);
        }
        self.take_messages();
        if self.peer.as_ref().is_some_and(|peer| peer.ready) {
            self.take_datagrams();
            self.sweep();
        }
    }

    fn welcome(&mut self, control: ControlStream) {
        let ctx = &self.ctx;
        let bytes = self.map.region_bytes();
        let memory = ctx.alloc(bytes, PageWish::Small).expect("memory");
        let slots = ctx.register(&memory, Access::REMOTE_WRITE).expect("registered");
        let memory = ctx.alloc(256 * DATAGRAM_BYTES, PageWish::Small).expect("memory");
        let datagrams = ctx.register(&memory, Access::LOCAL).expect("registered");
        let memory = ctx.alloc(4096, PageWish::Small).expect("memory");
        let replies = ctx.register(&memory, Access::LOCAL).expect("registered");
        let cq = ctx.create_cq(4096).expect("queue");
        let uc = ctx
            .create_qp(&QpOptions::new(QpKind::Uc, &cq, ctx.caps()))
            .expect("queue pair");
        let mut workers = Vec::new();
        for partition in 0..self.map.partition_count {
            let options = QpOptions {
                recv_depth: 256,
                send_depth: 4096,
                ..QpOptions::new(QpKind::Ud, &cq, ctx.caps())
            };
            let mut ud = ctx.create_qp(&options).expect("queue pair");
            if partition == 0 {
                (0..256).for_each(|i| post_recv(ctx, &mut ud, &datagrams, i));
            }
            workers.push((ud, None));
        }
        self.peer = Some(FakeConn {
            control,
            slots,
            uc,
            workers,
            cq,
            datagrams,
            replies,
            memory: vec![SlotMemory::default(); self.map.partition_count * self.map.window],
            bulk: None,
            held: Vec::new(),
            ready: false,
        });
        self.epoch += 1;
    }

    fn take_messages(&mut self) {
        let now = self.ctx.cpu().now();
        while let Some(peer) = &mut self.peer {
            let frame = match peer.control.recv(now) {
                Ok(Some(frame)) => frame,
                Ok(None) => return,
                Err(_) => {
                    self.peer = None;
                    return;
                }
            };
            let message =
                Message::decode(frame.kind, &frame.body, frame.fds).expect("the client speaks well");
            self.take_message(message);
        }
    }

    fn take_message(&mut self, message: Message) {
        let refuses = |code, hello: &Hello| code != ErrorCode::NoSlots || hello.front_end == FrontEnd::Slots;
        let peer = self.peer.as_mut().expect("it spoke");
        match message {
            Message::Hello(hello) if self.refuse.is_some_and(|code| refuses(code, &hello)) => {
                let code = self.refuse.expect("just seen");
                send(
                    &mut peer.control,
                    &Message::Error {
                        code,
                        text: "go away".to_owned(),
                    },
                );
                self.peer = None;
            }
            Message::Hello(hello) => {
                let mut welcome = Welcome {
                    epoch: self.epoch,
                    client_id: 7,
                    generation: 3,
                    partition_count: self.map.partition_count as u16,
                    window: hello.window.min(self.map.window as u16),
                    slot_bytes: self.map.slot_bytes as u16,
                    crc: self.crc_wanted,
                    mtu_bytes: 4096,
                    item_bytes_max: ITEM_BYTES_MAX as u32,
                    hash_seed: HashSeed::new(SEED.halves().0 + self.epoch, SEED.halves().1),
                    reply_qpns: peer.workers.iter().map(|(ud, _)| ud.qpn().0).collect(),
                    slots: SlotExports {
                        region: peer.slots.export(&[]).expect("export"),
                        uc: peer.uc.export().expect("export"),
                    },
                };
                if self.datagrams {
                    welcome.slots = SlotExports::default();
                }
                (self.bend)(&mut welcome);
                send(&mut peer.control, &Message::Welcome(Box::new(welcome)));
                // One datagram queue pair for all partitions is enough here; the trailer says the rest.
                for index in 0..if self.datagrams {
                    self.map.partition_count
                } else {
                    0
                } {
                    let ud = peer.workers[0].0.export().expect("export");
                    send(
                        &mut peer.control,
                        &Message::Partition {
                            index: index as u16,
                            ud,
                        },
                    );
                }
            }
            Message::Attach { uc } => peer.uc.connect(&uc).expect("connected"),
            Message::Replies { partition, ud } => {
                peer.workers[usize::from(partition)].1 = Some(self.ctx.create_ah(&ud).expect("address"));
                if peer.workers.iter().all(|(_, dest)| dest.is_some()) {
                    peer.ready = true;
                    send(&mut peer.control, &Message::Ready);
                }
            }
            Message::Resync(resync) => self.resync(resync),
            Message::BulkOpen {
                chunk_count,
                short_count,
            } => {
                let map = ChunkMap {
                    long_bytes: 100_352,
                    long_count: usize::from(chunk_count),
                    short_bytes: SHORT_BYTES,
                    short_count: usize::from(short_count),
                };
                let memory = self.ctx.alloc(map.bytes(), PageWish::Small).expect("memory");
                let mr = self.ctx.register(&memory, Access::ALL).expect("registered");
                let qp = self
                    .ctx
                    .create_qp(&QpOptions::new(QpKind::Rc, &peer.cq, self.ctx.caps()))
                    .expect("qp");
                let answer = Message::BulkReady {
                    chunk_bytes: 100_352,
                    chunk_count,
                    short_bytes: SHORT_BYTES as u32,
                    short_count,
                    region: mr.export(&[]).expect("export"),
                    rc: qp.export().expect("export"),
                };
                peer.bulk = Some((mr, qp, map));
                send(&mut peer.control, &answer);
            }
            Message::BulkAttach { rc } => {
                peer.bulk
                    .as_mut()
                    .expect("opened")
                    .1
                    .connect(&rc)
                    .expect("connected");
                send(&mut peer.control, &Message::Ready);
            }
            Message::StatsRequest => send(
                &mut peer.control,
                &Message::Stats {
                    text: "keys 1\n".to_owned(),
                },
            ),
            _ => {}
        }
    }

    fn resync(&mut self, resync: Resync) {
        self.resyncs.push(resync);
        if self.deaf {
            return;
        }
        let peer = self.peer.as_mut().expect("it asked");
        let at = usize::from(resync.partition) * self.map.window + usize::from(resync.slot);
        let memory = &mut peer.memory[at];
        let executed = memory.last_seq == resync.seq && memory.last_status.is_some();
        let answer = Resynced {
            partition: resync.partition,
            slot: resync.slot,
            seq: resync.seq,
            executed,
            status: memory
                .last_status
                .filter(|_| executed)
                .map_or(0, |status| status as u8),
            last_seq: resync.seq,
        };
        memory.last_seq = resync.seq;
        send(&mut peer.control, &Message::Resynced(answer));
    }

    /// Looks at every slot, newest partition last. No order among keys is kept, unless [`in_turn`](FakeServer::in_turn):
    /// the client needs none where requests may be lost.
    fn sweep(&mut self) {
        let mut order: Vec<usize> = (0..self.map.partition_count * self.map.window).rev().collect();
        if self.in_turn {
            let slots = self.peer.as_ref().expect("ready").slots.region().clone();
            let word = |at: usize| slots.load_u64((at + 1) * self.map.slot_bytes - 8, Ordering::Acquire);
            order.sort_by_key(|&at| (at / self.map.window, Commit(word(at)).seq(), at));
        }
        for at in order {
            let peer = self.peer.as_ref().expect("ready");
            let end = (at + 1) * self.map.slot_bytes;
            let mut image = vec![0; self.map.slot_bytes];
            peer.slots
                .region()
                .copy_out(end - self.map.slot_bytes, &mut image);
            self.look(at, &image);
        }
    }

    fn take_datagrams(&mut self) {
        loop {
            let peer = self.peer.as_mut().expect("ready");
            let mut wcs = [Wc::default(); 1];
            if peer.cq.poll(self.ctx.cpu(), &mut wcs) == 0 {
                return;
            }
            let wc = wcs[0];
            if wc.qpn != peer.workers[0].0.qpn() || wc.opcode != drover_verbs::Opcode::Recv {
                continue;
            }
            let mut bytes = vec![0; wc.byte_len as usize - GRH_BYTES];
            let index = wc.wr_id.0 as usize;
            peer.datagrams
                .region()
                .copy_out(index * DATAGRAM_BYTES + GRH_BYTES, &mut bytes);
            post_recv(&self.ctx, &mut peer.workers[0].0, &peer.datagrams, index);
            assert_eq!((bytes[0], bytes[6]), (7, 3), "client id and generation");
            let slot = usize::from(bytes[4]);
            let hash: [u8; 16] = bytes[bytes.len() - 24..bytes.len() - 8]
                .try_into()
                .expect("16 bytes");
            let partition = KeyHash::from_bytes(hash).partition_index(self.map.partition_count);
            let mut image = vec![0; self.map.slot_bytes];
            let body = &bytes[DATAGRAM_HEADER_BYTES..];
            image[self.map.slot_bytes - body.len()..].copy_from_slice(body);
            self.look(partition * self.map.window + slot, &image);
        }
    }

    fn look(&mut self, at: usize, image: &[u8]) {
        let peer = self.peer.as_mut().expect("ready");
        let end = image.len();
        let commit = Commit(u64::from_le_bytes(image[end - 8..].try_into().expect("8 bytes")));
        let memory = &mut peer.memory[at];
        if !commit.is_valid() || commit.0 == memory.last_commit {
            return;
        }
        memory.last_commit = commit.0;
        let body_end = end - TRAILER_BYTES;
        let mut body = &image[body_end - commit.body_len()..body_end];
        let hash = KeyHash::from_bytes(image[body_end..end - 8].try_into().expect("16 bytes"));
        if commit.has_crc() {
            let (rest, crc) = body.split_at(body.len() - 4);
            assert_eq!(crc, request_crc(rest, hash, commit).to_le_bytes());
            (body, self.crc_checked) = (rest, self.crc_checked + 1);
        }
        let ttl_s = match commit.op() {
            Some(op) if op.has_ttl() => {
                let (ttl, rest) = body.split_at(4);
                body = rest;
                u32::from_le_bytes(ttl.try_into().expect("4 bytes"))
            }
            _ => 0,
        };
        let (value, key) = body.split_at(commit.value_len());
        let (partition, slot) = (at / self.map.window, at % self.map.window);
        let seen = Seen {
            partition,
            slot,
            commit,
            key: key.to_vec(),
        };
        let hash_of_key = HashSeed::new(SEED.halves().0 + self.epoch, SEED.halves().1).hash(key);
        assert_eq!(
            (hash, hash.partition_index(self.map.partition_count)),
            (hash_of_key, partition)
        );
        self.seen.push(seen.clone());
        let value = value.to_vec();
        self.serve(at, seen, &value, ttl_s);
    }

    fn serve(&mut self, at: usize, seen: Seen, value: &[u8], ttl_s: u32) {
        let fate = (self.script)(&seen);
        let (commit, partition) = (seen.commit, seen.partition);
        let imm = |status| ReplyImm::new(status, seen.slot, commit.seq());
        let memory = self.peer.as_ref().expect("ready").memory[at];
        let write = !matches!(commit.op(), Some(SlotOp::Get | SlotOp::GetBulk));
        let (status, payload) = match fate {
            Fate::LoseRequest => return,
            Fate::Say(status) | Fate::HoldSaying(status) => (status, Vec::new()),
            _ if memory.last_seq == commit.seq() && write => {
                (memory.last_status.expect("executed"), Vec::new())
            }
            _ if (commit.seq().wrapping_sub(memory.last_seq) as i32) < 0 => return,
            _ => {
                let done = self.execute(&seen, value, ttl_s);
                let memory = &mut self.peer.as_mut().expect("ready").memory[at];
                (memory.last_seq, memory.last_status) = (commit.seq(), Some(done.0));
                done
            }
        };
        let (ctx, peer) = (&self.ctx, self.peer.as_mut().expect("ready"));
        match fate {
            Fate::LoseReply => {}
            Fate::Hold | Fate::HoldSaying(_) => peer.held.push((partition, imm(status), payload)),
            _ => {
                for _ in 0..if fate == Fate::Duplicate { 2 } else { 1 } {
                    post_reply(ctx, peer, partition, Some(Imm(imm(status).0)), &payload);
                }
            }
        }
    }

    fn execute(&mut self, seen: &Seen, value: &[u8], ttl_s: u32) -> (Status, Vec<u8>) {
        self.executed.push(seen.clone());
        let key = &seen.key;
        let bulk = || Bulk::from_bytes(value.try_into().expect("bulk bytes"));
        let chunks = self
            .peer
            .as_ref()
            .expect("ready")
            .bulk
            .as_ref()
            .map(|(mr, _, map)| (mr.region().clone(), *map));
        match seen.commit.op() {
            Some(SlotOp::Get) => match self.store.get(key) {
                None => (Status::NotFound, Vec::new()),
                Some((value, _)) if value.len() > self.map.body_bytes_max() => {
                    (Status::Bulk, (value.len() as u32).to_le_bytes().to_vec())
                }
                Some((value, _)) => (Status::Ok, value.clone()),
            },
            Some(SlotOp::Put | SlotOp::PutTtl) => {
                self.store.insert(key.clone(), (value.to_vec(), ttl_s));
                (Status::Ok, Vec::new())
            }
            Some(SlotOp::Delete) => match self.store.remove(key) {
                Some(_) => (Status::Ok, Vec::new()),
                None => (Status::NotFound, Vec::new()),
            },
            Some(SlotOp::PutBulk) => {
                let bulk = bulk();
                let mut value = vec![0; bulk.len as usize];
                let (region, map) = chunks.expect("opened");
                let (start, space) = map.place(bulk.chunk).expect("a chunk");
                assert!(value.len() <= space);
                region.copy_out(start, &mut value);
                if crc32c(&value) != bulk.crc {
                    return (Status::Retry, Vec::new());
                }
                self.store.insert(key.clone(), (value, ttl_s));
                (Status::Ok, Vec::new())
            }
            Some(SlotOp::GetBulk) => {
                let Some((value, _)) = self.store.get(key) else {
                    return (Status::NotFound, Vec::new());
                };
                if value.len() <= self.map.body_bytes_max() {
                    return (Status::Ok, value.clone());
                }
                let chunk = bulk().chunk;
                let (region, map) = chunks.expect("opened");
                let (start, space) = map.place(chunk).expect("a chunk");
                assert_eq!(bulk().len as usize, space);
                if value.len() > space {
                    return (Status::Bulk, (value.len() as u32).to_le_bytes().to_vec());
                }
                region.copy_in(start, value);
                let mut crc = crc32c(value);
                if self.spoil_bulk > 0 {
                    self.spoil_bulk -= 1;
                    crc ^= 1;
                }
                let content = Bulk {
                    chunk,
                    len: value.len() as u32,
                    crc,
                };
                assert_eq!(content.to_bytes().len(), BULK_BYTES);
                (Status::Bulk, content.to_bytes().to_vec())
            }
            _ => (Status::BadRequest, Vec::new()),
        }
    }
}

fn send(control: &mut ControlStream, message: &Message) {
    let encoded = message.encode();
    // A client that has gone is noticed when its channel is read.
    let _ = control.send(encoded.kind, &encoded.body, &encoded.fds);
}

fn post_reply(
    ctx: &LoopbackContext,
    peer: &mut FakeConn,
    partition: usize,
    imm: Option<Imm>,
    payload: &[u8],
) {
    let mut list = SendList::default();
    // Executed while it is posted: one place serves all.
    peer.replies.region().copy_in(0, payload);
    let payload = peer.replies.sge(0, payload.len());
    let (ud, dest) = &mut peer.workers[partition];
    list.push(
        SendWr::send_to(*dest, payload)
            .with_imm(imm)
            .signaled(WrId(u64::MAX)),
    );
    ud.post_send(ctx.cpu(), &list).expect("posted");
}

fn post_recv(ctx: &LoopbackContext, ud: &mut LoopbackQp, memory: &LoopbackMr, index: usize) {
    let mut list = RecvList::default();
    list.push(RecvWr {
        wr_id: WrId(index as u64),
        sge: memory.sge(index * DATAGRAM_BYTES, DATAGRAM_BYTES),
    });
    ud.post_recv(ctx.cpu(), &list).expect("posted");
}

/// Time in steps that the bed makes.
pub const TICK: Ns = Ns::from_us(20);

/// Refreshes a core, for callers that only have the trait.
pub fn refresh(ctx: &LoopbackContext) -> Ns {
    ctx.cpu().refresh()
}
