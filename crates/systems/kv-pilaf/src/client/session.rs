//! [`Session`]: a client's queues and buffers at one shard.
//!
//! ```text
//! buffers for READs, registered once:
//!   | entry, short record | of slot 0 |  ... of slot 1 | ...
//! messages: see their module
//! values, which the server READs:
//!   | large buffer 0 | large buffer 1 |
//! ```

use super::tables::Tables;
use crate::control::{Adopted, Attach, Grown, PROTOCOL_VERSION, Welcome};
use crate::layout::{MESSAGE_HEADER_BYTES, Request};
use crate::logic::TableShape;
use drover_base::Ns;
use drover_control::{ControlStream, Frame, Message};
use drover_index::cuckoo::{ENTRY_BYTES, RecordRef};
use drover_kv::{EXTENSION_BYTES, Extension, ResultTransfer, SetupError};
use drover_mem::{PageWish, Region};
use drover_one_sided::{Agreed, ConnResources, VALUES_MAX};
use drover_rpc::messages::{ClientMessages, KIND_FREE};
use drover_verbs::{
    Access, Context, MemoryRegion, PIECES_MAX, Provider, QueuePair, RemoteAddr, RemoteRegion, SendWr, Sge,
    WrId,
};
use std::collections::VecDeque;
use std::rc::Rc;

/// Longest record that is READ into a slot's own buffer, bytes. *(our choice)*
pub(super) const SHORT_RECORD_BYTES: usize = 2048;

/// Maximum number of READs in flight, if the fabric allows as many: the limit of cards of the paper's time. *(stated
/// in `[HERD §3.2]`)*
const READS_MAX: usize = 16;

/// Bytes before a slot's short record: its entry, which has a line of its own.
const SHORT_RECORD_OFFSET: usize = 64;

/// Kinds of work requests, besides those of messages: the upper half of the id; the lower half is the slot.
pub(super) const ENTRY: u64 = KIND_FREE;
pub(super) const RECORD: u64 = KIND_FREE + (1 << 32);
/// A piece of a record, except the last.
pub(super) const PIECE: u64 = KIND_FREE + (2 << 32);

/// Number of operations that a send queue of `depth` requests suffices for: each has at most a SEND and a READ in
/// flight, besides the further pieces of long records.
pub(super) fn operations_for(depth: usize) -> usize {
    (depth.saturating_sub(VALUES_MAX * PIECES_MAX) / 2).max(1)
}

/// A client's queues and buffers for one shard, and the addresses of the shard's memory.
pub struct Session<P: Provider> {
    pub(super) resources: ConnResources<P>,
    messages: ClientMessages<P>,
    buffers: P::Mr,
    tables: Tables<P>,
    extents: RemoteRegion,
    pub(super) shape: TableShape,
    /// READs posted or staged.
    reads: usize,
    reads_max: usize,
    /// READs that wait until earlier ones complete.
    held: VecDeque<SendWr>,
    /// Whether torn data was read, which may mean that the table has grown.
    pub(super) expects_frame: bool,
    /// Number of tables adopted and not yet counted.
    pub(super) table_count: u64,
    ctx: Rc<P::Context>,
}

/// Apart, because few requests have one.
#[cold]
fn copy_extension(region: &Region, at: usize, extension: Extension) {
    region.copy_in(at, &extension.encode());
}

impl<P: Provider> drover_one_sided::Session<P> for Session<P> {
    type ClientParams = ();
    type Welcome = Welcome;
    type Attach = Attach;

    const VERSION: u16 = PROTOCOL_VERSION;

    fn client_params(_: &P::Context, _: ResultTransfer) {}

    /// Posts RECVs for all replies.
    fn new(ctx: &Rc<P::Context>, slots: usize, welcome: &Welcome, now: Ns) -> Result<Session<P>, SetupError> {
        let agreed = Agreed::new(&welcome.terms, now)?;
        let values = (agreed.item_bytes_max, Access::REMOTE_READ);
        let resources = ConnResources::<P>::new(ctx, agreed, (2 * slots, slots), values)?;
        let messages = ClientMessages::<P>::new(ctx, slots, resources.agreed.message_bytes)?;
        let buffers = ctx.register(&ctx.alloc(slots * SLOT_BYTES, PageWish::Small)?, Access::LOCAL)?;
        let tables = Tables::new(ctx, &welcome.table)?;
        let extents = ctx.import_region(&welcome.extents)?;
        let mut session: Session<P> = Session {
            messages,
            buffers,
            shape: TableShape {
                epoch: tables.epoch(),
                entry_count: tables.entry_count(),
                extents_bytes: extents.len,
                record_bytes_max: welcome.terms.item_bytes_max,
            },
            tables,
            extents,
            resources,
            reads: 0,
            reads_max: ctx.caps().reads.outstanding_max.clamp(1, READS_MAX),
            held: VecDeque::with_capacity(slots + VALUES_MAX * PIECES_MAX),
            expects_frame: false,
            table_count: 0,
            ctx: ctx.clone(),
        };
        session.resources.queues.qp.connect(&welcome.qp)?;
        session.messages.expect_all(&mut session.resources.queues);
        session.resources.queues.post(ctx.cpu())?;
        Ok(session)
    }

