//! [`Session`]: a client's queues and buffers at one shard.
//!
//! ```text
//! buffers:  | copy of the ring | slots, count of moves, short object | of place 0 | ... of place 1 | ...
//! mailbox and values: see the layout
//! ```

use crate::control::{Attach, FarmParams, PROTOCOL_VERSION, Welcome};
use crate::layout::{REQUEST_HEADER_BYTES, Request, value_place};
use crate::logic::{Slots, TableShape};
use drover_base::Ns;
use drover_index::hopscotch::{BLOCK_SLOTS, MOVES_OFFSET, ObjectRef, TableOptions, item_bytes, object_bytes};
use drover_kv::SetupError;
use drover_mem::{PageWish, Region, round_up};
use drover_one_sided::{Agreed, ConnResources, VALUES_MAX};
use drover_rpc::ring::{
    Mailbox, NOTICE_BYTES, REPLY_TRAILER_BYTES, Reply, Sender, encode_record, filler_word, record_bytes,
};
use drover_verbs::{
    Access, Context, MemoryRegion, PIECES_MAX, Provider, QueuePair, RemoteRegion, SendOp, Watch,
};
use std::rc::Rc;

/// Longest object that is READ into a place's own buffer, bytes. *(our choice)*
pub(super) const SHORT_OBJECT_BYTES: usize = 2048;

/// Upper half of a work request's id: what the request was for.
pub(super) const SENT: u64 = 0;
pub(super) const SLOTS: u64 = 1 << 32;
pub(super) const MOVES: u64 = 2 << 32;
pub(super) const OBJECT: u64 = 3 << 32;

/// Bytes for the count of moves, which has its own line.
const MOVES_BYTES: usize = 64;

/// Maximum number of fillers in flight, in addition to requests.
const FILLERS_MAX: usize = 4;

/// Number of operations that a send queue of `depth` requests suffices for: each has at most a record and a READ in
/// flight, besides fillers and the further pieces of long objects.
pub(super) fn operations_for(depth: usize) -> usize {
    (depth.saturating_sub(FILLERS_MAX + VALUES_MAX * PIECES_MAX) / 2).max(1)
}

/// A client's queues and buffers for one shard, and the addresses of the shard's memory.
pub struct Session<P: Provider> {
    pub(super) resources: ConnResources<P>,
    buffers: P::Mr,
    mailbox: P::Mr,
    table: RemoteRegion,
    objects: RemoteRegion,
    ring: RemoteRegion,
    pub(super) shape: TableShape,
    replies: Mailbox,
    sums: bool,
    slots_bytes: usize,
    pub(super) sender: Sender,
    /// Whether an operation waits for space in the ring.
    pub(super) is_blocked: bool,
    record: Vec<u8>,
    ctx: Rc<P::Context>,
}

fn check(table: &TableOptions, welcome: &Welcome) -> Result<(), SetupError> {
    let geometry = table.geometry;
    let is_table = table.home_count.is_power_of_two()
        && table.home_count <= 1 << 32
        && table.block_count < 1 << 24
        && geometry.stride > 0
        && geometry.span > geometry.stride
        && geometry.span <= 64;
    let (message, ring) = (welcome.terms.message_bytes as usize, welcome.ring_bytes as usize);
    let is_ring =
        ring.is_multiple_of(64) && ring <= 1 << 24 && message <= ring && record_bytes(message) <= ring / 4;
    let is_mailbox = welcome.reply_bytes.is_multiple_of(64)
        && welcome.reply_bytes <= 1 << 20
        && welcome.reply_bytes as usize > REPLY_TRAILER_BYTES;
    let is_message = message > REQUEST_HEADER_BYTES;
    let is_item = (65..=1 << 23).contains(&welcome.terms.item_bytes_max);
    let checks = [
        (is_table, "table"),
        (is_ring && is_message, "ring"),
        (is_mailbox, "mailbox"),
        (is_item, "items"),
    ];
    match checks.into_iter().find(|(is_sound, _)| !is_sound) {
        Some((_, what)) => Err(SetupError::Unusable { what }),
        None => Ok(()),
    }
}

impl<P: Provider> drover_one_sided::Session<P> for Session<P> {
    type ClientParams = FarmParams;
    type Welcome = Welcome;
    type Attach = Attach;

    const VERSION: u16 = PROTOCOL_VERSION;

    fn client_params(ctx: &P::Context) -> FarmParams {
        let sums = !ctx.caps().writes.ordered;
        FarmParams { sums }
    }

