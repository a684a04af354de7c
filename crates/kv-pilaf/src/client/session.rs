//! [`Session`]: queues and buffers of a client at one shard.
//!
//! ```text
//! buffers, registered once:
//!   | request, reply, entry, short record | of slot 0 |  ... of slot 1 | ...
//! values, which the server may READ:
//!   | large buffer 0 | large buffer 1 |
//! ```

use super::SetupError;
use crate::control::Welcome;
use crate::layout::{MESSAGE_HEADER_BYTES, Request};
use crate::logic::TableShape;
use drover_base::{HashSeed, KeyHasher, Ns};
use drover_index::cuckoo::{CuckooTable, ENTRY_BYTES, RecordRef, entry_offset};
use drover_mem::{PageWish, Region, round_up};
use drover_verbs::{
    Access, Context, MemoryRegion, Payload, PostError, Provider, QpKind, QpOptions, QueuePair, RecvList,
    RecvWr, RemoteRegion, SendList, SendOp, SendWr, Sge, WrId,
};
use std::rc::Rc;

/// Records up to this many bytes are read into a slot's own buffer. *(our choice)*
pub(super) const SHORT_RECORD_BYTES: usize = 2048;

/// Buffers for longer records and values.
pub(super) const LARGE_COUNT: usize = 2;

/// What a work request was for, in its upper half.
pub(super) const RECV: u64 = 0;
pub(super) const SENT: u64 = 1 << 32;
pub(super) const ENTRY: u64 = 2 << 32;
pub(super) const RECORD: u64 = 3 << 32;
/// The slot, or the RECV, in its lower.
pub(super) const WHICH: u64 = (1 << 32) - 1;

/// One client at one shard.
pub(super) struct Session<P: Provider> {
    pub(super) qp: P::Qp,
    pub(super) cq: P::Cq,
    buffers: P::Mr,
    pub(super) values: P::Mr,
    table: RemoteRegion,
    extents: RemoteRegion,
    pub(super) shape: TableShape,
    pub(super) hasher: KeyHasher,
    pub(super) id: u64,
    pub(super) message_bytes: usize,
    slot_bytes: usize,
    large_bytes: usize,
    pub(super) free_large: Vec<u8>,
    pub(super) list: SendList,
    pub(super) recvs: RecvList,
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
        let entry_count = welcome.entry_count;
        if !entry_count.is_power_of_two() || entry_count > 1 << 32 || message_bytes <= MESSAGE_HEADER_BYTES {
            return Err(SetupError::Unusable { what: "geometry" });
        }
        let cq = ctx.create_cq(4 * slots)?;
        let qp = ctx.create_qp(&QpOptions {
            send_depth: 2 * slots,
            recv_depth: slots,
            ..QpOptions::new(QpKind::Rc, &cq, ctx.caps())
        })?;
        let slot_bytes = round_up(2 * message_bytes, 64) + 64 + SHORT_RECORD_BYTES;
        let large_bytes = round_up(welcome.item_bytes_max as usize, 4096);
        let buffers = ctx.register(&ctx.alloc(slots * slot_bytes, PageWish::Small)?, Access::LOCAL)?;
        let values = ctx.alloc(LARGE_COUNT * large_bytes, PageWish::Small)?;
        let values = ctx.register(&values, Access::REMOTE_READ)?;
        let table = ctx.import_region(&welcome.table)?;
        let extents = ctx.import_region(&welcome.extents)?;
        let mut session: Session<P> = Session {
            qp,
            cq,
            buffers,
            values,
            table,
            extents,
            shape: TableShape {
                epoch: welcome.epoch,
                entry_count,
                extents_bytes: extents.len,
                record_bytes_max: welcome.item_bytes_max,
            },
            hasher: HashSeed::new(welcome.hash_k0, welcome.hash_k1).hasher(),
            id: welcome.session,
            message_bytes,
            slot_bytes,
            large_bytes,
            free_large: (0..LARGE_COUNT as u8).collect(),
            list: SendList::with_capacity(2 * slots, 0),
            recvs: RecvList::with_capacity(slots),
            clock: (welcome.now_s, now),
            broken: false,
            ctx: ctx.clone(),
        };
        if table.len < CuckooTable::<Region>::bytes_for(entry_count as usize) as u64 {
            return Err(SetupError::Unusable { what: "table" });
        }
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
        let remote = self.table.at(entry_offset(index));
        let sge = self.buffers.sge(self.entry_at(slot), ENTRY_BYTES);
        self.push(ENTRY, slot, SendOp::Read { remote }, sge);
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
        self.list.push(SendWr {
            wr_id: WrId(what | slot as u64),
            op,
            payload: Payload::Region(sge),
            signaled: true,
            fence: false,
        });
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
        self.ctx.forget_region(&self.table);
        self.ctx.forget_region(&self.extents);
    }
}
