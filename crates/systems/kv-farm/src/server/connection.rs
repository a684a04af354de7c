//! [`Connection`]: queues and buffers of one client, and how its requests are executed.

use super::state::ShardState;
use crate::layout::{Request, RequestKind, Status};
use drover_base::{Cpu, Ns};
use drover_mem::PageWish;
use drover_one_sided::PeerError;
use drover_rpc::ring::{BadRecord, Inbox, NOTICE_BYTES, REPLY_TRAILER_BYTES, Receiver, Reply, reply_sum};
use drover_rt::{Depths, Queues, WHICH};
use drover_verbs::{
    Access, Context, Export, MemoryRegion, Provider, QueuePair, RemoteRegion, SendOp, Watch, Wc, WcStatus,
};

/// Maximum number of completions and of requests per step and client.
const BATCH: usize = 32;

/// Maximum number of reply buffers per client; further requests wait for a free one. *(our choice)*
const REPLIES_MAX: usize = 64;

/// Maximum number of long values in transfer: one READ and one WRITTEN.
const LONGS_MAX: usize = 2;

/// Upper half of a work request's id: what the request was for.
const REPLY: u64 = 0;
const PULL: u64 = 1 << 32;
const PUSH: u64 = 2 << 32;
const NOTICE: u64 = 3 << 32;

/// Options that all connections of a server share.
#[derive(Clone, Copy, Debug)]
pub(super) struct WireOptions {
    pub(super) slots: usize,
    pub(super) value_bytes_max: usize,
    pub(super) message_bytes: usize,
    pub(super) reply_bytes: usize,
    pub(super) ring_bytes: usize,
    pub(super) sums: bool,
}

/// A value that is being READ from the client's memory.
struct Pull {
    stage: u8,
    reply: u32,
    request: Request,
    key: Vec<u8>,
}

/// Whether a request was executed, or its execution begun.
enum Taken {
    Yes,
    /// A resource is in use: try again later.
    Later,
}

/// The client's exported memory.
struct Theirs {
    mailbox: RemoteRegion,
    values: RemoteRegion,
}

/// A server's queues, ring and buffers for one client.
pub struct Connection<P: Provider> {
    queues: Queues<P>,
    ring: P::Mr,
    inbox: Inbox,
    /// The notice, then the reply buffers.
    replies: P::Mr,
    free_replies: Vec<u32>,
    pull: Option<Pull>,
    /// The stage whose value is being WRITTEN.
    push: Option<u8>,
    is_noticing: bool,
    theirs: Option<Theirs>,
    options: WireOptions,
    payload: Vec<u8>,
    /// Buffer for the key of the next pull, reused to avoid an allocation.
    key: Vec<u8>,
}

impl<P: Provider> Connection<P> {
    pub(super) fn new(ctx: &P::Context, options: WireOptions) -> Result<Connection<P>, PeerError> {
        let replies = options.slots.min(REPLIES_MAX);
        let depths = Depths {
            // One more for the notice.
            sends: replies + LONGS_MAX + 1,
            recvs: 0,
            longs: LONGS_MAX,
            long_bytes_max: options.value_bytes_max,
        };
        let queues = Queues::<P>::new(ctx, depths)?;
        let ring = ctx.register(
            &ctx.alloc(options.ring_bytes, PageWish::Small)?,
            Access::REMOTE_WRITE,
        )?;
        let buffers = ctx.alloc(NOTICE_BYTES + replies * options.reply_bytes, PageWish::Small)?;
        let receiver = Receiver::new(options.ring_bytes, options.message_bytes);
        Ok(Connection {
            queues,
            inbox: Inbox::new(ring.region().clone(), receiver, options.sums),
            ring,
            replies: ctx.register(&buffers, Access::LOCAL_READ)?,
            free_replies: (0..replies as u32).collect(),
            pull: None,
            push: None,
            is_noticing: false,
            theirs: None,
            options,
            payload: Vec::with_capacity(options.message_bytes),
            key: Vec::with_capacity(drover_kv::KEY_BYTES_MAX),
        })
    }

