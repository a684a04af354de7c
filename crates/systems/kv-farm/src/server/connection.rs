//! [`Connection`]: queues and buffers of one client, and how its requests are executed.

use super::state::ShardState;
use crate::layout::{Request, RequestKind, Status};
use drover_base::{Cpu, Ns};
use drover_one_sided::{LastUpdates, PeerError, QpExports};
use drover_rpc::ring::{BadRecord, KIND_FREE, NOTICE, REPLY, Reply, RingParams, RingServer, reply_sum};
use drover_rt::{Depths, Port, Queues, WHICH};
use drover_verbs::{Context, Export, Provider, QueuePair, RemoteRegion, SendOp, Wc, WcStatus};
use std::rc::Rc;

/// Maximum number of completions and of requests per step and client.
const BATCH: usize = 32;

/// Maximum number of long values in transfer: one READ and one WRITTEN.
const LONGS_MAX: usize = 2;

/// Kinds of work requests, besides those of the ring.
const PULL: u64 = KIND_FREE;
const PUSH: u64 = KIND_FREE + (1 << 32);

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

/// A server's queues, ring and buffers for one client.
pub struct Connection<P: Provider> {
    queues: Queues<P>,
    /// Before the ring: the client WRITEs it through this queue pair.
    port: Port<P>,
    ring: RingServer<P>,
    pull: Option<Pull>,
    /// The stage whose value is being WRITTEN.
    push: Option<u8>,
    /// The client's memory for long values, known after Attach.
    values: Option<RemoteRegion>,
    pub(super) updates: LastUpdates,
    params: RingParams,
    payload: Vec<u8>,
    /// Buffer for the key of the next pull, reused to avoid an allocation.
    key: Vec<u8>,
}

impl<P: Provider> Connection<P> {
    /// Creates queues and buffers for a client; its longest value has `value_bytes_max` bytes.
    pub(super) fn new(
        ctx: &Rc<P::Context>,
        params: RingParams,
        value_bytes_max: usize,
    ) -> Result<Connection<P>, PeerError> {
        let depths = Depths {
            sends: RingServer::<P>::sends_max(params.slot_count) + LONGS_MAX,
            recvs: 0,
            longs: LONGS_MAX,
            long_bytes_max: value_bytes_max,
        };
        let port = Port::<P>::new(ctx)?;
        Ok(Connection {
            queues: Queues::<P>::new(ctx, depths)?,
            ring: RingServer::new(&port, &params)?,
            port,
            pull: None,
            push: None,
            values: None,
            updates: LastUpdates::default(),
            params,
            payload: Vec::with_capacity(params.request_bytes),
            key: Vec::with_capacity(drover_kv::KEY_BYTES_MAX),
        })
    }

    /// Exports ring and queue pairs to the client.
    pub(super) fn exports(&self) -> Result<(Export, QpExports), PeerError> {
        let qps = QpExports::of_server(&self.queues, &self.port)?;
        Ok((self.ring.export()?, qps))
    }

    /// Connects to the client's exported resources.
    pub(super) fn attach(
        &mut self,
        ctx: &P::Context,
        (qps, mailbox, values): (&QpExports, &Export, &Export),
    ) -> Result<(), PeerError> {
        if self.values.is_some() {
            return Err(PeerError::OutOfOrder);
        }
        self.values = Some(ctx.import_region(values)?);
        self.ring.attach(mailbox)?;
        qps.connect_server(&mut self.queues, &mut self.port)
    }

    /// Closes the connection. The queue pairs are destroyed first, so no transfer is in flight when the stages are used
    /// again.
    pub(super) fn close(mut self, ctx: &P::Context, state: &mut ShardState<P>) {
        self.queues.qp.to_error();
        let stages = [self.pull.take().map(|pull| pull.stage), self.push.take()];
        let values = self.values.take();
        drop(self);
        stages
            .into_iter()
            .flatten()
            .for_each(|stage| state.staging.take_back(stage));
        if let Some(values) = values {
            ctx.forget_region(&values);
        }
    }

