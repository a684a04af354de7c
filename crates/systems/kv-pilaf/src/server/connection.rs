//! [`Connection`]: queues and buffers of one client, and how its requests are executed.

use super::shard::Reservation;
use super::state::ShardState;
use crate::layout::{MESSAGE_HEADER_BYTES, Reply, Request, RequestKind, Status};
use drover_base::{Cpu, KeyHash, Ns};
use drover_index::cuckoo::RecordRef;
use drover_kv::ITEM_INFO_BYTES;
use drover_one_sided::{LastUpdates, PeerError};
use drover_rpc::messages::{KIND_FREE, RECV, SENT, ServerMessages};
use drover_rt::{Depths, Queues, WHICH};
use drover_verbs::{Context, MemoryRegion, Provider, QueuePair, RemoteRegion, SendOp, Wc, WcStatus};
use std::rc::Rc;

/// Maximum number of completions per step and client.
const BATCH: usize = 32;

/// Maximum number of values that the server READs from one client at a time.
const PULLS_MAX: usize = 2;

/// Kind of work request: the READ of a value for the reply whose index is the lower half of the id.
const PULL: u64 = KIND_FREE;

/// A value that is being READ from the client's memory into its record.
struct Pull {
    draft: Reservation,
    hash: KeyHash,
    request: Request,
}

/// A server's queues and buffers for one client.
pub struct Connection<P: Provider> {
    pub(super) queues: Queues<P>,
    messages: ServerMessages<P>,
    pulls: Vec<Option<Pull>>,
    /// The client's memory for long values, known after Attach.
    pub(super) values: Option<RemoteRegion>,
    pub(super) updates: LastUpdates,
    /// Epoch of the table that was last announced to the client.
    told: u64,
    /// Epoch of the oldest table that the client may still READ.
    adopted: u64,
}

impl<P: Provider> Connection<P> {
    /// Creates queues and buffers for `slots` operations of the client, with a RECV for each; the Welcome announces
    /// the table of `epoch`.
    pub(super) fn new(
        ctx: &Rc<P::Context>,
        slots: usize,
        (message_bytes, value_bytes_max): (usize, usize),
        epoch: u64,
    ) -> Result<Connection<P>, PeerError> {
        let depths = Depths {
            sends: 2 * slots,
            recvs: slots,
            longs: PULLS_MAX,
            long_bytes_max: value_bytes_max,
        };
        let queues = Queues::<P>::new(ctx, depths)?;
        let mut conn: Connection<P> = Connection {
            queues,
            messages: ServerMessages::<P>::new(ctx, slots, message_bytes)?,
            pulls: (0..slots).map(|_| None).collect(),
            values: None,
            updates: LastUpdates::default(),
            told: epoch,
            adopted: epoch,
        };
        conn.messages.expect_all(&mut conn.queues);
        conn.queues.post(ctx.cpu())?;
        Ok(conn)
    }

    /// Whether the table of `epoch` must be announced to the client now, which is never before the handshake is
    /// complete. If so, counts it as announced.
    pub(super) fn notify(&mut self, epoch: u64) -> bool {
        let is_news = self.values.is_some() && self.told != epoch;
        if is_news {
            self.told = epoch;
        }
        is_news
    }

    /// The client no longer READs tables before that of `epoch`. A false claim harms only the client itself.
    pub(super) fn adopted(&mut self, epoch: u64) -> Result<(), PeerError> {
        if !(self.adopted..=self.told).contains(&epoch) {
            return Err(PeerError::OutOfOrder);
        }
        self.adopted = epoch;
        Ok(())
    }

    /// Whether the client may still READ the table of `epoch` or an older one.
    pub(super) fn holds(&self, epoch: u64) -> bool {
        self.adopted <= epoch
    }

    /// Drops values in transfer. The queue pair is in the error state, so nothing arrives any more.
    pub(super) fn give_up(&mut self, state: &mut ShardState<P>) {
        self.queues.qp.to_error();
        for pull in self.pulls.drain(..).flatten() {
            state.shard.drop_draft(pull.draft);
        }
    }

    /// Executes requests that have arrived; returns whether there were any. Errors: the queue pair has failed.
    pub(super) fn serve(&mut self, cpu: &P::Cpu, state: &mut ShardState<P>) -> Result<bool, PeerError> {
        let mut wcs = [Wc::default(); BATCH];
        let count = self.queues.poll(cpu, &mut wcs);
        for wc in &wcs[..count] {
            if wc.status != WcStatus::Success {
                return Err(PeerError::Failed { status: wc.status });
            }
            let which = (wc.wr_id.0 & WHICH) as u32;
            match wc.wr_id.0 & !WHICH {
                RECV => self.messages.arrived(which, wc.byte_len),
                SENT => self.messages.sent(which),
                _ => self.pulled(state, which, cpu.now()),
            }
        }
        if count > 0 {
            self.take_requests(state, cpu.now());
        }
        self.queues.post(cpu)?;
        Ok(count > 0)
    }