    fn attach(&self) -> Result<Attach, SetupError> {
        Ok(Attach {
            qp: self.resources.queues.qp.export()?,
            values: self.resources.values.mr.export(&[])?,
        })
    }

    fn resources(&self) -> &ConnResources<P> {
        &self.resources
    }

    fn resources_mut(&mut self) -> &mut ConnResources<P> {
        &mut self.resources
    }

    /// Stages a message; there is always space.
    fn send(&mut self, slot: usize, request: &Request, key: &[u8], value: &[u8]) -> Option<u64> {
        let (region, start) = self.messages.request(slot);
        region.copy_in(start, &request.encode());
        let mut lead = MESSAGE_HEADER_BYTES;
        if let Some(extension) = request.extension {
            lead += EXTENSION_BYTES;
            copy_extension(region, start + MESSAGE_HEADER_BYTES, extension);
        }
        region.copy_in(start + lead, key);
        region.copy_in(start + lead + key.len(), value);
        let len = lead + key.len() + value.len();
        self.messages.send(&mut self.resources.queues, slot, len);
        Some(0)
    }

    fn expects_frame(&self) -> bool {
        self.expects_frame
    }

    fn receive(&mut self, frame: &Frame) -> Result<(), SetupError> {
        match frame.kind {
            Grown::KIND => {
                self.tables.receive(frame.decode::<Grown>()?.table);
                Ok(())
            }
            _ => Err(SetupError::Unusable { what: "message" }),
        }
    }

    /// Adopts a table that the server has announced, and reports it to the server once no READ of older tables is in
    /// flight. GETs in progress notice the change by the table's epoch.
    fn control_polled(&mut self, control: &mut ControlStream) -> Result<(), SetupError> {
        self.expects_frame = false;
        if self.tables.adopt()? {
            (self.shape.epoch, self.shape.entry_count) = (self.tables.epoch(), self.tables.entry_count());
            self.table_count += 1;
        }
        match self.tables.take_adopted() {
            Some(epoch) => Ok(control.send_message(&Adopted { epoch })?),
            None => Ok(()),
        }
    }
}

/// Bytes of a slot's buffers for READs.
const SLOT_BYTES: usize = SHORT_RECORD_OFFSET + SHORT_RECORD_BYTES;

fn entry_at(slot: usize) -> usize {
    slot * SLOT_BYTES
}

fn record_at(slot: usize) -> usize {
    entry_at(slot) + SHORT_RECORD_OFFSET
}

impl<P: Provider> Session<P> {
    /// Copies the reply in the buffer of RECV `slot` to `out`, and stages the RECV again.
    pub(super) fn take_reply(&mut self, slot: usize, len: usize, out: &mut Vec<u8>) {
        self.messages
            .take_reply(&mut self.resources.queues, slot, len, out);
    }

    /// Stages the READ of an entry.
    pub(super) fn read_entry(&mut self, slot: usize, index: u64) {
        let remote = self.tables.begin_read(index);
        let sge = self.buffers.sge(entry_at(slot), ENTRY_BYTES);
        self.read(ENTRY, slot, remote, sge);
    }

    /// A READ has completed: posts one that waits, if any.
    pub(super) fn read_came(&mut self, is_entry: bool) {
        if is_entry {
            self.tables.end_read();
        }
        match self.held.pop_front() {
            Some(read) => self.resources.queues.push(read),
            None => self.reads -= 1,
        }
    }

    /// The entry that was READ.
    pub(super) fn entry(&self, slot: usize) -> [u8; ENTRY_BYTES] {
        let mut entry = [0; ENTRY_BYTES];
        self.buffers.region().copy_out(entry_at(slot), &mut entry);
        entry
    }

    /// Stages the READ of a record.
    pub(super) fn read_record(&mut self, slot: usize, record: &RecordRef, large: Option<u8>) {
        let remote = self.extents.at(record.offset as usize);
        let sge = match large {
            Some(large) => self.resources.values.sge(large, record.len as usize),
            None => self.buffers.sge(record_at(slot), record.len as usize),
        };
        self.read(RECORD, slot, remote, sge);
    }

    /// Copies the record that was READ to `out`.
    pub(super) fn record(&self, slot: usize, len: usize, large: Option<u8>, out: &mut Vec<u8>) {
        out.resize(len, 0);
        match large {
            Some(large) => self.resources.values.copy_out(large, out),
            None => self.buffers.region().copy_out(record_at(slot), out),
        }
    }

    fn read(&mut self, what: u64, slot: usize, remote: RemoteAddr, sge: Sge) {
        let whole = SendWr::read(remote, sge).signaled(WrId(what | slot as u64));
        let pieces = self.resources.queues.pieces;
        pieces.of(whole).for_each(|wr| self.push(wr));
    }

    /// Stages a READ. All READs are signaled, including pieces, so that the number in flight is known.
    fn push(&mut self, mut read: SendWr) {
        if !read.signaled {
            (read.signaled, read.wr_id) = (true, WrId(PIECE));
        }
        if self.reads == self.reads_max {
            return self.held.push_back(read);
        }
        self.reads += 1;
        self.resources.queues.push(read);
    }
}

impl<P: Provider> Drop for Session<P> {
    fn drop(&mut self) {
        self.resources.queues.qp.to_error();
        self.ctx.forget_region(&self.extents);
    }
}
