//! Values too long for a slot or a reply: they move by RC WRITE and READ through chunks of memory at the server
//! that belong to this client; an ordinary request in a slot then names the chunk.
//!
//! ```text
//! PUT:  WantChunk --WRITE value--> Moving --done--> WantSlot --PutBulk--> Asked --reply--> end
//! GET:  (GET answered Bulk) WantChunk -> WantSlot --GetBulk--> Asked --reply--> READ: Moving --crc fits--> end
//! ```
//! While most values turn out to be long, a GET begins with `GetBulk` and a short chunk: see [`Guess`]. If the value is
//! short after all, it is in the reply; if it is longer than the chunk, the GET starts anew with a long one.
//! The memory is requested with the first such value of a session. While an operation is here, later ones on its key
//! wait.

use super::guess::Guess;
use super::{HerdClient, RequestFormat, Sink};
use crate::control::Message;
use crate::layout::{BULK_BYTES, Bulk, Commit, ItemInfo, ReplyImm, SlotOp, Status};
use drover_base::{Cpu, KeyHash, crc32c};
use drover_kv::{Extension, KEY_BYTES_MAX, Op, OpKind, Outcome, Refusal, Token};
use drover_mem::round_up;
use drover_rt::{ChunkMap, Chunks, Direction};
use drover_slots::client::request::Body;
use drover_slots::client::{SlotPhase, Waiting, outcome_of_update};
use drover_verbs::{Context, Provider, Wc, WrId};

/// Bit of a work request's id that marks bulk transfers.
const BULK_WR: u64 = 1 << 63;
/// Most repetitions of a transfer; then the operation is refused as unavailable.
const REPEATS_MAX: u32 = 100;

/// Whether a completion with this id is that of a bulk transfer.
pub(super) fn is_bulk(wr_id: WrId) -> bool {
    wr_id.0 & BULK_WR != 0
}

/// Bulk memory of a session.
#[derive(Default)]
enum BulkMemory<P: Provider> {
    /// Not needed so far.
    #[default]
    Unasked,
    /// Requested; the server has not answered.
    Opening,
    /// Attached; the server has not confirmed.
    Attaching(Box<Chunks<P>>),
    /// In use.
    Ready(Box<Chunks<P>>),
    /// Refused by the server, unusable, or impossible because the fabric has no RC. Long values cannot move.
    Refused,
}

impl<P: Provider> BulkMemory<P> {
    fn chunks(&mut self) -> Option<&mut Chunks<P>> {
        match self {
            BulkMemory::Ready(chunks) => Some(chunks),
            _ => None,
        }
    }

    fn give_back(&mut self, chunk: Option<u32>) {
        if let (Some(chunks), Some(chunk)) = (self.chunks(), chunk) {
            chunks.give_back(chunk);
        }
    }
}

/// A client's operations on long values, and the memory through which they move.
pub(super) struct Transfers<P: Provider> {
    ops: Vec<Option<BulkOp>>,
    memory: BulkMemory<P>,
    guess: Guess,
    /// Buffer for a value that has been READ, or stands behind version and flags in a reply.
    pub(super) value: Vec<u8>,
}

impl<P: Provider> Transfers<P> {
    pub(super) fn new() -> Transfers<P> {
        Transfers {
            ops: Vec::new(),
            memory: BulkMemory::Unasked,
            guess: Guess::default(),
            value: Vec::new(),
        }
    }

    /// Whether the next GET should [begin with a chunk](HerdClient::get_through_chunk).
    #[inline(always)]
    pub(super) fn expect_long(&self) -> bool {
        self.guess.is_long()
    }

    /// Adds an operation; returns its index.
    fn add(&mut self, op: BulkOp) -> usize {
        let index = self.ops.iter().position(Option::is_none);
        let index = index.unwrap_or(self.ops.len());
        if index == self.ops.len() {
            self.ops.push(None);
        }
        self.ops[index] = Some(op);
        index
    }

    /// Whether an operation waits for a chunk or a slot.
    fn is_any_waiting(&self) -> bool {
        let waits = |op: &BulkOp| matches!(op.stage, Stage::WantChunk | Stage::WantSlot);
        self.ops.iter().flatten().any(waits)
    }

    /// Number of operations in progress, including those completed by their deadline whose chunk is still in use.
    pub(super) fn count(&self) -> usize {
        self.ops.iter().flatten().count()
    }