    /// Exports ring and queue pair to the client. A WRITE to the ring wakes this core, where the fabric supports it.
    pub(super) fn exports(&self, ctx: &P::Context) -> Result<(Export, Export), PeerError> {
        let watch = Watch {
            range: 0..self.options.ring_bytes,
            bell: ctx.bell(),
        };
        let watches = match ctx.caps().wakes.on_memory {
            true => vec![watch],
            false => Vec::new(),
        };
        Ok((self.ring.export(&watches)?, self.queues.qp.export()?))
    }

    /// Connects to the client's exported resources.
    pub(super) fn attach(
        &mut self,
        ctx: &P::Context,
        (qp, mailbox, values): (&Export, &Export, &Export),
    ) -> Result<(), PeerError> {
        if self.theirs.is_some() {
            return Err(PeerError::OutOfOrder);
        }
        let theirs = Theirs {
            mailbox: ctx.import_region(mailbox)?,
            values: ctx.import_region(values)?,
        };
        let mailbox_bytes = NOTICE_BYTES + self.options.slots * self.options.reply_bytes;
        let is_long_enough = theirs.mailbox.len >= mailbox_bytes as u64;
        self.theirs = Some(theirs);
        match is_long_enough {
            true => Ok(self.queues.qp.connect(qp)?),
            false => Err(PeerError::OutOfOrder),
        }
    }

    /// Closes the connection. The queue pair is destroyed first, so no transfer is in flight when the stages are used
    /// again.
    pub(super) fn close(mut self, ctx: &P::Context, state: &mut ShardState<P>) {
        self.queues.qp.to_error();
        let stages = [self.pull.take().map(|pull| pull.stage), self.push.take()];
        let theirs = self.theirs.take();
        drop(self);
        stages
            .into_iter()
            .flatten()
            .for_each(|stage| state.staging.take_back(stage));
        if let Some(theirs) = theirs {
            ctx.forget_region(&theirs.mailbox);
            ctx.forget_region(&theirs.values);
        }
    }

    /// Executes requests that have arrived; returns whether there were any. Errors: the connection failed, or the
    /// client wrote a malformed record.
    pub(super) fn serve(&mut self, cpu: &P::Cpu, state: &mut ShardState<P>) -> Result<bool, PeerError> {
        if self.theirs.is_none() {
            return Ok(false);
        }
        let now = cpu.now();
        let mut is_busy = self.take_completions(cpu, state)?;
        for _ in 0..BATCH {
            match self.take_request(state, now) {
                Ok(true) => is_busy = true,
                Ok(false) => break,
                Err(BadRecord) => return Err(PeerError::Nonsense),
            }
        }
        self.notice();
        self.queues.post(cpu)?;
        Ok(is_busy)
    }

    fn take_completions(&mut self, cpu: &P::Cpu, state: &mut ShardState<P>) -> Result<bool, PeerError> {
        let mut wcs = [Wc::default(); BATCH];
        let count = self.queues.poll(cpu, &mut wcs);
        for wc in &wcs[..count] {
            if wc.status != WcStatus::Success {
                return Err(PeerError::Failed { status: wc.status });
            }
            match wc.wr_id.0 & !WHICH {
                REPLY => self.free_replies.push((wc.wr_id.0 & WHICH) as u32),
                PULL => self.pulled(state, cpu.now()),
                PUSH => {
                    if let Some(stage) = self.push.take() {
                        state.staging.take_back(stage);
                    }
                }
                _ => self.is_noticing = false,
            }
        }
        Ok(count > 0)
    }