    fn new(ctx: &Rc<P::Context>, slots: usize, welcome: &Welcome, now: Ns) -> Result<Session<P>, SetupError> {
        check(&welcome.table, welcome)?;
        let agreed = Agreed::new(&welcome.terms, now)?;
        let ring_bytes = welcome.ring_bytes as usize;
        let object_bytes_max = object_bytes(0, agreed.item_bytes_max - item_bytes(0, 0));
        let slots_bytes = welcome.table.geometry.span.max(BLOCK_SLOTS) * welcome.table.kind.bytes();
        let buffer_bytes = round_up(slots_bytes, 64) + MOVES_BYTES + SHORT_OBJECT_BYTES;
        let memory = |bytes, access| -> Result<P::Mr, SetupError> {
            Ok(ctx.register(&ctx.alloc(bytes, PageWish::Small)?, access)?)
        };
        let both_ways = Access {
            remote_read: true,
            ..Access::REMOTE_WRITE
        };
        let reply_bytes = welcome.reply_bytes as usize;
        let buffers = memory(ring_bytes + slots * buffer_bytes, Access::LOCAL)?;
        let mailbox = memory(NOTICE_BYTES + slots * reply_bytes, Access::REMOTE_WRITE)?;
        let depths = (2 * slots + FILLERS_MAX, 0);
        let resources = ConnResources::<P>::new(ctx, agreed, depths, (object_bytes_max, both_ways))?;
        let table = ctx.import_region(&welcome.slots)?;
        let objects = ctx.import_region(&welcome.objects)?;
        let ring = ctx.import_region(&welcome.ring)?;
        let mut session: Session<P> = Session {
            buffers,
            replies: Mailbox::new(mailbox.region().clone(), reply_bytes, welcome.sums),
            mailbox,
            table,
            objects,
            ring,
            shape: TableShape {
                table: welcome.table,
                objects_bytes: objects.len,
                object_bytes_max: object_bytes_max as u32,
            },
            sums: welcome.sums,
            slots_bytes: round_up(slots_bytes, 64),
            sender: Sender::new(ring_bytes),
            is_blocked: false,
            record: Vec::with_capacity(record_bytes(resources.agreed.message_bytes)),
            resources,
            ctx: ctx.clone(),
        };
        if table.len < welcome.table.bytes() as u64 || ring.len < ring_bytes as u64 {
            return Err(SetupError::Unusable { what: "regions" });
        }
        session.resources.queues.qp.connect(&welcome.qp)?;
        Ok(session)
    }

    /// Exports the client's resources. A WRITE to the mailbox wakes this core, where the fabric supports it.
    fn attach(&self) -> Result<Attach, SetupError> {
        let watch = Watch {
            range: 0..self.mailbox.region().len(),
            bell: self.ctx.bell(),
        };
        let watches = match self.ctx.caps().wakes.on_memory {
            true => vec![watch],
            false => Vec::new(),
        };
        Ok(Attach {
            qp: self.resources.queues.qp.export()?,
            mailbox: self.mailbox.export(&watches)?,
            values: self.resources.values.mr.export(&[])?,
        })
    }

    fn resources(&self) -> &ConnResources<P> {
        &self.resources
    }

    fn resources_mut(&mut self) -> &mut ConnResources<P> {
        &mut self.resources
    }

    /// Stages a record with the request; returns the ring's tail after it.
    fn send(&mut self, place: usize, request: &Request, key: &[u8], value: &[u8]) -> Option<u64> {
        let payload = REQUEST_HEADER_BYTES + key.len() + value.len();
        let placed = self.sender.place(payload).or_else(|| {
            self.hear_notice();
            self.sender.place(payload)
        });
        let Some(placed) = placed else {
            self.is_blocked = true;
            return None;
        };
        if let Some((offset, sequence)) = placed.filler {
            let word = filler_word(sequence).to_le_bytes();
            self.write(offset, &word, SENT, false);
        }
        let mut record = std::mem::take(&mut self.record);
        encode_record(
            &mut record,
            placed.sequence,
            &[&request.encode(), key, value],
            self.sums,
        );
        self.write(placed.offset, &record, SENT | place as u64, true);
        self.record = record;
        Some(placed.tail)
    }
}

/// The slots that were READ, still in the receive buffer.
pub(super) struct ReadSlots<'a> {
    region: &'a Region,
    offset: usize,
}

impl Slots for ReadSlots<'_> {
    #[inline]
    fn copy_out(&self, offset: usize, out: &mut [u8]) {
        // The card no longer writes the result of a completed READ, so words may be read in parts.
        self.region.copy_short_out(self.offset + offset, out);
    }
}

