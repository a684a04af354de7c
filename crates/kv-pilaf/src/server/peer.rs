//! [`Peer`]: one client, from its first word to its last, and [`Desk`]: what all of them share.

use super::ServerStats;
use super::shard::{Draft, Shard};
use crate::control::Attach;
use crate::layout::{MESSAGE_HEADER_BYTES, Reply, Request, RequestKind, Status};
use drover_base::{Cpu, KeyHash, KeyHasher, Ns};
use drover_index::cuckoo::RecordRef;
use drover_kv::Refusal;
use drover_mem::{AllocError, PageWish};
use drover_rt::control::{ControlStream, Frame, Message};
use drover_verbs::{
    Access, CompletionQueue, ConnectError, Context, CreateError, Export, ImportError, MemoryRegion, Payload,
    PostError, Provider, QpKind, QpOptions, QueuePair, RecvList, RecvWr, RegisterError, RemoteRegion,
    SendList, SendOp, SendWr, Wc, WcStatus, WrId,
};
use std::collections::VecDeque;
use std::rc::Rc;

/// Completions taken per step and client.
const BATCH: usize = 32;

/// What a work request of ours was for, in its upper half; which, in its lower.
const RECV: u64 = 0;
const REPLY: u64 = 1 << 32;
const PULL: u64 = 2 << 32;
const WHICH: u64 = (1 << 32) - 1;