    /// Takes the next request, if there is one and a reply buffer is free.
    fn take_request(&mut self, state: &mut ShardState<P>, now: Ns) -> Result<bool, BadRecord> {
        let Some(&reply) = self.free_replies.last() else {
            return Ok(false);
        };
        let mut payload = std::mem::take(&mut self.payload);
        let is_there = self.inbox.peek(now, &mut payload);
        let mut is_taken = false;
        if is_there == Ok(true) {
            let taken = match Request::decode(&payload) {
                Some((request, key, value)) if self.is_answerable(&request) => {
                    Ok(self.execute(state, reply, &request, (key, value), now))
                }
                // No correct client sends this, and there may be no place for a reply.
                _ => Err(BadRecord),
            };
            match taken {
                Ok(Taken::Yes) => {
                    self.free_replies.pop();
                    self.inbox.consume(payload.len());
                    is_taken = true;
                }
                Ok(Taken::Later) => {}
                Err(error) => {
                    self.payload = payload;
                    return Err(error);
                }
            }
        }
        self.payload = payload;
        is_there.map(|_| is_taken)
    }

    /// Whether the request is valid and its slot has a place for the reply.
    fn is_answerable(&self, request: &Request) -> bool {
        request.sequence != 0 && usize::from(request.slot) < self.options.slots
    }

    fn execute(
        &mut self,
        state: &mut ShardState<P>,
        reply: u32,
        request: &Request,
        (key, value): (&[u8], &[u8]),
        now: Ns,
    ) -> Taken {
        let status = match request.kind {
            RequestKind::Put => {
                state.stats.puts += 1;
                state.put(request, key, value, now)
            }
            RequestKind::Delete => {
                state.stats.deletes += 1;
                state.delete(key, now)
            }
            RequestKind::PutLarge => return self.begin_pull(state, reply, request, key),
            RequestKind::Get => return self.get(state, reply, request, key, now),
        };
        self.reply(reply, request, status, 0, &[]);
        Taken::Yes
    }

    fn get(
        &mut self,
        state: &mut ShardState<P>,
        reply: u32,
        request: &Request,
        key: &[u8],
        now: Ns,
    ) -> Taken {
        let reply_max = self.options.reply_bytes - REPLY_TRAILER_BYTES;
        match state.get(key, now) {
            None => self.reply(reply, request, Status::NotFound, 0, &[]),
            Some(value) if value.len() <= reply_max => {
                let len = value.len();
                self.reply(reply, request, Status::Value, len, value);
            }
            Some(value) if value.len() > request.value_bytes => {
                let len = value.len();
                self.reply(reply, request, Status::Long, len, &[]);
            }
            Some(_) => return self.push(state, reply, request, key, now),
        }
        state.stats.gets += 1;
        Taken::Yes
    }

    /// WRITEs a value to the client's memory, and then the reply.
    fn push(
        &mut self,
        state: &mut ShardState<P>,
        reply: u32,
        request: &Request,
        key: &[u8],
        now: Ns,
    ) -> Taken {
        let Some(remote) = self.values_at(request) else {
            self.reply(reply, request, Status::BadRequest, 0, &[]);
            return Taken::Yes;
        };
        if self.push.is_some() {
            return Taken::Later;
        }
        let Some(stage) = state.staging.lend() else {
            return Taken::Later;
        };
        let Some(len) = state.stage(key, stage, now) else {
            state.staging.take_back(stage);
            self.reply(reply, request, Status::NotFound, 0, &[]);
            return Taken::Yes;
        };
        state.stats.gets += 1;
        state.stats.pushes += 1;
        self.push = Some(stage);
        let op = SendOp::Write { remote, imm: None };
        self.queues.stage(PUSH, op, state.staging.sge(stage, len), true);
        self.say_pushed(state, reply, request, key, len, now);
        Taken::Yes
    }

    fn say_pushed(
        &mut self,
        state: &mut ShardState<P>,
        reply: u32,
        request: &Request,
        key: &[u8],
        len: usize,
        now: Ns,
    ) {
        match self.options.sums {
            // The checksum covers the value, which is not part of the reply.
            true => {
                let value = state.get(key, now).unwrap_or_default();
                let sum = reply_sum(&written(request, len), value);
                self.write_reply(
                    reply,
                    request.slot,
                    &Reply {
                        sum,
                        ..written(request, len)
                    },
                    &[],
                );
            }
            false => self.write_reply(reply, request.slot, &written(request, len), &[]),
        }
    }

