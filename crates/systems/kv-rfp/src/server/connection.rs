//! [`Connection`]: queues and slots of one client, and how its requests are executed.

use super::in_place::Readers;
use super::one_by_one::Turn;
use super::state::ShardState;
use super::store::ShardStore as _;
use crate::control::{Attach, InPlaceExports, QpExports};
use crate::costs;
use crate::layout::{
    IN_PLACE_BYTES_MIN, REPLY_HEADER_BYTES, Reply, Request, RequestKind, Status, decode_request, value_sum,
};
use crate::variant::Variant;
use drover_base::{Cpu, KeyHash, Ns};
use drover_kv::{ITEM_INFO_BYTES, ItemInfo, KEY_BYTES_MAX};
use drover_one_sided::{LastUpdates, PeerError, VALUES_MAX};
use drover_rpc::fetch::{
    BadCall, CalleeOptions, CalleeStats, ConnParams, FetchServer, KIND_COUNT, ServerCall,
};
use drover_rt::{Depths, Port, Queues, WHICH};
use drover_store::{ItemRef, Key, Pin};
use drover_verbs::{
    Context, Export, Fenced, Provider, QueuePair, RemoteAddr, RemoteRegion, SendOp, Wc, WcStatus,
};
use std::rc::Rc;

/// Maximum number of completions and of requests per step and client.
pub(super) const BATCH: usize = 32;

/// Requests of a client that are executed together: of each the call, its bytes and the hash of its key. They are decoded
/// where they are needed, which takes less time than to carry the fields from here to there.
#[derive(Default)]
pub(super) struct Batch {
    calls: Vec<ServerCall>,
    hashes: Vec<KeyHash>,
    requests: Vec<Vec<u8>>,
}

impl Batch {
    pub(super) fn new() -> Batch {
        Batch {
            calls: Vec::with_capacity(BATCH),
            hashes: Vec::with_capacity(BATCH),
            requests: vec![Vec::new(); BATCH],
        }
    }

    fn clear(&mut self) {
        self.calls.clear();
        self.hashes.clear();
    }
}

/// Kind of work request: the transfer of a long value, whose index is the lower half of the id.
const LONG: u64 = (KIND_COUNT as u64) << 32;

/// A long value on its way, from the client (PUT) or to it (GET), or waiting for a stage.
struct Transfer {
    call: ServerCall,
    request: Request,
    key: [u8; KEY_BYTES_MAX],
    /// `None`: all stages are in use.
    stage: Option<u8>,
    /// What the result says when the value has been written (GET).
    written: (usize, [u8; 4]),
}

impl Transfer {
    fn key(&self) -> &[u8] {
        &self.key[..self.request.key_bytes]
    }
}

/// Length of the answer to a GET that has found `item`, bytes: the value, behind version and flags if they are asked for.
#[inline(always)]
fn answer_bytes(request: &Request, item: &ItemRef<'_>) -> usize {
    let lead = if request.is_detailed { ITEM_INFO_BYTES } else { 0 };
    lead + item.value_len()
}

/// Fills `answer`, which has the length that [`answer_bytes`] says.
#[inline(always)]
fn fill_answer(request: &Request, item: &ItemRef<'_>, answer: &mut [u8]) {
    if !request.is_detailed {
        item.copy_value(answer);
        return;
    }
    let info = ItemInfo {
        version: item.cas(),
        flags: item.flags(),
    };
    let (lead, value) = answer.split_at_mut(ITEM_INFO_BYTES);
    lead.copy_from_slice(&info.to_bytes());
    item.copy_value(value);
}

/// A server's queues and slots for one client.
pub struct Connection<P: Provider, V: Variant> {
    pub(super) queues: Queues<P>,
    /// Before the slots: the client reaches them through this queue pair.
    port: Port<P>,
    pub(super) calls: FetchServer<P, V::Guards>,
    /// The request that keeps the core from others.
    pub(super) turn: Turn,
    /// A client has as many buffers for long values.
    transfers: [Option<Transfer>; VALUES_MAX],
    /// Work requests of [`LONG`] in flight.
    longs: usize,
    pub(super) updates: LastUpdates,
    /// The client's memory for long values, known after Attach.
    values: Option<RemoteRegion>,
    result_bytes: usize,
    /// Number of request slots.
    place_count: u32,
    /// Long items that the client READs, if the system has that.
    readers: Option<Readers<P>>,
    /// Epoch of the map of partitions that the client has been sent.
    pub(super) map_epoch: u64,
}