    /// Whether long values cannot move in this session: see [`BulkMemory::Refused`].
    pub(super) fn are_refused(&self) -> bool {
        matches!(self.memory, BulkMemory::Refused)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    WantChunk,
    Moving,
    WantSlot,
    Asked,
}

/// An operation on a long value.
struct BulkOp {
    waiting: Waiting,
    stage: Stage,
    chunk: Option<u32>,
    /// Bytes that the chunk must have.
    need: usize,
    /// Description of the value in the chunk: from the server's reply (GET), or from the client (PUT).
    content: Bulk,
    /// Version and flags of the item, from the server's reply (extended GET).
    info: ItemInfo,
    repeats: u32,
    /// Reason for which the next step refuses the operation.
    refusal: Option<Refusal>,
    /// Whether the operation was completed because of its deadline. Its request is given up in its slot, to which no reply
    /// counts any more; the server may access its chunk until it says what became of the request.
    ghost: bool,
}

impl BulkOp {
    fn new(waiting: Waiting, need: usize) -> BulkOp {
        BulkOp {
            waiting,
            stage: Stage::WantChunk,
            chunk: None,
            need,
            content: Bulk {
                chunk: 0,
                len: 0,
                crc: 0,
            },
            info: ItemInfo::default(),
            repeats: 0,
            refusal: None,
            ghost: false,
        }
    }
}

/// The length of a long value, from the payload of a reply `Bulk`.
fn len_of(payload: &[u8]) -> Option<usize> {
    payload
        .try_into()
        .ok()
        .map(|len| u32::from_le_bytes(len) as usize)
}

/// Outcome of a GET that has found `value`.
fn found(is_detailed: bool, info: ItemInfo, value: &[u8]) -> Outcome<'_> {
    let ItemInfo { version, flags } = info;
    match is_detailed {
        true => Outcome::Found {
            value,
            version,
            flags,
        },
        false => Outcome::Value(value),
    }
}

/// The next step of an operation.
enum Step {
    Nothing,
    Move,
    Ask,
    Refuse(Refusal),
}

impl<P: Provider, F: RequestFormat> HerdClient<P, F> {
    /// Begins the transfer for an operation on a value of `need` bytes.
    pub(super) fn begin_bulk(&mut self, waiting: Waiting, need: usize) {
        self.stats.bulk_transfers += 1;
        self.timers.hurry();
        self.bulk.add(BulkOp::new(waiting, need));
    }

    /// Begins a GET with a short chunk, for a value that is expected to be long. Returns false, and does nothing, if
    /// anything is not as usual.
    #[cold]
    pub(super) fn get_through_chunk(&mut self, cpu: &P::Cpu, key: &[u8], token: Token) -> bool {
        let (Some(session), Some(chunks)) = (self.session.as_deref_mut(), self.bulk.memory.chunks()) else {
            return false;
        };
        let len_max = session.params.body_bytes_max.saturating_sub(BULK_BYTES + 4);
        if !self.open || !(1..=KEY_BYTES_MAX.min(len_max)).contains(&key.len()) || session.window.is_full() {
            return false;
        }
        let hash = session.hasher.hash(key);
        if !self.conflicts.try_add_read(hash) {
            return false;
        }
        let Some(chunk) = chunks.take_short() else {
            self.conflicts.remove(hash, false);
            return false;
        };
        let need = chunks.len_of(chunk);
        let waiting = self.waiting.own(&Op::Get { key }, hash, token, cpu.now());
        let mut op = BulkOp::new(waiting, need);
        op.chunk = Some(chunk);
        let index = self.bulk.add(op);
        if !self.ask_bulk(index, cpu) {
            if let Some(op) = self.bulk.ops[index].take() {
                self.waiting.keep(op.waiting);
            }
            self.bulk.memory.give_back(Some(chunk));
            self.conflicts.remove(hash, false);
            return false;
        }
        self.stats.bulk_transfers += 1;
        self.tally.began();
        if let Some(session) = self.session.as_deref_mut()
            && session.sends.is_batch()
        {
            session.flush(cpu);
        }
        true
    }

    /// Whether an operation on `hash`, an update if `write`, conflicts with one on a long value in progress.
    pub(super) fn conflicts_with_bulk(&self, hash: KeyHash, write: bool) -> bool {
        self.bulk
            .ops
            .iter()
            .flatten()
            .any(|op| op.waiting.conflicts_with(hash, write))
    }