    /// Executes requests that have arrived; returns whether there were any. Errors: the connection failed, or the
    /// client wrote a malformed record.
    pub(super) fn serve(&mut self, cpu: &P::Cpu, state: &mut ShardState<P>) -> Result<bool, PeerError> {
        if self.values.is_none() {
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
        self.ring.notice(&mut self.queues);
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
                REPLY => self.ring.replied((wc.wr_id.0 & WHICH) as u32),
                PULL => self.pulled(state, cpu.now()),
                PUSH => {
                    if let Some(stage) = self.push.take() {
                        state.staging.take_back(stage);
                    }
                }
                other => {
                    debug_assert_eq!(other, NOTICE);
                    self.ring.noticed();
                }
            }
        }
        Ok(count > 0)
    }

    /// Takes the next request, if there is one and a reply buffer is free.
    fn take_request(&mut self, state: &mut ShardState<P>, now: Ns) -> Result<bool, BadRecord> {
        let mut payload = std::mem::take(&mut self.payload);
        let taken = self.peek(state, now, &mut payload);
        self.payload = payload;
        taken
    }

    #[inline(always)]
    fn peek(&mut self, state: &mut ShardState<P>, now: Ns, payload: &mut Vec<u8>) -> Result<bool, BadRecord> {
        let Some(reply) = self.ring.peek(now, payload)? else {
            return Ok(false);
        };
        let taken = match Request::decode(payload) {
            Some((request, key, value)) if self.is_answerable(&request) => {
                self.execute(state, reply, &request, (key, value), now)
            }
            // No correct client sends this, and there may be no place for a reply.
            _ => return Err(BadRecord),
        };
        match taken {
            Taken::Yes => self.ring.take(payload.len()),
            Taken::Later => return Ok(false),
        }
        Ok(true)
    }

    /// Whether the request is valid and its slot has a place for the reply.
    fn is_answerable(&self, request: &Request) -> bool {
        request.sequence != 0 && usize::from(request.slot) < self.params.slot_count
    }

    fn execute(
        &mut self,
        state: &mut ShardState<P>,
        reply: u32,
        request: &Request,
        (key, value): (&[u8], &[u8]),
        now: Ns,
    ) -> Taken {
        if request.kind != RequestKind::Get
            && let Some(status) = self.updates.answer(request)
        {
            state.stats.repeated += 1;
            self.reply(reply, request, status, 0, &[]);
            return Taken::Yes;
        }
        let status = match request.kind {
            RequestKind::Put => {
                state.stats.puts += 1;
                state.put(request, key, value, now)
            }
            RequestKind::Delete => {
                state.stats.deletes += 1;
                state.delete(request, key, now)
            }
            RequestKind::Touch => {
                state.stats.puts += 1;
                state.touch(request, key, now)
            }
            RequestKind::PutLarge => return self.begin_pull(state, reply, request, key),
            RequestKind::Get => return self.get(state, reply, request, key, now),
        };
        self.answer_update(reply, request, status);
        Taken::Yes
    }

    /// Answers an update that was executed or refused.
    fn answer_update(&mut self, reply: u32, request: &Request, status: Status) {
        self.updates.note(request, status);
        self.reply(reply, request, status, 0, &[]);
    }

    fn get(
        &mut self,
        state: &mut ShardState<P>,
        reply: u32,
        request: &Request,
        key: &[u8],
        now: Ns,
    ) -> Taken {
        let reply_max = self.ring.value_bytes_max();
        let answer = match state.answer(request, key, now) {
            Ok(answer) => answer,
            Err(status) => {
                self.reply(reply, request, status, 0, &[]);
                return Taken::Yes;
            }
        };
        match answer {
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
        let len = match state.stage(request, key, stage, now) {
            Ok(len) => len,
            Err(status) => {
                state.staging.take_back(stage);
                self.reply(reply, request, status, 0, &[]);
                return Taken::Yes;
            }
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
        match self.params.sums {
            // The checksum covers the value, which is not part of the reply.
            true => {
                let value = state.answer(request, key, now).ok().flatten().unwrap_or_default();
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
        let values = self.values.as_ref()?;
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
            self.answer_update(reply, request, status);
            return Taken::Yes;
        }
        if self.pull.is_some() {
            return Taken::Later;
        }
        let (Some(remote), Some(stage)) = (self.values_at(request), state.staging.lend()) else {
            return Taken::Later;
        };
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
        state.stats.puts += 1;
        let status = state.put_staged(&pull.request, &pull.key, pull.stage, now);
        state.staging.take_back(pull.stage);
        self.answer_update(pull.reply, &pull.request, status);
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
        if self.params.sums {
            trailer.sum = reply_sum(&trailer, value);
        }
        self.write_reply(reply, request.slot, &trailer, value);
    }

    fn write_reply(&mut self, reply: u32, slot: u16, trailer: &Reply, value: &[u8]) {
        self.ring.reply(&mut self.queues, (reply, slot), trailer, value);
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