impl<P: Provider, V: Variant> Connection<P, V> {
    pub(super) fn new(
        ctx: &Rc<P::Context>,
        params: &ConnParams,
        value_bytes_max: usize,
        transfer: drover_rpc::fetch::Transfer,
    ) -> Result<Connection<P, V>, PeerError> {
        let depths = Depths {
            sends: params.layout.place_count,
            recvs: 0,
            longs: VALUES_MAX,
            long_bytes_max: value_bytes_max,
        };
        let options = CalleeOptions {
            transfer,
            // The shard says when.
            look_every: Ns::ZERO,
        };
        let port = Port::<P>::new(ctx)?;
        Ok(Connection {
            queues: Queues::<P>::new(ctx, depths)?,
            calls: FetchServer::new(&port, params, options)?,
            port,
            turn: Turn::None,
            transfers: [const { None }; VALUES_MAX],
            longs: 0,
            updates: LastUpdates::default(),
            values: None,
            result_bytes: params.layout.result_bytes,
            place_count: params.layout.place_count as u32,
            readers: None,
            map_epoch: 0,
        })
    }

    /// Lets the client READ long values in the memory of `items`.
    pub(super) fn read_in_place(
        &mut self,
        items: &P::Mr,
        places: usize,
    ) -> Result<InPlaceExports, PeerError> {
        let readers = Readers::<P>::new(&self.port, places)?;
        let exports = readers.exports(items)?;
        self.readers = Some(readers);
        Ok(exports)
    }

    /// Exports requests and modes, results, and the queue pairs to the client.
    pub(super) fn exports(&self) -> Result<(Export, Export, QpExports), PeerError> {
        let (inbound, results) = self.calls.exports()?;
        let qps = QpExports::of_server(&self.queues, &self.port)?;
        Ok((inbound, results, qps))
    }

    /// Connects to the client's exported resources.
    pub(super) fn attach(&mut self, ctx: &P::Context, attach: &Attach) -> Result<(), PeerError> {
        if self.values.is_some() {
            return Err(PeerError::OutOfOrder);
        }
        self.values = Some(ctx.import_region(&attach.values)?);
        self.calls.attach(&attach.pushed)?;
        attach.qps.connect_server(&mut self.queues, &mut self.port)
    }

    /// Counters of the client's calls.
    pub(super) fn stats(&self) -> &CalleeStats {
        self.calls.stats()
    }

    /// Closes the connection, or gives it back: as long as the client may be in the middle of READing an item, over shared
    /// memory with a core of its own, whose memory must stay as it is. The queue pairs are destroyed first, so no transfer is
    /// in flight when the stages are used again.
    pub(super) fn close(mut self, ctx: &P::Context, state: &mut ShardState<P, V>) -> Option<Self> {
        self.queues.qp.to_error();
        state.is_occupied &= std::mem::replace(&mut self.turn, Turn::None) == Turn::None;
        if self.readers().is_some() && self.queues.qp.fence() == Fenced::Pending {
            return Some(self);
        }
        let (transfers, values) = (std::mem::take(&mut self.transfers), self.values.take());
        let readers = self.readers.take();
        drop(self);
        if let Some(readers) = readers {
            readers.release_all(ctx.cpu(), state);
        }
        let stages = transfers
            .into_iter()
            .flatten()
            .filter_map(|transfer| transfer.stage);
        stages.for_each(|stage| state.staging.take_back(stage));
        if let Some(values) = values {
            ctx.forget_region(&values);
        }
        None
    }

    /// Looks whether there is anything to do for the client: most often there is not, which must not take long. Looks again
    /// at the modes of results that were left to be fetched, if it is time.
    #[inline(always)]
    pub(super) fn has_work(&mut self, cpu: &P::Cpu, state: &mut ShardState<P, V>) -> bool {
        if state.is_occupied || self.longs > 0 || !self.calls.is_idle() {
            return true;
        }
        if self.transfers.iter().any(Option::is_some) || self.readers().is_some() {
            return true;
        }
        cpu.charge(costs::LOOK.cost, 1);
        cpu.charge(costs::PLACE.cost, self.place_count);
        if !self.is_look_due(state, cpu.now()) {
            return false;
        }
        // In a step with requests this is counted among their instructions.
        cpu.charge(costs::LOOK_AGAIN.cost, 1);
        self.look_again(cpu, cpu.now())
    }