/// A client could not be let in.
#[derive(Debug, thiserror::Error)]
pub(super) enum PeerError {
    #[error(transparent)]
    Alloc(#[from] AllocError),
    #[error(transparent)]
    Create(#[from] CreateError),
    #[error(transparent)]
    Register(#[from] RegisterError),
    #[error(transparent)]
    Post(#[from] PostError),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Import(#[from] ImportError),
    #[error("not now")]
    OutOfOrder,
}

/// What all clients of a server use.
pub(super) struct Desk<P: Provider> {
    pub(super) shard: Shard,
    pub(super) stats: ServerStats,
    pub(super) extents: P::Mr,
    hasher: KeyHasher,
    started: Ns,
    /// A message being taken apart.
    message: Vec<u8>,
}

impl<P: Provider> Desk<P> {
    pub(super) fn new(shard: Shard, hasher: KeyHasher, extents: P::Mr, started: Ns) -> Desk<P> {
        Desk {
            shard,
            stats: ServerStats::default(),
            extents,
            hasher,
            started,
            message: Vec::new(),
        }
    }

    /// Seconds of the server's clock; from 1 on, since 0 means never.
    pub(super) fn now_s(&self, now: Ns) -> u32 {
        now.since(self.started).as_s() as u32 + 1
    }
}

/// A value on its way from the client's memory into its record.
struct Pull {
    draft: Draft,
    hash: KeyHash,
    request: Request,
}

/// Queues and buffers of a client.
struct Wire<P: Provider> {
    qp: P::Qp,
    cq: P::Cq,
    /// One buffer per RECV.
    requests: P::Mr,
    /// As many for replies.
    replies: P::Mr,
    free_replies: Vec<u32>,
    /// Requests that arrived while no buffer for a reply was free: the client has the reply, we not yet the completion.
    waiting: VecDeque<(u32, u32)>,
    pulls: Vec<Option<Pull>>,
    values: Option<RemoteRegion>,
    message_bytes: usize,
    list: SendList,
    recvs: RecvList,
}

/// One client.
pub(super) struct Peer<P: Provider> {
    stream: ControlStream,
    wire: Option<Wire<P>>,
    session: u64,
    broken: bool,
    ctx: Option<Rc<P::Context>>,
}

impl<P: Provider> Peer<P> {
    pub(super) fn new(stream: ControlStream) -> Peer<P> {
        Peer {
            stream,
            wire: None,
            session: 0,
            broken: false,
            ctx: None,
        }
    }

    pub(super) fn session(&self) -> u64 {
        self.session
    }

    pub(super) fn is_gone(&self) -> bool {
        self.broken || self.stream.is_closed()
    }

    pub(super) fn close(&mut self) {
        self.broken = true;
        self.stream.close();
    }

    pub(super) fn refuse(&mut self, code: u16, text: &str) {
        let (stream, _) = ControlStream::pair();
        std::mem::replace(&mut self.stream, stream).refuse(code, text);
        self.close();
    }

    pub(super) fn send<M: Message>(&mut self, message: &M) {
        if let Err(error) = self.stream.send_message(message) {
            tracing::debug!(%error, "a control message was not sent");
            self.close();
        }
    }

    /// The next frame, if there is one.
    pub(super) fn hear(&mut self, now: Ns) -> Option<Frame> {
        if self.is_gone() {
            return None;
        }
        self.stream.recv(now).unwrap_or_else(|error| {
            tracing::debug!(%error, "a control channel has ended");
            None
        })
    }

    /// Takes back what the client held. Its queue pair goes with it.
    pub(super) fn give_up(&mut self, desk: &mut Desk<P>) {
        let Some(mut wire) = self.wire.take() else { return };
        wire.qp.to_error();
        for pull in wire.pulls.drain(..).flatten() {
            desk.shard.drop_draft(pull.draft);
        }
        if let (Some(ctx), Some(values)) = (&self.ctx, wire.values) {
            drop(wire);
            ctx.forget_region(&values);
        }
    }

    /// Queues and buffers for `slots` operations of the client.
    pub(super) fn open(
        &mut self,
        ctx: &Rc<P::Context>,
        session: u64,
        slots: usize,
        message_bytes: usize,
    ) -> Result<Export, PeerError> {
        if self.wire.is_some() {
            return Err(PeerError::OutOfOrder);
        }
        let cq = ctx.create_cq(4 * slots)?;
        let qp = ctx.create_qp(&QpOptions {
            send_depth: 2 * slots,
            recv_depth: slots,
            ..QpOptions::new(QpKind::Rc, &cq, ctx.caps())
        })?;
        let buffers = |access| -> Result<P::Mr, PeerError> {
            Ok(ctx.register(&ctx.alloc(slots * message_bytes, PageWish::Small)?, access)?)
        };
        let mut wire: Wire<P> = Wire {
            qp,
            cq,
            requests: buffers(Access::LOCAL)?,
            replies: buffers(Access::LOCAL_READ)?,
            free_replies: (0..slots as u32).collect(),
            waiting: VecDeque::with_capacity(slots),
            pulls: (0..slots).map(|_| None).collect(),
            values: None,
            message_bytes,
            list: SendList::with_capacity(slots, 0),
            recvs: RecvList::with_capacity(slots),
        };
        (0..slots as u32).for_each(|at| wire.expect(at));
        wire.qp.post_recv(ctx.cpu(), &wire.recvs)?;
        wire.recvs.clear();
        let export = wire.qp.export()?;
        self.wire = Some(wire);
        self.session = session;
        self.ctx = Some(ctx.clone());
        Ok(export)
    }

    /// Connects with the client's end.
    pub(super) fn attach(&mut self, ctx: &Rc<P::Context>, attach: &Attach) -> Result<(), PeerError> {
        let wire = self.wire.as_mut().filter(|wire| wire.values.is_none());
        let wire = wire.ok_or(PeerError::OutOfOrder)?;
        wire.values = Some(ctx.import_region(&attach.values)?);
        Ok(wire.qp.connect(&attach.qp)?)
    }

    /// Answers what has come. Returns whether there was something.
    pub(super) fn serve(&mut self, cpu: &P::Cpu, desk: &mut Desk<P>) -> bool {
        let Some(wire) = self.wire.as_mut().filter(|_| !self.broken) else {
            return false;
        };
        let mut wcs = [Wc::default(); BATCH];
        let count = wire.cq.poll(cpu, &mut wcs);
        for wc in &wcs[..count] {
            if wc.status != WcStatus::Success {
                tracing::debug!(status = ?wc.status, "a client's queue pair failed");
                self.broken = true;
                return true;
            }
            let which = (wc.wr_id.0 & WHICH) as u32;
            match wc.wr_id.0 & !WHICH {
                REPLY => wire.free_replies.push(which),
                PULL => wire.pulled(desk, which, cpu.now()),
                _ => wire.waiting.push_back((which, wc.byte_len)),
            }
        }
        while let Some(reply) = wire.reply_buffer() {
            let Some((at, len)) = wire.waiting.pop_front() else {
                wire.free_replies.push(reply);
                break;
            };
            wire.answer(desk, reply, at, len as usize, cpu.now());
        }
        if wire.post(cpu).is_err() {
            self.broken = true;
        }
        count > 0
    }
}

impl<P: Provider> Wire<P> {
    fn expect(&mut self, at: u32) {
        let sge = self
            .requests
            .sge(at as usize * self.message_bytes, self.message_bytes);
        let wr_id = WrId(RECV | u64::from(at));
        self.recvs.push(RecvWr { wr_id, sge });
    }

    fn reply_buffer(&mut self) -> Option<u32> {
        self.free_replies.pop()
    }

    /// Executes the request in buffer `at`, and stages its answer from buffer `reply`.
    fn answer(&mut self, desk: &mut Desk<P>, reply: u32, at: u32, len: usize, now: Ns) {
        let mut message = std::mem::take(&mut desk.message);
        message.resize(len, 0);
        let offset = at as usize * self.message_bytes;
        self.requests.region().copy_out(offset, &mut message);
        // The buffer is the next request's from here on: the client may send one as soon as it has the reply.
        self.expect(at);
        match Request::decode(&message) {
            Some((request, key, value)) => self.execute(desk, reply, &request, key, value, now),
            None => self.say(reply, 0, 0, Status::BadRequest, RecordRef::default(), 0),
        }
        desk.message = message;
    }

    fn execute(
        &mut self,
        desk: &mut Desk<P>,
        reply: u32,
        request: &Request,
        key: &[u8],
        value: &[u8],
        now: Ns,
    ) {
        let hash = desk.hasher.hash(key);
        let now_s = desk.now_s(now);
        let status = match request.kind {
            RequestKind::Put => {
                desk.stats.puts += 1;
                put(desk, hash, request, key, value, now)
            }
            RequestKind::PutLarge => {
                desk.stats.puts += 1;
                match self.pull(desk, reply, hash, request, key, now) {
                    None => return,
                    Some(status) => status,
                }
            }
            RequestKind::Delete => {
                desk.stats.deletes += 1;
                match desk.shard.remove(hash, key, now, now_s) {
                    true => Status::Deleted,
                    false => Status::NotFound,
                }
            }
            RequestKind::Get => {
                desk.stats.gets += 1;
                return self.get(desk, reply, hash, request, key, now_s);
            }
        };
        self.answer_with(reply, request, status);
    }

    fn answer_with(&mut self, reply: u32, request: &Request, status: Status) {
        let none = RecordRef::default();
        self.say(reply, request.slot, request.sequence, status, none, 0);
    }

    fn get(&mut self, desk: &Desk<P>, reply: u32, hash: KeyHash, request: &Request, key: &[u8], now_s: u32) {
        let Some(found) = desk.shard.get(hash, key, now_s) else {
            return self.answer_with(reply, request, Status::NotFound);
        };
        let (slot, sequence) = (request.slot, request.sequence);
        if MESSAGE_HEADER_BYTES + found.value_bytes > self.message_bytes {
            return self.say(reply, slot, sequence, Status::Location, found.record, 0);
        }
        let mut piece = [0; 256];
        let to = reply as usize * self.message_bytes + MESSAGE_HEADER_BYTES;
        for at in (0..found.value_bytes).step_by(piece.len()) {
            let piece_bytes = (found.value_bytes - at).min(piece.len());
            let piece = &mut piece[..piece_bytes];
            desk.shard.copy_out(found.value_offset + at, piece);
            self.replies.region().copy_in(to + at, piece);
        }
        let record = RecordRef {
            len: found.value_bytes as u32,
            ..RecordRef::default()
        };
        self.say(reply, slot, sequence, Status::Value, record, found.value_bytes);
    }

    /// Begins to fetch a value; the status if it does not come to that.
    fn pull(
        &mut self,
        desk: &mut Desk<P>,
        reply: u32,
        hash: KeyHash,
        request: &Request,
        key: &[u8],
        now: Ns,
    ) -> Option<Status> {
        let Some(values) = self.values else {
            return Some(Status::BadRequest);
        };
        let end = request.value_offset.checked_add(request.value_bytes as u64);
        if end.is_none_or(|end| end > values.len) {
            return Some(Status::BadRequest);
        }
        let draft = match desk
            .shard
            .draft(key, request.value_bytes, expiry(desk, request, now), now)
        {
            Ok(draft) => draft,
            Err(refusal) => return Some(refused(refusal)),
        };
        desk.stats.pulls += 1;
        self.list.push(SendWr {
            wr_id: WrId(PULL | u64::from(reply)),
            op: SendOp::Read {
                remote: values.at(request.value_offset as usize),
            },
            payload: Payload::Region(desk.extents.sge(draft.value_offset(), request.value_bytes)),
            signaled: true,
            fence: false,
        });
        self.pulls[reply as usize] = Some(Pull {
            draft,
            hash,
            request: *request,
        });
        None
    }

    /// A value is where it belongs.
    fn pulled(&mut self, desk: &mut Desk<P>, reply: u32, now: Ns) {
        let Some(pull) = self.pulls[reply as usize].take() else {
            return;
        };
        let status = match desk.shard.publish(pull.hash, pull.draft, now) {
            Ok(()) => Status::Stored,
            Err(refusal) => refused(refusal),
        };
        self.answer_with(reply, &pull.request, status);
    }

    /// Stages the reply in buffer `reply`, whose `value_bytes` of value are there already.
    fn say(
        &mut self,
        reply: u32,
        slot: u16,
        sequence: u64,
        status: Status,
        record: RecordRef,
        value_bytes: usize,
    ) {
        let header = Reply {
            status,
            slot,
            sequence,
            record,
        };
        let at = reply as usize * self.message_bytes;
        self.replies.region().copy_in(at, &header.encode());
        self.list.push(SendWr {
            wr_id: WrId(REPLY | u64::from(reply)),
            op: SendOp::Send {
                dest: None,
                imm: None,
            },
            payload: Payload::Region(self.replies.sge(at, MESSAGE_HEADER_BYTES + value_bytes)),
            signaled: true,
            fence: false,
        });
    }

    /// RECVs before replies: who has a reply finds one for its next request.
    fn post(&mut self, cpu: &P::Cpu) -> Result<(), PostError> {
        if !self.recvs.wrs().is_empty() {
            self.qp.post_recv(cpu, &self.recvs)?;
            self.recvs.clear();
        }
        if !self.list.is_empty() {
            self.qp.post_send(cpu, &self.list)?;
            self.list.clear();
        }
        Ok(())
    }
}

fn expiry<P: Provider>(desk: &Desk<P>, request: &Request, now: Ns) -> u32 {
    match request.ttl_s {
        0 => 0,
        ttl_s => desk.now_s(now).saturating_add(ttl_s),
    }
}

fn put<P: Provider>(
    desk: &mut Desk<P>,
    hash: KeyHash,
    request: &Request,
    key: &[u8],
    value: &[u8],
    now: Ns,
) -> Status {
    let expire_s = expiry(desk, request, now);
    let draft = match desk.shard.draft(key, value.len(), expire_s, now) {
        Ok(draft) => draft,
        Err(refusal) => return refused(refusal),
    };
    desk.shard.write_value(&draft, value);
    match desk.shard.publish(hash, draft, now) {
        Ok(()) => Status::Stored,
        Err(refusal) => refused(refusal),
    }
}

fn refused(refusal: Refusal) -> Status {
    match refusal {
        Refusal::TooLarge => Status::TooLarge,
        Refusal::Full => Status::Full,
        _ => Status::BadRequest,
    }
}
