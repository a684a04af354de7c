//! [`Session`]: queues and buffers of a client at one shard.
//!
//! ```text
//! buffers, registered once:
//!   | request, reply, entry, short record | of slot 0 |  ... of slot 1 | ...
//! values, which the server may READ:
//!   | large buffer 0 | large buffer 1 |
//! ```

use super::SetupError;
use super::tables::Tables;
use crate::control::{Adopted, Grown, Welcome};
use crate::layout::{MESSAGE_HEADER_BYTES, Request};
use crate::logic::TableShape;
use drover_base::{HashSeed, KeyHasher, Ns};
use drover_index::cuckoo::{ENTRY_BYTES, RecordRef};
use drover_mem::{PageWish, round_up};
use drover_rt::control::{Frame, Message};
use drover_verbs::{
    Access, Context, MemoryRegion, PIECES_MAX, Payload, Pieces, PostError, Provider, QpKind, QpOptions,
    QueuePair, RecvList, RecvWr, RemoteRegion, SendList, SendOp, SendWr, Sge, WrId,
};
use std::collections::VecDeque;
use std::rc::Rc;

/// Records up to this many bytes are read into a slot's own buffer. *(our choice)*
pub(super) const SHORT_RECORD_BYTES: usize = 2048;

/// Buffers for longer records and values.
pub(super) const LARGE_COUNT: usize = 2;

/// Requests under way at most beside one SEND and one READ of each slot: what long records take more.
const OTHERS: usize = LARGE_COUNT * PIECES_MAX;

/// READs under way at a time, if the fabric allows as many: what cards of the paper's time allow. *(stated in `[HERD §3.2]`)*
const READS_MAX: usize = 16;

/// What a work request was for, in its upper half.
pub(super) const RECV: u64 = 0;
pub(super) const SENT: u64 = 1 << 32;
pub(super) const ENTRY: u64 = 2 << 32;
pub(super) const RECORD: u64 = 3 << 32;
/// A part of a record, not the last.
pub(super) const PIECE: u64 = 4 << 32;
/// The slot, or the RECV, in its lower.
pub(super) const WHICH: u64 = (1 << 32) - 1;

/// One client at one shard.
pub(super) struct Session<P: Provider> {
    pub(super) qp: P::Qp,
    pub(super) cq: P::Cq,
    buffers: P::Mr,
    pub(super) values: P::Mr,
    tables: Tables<P>,
    extents: RemoteRegion,
    pub(super) shape: TableShape,
    pub(super) hasher: KeyHasher,
    pub(super) id: u64,
    pub(super) message_bytes: usize,
    slot_bytes: usize,
    large_bytes: usize,
    pub(super) free_large: Vec<u8>,
    pieces: Pieces,
    pub(super) list: SendList,
    pub(super) recvs: RecvList,
    /// READs posted, or staged in `list`.
    reads: usize,
    reads_max: usize,
    /// READs beyond.
    held: VecDeque<SendWr>,
    /// Something was not whole: perhaps the table has grown.
    pub(super) is_curious: bool,
    /// Tables adopted.
    pub(super) table_count: u64,
    /// The server's clock said this then.
    clock: (u32, Ns),
    pub(super) broken: bool,
    ctx: Rc<P::Context>,
}