    /// Executes requests that have arrived; returns whether there were any. Errors: the connection failed, or the
    /// client wrote a malformed request.
    pub(super) fn serve(&mut self, cpu: &P::Cpu, state: &mut ShardState<P, V>) -> Result<bool, PeerError> {
        let now = cpu.now();
        if V::WAITS || state.options.has_handler {
            return self.serve_one(cpu, state, now);
        }
        let mut is_busy = self.take_progress(cpu, state, now)?;
        if self.take_requests(cpu, state, BATCH)? {
            is_busy = true;
            self.execute_requests(cpu, state, now)?;
        }
        self.push(cpu)?;
        Ok(is_busy)
    }

    /// Goes on with what requests of earlier steps have begun; returns whether anything was completed.
    #[inline(always)]
    pub(super) fn take_progress(
        &mut self,
        cpu: &P::Cpu,
        state: &mut ShardState<P, V>,
        now: Ns,
    ) -> Result<bool, PeerError> {
        if self.is_look_due(state, now) {
            self.look_again(cpu, now);
        }
        // Before this client's completions free a stage: others may wait for one.
        self.begin_transfers(cpu, state, now);
        let is_busy = self.take_completions(cpu, state, now)?;
        if let Some(readers) = self.readers() {
            readers.release_acked(cpu, state);
        }
        Ok(is_busy)
    }

    /// The items that the client READs, if there are any.
    #[inline(always)]
    fn readers(&mut self) -> Option<&mut Readers<P>> {
        // A constant, so that this costs other systems nothing.
        if !V::Store::IS_SHARED {
            return None;
        }
        self.readers.as_mut().filter(|readers| readers.is_any())
    }

    /// Has published results pushed to clients that do not fetch, and posts all that is staged.
    #[inline]
    pub(super) fn push(&mut self, cpu: &P::Cpu) -> Result<(), PeerError> {
        let before = self.calls.stats().pushes;
        self.calls.settle(&mut self.queues);
        let count = self.calls.stats().pushes - before;
        cpu.charge(costs::PUSH.cost, count as u32);
        Ok(self.queues.post(cpu)?)
    }

    /// Takes at most `limit` requests that have arrived; returns whether there were any. Those of a whole batch are executed
    /// in three passes, so that memory accesses overlap: copies them and prefetches the buckets of their keys; prefetches
    /// the items; executes, in [`execute_requests`](Connection::execute_requests).
    #[inline(always)]
    pub(super) fn take_requests(
        &mut self,
        cpu: &P::Cpu,
        state: &mut ShardState<P, V>,
        limit: usize,
    ) -> Result<bool, PeerError> {
        cpu.charge(costs::LOOK.cost, 1);
        cpu.charge(costs::PLACE.cost, self.place_count);
        let batch = &mut state.batch;
        batch.clear();
        while batch.calls.len() < limit {
            let bytes = &mut batch.requests[batch.calls.len()];
            let next = self.calls.next(cpu, bytes);
            let Some(call) = next.map_err(|BadCall { .. }| PeerError::Nonsense)? else {
                break;
            };
            let Some((_, key, _)) = decode_request(bytes) else {
                // No correct client sends anything else.
                return Err(PeerError::Nonsense);
            };
            let hash = state.hasher.hash(key);
            if limit > 1 {
                state.partition.prefetch_bucket(cpu, hash);
            }
            batch.calls.push(call);
            batch.hashes.push(hash);
        }
        cpu.charge(costs::BATCH.cost, u32::from(!batch.calls.is_empty()));
        if limit > 1 {
            for hash in &batch.hashes {
                state.partition.prefetch_item(cpu, *hash);
            }
        }
        Ok(!batch.calls.is_empty())
    }

    /// Executes the requests that were taken.
    #[inline]
    pub(super) fn execute_requests(
        &mut self,
        cpu: &P::Cpu,
        state: &mut ShardState<P, V>,
        now: Ns,
    ) -> Result<(), PeerError> {
        let batch = std::mem::take(&mut state.batch);
        let mut executed = Ok(());
        for ((call, &hash), bytes) in batch.calls.iter().zip(&batch.hashes).zip(&batch.requests) {
            let (mut request, key, value) = decode_request(bytes).expect("it was decoded when it was taken");
            request.slot = call.taken.place as u16;
            let key = Key { hash, bytes: key };
            executed = self.execute(cpu, state, call, &request, (key, value), now);
            if executed.is_err() {
                break;
            }
        }
        state.batch = batch;
        executed
    }