impl<P: Provider> Session<P> {
    fn slots_at(&self, place: usize) -> usize {
        let ring_bytes = self.sender.bytes();
        ring_bytes + place * (self.slots_bytes + MOVES_BYTES + SHORT_OBJECT_BYTES)
    }

    fn moves_at(&self, place: usize) -> usize {
        self.slots_at(place) + self.slots_bytes
    }

    fn object_at(&self, place: usize) -> usize {
        self.moves_at(place) + MOVES_BYTES
    }

    fn write(&mut self, offset: usize, bytes: &[u8], wr_id: u64, signaled: bool) {
        self.buffers.region().copy_in(offset, bytes);
        let op = SendOp::Write {
            remote: self.ring.at(offset),
            imm: None,
        };
        let sge = self.buffers.sge(offset, bytes.len());
        self.resources.queues.stage(wr_id, op, sge, signaled);
    }

    /// Reads how far the server has consumed the ring; returns whether that has changed.
    pub(super) fn hear_notice(&mut self) -> bool {
        let head = self.replies.notice();
        self.sender.acknowledge(head).unwrap_or_else(|error| {
            let session = self.resources.agreed.id;
            tracing::debug!(%error, session, head, "the server acknowledged an impossible position in the ring");
            self.resources.agreed.broken = true;
            false
        })
    }

    /// The reply to request `sequence` of `place`, if it is complete; its value goes to `out`.
    pub(super) fn reply(
        &mut self,
        place: usize,
        sequence: u64,
        large: Option<u8>,
        out: &mut Vec<u8>,
    ) -> Option<Reply> {
        let values = &self.resources.values;
        let space = large.map(|large| (values.mr.region(), values.offset(large), values.bytes()));
        match self.replies.reply(place, sequence, space, out, value_place) {
            Ok(reply) => reply,
            Err(error) => {
                let (session, is_long) = (self.resources.agreed.id, large.is_some());
                tracing::debug!(%error, session, place, sequence, is_long, "the server sent a malformed reply");
                self.resources.agreed.broken = true;
                None
            }
        }
    }

    /// Stages the READ of `count` slots.
    #[inline]
    pub(super) fn read_slots(&mut self, place: usize, first: usize, count: usize) {
        let remote = self.table.at(self.shape.table.slot_offset(first));
        let sge = self
            .buffers
            .sge(self.slots_at(place), count * self.shape.table.kind.bytes());
        self.resources
            .queues
            .stage(SLOTS | place as u64, SendOp::Read { remote }, sge, true);
    }

    /// The slots that were READ.
    #[inline]
    pub(super) fn slots(&self, place: usize) -> ReadSlots<'_> {
        let (region, offset) = (self.buffers.region(), self.slots_at(place));
        ReadSlots { region, offset }
    }

    /// Stages the READ of the count of moves.
    pub(super) fn read_moves(&mut self, place: usize) {
        let remote = self.table.at(MOVES_OFFSET);
        let sge = self.buffers.sge(self.moves_at(place), 8);
        self.resources
            .queues
            .stage(MOVES | place as u64, SendOp::Read { remote }, sge, true);
    }

    /// The count of moves that was READ.
    pub(super) fn moves(&self, place: usize) -> u64 {
        let mut word = [0; 8];
        self.buffers.region().copy_out(self.moves_at(place), &mut word);
        u64::from_le_bytes(word)
    }

    /// Stages the READ of an object.
    pub(super) fn read_object(&mut self, place: usize, object: &ObjectRef, large: Option<u8>) {
        let remote = self.objects.at(object.offset as usize);
        let sge = match large {
            Some(large) => self.resources.values.sge(large, object.len as usize),
            None => self.buffers.sge(self.object_at(place), object.len as usize),
        };
        self.resources
            .queues
            .stage(OBJECT | place as u64, SendOp::Read { remote }, sge, true);
    }

    /// Copies the object that was READ to `out`.
    pub(super) fn object(&self, place: usize, len: usize, large: Option<u8>, out: &mut Vec<u8>) {
        out.resize(len, 0);
        match large {
            Some(large) => self.resources.values.copy_out(large, out),
            None => self.buffers.region().copy_out(self.object_at(place), out),
        }
    }
}

impl<P: Provider> Drop for Session<P> {
    fn drop(&mut self) {
        self.resources.queues.qp.to_error();
        for region in [&self.table, &self.objects, &self.ring] {
            self.ctx.forget_region(region);
        }
    }
}