impl<P: Provider> Session<P> {
    /// Our side of what the server offers, connected, with RECVs for all replies.
    pub(super) fn new(
        ctx: &Rc<P::Context>,
        slots: usize,
        welcome: &Welcome,
        now: Ns,
    ) -> Result<Session<P>, SetupError> {
        let message_bytes = welcome.message_bytes as usize;
        if message_bytes <= MESSAGE_HEADER_BYTES {
            return Err(SetupError::Unusable { what: "geometry" });
        }
        let cq = ctx.create_cq(4 * slots + OTHERS)?;
        let qp = ctx.create_qp(&QpOptions {
            send_depth: 2 * slots + OTHERS,
            recv_depth: slots,
            ..QpOptions::new(QpKind::Rc, &cq, ctx.caps())
        })?;
        let slot_bytes = round_up(2 * message_bytes, 64) + 64 + SHORT_RECORD_BYTES;
        let large_bytes = round_up(welcome.item_bytes_max as usize, 4096);
        let buffers = ctx.register(&ctx.alloc(slots * slot_bytes, PageWish::Small)?, Access::LOCAL)?;
        let values = ctx.alloc(LARGE_COUNT * large_bytes, PageWish::Small)?;
        let values = ctx.register(&values, Access::REMOTE_READ)?;
        let tables = Tables::new(ctx, &welcome.table)?;
        let extents = ctx.import_region(&welcome.extents)?;
        let mut session: Session<P> = Session {
            qp,
            cq,
            buffers,
            values,
            shape: TableShape {
                epoch: tables.epoch(),
                entry_count: tables.entry_count(),
                extents_bytes: extents.len,
                record_bytes_max: welcome.item_bytes_max,
            },
            tables,
            extents,
            hasher: HashSeed::new(welcome.hash_k0, welcome.hash_k1).hasher(),
            id: welcome.session,
            message_bytes,
            slot_bytes,
            large_bytes,
            free_large: (0..LARGE_COUNT as u8).collect(),
            pieces: Pieces::new(large_bytes, PIECES_MAX),
            list: SendList::with_capacity(2 * slots + READS_MAX, 0),
            recvs: RecvList::with_capacity(slots),
            reads: 0,
            reads_max: ctx.caps().reads_outstanding_max.clamp(1, READS_MAX),
            held: VecDeque::with_capacity(slots + OTHERS),
            is_curious: false,
            table_count: 0,
            clock: (welcome.now_s, now),
            broken: false,
            ctx: ctx.clone(),
        };
        session.qp.connect(&welcome.qp)?;
        (0..slots).for_each(|slot| session.expect(slot));
        session.qp.post_recv(ctx.cpu(), &session.recvs)?;
        session.recvs.clear();
        Ok(session)
    }

    /// Seconds of the server's clock, a second early or late at most.
    pub(super) fn now_s(&self, now: Ns) -> u32 {
        self.clock.0 + now.since(self.clock.1).as_s() as u32
    }

    fn at(&self, slot: usize) -> usize {
        slot * self.slot_bytes
    }

    fn entry_at(&self, slot: usize) -> usize {
        self.at(slot) + round_up(2 * self.message_bytes, 64)
    }

    /// A RECV into slot `slot`'s buffer; whose reply it gets is another matter.
    pub(super) fn expect(&mut self, slot: usize) {
        let sge = self
            .buffers
            .sge(self.at(slot) + self.message_bytes, self.message_bytes);
        let wr_id = WrId(RECV | slot as u64);
        self.recvs.push(RecvWr { wr_id, sge });
    }

    /// The reply in the buffer of RECV `slot`.
    pub(super) fn reply(&self, slot: usize, len: usize, out: &mut Vec<u8>) {
        out.resize(len, 0);
        self.buffers
            .region()
            .copy_out(self.at(slot) + self.message_bytes, out);
    }

    /// Whether a value of `bytes` fits a request beside a key.
    pub(super) fn fits_message(&self, key_bytes: usize, bytes: usize) -> bool {
        MESSAGE_HEADER_BYTES + key_bytes + bytes <= self.message_bytes
    }

    /// Stages a request.
    pub(super) fn send(&mut self, slot: usize, request: &Request, key: &[u8], value: &[u8]) {
        let at = self.at(slot);
        let region = self.buffers.region();
        region.copy_in(at, &request.encode());
        region.copy_in(at + MESSAGE_HEADER_BYTES, key);
        region.copy_in(at + MESSAGE_HEADER_BYTES + key.len(), value);
        let len = MESSAGE_HEADER_BYTES + key.len() + value.len();
        let op = SendOp::Send {
            dest: None,
            imm: None,
        };
        self.push(SENT, slot, op, self.buffers.sge(at, len));
    }