    /// Whether it is time to look again at the modes of results that were left to be fetched.
    #[inline]
    fn is_look_due(&self, state: &mut ShardState<P, V>, now: Ns) -> bool {
        self.calls.next_look() != Ns::MAX && state.second_look.is_due(now)
    }

    /// Looks again at those modes; returns whether any result is to be pushed.
    #[inline]
    fn look_again(&mut self, cpu: &P::Cpu, now: Ns) -> bool {
        let before = self.calls.stats().late_pushes;
        self.calls.look_again(&mut self.queues, now);
        let count = self.calls.stats().late_pushes - before;
        cpu.charge(costs::PUSH.cost, count as u32);
        count > 0
    }

    #[inline]
    fn take_completions(
        &mut self,
        cpu: &P::Cpu,
        state: &mut ShardState<P, V>,
        now: Ns,
    ) -> Result<bool, PeerError> {
        // Results that are fetched cost the server no work request.
        if self.longs == 0 && !self.calls.is_pushing() {
            return Ok(false);
        }
        let count = self.queues.poll(cpu, &mut state.buffers.wcs);
        for at in 0..count {
            let Wc { wr_id, status, .. } = state.buffers.wcs[at];
            if status != WcStatus::Success {
                return Err(PeerError::Failed { status });
            }
            match wr_id.0 & !WHICH {
                LONG => self.transferred(cpu, state, (wr_id.0 & WHICH) as usize, now),
                _ => self.calls.completed(wr_id.0),
            }
        }
        Ok(count > 0)
    }

