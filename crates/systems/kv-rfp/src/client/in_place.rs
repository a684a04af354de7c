//! Long values that the client READs where they are in the server's memory, if the server says so.
//!
//! The server keeps the item until the client acknowledges, or sends another request from the same place, or is taken for
//! dead and has been fenced. So a READ that succeeds has the value, however long it took.

use super::{Operations, Reader};
use crate::control::InPlaceExports;
use crate::layout::ACK_BYTES;
use drover_kv::{ItemInfo, SetupError};
use drover_mem::PageWish;
use drover_one_sided::Sink;
use drover_rpc::CallError;
use drover_rpc::fetch::{Guards, KIND_COUNT};
use drover_rt::WHICH;
use drover_verbs::{Access, Context, MemoryRegion, Provider, RemoteRegion, SendOp};
use std::rc::Rc;

/// Kinds of work requests besides those of the calls; the lower half of the id is the operation.
const READ: u64 = (KIND_COUNT as u64) << 32;
const ACK: u64 = (KIND_COUNT as u64 + 1) << 32;

/// Where a value is.
#[derive(Clone, Copy, Default, Debug)]
pub struct InPlaceValue {
    offset: u64,
    bytes: usize,
    /// Version and flags of the item, if the client asked for them.
    info: ItemInfo,
}

/// How a session READs long values.
pub(super) struct InPlace<P: Provider> {
    items: RemoteRegion,
    acks: RemoteRegion,
    /// What an acknowledgement is WRITTEN from.
    one: P::Mr,
    ctx: Rc<P::Context>,
}

impl<P: Provider> InPlace<P> {
    /// For a client with `places` operations.
    pub(super) fn new(
        ctx: &Rc<P::Context>,
        exports: &InPlaceExports,
        places: usize,
    ) -> Result<InPlace<P>, SetupError> {
        let region = ctx.alloc(ACK_BYTES, PageWish::Small)?;
        region.copy_in(0, &[1; ACK_BYTES]);
        let in_place = InPlace {
            one: ctx.register(&region, Access::LOCAL_READ)?,
            items: ctx.import_region(&exports.items)?,
            acks: ctx.import_region(&exports.acks)?,
            ctx: ctx.clone(),
        };
        let is_there = in_place.acks.len >= (places * ACK_BYTES) as u64
            && in_place.acks.access.remote_write
            && in_place.items.access.remote_read;
        match is_there {
            true => Ok(in_place),
            false => Err(SetupError::Unusable { what: "regions" }),
        }
    }
}

impl<P: Provider> Drop for InPlace<P> {
    fn drop(&mut self) {
        self.ctx.forget_region(&self.items);
        self.ctx.forget_region(&self.acks);
    }
}

/// Whether the completion with id `wr_id` is that of such a READ.
#[inline]
pub(super) fn is_read(wr_id: u64) -> bool {
    wr_id & !WHICH == READ
}

impl<G: Guards> Reader<G> {
    /// The server says where the value of GET number `at` is.
    #[cold]
    pub(super) fn take_in_place<P: Provider>(
        &mut self,
        ops: &mut Operations<P, G>,
        at: usize,
        bytes: usize,
        offset: &[u8],
    ) {
        let (offset, info) = offset.split_first_chunk().unwrap_or((&[0xff; 8], &[]));
        let offset = u64::from_le_bytes(*offset);
        let info = ItemInfo::split(info).map(|(info, _)| info);
        // A correct server says it to clients that ask, and to no others.
        let is_complete = info.is_some() == ops.is_detailed(at);
        ops.release_large(at);
        let Some(get) = ops.view(at) else { return };
        let is_there = get.session.in_place.as_ref().is_some_and(|in_place| {
            let end = offset.checked_add(bytes as u64);
            end.is_some_and(|end| end <= in_place.items.len)
        });
        if bytes == 0 || !is_complete || !is_there || bytes > get.session.resources.values.bytes() {
            return super::malformed(ops, at, &Err(CallError::Corrupt));
        }
        *get.own = InPlaceValue {
            offset,
            bytes,
            info: info.unwrap_or_default(),
        };
        self.read_in_place(ops, at);
    }

    /// READs the value of GET number `at`, as soon as there is a buffer for it.
    pub(super) fn read_in_place<P: Provider>(&mut self, ops: &mut Operations<P, G>, at: usize) {
        if ops.session(at).is_none() {
            return;
        }
        let Some(large) = ops.lend_for(at, ()) else {
            return;
        };
        let Some(get) = ops.view(at) else { return };
        let InPlaceValue { offset, bytes, .. } = *get.own;
        let session = &mut *get.session;
        let Some(in_place) = &session.in_place else { return };
        let op = SendOp::Read {
            remote: in_place.items.at(offset as usize),
        };
        let resources = &mut session.resources;
        let sge = resources.values.sge(large, bytes);
        resources.queues.stage(READ | at as u64, op, sge, true);
        get.reading((), Some(large));
    }

    /// The READ of GET number `at` has completed.
    #[cold]
    pub(super) fn completed_in_place<P: Provider>(
        &mut self,
        ops: &mut Operations<P, G>,
        at: usize,
        sink: Sink<'_>,
    ) {
        let Some(get) = ops.view(at) else { return };
        get.read_ended();
        let InPlaceValue { bytes, info, .. } = *get.own;
        let large = get.large();
        let session = &mut *get.session;
        let (Some(large), Some(in_place)) = (large, &session.in_place) else {
            return;
        };
        let op = SendOp::Write {
            remote: in_place.acks.at(at * ACK_BYTES),
            imm: None,
        };
        let sge = in_place.one.sge(0, ACK_BYTES);
        let resources = &mut session.resources;
        // Unsignaled: the next request of the place, which is signaled, completes after it.
        resources.queues.stage_to_port(ACK | at as u64, op, sge, false);
        let mut value = std::mem::take(&mut self.value);
        value.resize(bytes, 0);
        resources.values.copy_out(large, &mut value);
        self.stats.hits += 1;
        ops.finish_found(at, &value, info, sink);
        self.value = value;
    }
}