    /// Stages the READ of an entry.
    pub(super) fn read_entry(&mut self, slot: usize, index: u64) {
        let remote = self.tables.begin_read(index);
        let sge = self.buffers.sge(self.entry_at(slot), ENTRY_BYTES);
        self.push(ENTRY, slot, SendOp::Read { remote }, sge);
    }

    /// A READ has completed: another one may be posted.
    pub(super) fn read_came(&mut self, is_entry: bool) {
        if is_entry {
            self.tables.end_read();
        }
        match self.held.pop_front() {
            Some(read) => self.list.push(read),
            None => self.reads -= 1,
        }
    }

    /// The entry that was read.
    pub(super) fn entry(&self, slot: usize) -> [u8; ENTRY_BYTES] {
        let mut entry = [0; ENTRY_BYTES];
        self.buffers.region().copy_out(self.entry_at(slot), &mut entry);
        entry
    }

    /// Stages the READ of a record.
    pub(super) fn read_record(&mut self, slot: usize, record: &RecordRef, large: Option<u8>) {
        let remote = self.extents.at(record.offset as usize);
        let sge = match large {
            Some(large) => self.values.sge(self.large_offset(large), record.len as usize),
            None => self.buffers.sge(self.entry_at(slot) + 64, record.len as usize),
        };
        self.push(RECORD, slot, SendOp::Read { remote }, sge);
    }

    /// The record that was read.
    pub(super) fn record(&self, slot: usize, len: usize, large: Option<u8>, out: &mut Vec<u8>) {
        out.resize(len, 0);
        match large {
            Some(large) => self.values.region().copy_out(self.large_offset(large), out),
            None => self.buffers.region().copy_out(self.entry_at(slot) + 64, out),
        }
    }

    /// Where large buffer `large` is in the memory of values.
    pub(super) fn large_offset(&self, large: u8) -> usize {
        usize::from(large) * self.large_bytes
    }

    fn push(&mut self, what: u64, slot: usize, op: SendOp, sge: Sge) {
        let whole = SendWr {
            wr_id: WrId(what | slot as u64),
            op,
            payload: Payload::Region(sge),
            signaled: true,
            fence: false,
        };
        match op {
            SendOp::Read { .. } => self.pieces.of(whole).for_each(|wr| self.push_read(wr)),
            _ => self.list.push(whole),
        }
    }

    /// Every READ asks for a completion, pieces too: so it is known how many are under way.
    fn push_read(&mut self, mut read: SendWr) {
        if !read.signaled {
            (read.signaled, read.wr_id) = (true, WrId(PIECE));
        }
        if self.reads == self.reads_max {
            return self.held.push_back(read);
        }
        self.reads += 1;
        self.list.push(read);
    }

    /// What came over the control channel.
    pub(super) fn hear(&mut self, frame: &Frame) -> Result<(), SetupError> {
        match frame.kind {
            Grown::KIND => {
                self.tables.hear(frame.decode::<Grown>()?.table);
                Ok(())
            }
            _ => Err(SetupError::Unusable { what: "message" }),
        }
    }

    /// Goes over to a table that was heard of. GETs under way find out by the table's epoch.
    pub(super) fn adopt(&mut self) -> Result<(), SetupError> {
        if self.tables.adopt()? {
            (self.shape.epoch, self.shape.entry_count) = (self.tables.epoch(), self.tables.entry_count());
            self.table_count += 1;
        }
        Ok(())
    }

    /// What the server is to be told, if there is something.
    pub(super) fn take_adopted(&mut self) -> Option<Adopted> {
        self.tables.take_adopted().map(|epoch| Adopted { epoch })
    }

    /// Posts what is staged, RECVs first.
    pub(super) fn post(&mut self, cpu: &P::Cpu) {
        if let Err(error) = self.try_post(cpu) {
            tracing::debug!(%error, "a request was not taken");
            self.broken = true;
        }
    }

    fn try_post(&mut self, cpu: &P::Cpu) -> Result<(), PostError> {
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

impl<P: Provider> Drop for Session<P> {
    fn drop(&mut self) {
        self.qp.to_error();
        self.ctx.forget_region(&self.extents);
    }
}