    #[inline]
    fn execute(
        &mut self,
        cpu: &P::Cpu,
        state: &mut ShardState<P, V>,
        call: &ServerCall,
        request: &Request,
        (key, value): (Key<'_>, &[u8]),
        now: Ns,
    ) -> Result<(), PeerError> {
        let work = match request.kind {
            RequestKind::Get => V::Store::WORK.0,
            _ => V::Store::WORK.1,
        };
        cpu.charge(work.cost, 1);
        if let Some(readers) = self.readers() {
            // The operation before has ended, whether it has READ its item or not.
            readers.release(cpu, state, call.taken.place);
        }
        if request.kind != RequestKind::Get
            && let Some(status) = self.updates.answer(request)
            && V::ONCE
        {
            state.stats.repeated += 1;
            self.reply(cpu, call, status, 0, &[]);
            return Ok(());
        }
        // Not before: an update that was executed is answered, even if another shard owns the key now.
        if !state.owns(key.hash) {
            self.answer_elsewhere(cpu, state, call);
            return Ok(());
        }
        let status = match request.kind {
            RequestKind::Get => return self.get(cpu, state, call, request, key, now),
            RequestKind::Put => {
                state.stats.puts += 1;
                state.put(cpu, request, key, value, now)
            }
            RequestKind::Delete => {
                state.stats.deletes += 1;
                state.delete(cpu, request, key, now)
            }
            RequestKind::Touch => {
                state.stats.puts += 1;
                state.touch(cpu, request, key, now)
            }
            RequestKind::PutLarge => match self.refuse_long(state, request, key.bytes) {
                Some(status) => {
                    state.stats.puts += 1;
                    status
                }
                None => return self.begin_transfer(cpu, state, call, request, key.bytes, now),
            },
        };
        self.updates.note(request, status);
        self.reply(cpu, call, status, 0, &[]);
        Ok(())
    }

    #[inline]
    fn get(
        &mut self,
        cpu: &P::Cpu,
        state: &mut ShardState<P, V>,
        call: &ServerCall,
        request: &Request,
        key: Key<'_>,
        now: Ns,
    ) -> Result<(), PeerError> {
        state.stats.gets += 1;
        let value_bytes_max = self.result_bytes - REPLY_HEADER_BYTES;
        let now_s = state.now_s(now);
        let result = &mut state.buffers.result;
        let found = state.partition.get(cpu, key, now_s, |item| {
            let len = answer_bytes(request, &item);
            if len <= value_bytes_max {
                // The result as a whole.
                let (status, value_bytes) = (Status::Value, len);
                let (header, answer) = result.split_at_mut(REPLY_HEADER_BYTES);
                header.copy_from_slice(&Reply { status, value_bytes }.encode());
                fill_answer(request, &item, &mut answer[..len]);
            }
            len
        });
        let (status, len) = match found {
            None => (Status::NotFound, 0),
            Some(len) if len <= value_bytes_max => {
                self.calls
                    .reply_from(cpu, call, &mut state.buffers.result, REPLY_HEADER_BYTES + len);
                return Ok(());
            }
            Some(len) if V::Store::IS_SHARED && len >= IN_PLACE_BYTES_MIN => {
                self.answer_in_place(cpu, state, call, request, key, now);
                return Ok(());
            }
            Some(len) if len > request.value_bytes => (Status::Long, len),
            Some(_) if self.values_at(request).is_none() => (Status::BadRequest, 0),
            Some(_) => return self.begin_transfer(cpu, state, call, request, key.bytes, now),
        };
        self.reply(cpu, call, status, len, &[]);
        Ok(())
    }

    /// Tells the client that another shard owns the key.
    #[cold]
    fn answer_elsewhere(&mut self, cpu: &P::Cpu, state: &mut ShardState<P, V>, call: &ServerCall) {
        state.stats.elsewhere += 1;
        let epoch = state.map().epoch().to_le_bytes();
        self.reply(cpu, call, Status::Elsewhere, 0, &epoch);
    }

    /// Tells the client where it can READ a long value.
    #[cold]
    fn answer_in_place(
        &mut self,
        cpu: &P::Cpu,
        state: &mut ShardState<P, V>,
        call: &ServerCall,
        request: &Request,
        key: Key<'_>,
        now: Ns,
    ) {
        let now_s = state.now_s(now);
        let store = state.partition.shared();
        let pinned = store.and_then(|store| store.pin(cpu, key, now_s));
        let (Some(pin), Some(readers)) = (pinned, &mut self.readers) else {
            // Another shard has removed it just now.
            return self.reply(cpu, call, Status::NotFound, 0, &[]);
        };
        state.stats.in_place += 1;
        let mut rest = [0; size_of::<u64>() + ITEM_INFO_BYTES];
        let (offset, info) = rest.split_at_mut(size_of::<u64>());
        offset.copy_from_slice(&pin.value_offset.to_le_bytes());
        let Pin { version, flags, .. } = pin;
        info.copy_from_slice(&ItemInfo { version, flags }.to_bytes());
        let len = pin.value_bytes;
        readers.hold(call.taken.place, pin);
        let rest_bytes = if request.is_detailed {
            rest.len()
        } else {
            size_of::<u64>()
        };
        self.reply(cpu, call, Status::InPlace, len, &rest[..rest_bytes]);
    }

    /// Why a value is not READ from the client, if so.
    fn refuse_long(&self, state: &ShardState<P, V>, request: &Request, key: &[u8]) -> Option<Status> {
        if request.value_bytes == 0 || self.values_at(request).is_none() {
            return Some(Status::BadRequest);
        }
        (!state.admits(key, request.value_bytes)).then_some(Status::TooLarge)
    }

    /// Address of the value in the client's memory; `None`: out of bounds.
    fn values_at(&self, request: &Request) -> Option<RemoteAddr> {
        let values = self.values.as_ref()?;
        let end = request.value_offset.checked_add(request.value_bytes as u64)?;
        (end <= values.len).then(|| values.at(request.value_offset as usize))
    }

    /// Begins to transfer a long value, at once or when there is a stage.
    #[cold]
    fn begin_transfer(
        &mut self,
        cpu: &P::Cpu,
        state: &mut ShardState<P, V>,
        call: &ServerCall,
        request: &Request,
        key: &[u8],
        now: Ns,
    ) -> Result<(), PeerError> {
        // A correct client has no more buffers for values.
        let free = self.transfers.iter().position(Option::is_none);
        let index = free.ok_or(PeerError::Nonsense)?;
        let mut transfer = Transfer {
            call: *call,
            request: *request,
            key: [0; KEY_BYTES_MAX],
            stage: None,
            written: (0, [0; 4]),
        };
        transfer.key[..key.len()].copy_from_slice(key);
        self.transfers[index] = Some(transfer);
        self.start(cpu, state, index, now);
        Ok(())
    }

    /// Begins transfers that had no stage.
    #[inline]
    fn begin_transfers(&mut self, cpu: &P::Cpu, state: &mut ShardState<P, V>, now: Ns) {
        for index in 0..self.transfers.len() {
            if self.transfers[index]
                .as_ref()
                .is_some_and(|transfer| transfer.stage.is_none())
            {
                self.start(cpu, state, index, now);
            }
        }
    }

    fn start(&mut self, cpu: &P::Cpu, state: &mut ShardState<P, V>, index: usize, now: Ns) {
        let Some(mut transfer) = self.transfers[index].take() else {
            return;
        };
        // The key may have got another owner while the transfer waited.
        if !state.owns(state.key(transfer.key()).hash) {
            return self.answer_elsewhere(cpu, state, &transfer.call);
        }
        let Some(stage) = state.staging.lend() else {
            self.transfers[index] = Some(transfer);
            return;
        };
        let is_put = transfer.request.kind == RequestKind::PutLarge;
        let staged = match is_put {
            true => Ok(transfer.request.value_bytes),
            false => self.stage_value(cpu, state, &mut transfer, stage, now),
        };
        let (len, remote) = match (staged, self.values_at(&transfer.request)) {
            (Ok(len), Some(remote)) => (len, remote),
            (refused, _) => {
                let (status, len) = refused.err().unwrap_or((Status::BadRequest, 0));
                state.staging.take_back(stage);
                return self.reply(cpu, &transfer.call, status, len, &[]);
            }
        };
        let op = match is_put {
            true => SendOp::Read { remote },
            false => SendOp::Write { remote, imm: None },
        };
        let counter = if is_put {
            &mut state.stats.pulls
        } else {
            &mut state.stats.long_pushes
        };
        *counter += 1;
        self.queues
            .stage(LONG | index as u64, op, state.staging.sge(stage, len), true);
        self.longs += 1;
        transfer.stage = Some(stage);
        self.transfers[index] = Some(transfer);
    }

    /// Copies the value of a GET to `stage`; returns its length, or status and length if there is no such value any more
    /// that fits the client's memory.
    fn stage_value(
        &mut self,
        cpu: &P::Cpu,
        state: &mut ShardState<P, V>,
        transfer: &mut Transfer,
        stage: u8,
        now: Ns,
    ) -> Result<usize, (Status, usize)> {
        let mut value = std::mem::take(&mut state.buffers.value);
        let key = state.key(transfer.key());
        let request = &transfer.request;
        let staged = state.get(cpu, key, now, |item| match answer_bytes(request, &item) {
            // The client asks again.
            len if len == 0 || len > request.value_bytes => Err((Status::Long, len)),
            len => {
                value.resize(len, 0);
                fill_answer(request, &item, &mut value);
                Ok(len)
            }
        });
        let staged = staged.unwrap_or(Err((Status::NotFound, 0)));
        if let Ok(len) = staged {
            state.staging.copy_in(stage, &value);
            transfer.written = (len, value_sum(&value));
        }
        state.buffers.value = value;
        staged
    }

    /// A long value has arrived at its destination.
    fn transferred(&mut self, cpu: &P::Cpu, state: &mut ShardState<P, V>, index: usize, now: Ns) {
        let Some(transfer) = self.transfers.get_mut(index).and_then(Option::take) else {
            return;
        };
        self.longs -= 1;
        let stage = transfer.stage.expect("a transfer that began");
        if !state.owns(state.key(transfer.key()).hash) {
            self.answer_elsewhere(cpu, state, &transfer.call);
        } else if transfer.request.kind == RequestKind::PutLarge {
            state.stats.puts += 1;
            let status = state.put_staged(cpu, &transfer.request, transfer.key(), stage, now);
            self.updates.note(&transfer.request, status);
            self.reply(cpu, &transfer.call, status, 0, &[]);
        } else {
            let (len, sum) = transfer.written;
            self.reply(cpu, &transfer.call, Status::Written, len, &sum);
        }
        state.staging.take_back(stage);
    }

    /// Publishes a result about a value of `value_bytes` bytes; `rest` is what follows the header.
    #[inline]
    fn reply(&mut self, cpu: &P::Cpu, call: &ServerCall, status: Status, value_bytes: usize, rest: &[u8]) {
        let header = Reply { status, value_bytes }.encode();
        self.calls.reply(cpu, call, &[&header, rest]);
    }
}
