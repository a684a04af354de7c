//! [`Session`]: a client's queues and buffers at one shard.
//!
//! ```text
//! buffers:  | slots, count of moves, short object | of place 0 | ... of place 1 | ...
//! ring and mailbox: see their module; values: see the layout
//! ```

use crate::control::{Attach, FarmParams, PROTOCOL_VERSION, Welcome};
use crate::layout::{REQUEST_HEADER_BYTES, Request, value_place};
use crate::logic::{Slots, TableShape};
use drover_base::Ns;
use drover_index::hopscotch::{BLOCK_SLOTS, MOVES_OFFSET, ObjectRef, TableOptions, item_bytes, object_bytes};
use drover_kv::{ResultTransfer, SetupError};
use drover_mem::{PageWish, Region, round_up};
use drover_one_sided::{Agreed, ConnResources, VALUES_MAX};
use drover_rpc::ring::{FILLERS_MAX, KIND_FREE, Reply, RingClient, RingParams};
use drover_verbs::{Access, Context, MemoryRegion, PIECES_MAX, Provider, QueuePair, RemoteRegion, SendOp};
use std::rc::Rc;

/// Longest object that is READ into a place's own buffer, bytes. *(our choice)*
pub(super) const SHORT_OBJECT_BYTES: usize = 2048;

/// Kinds of work requests, besides those of the ring: the upper half of the id; the lower half is the place.
pub(super) const SLOTS: u64 = KIND_FREE;
pub(super) const MOVES: u64 = KIND_FREE + (1 << 32);
pub(super) const OBJECT: u64 = KIND_FREE + (2 << 32);

/// Bytes for the count of moves, which has its own line.
const MOVES_BYTES: usize = 64;

/// Number of operations that a send queue of `depth` requests suffices for: each has at most a record and a READ in
/// flight, besides fillers and the further pieces of long objects.
pub(super) fn operations_for(depth: usize) -> usize {
    (depth.saturating_sub(FILLERS_MAX + VALUES_MAX * PIECES_MAX) / 2).max(1)
}

/// A client's queues and buffers for one shard, and the addresses of the shard's memory.
pub struct Session<P: Provider> {
    pub(super) resources: ConnResources<P>,
    buffers: P::Mr,
    table: RemoteRegion,
    objects: RemoteRegion,
    pub(super) ring: RingClient<P>,
    pub(super) shape: TableShape,
    slots_bytes: usize,
    /// Whether an operation waits for space in the ring.
    pub(super) is_blocked: bool,
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
    let is_message = welcome.terms.message_bytes as usize > REQUEST_HEADER_BYTES;
    let is_item = (65..=1 << 23).contains(&welcome.terms.item_bytes_max);
    let checks = [(is_table, "table"), (is_message, "ring"), (is_item, "items")];
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

    fn client_params(ctx: &P::Context, _: ResultTransfer) -> FarmParams {
        let sums = !ctx.caps().writes.ordered;
        FarmParams { sums }
    }

    fn new(ctx: &Rc<P::Context>, slots: usize, welcome: &Welcome, now: Ns) -> Result<Session<P>, SetupError> {
        check(&welcome.table, welcome)?;
        let agreed = Agreed::new(&welcome.terms, now)?;
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
        let params = RingParams {
            ring_bytes: welcome.ring_bytes as usize,
            request_bytes: agreed.message_bytes,
            reply_bytes: welcome.reply_bytes as usize,
            slot_count: slots,
            sums: welcome.sums,
        };
        let ring = RingClient::<P>::new(ctx, &params, &welcome.ring)?;
        let buffers = memory(slots * buffer_bytes, Access::LOCAL)?;
        let depths = (2 * slots + FILLERS_MAX, 0);
        let resources = ConnResources::<P>::new(ctx, agreed, depths, (object_bytes_max, both_ways))?;
        let table = ctx.import_region(&welcome.slots)?;
        let objects = ctx.import_region(&welcome.objects)?;
        let mut session: Session<P> = Session {
            buffers,
            table,
            objects,
            ring,
            shape: TableShape {
                table: welcome.table,
                objects_bytes: objects.len,
                object_bytes_max: object_bytes_max as u32,
            },
            slots_bytes: round_up(slots_bytes, 64),
            is_blocked: false,
            resources,
            ctx: ctx.clone(),
        };
        if table.len < welcome.table.bytes() as u64 {
            return Err(SetupError::Unusable { what: "regions" });
        }
        session.resources.connect(ctx, &welcome.qps)?;
        Ok(session)
    }

    fn attach(&self) -> Result<Attach, SetupError> {
        Ok(Attach {
            qps: self.resources.exports()?,
            mailbox: self.ring.export()?,
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
        match request.extension {
            None => self.send_pieces(place, &[&request.encode(), key, value]),
            Some(extension) => {
                self.send_extended(place, &[&request.encode(), &extension.encode(), key, value])
            }
        }
    }
}

impl<P: Provider> Session<P> {
    /// As `send_pieces`: apart, so that ordinary requests are built in line.
    #[cold]
    #[inline(never)]
    fn send_extended(&mut self, place: usize, pieces: &[&[u8]]) -> Option<u64> {
        self.send_pieces(place, pieces)
    }

    #[inline(always)]
    fn send_pieces(&mut self, place: usize, pieces: &[&[u8]]) -> Option<u64> {
        let queues = &mut self.resources.queues;
        if let Some(tail) = self.ring.send(queues, place, pieces) {
            return Some(tail);
        }
        self.read_notice();
        let tail = self.ring.send(&mut self.resources.queues, place, pieces);
        self.is_blocked |= tail.is_none();
        tail
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
        place * (self.slots_bytes + MOVES_BYTES + SHORT_OBJECT_BYTES)
    }

    fn moves_at(&self, place: usize) -> usize {
        self.slots_at(place) + self.slots_bytes
    }

    fn object_at(&self, place: usize) -> usize {
        self.moves_at(place) + MOVES_BYTES
    }

    /// Reads how far the server has consumed the ring; returns whether that has changed.
    pub(super) fn read_notice(&mut self) -> bool {
        self.ring.read_notice().unwrap_or_else(|error| {
            let session = self.resources.agreed.id;
            tracing::debug!(%error, session, "the server acknowledged an impossible position in the ring");
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
        match self.ring.reply((place, sequence), space, out, value_place) {
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
        for region in [&self.table, &self.objects] {
            self.ctx.forget_region(region);
        }
    }
}