    /// Whether a value is being READ or WRITTEN.
    pub(super) fn bulk_is_moving(&self) -> bool {
        self.bulk.ops.iter().flatten().any(|op| op.stage == Stage::Moving)
    }

    /// Frees slot `at`, whose GET was answered `Bulk`, and begins the transfer of its value.
    pub(super) fn get_is_bulk(&mut self, wc: &Wc, at: usize) {
        self.bulk.guess.was_long_after(self.tally.completed());
        let waiting = self.copy_out(at);
        let Some(session) = self.session.as_deref_mut() else {
            return;
        };
        let payload = session.receive.payload(wc, &mut self.received.value[..]);
        let need = payload.and_then(len_of).unwrap_or(session.params.item_bytes_max);
        session.window.release(at);
        if let Some(waiting) = waiting {
            self.begin_bulk(waiting, need);
        }
    }

    /// Advances every operation on a long value as far as possible.
    pub(super) fn advance_bulk(&mut self, cpu: &P::Cpu, sink: Sink<'_>) {
        for index in 0..self.bulk.ops.len() {
            loop {
                match self.next_step(index, cpu) {
                    Step::Nothing => break,
                    Step::Refuse(refusal) => self.finish_bulk(index, Outcome::Refused(refusal), sink),
                    Step::Move => self.write_chunk(index, cpu),
                    Step::Ask => {
                        if !self.ask_bulk(index, cpu) {
                            break;
                        }
                    }
                }
            }
        }
        if let Some(session) = self.session.as_deref_mut() {
            session.flush(cpu);
        }
    }

    fn next_step(&mut self, index: usize, cpu: &P::Cpu) -> Step {
        let Some(op) = self.bulk.ops[index].as_mut().filter(|op| !op.ghost) else {
            return Step::Nothing;
        };
        if let Some(refusal) = op.refusal {
            return Step::Refuse(refusal);
        }
        let expired = cpu.now().since(op.waiting.submitted) >= self.options.deadline;
        match op.stage {
            Stage::WantChunk | Stage::WantSlot if expired => return Step::Refuse(Refusal::Unavailable),
            Stage::WantSlot if self.open => return Step::Ask,
            Stage::WantSlot | Stage::Asked | Stage::Moving => return Step::Nothing,
            Stage::WantChunk => {}
        }
        match &mut self.bulk.memory {
            BulkMemory::Refused => return Step::Refuse(Refusal::TooLarge),
            BulkMemory::Ready(chunks) => {
                if op.chunk.is_none() {
                    op.chunk = chunks.take(op.need);
                }
                if op.chunk.is_none() {
                    return Step::Nothing;
                }
            }
            BulkMemory::Unasked if self.open => {
                self.open_bulk();
                return Step::Nothing;
            }
            BulkMemory::Unasked | BulkMemory::Opening | BulkMemory::Attaching(_) => return Step::Nothing,
        }
        if op.waiting.op.kind() == OpKind::Put {
            return Step::Move;
        }
        op.stage = Stage::WantSlot;
        Step::Ask
    }

    fn open_bulk(&mut self) {
        if !self.ctx.caps().supports.rc {
            tracing::warn!(
                fabric = P::NAME,
                "this fabric has no reliable connections: long values cannot move"
            );
            self.bulk.memory = BulkMemory::Refused;
            self.timers.hurry();
            return;
        }
        self.bulk.memory = BulkMemory::Opening;
        let (chunk_count, short_count) = self.options.chunk_counts();
        self.ask(&Message::BulkOpen {
            chunk_count,
            short_count,
        });
        self.timers.hurry();
    }

    /// Handles a BulkReady, or the Ready that confirms the attachment.
    pub(super) fn bulk_message(&mut self, message: Message) {
        self.timers.hurry();
        self.bulk.memory = match (message, std::mem::take(&mut self.bulk.memory)) {
            (Message::BulkReady { .. }, BulkMemory::Opening) if self.session.is_none() => BulkMemory::Unasked,
            (message @ Message::BulkReady { .. }, BulkMemory::Opening) => match self.attach_bulk(&message) {
                Ok(chunks) => BulkMemory::Attaching(Box::new(chunks)),
                Err(error) => {
                    let server = self.connection.server();
                    tracing::warn!(%error, server, "the server's memory for long values is unusable: they cannot move");
                    BulkMemory::Refused
                }
            },
            (Message::Ready, BulkMemory::Attaching(chunks)) => {
                self.answered();
                BulkMemory::Ready(chunks)
            }
            (_, bulk) => {
                self.stats.garbage += 1;
                bulk
            }
        };
    }