    /// Executes the requests that have arrived, as long as there are buffers for their replies.
    fn take_requests(&mut self, state: &mut ShardState<P>, now: Ns) {
        let mut message = std::mem::take(&mut state.message);
        while let Some(reply) = self.messages.next(&mut self.queues, &mut message) {
            match Request::decode(&message) {
                Some((request, key, value)) => self.execute(state, reply, &request, key, value, now),
                None => self.reply(reply, 0, 0, Status::BadRequest, RecordRef::default(), 0),
            }
        }
        state.message = message;
    }

    fn execute(
        &mut self,
        state: &mut ShardState<P>,
        reply: u32,
        request: &Request,
        key: &[u8],
        value: &[u8],
        now: Ns,
    ) {
        if request.kind != RequestKind::Get
            && let Some(status) = self.updates.answer(request)
        {
            state.stats.repeated += 1;
            return self.answer_with(reply, request, status);
        }
        let hash = state.hasher.hash(key);
        let now_s = state.clock.now_s(now);
        let status = match request.kind {
            RequestKind::Put => {
                state.stats.puts += 1;
                state.put(hash, request, key, value, now)
            }
            RequestKind::PutLarge => match self.pull(state, reply, hash, request, key, now) {
                None => return,
                Some(status) => {
                    state.stats.puts += 1;
                    status
                }
            },
            RequestKind::Delete => {
                state.stats.deletes += 1;
                state.delete(hash, request, key, now)
            }
            RequestKind::Touch => {
                state.stats.puts += 1;
                state.touch(hash, request, key, now)
            }
            RequestKind::Get => {
                state.stats.gets += 1;
                return self.get(state, reply, hash, request, key, now_s);
            }
        };
        self.updates.note(request, status);
        self.answer_with(reply, request, status);
    }

    fn answer_with(&mut self, reply: u32, request: &Request, status: Status) {
        let none = RecordRef::default();
        self.reply(reply, request.slot, request.sequence, status, none, 0);
    }

    fn get(
        &mut self,
        state: &ShardState<P>,
        reply: u32,
        hash: KeyHash,
        request: &Request,
        key: &[u8],
        now_s: u32,
    ) {
        let Some(found) = state.shard.get(hash, key, now_s) else {
            return self.answer_with(reply, request, Status::NotFound);
        };
        let (slot, sequence) = (request.slot, request.sequence);
        let lead = if request.is_detailed { ITEM_INFO_BYTES } else { 0 };
        if MESSAGE_HEADER_BYTES + lead + found.value_bytes > self.messages.message_bytes() {
            return self.reply(reply, slot, sequence, Status::Location, found.record, 0);
        }
        let mut piece = [0; 256];
        let (replies, to) = self.messages.reply(reply);
        replies.copy_in(to + MESSAGE_HEADER_BYTES, &found.header.info().to_bytes()[..lead]);
        for at in (0..found.value_bytes).step_by(piece.len()) {
            let piece_bytes = (found.value_bytes - at).min(piece.len());
            let piece = &mut piece[..piece_bytes];
            state.shard.copy_out(found.value_offset + at, piece);
            replies.copy_in(to + MESSAGE_HEADER_BYTES + lead + at, piece);
        }
        let record = RecordRef {
            len: (lead + found.value_bytes) as u32,
            ..RecordRef::default()
        };
        let answer_bytes = lead + found.value_bytes;
        self.reply(reply, slot, sequence, Status::Value, record, answer_bytes);
    }

    /// Starts to READ a value from the client; returns a status if that is refused.
    fn pull(
        &mut self,
        state: &mut ShardState<P>,
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
        let draft = match state.draft(request, key, None, now) {
            Ok(draft) => draft,
            Err(status) => return Some(status),
        };
        state.stats.pulls += 1;
        let op = SendOp::Read {
            remote: values.at(request.value_offset as usize),
        };
        let sge = state.extents.sge(draft.value_offset(), request.value_bytes);
        self.queues.stage(PULL | u64::from(reply), op, sge, true);
        self.pulls[reply as usize] = Some(Pull {
            draft,
            hash,
            request: *request,
        });
        None
    }

    /// A value has arrived in its record.
    fn pulled(&mut self, state: &mut ShardState<P>, reply: u32, now: Ns) {
        let Some(pull) = self.pulls[reply as usize].take() else {
            return;
        };
        state.stats.puts += 1;
        let status = state.publish_pulled(pull.hash, pull.draft, &pull.request, now);
        self.updates.note(&pull.request, status);
        self.answer_with(reply, &pull.request, status);
    }

    /// Stages the reply in buffer `reply`, which already has `value_bytes` bytes of value, version and flags included.
    fn reply(
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
        let (replies, start) = self.messages.reply(reply);
        replies.copy_in(start, &header.encode());
        let len = MESSAGE_HEADER_BYTES + value_bytes;
        self.messages.send(&mut self.queues, reply, len);
    }
}