    /// Address of the value in the client's memory; `None`: out of bounds.
    fn values_at(&self, request: &Request) -> Option<drover_verbs::RemoteAddr> {
        let values = &self.theirs.as_ref()?.values;
        let end = request.value_offset.checked_add(request.value_bytes as u64)?;
        (end <= values.len).then(|| values.at(request.value_offset as usize))
    }

    /// Starts to READ a value from the client.
    fn begin_pull(&mut self, state: &mut ShardState<P>, reply: u32, request: &Request, key: &[u8]) -> Taken {
        let refusal = match (
            self.values_at(request),
            state.shard.admits(key, request.value_bytes),
        ) {
            (None, _) => Some(Status::BadRequest),
            _ if request.value_bytes == 0 => Some(Status::BadRequest),
            (_, Err(refusal)) => Some(refusal.into()),
            _ => None,
        };
        if let Some(status) = refusal {
            state.stats.puts += 1;
            self.reply(reply, request, status, 0, &[]);
            return Taken::Yes;
        }
        if self.pull.is_some() {
            return Taken::Later;
        }
        let (Some(remote), Some(stage)) = (self.values_at(request), state.staging.lend()) else {
            return Taken::Later;
        };
        state.stats.puts += 1;
        state.stats.pulls += 1;
        let sge = state.staging.sge(stage, request.value_bytes);
        self.queues.stage(PULL, SendOp::Read { remote }, sge, true);
        let mut its_key = std::mem::take(&mut self.key);
        its_key.clear();
        its_key.extend_from_slice(key);
        self.pull = Some(Pull {
            stage,
            reply,
            request: *request,
            key: its_key,
        });
        Taken::Yes
    }

    /// A value has arrived in its stage.
    fn pulled(&mut self, state: &mut ShardState<P>, now: Ns) {
        let Some(pull) = self.pull.take() else { return };
        let status = state.put_staged(&pull.request, &pull.key, pull.stage, now);
        state.staging.take_back(pull.stage);
        self.reply(pull.reply, &pull.request, status, 0, &[]);
        self.key = pull.key;
    }

    /// Stages a reply with `status` for a value of `len` bytes. `value`: the value itself if the reply contains it.
    fn reply(&mut self, reply: u32, request: &Request, status: Status, len: usize, value: &[u8]) {
        let mut trailer = Reply {
            code: status as u8,
            value_bytes: len,
            sequence: request.sequence,
            sum: 0,
        };
        if self.options.sums {
            trailer.sum = reply_sum(&trailer, value);
        }
        self.write_reply(reply, request.slot, &trailer, value);
    }

    fn write_reply(&mut self, reply: u32, slot: u16, trailer: &Reply, value: &[u8]) {
        let Some(theirs) = &self.theirs else { return };
        let len = value.len() + REPLY_TRAILER_BYTES;
        let at = NOTICE_BYTES + reply as usize * self.options.reply_bytes;
        let region = self.replies.region();
        region.copy_in(at, value);
        region.copy_in(at + value.len(), &trailer.encode());
        let place_end = NOTICE_BYTES + (usize::from(slot) + 1) * self.options.reply_bytes;
        let remote = theirs.mailbox.at(place_end - len);
        let op = SendOp::Write { remote, imm: None };
        let sge = self.replies.sge(at, len);
        self.queues.stage(REPLY | u64::from(reply), op, sge, true);
    }

    /// Reports to the client how far its ring has been consumed, if that is due.
    fn notice(&mut self) {
        let Some(theirs) = self.theirs.as_ref().filter(|_| !self.is_noticing) else {
            return;
        };
        let Some(head) = self.inbox.head_to_report() else {
            return;
        };
        self.is_noticing = true;
        self.replies.region().copy_in(0, &head.to_le_bytes());
        let op = SendOp::Write {
            remote: theirs.mailbox.at(0),
            imm: None,
        };
        let sge = self.replies.sge(0, 8);
        self.queues.stage(NOTICE, op, sge, true);
    }
}

fn written(request: &Request, len: usize) -> Reply {
    Reply {
        code: Status::Written as u8,
        value_bytes: len,
        sequence: request.sequence,
        sum: 0,
    }
}