    /// Notes that the server refused a message, which was about bulk memory if the client is opening some.
    pub(super) fn bulk_refused(&mut self) {
        if matches!(self.bulk.memory, BulkMemory::Opening | BulkMemory::Attaching(_)) {
            self.bulk.memory = BulkMemory::Refused;
            self.timers.hurry();
        }
    }

    fn attach_bulk(&mut self, message: &Message) -> Result<Chunks<P>, drover_kv::SetupError> {
        let (
            Message::BulkReady {
                chunk_bytes,
                chunk_count,
                short_bytes,
                short_count,
                region,
                rc,
            },
            Some(session),
        ) = (message, &self.session)
        else {
            return Err(drover_kv::SetupError::Unusable {
                what: "order of messages",
            });
        };
        let map = ChunkMap {
            long_bytes: round_up(*chunk_bytes as usize, 8),
            long_count: usize::from(*chunk_count),
            short_bytes: round_up(*short_bytes as usize, 8),
            short_count: usize::from(*short_count),
        };
        let most = self.options.chunk_counts();
        let is_too_much = *chunk_count > most.0 || *short_count > most.1 || map.short_bytes > map.long_bytes;
        if map.long_bytes < session.params.item_bytes_max || map.long_count == 0 || is_too_much {
            return Err(drover_kv::SetupError::Unusable { what: "bulk memory" });
        }
        let (chunks, rc) = Chunks::new(&self.ctx, &session.cq, (region, rc), map)?;
        self.send(&Message::BulkAttach { rc });
        Ok(chunks)
    }

    /// Posts the transfer of `len` bytes between a chunk of the client and its twin at the server. If that fails, marks
    /// the session as broken.
    fn transfer(&mut self, index: usize, chunk: u32, len: usize, direction: Direction, cpu: &P::Cpu) {
        let Some(chunks) = self.bulk.memory.chunks() else {
            return;
        };
        let posted = chunks.transfer(cpu, chunk, len, direction, WrId(BULK_WR | index as u64));
        if let (Err(error), Some(session)) = (posted, self.session.as_deref_mut()) {
            let server = self.connection.server();
            tracing::warn!(%error, server, verb = direction.verb(), len, "a long value could not be posted: the session is over");
            session.broken = true;
            self.timers.hurry();
        }
    }

    /// PUT: copies the value to the client's chunk and posts its WRITE to the server's.
    fn write_chunk(&mut self, index: usize, cpu: &P::Cpu) {
        let (Some(op), Some(chunks)) = (self.bulk.ops[index].as_mut(), self.bulk.memory.chunks()) else {
            return;
        };
        let Some(chunk) = op.chunk else {
            return;
        };
        let value = op.waiting.op.value();
        chunks.fill(chunk, value);
        let len = value.len();
        op.content = Bulk {
            chunk,
            len: len as u32,
            crc: crc32c(value),
        };
        op.stage = Stage::Moving;
        self.transfer(index, chunk, len, Direction::Write, cpu);
    }

    /// Stages the request that names the chunk. Returns false if there is no free slot or no session.
    fn ask_bulk(&mut self, index: usize, cpu: &P::Cpu) -> bool {
        let (Some(op), Some(session)) = (self.bulk.ops[index].as_mut(), self.session.as_deref_mut()) else {
            return false;
        };
        let partition = op.waiting.hash.partition_index(session.params.partition_count);
        let Some((at, seq)) = session.window.next(partition) else {
            return false;
        };
        let put = op.waiting.op.kind() == OpKind::Put;
        let chunk = op.chunk.unwrap_or(0);
        let space = self
            .bulk
            .memory
            .chunks()
            .map_or(0, |chunks| chunks.len_of(chunk) as u32);
        let value = match put {
            true => Bulk {
                chunk,
                len: op.content.len,
                crc: op.content.crc,
            }
            .to_bytes(),
            false => Bulk {
                chunk,
                len: space,
                crc: 0,
            }
            .to_bytes(),
        };
        let extension = op.waiting.op.extension();
        let is_extended = extension != Extension::default() || op.waiting.op.is_detailed();
        let slot_op = match (put, is_extended) {
            (true, false) => SlotOp::PutBulk,
            (true, true) => SlotOp::PutBulkExt,
            (false, false) => SlotOp::GetBulk,
            (false, true) => SlotOp::GetBulkExt,
        };
        let body = Body {
            commit: Commit::new(
                slot_op,
                seq,
                op.waiting.op.key().len(),
                BULK_BYTES,
                session.params.crc,
            ),
            hash: op.waiting.hash,
            key: op.waiting.op.key(),
            value: &value,
            ttl_s: op.waiting.op.ttl_s(),
            extension,
        };
        if body.commit.body_len() > session.params.body_bytes_max {
            op.refusal = Some(Refusal::TooLarge);
            return true;
        }
        op.stage = Stage::Asked;
        Self::post(
            session,
            partition,
            at,
            &body,
            index as u64,
            op.waiting.submitted,
            cpu.now(),
        );
        true
    }

    /// Handles the reply `Ok`, `NotFound`, `Exists` or `Bulk` to the bulk request in slot `at`.
    pub(super) fn bulk_answered(&mut self, cpu: &P::Cpu, wc: &Wc, at: usize, imm: ReplyImm, sink: Sink<'_>) {
        let Some(session) = self.session.as_deref_mut() else {
            return;
        };
        let (index, commit) = (
            session.window.slot(at).token as usize,
            session.window.slot(at).commit,
        );
        let status = imm.status();
        if commit.is_update() {
            return match outcome_of_update(commit.op(), status) {
                Outcome::Indeterminate => self.stats.garbage += 1,
                outcome => self.finish_slot(at, outcome, sink),
            };
        }
        if status == Some(Status::NotFound) {
            return self.finish_slot(at, Outcome::NotFound, sink);
        }
        let Some(payload) = session.receive.payload(wc, &mut self.received.value[..]) else {
            self.stats.garbage += 1;
            return;
        };
        if let (Some(Status::Bulk), Some(len)) = (status, len_of(payload)) {
            return self.get_with_longer_chunk(index, at, len);
        }
        let is_detailed = commit.op() == Some(SlotOp::GetBulkExt);
        let split = match is_detailed {
            true => ItemInfo::split(payload),
            false => Some((ItemInfo::default(), payload)),
        };
        match (status, split) {
            (Some(Status::Ok), Some((info, payload))) => {
                let mut value = std::mem::take(&mut self.bulk.value);
                value.clear();
                value.extend_from_slice(payload);
                self.bulk.guess.note(false);
                self.finish_slot(at, found(is_detailed, info, &value), sink);
                self.bulk.value = value;
            }
            (Some(Status::Bulk), Some((info, payload))) => match payload.try_into().map(Bulk::from_bytes) {
                Ok(content) => self.read_chunk(index, at, (content, info), cpu),
                Err(_) => self.stats.garbage += 1,
            },
            _ => self.stats.garbage += 1,
        }
    }

    /// GET: posts the READ of the value that the server has copied into its chunk, and frees slot `at`.
    fn read_chunk(&mut self, index: usize, at: usize, (content, info): (Bulk, ItemInfo), cpu: &P::Cpu) {
        let (Some(op), Some(chunks)) = (
            self.bulk.ops.get_mut(index).and_then(Option::as_mut),
            self.bulk.memory.chunks(),
        ) else {
            return;
        };
        let is_ours = op.chunk == Some(content.chunk);
        if !is_ours || !(1..=chunks.len_of(content.chunk)).contains(&(content.len as usize)) {
            self.stats.garbage += 1;
            return;
        }
        self.bulk.guess.note(true);
        (op.content, op.info) = (content, info);
        op.stage = Stage::Moving;
        if let Some(session) = self.session.as_deref_mut() {
            session.window.release(at);
        }
        self.transfer(index, content.chunk, content.len as usize, Direction::Read, cpu);
    }

    /// GET: the value of `len` bytes is longer than the chunk of the request in slot `at`. Frees both, and starts anew.
    fn get_with_longer_chunk(&mut self, index: usize, at: usize, len: usize) {
        if let Some(session) = self.session.as_deref_mut() {
            session.window.release(at);
        }
        let Some(op) = self.bulk.ops.get_mut(index).and_then(Option::as_mut) else {
            return;
        };
        self.bulk.memory.give_back(op.chunk.take());
        op.need = len;
        self.bulk_again(index);
    }

    /// Handles the completion of a transfer.
    pub(super) fn bulk_moved(&mut self, _cpu: &P::Cpu, wc: &Wc, sink: Sink<'_>) {
        let index = (wc.wr_id.0 & !BULK_WR) as usize;
        let Some(op) = self.bulk.ops.get_mut(index).and_then(Option::as_mut) else {
            return;
        };
        if op.waiting.op.kind() == OpKind::Put {
            op.stage = Stage::WantSlot;
            self.timers.hurry();
            return;
        }
        let Some(chunks) = self.bulk.memory.chunks() else {
            return;
        };
        let (is_detailed, info) = (op.waiting.op.is_detailed(), op.info);
        let (len, mut buffer) = (op.content.len as usize, std::mem::take(&mut self.bulk.value));
        buffer.resize(buffer.len().max(len), 0);
        let value = &mut buffer[..len];
        chunks.copy_out(op.content.chunk, value);
        match crc32c(value) == op.content.crc {
            true => self.finish_bulk(index, found(is_detailed, info, value), sink),
            false => self.bulk_again(index),
        }
        self.bulk.value = buffer;
    }

    /// Repeats a transfer from the start, because the checksum does not match or the server did not execute the
    /// request; after too many repetitions the operation is refused.
    pub(super) fn bulk_again(&mut self, index: usize) {
        self.timers.hurry();
        self.stats.bulk_repeats += 1;
        if let Some(op) = self.bulk.ops.get_mut(index).and_then(Option::as_mut) {
            op.repeats += 1;
            if op.repeats > REPEATS_MAX {
                op.refusal = Some(Refusal::Unavailable);
            }
            op.stage = Stage::WantChunk;
        }
    }

    /// Completes an operation, unless its deadline has completed it already, and frees its chunk.
    pub(super) fn finish_bulk(&mut self, index: usize, outcome: Outcome<'_>, sink: Sink<'_>) {
        let Some(op) = self.bulk.ops.get_mut(index).and_then(Option::take) else {
            return;
        };
        self.bulk.memory.give_back(op.chunk);
        self.conflicts.remove(op.waiting.hash, op.waiting.is_write());
        // The end of a ghost makes space, too, but is no completion, for which the caller may be waiting.
        if op.ghost || self.bulk.is_any_waiting() || !self.waiting.is_empty() {
            self.timers.hurry();
        }
        let token = op.waiting.token;
        // The memory of a long value is not kept.
        if op.waiting.op.kind() == OpKind::Get {
            self.waiting.keep(op.waiting);
        }
        if !op.ghost {
            self.complete(token, outcome, sink);
        }
    }

    /// Completes an operation whose deadline passed while its request was in a slot. It is kept until the request's end
    /// is known.
    pub(super) fn expire_bulk(&mut self, index: usize, outcome: Outcome<'_>, sink: Sink<'_>) {
        if let Some(op) = self.bulk.ops.get_mut(index).and_then(Option::as_mut) {
            op.ghost = true;
            let token = op.waiting.token;
            self.complete(token, outcome, sink);
        }
    }

    /// Ends all operations on long values with the session: PUTs whose request was posted complete as `Indeterminate`,
    /// all others wait to start anew.
    pub(super) fn lose_bulk(&mut self, sink: Sink<'_>) {
        let asked = |op: &BulkOp| op.stage == Stage::Asked && op.waiting.op.kind() == OpKind::Put;
        for index in 0..self.bulk.ops.len() {
            match self.bulk.ops[index].take() {
                None => {}
                Some(op) if op.ghost || asked(&op) => {
                    self.bulk.ops[index] = Some(op);
                    self.finish_bulk(index, Outcome::Indeterminate, sink);
                }
                Some(op) => {
                    self.stats.resubmits += 1;
                    self.waiting.push_front(op.waiting);
                }
            }
        }
        self.bulk.ops.clear();
        self.bulk.memory = BulkMemory::Unasked;
        if let Some(session) = self.session.as_deref_mut() {
            for at in 0..session.window.slots().len() {
                let slot = session.window.slot(at);
                let bulk = slot.commit.op().is_some_and(SlotOp::is_bulk);
                if bulk && slot.phase != SlotPhase::Free {
                    session.window.release(at);
                }
            }
        }
    }
}
