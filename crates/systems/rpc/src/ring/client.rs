//! [`RingClient`]: the verbs of a client's end.

use super::{
    BadHead, BadReply, KIND_FREE, Mailbox, NOTICE_BYTES, Reply, RingParams, SENT, Sender, ValuePlace,
    encode_record, filler_word, record_bytes,
};
use crate::watched_export;
use drover_mem::{PageWish, Region};
use drover_rt::{Queues, ResourceError};
use drover_verbs::{Access, Context, Export, MemoryRegion, Provider, RemoteRegion, SendOp};
use std::rc::Rc;

/// A client's ring at one server, and its mailbox. Requests are staged in the [`Queues`] of the connection, whose send
/// queue has space for one per slot and [`FILLERS_MAX`] more.
pub struct RingClient<P: Provider> {
    /// A copy of the ring, from which it is WRITTEN.
    copy: P::Mr,
    ring: RemoteRegion,
    mailbox: P::Mr,
    replies: Mailbox,
    sender: Sender,
    sums: bool,
    record: Vec<u8>,
    ctx: Rc<P::Context>,
}

/// Most fillers in flight, besides requests.
pub const FILLERS_MAX: usize = 4;

const _: () = assert!(SENT < KIND_FREE);

impl<P: Provider> RingClient<P> {
    /// Creates the client's end for the ring that the server exported.
    ///
    /// # Errors
    /// [`ResourceError`] if memory cannot be allocated, registered or imported, or the parameters are unusable.
    pub fn new(
        ctx: &Rc<P::Context>,
        params: &RingParams,
        ring: &Export,
    ) -> Result<RingClient<P>, ResourceError> {
        params.check()?;
        let memory = |bytes, access| -> Result<P::Mr, ResourceError> {
            Ok(ctx.register(&ctx.alloc(bytes, PageWish::Small)?, access)?)
        };
        let copy = memory(params.ring_bytes, Access::LOCAL_READ)?;
        let mailbox = memory(params.mailbox_bytes(), Access::REMOTE_WRITE)?;
        let ring = ctx.import_region(ring)?;
        if ring.len < params.ring_bytes as u64 {
            return Err(ResourceError::Unusable { what: "regions" });
        }
        Ok(RingClient {
            copy,
            ring,
            replies: Mailbox::new(mailbox.region().clone(), params.reply_bytes, params.sums),
            mailbox,
            sender: Sender::new(params.ring_bytes),
            sums: params.sums,
            record: Vec::with_capacity(record_bytes(params.request_bytes)),
            ctx: ctx.clone(),
        })
    }

    /// The mailbox, which the server WRITEs. A WRITE there wakes this core, where the fabric supports it.
    ///
    /// # Errors
    /// [`ResourceError`] if it cannot be exported.
    pub fn export(&self) -> Result<Export, ResourceError> {
        watched_export::<P>(&self.ctx, &self.mailbox)
    }

    /// Stages the request of `slot`, the concatenation of `pieces`, as a record. Returns its end in the ring, for
    /// [`sent`](RingClient::sent); `None` if there is no space now.
    #[inline]
    pub fn send(&mut self, queues: &mut Queues<P>, slot: usize, pieces: &[&[u8]]) -> Option<u64> {
        let payload = pieces.iter().map(|piece| piece.len()).sum();
        let placed = self.sender.place(payload)?;
        if let Some((offset, sequence)) = placed.filler {
            let word = filler_word(sequence).to_le_bytes();
            self.write(queues, offset, &word, SENT, false);
        }
        let mut record = std::mem::take(&mut self.record);
        encode_record(&mut record, placed.sequence, pieces, self.sums);
        self.write(queues, placed.offset, &record, SENT | slot as u64, true);
        self.record = record;
        Some(placed.tail)
    }

    #[inline]
    fn write(&self, queues: &mut Queues<P>, offset: usize, bytes: &[u8], wr_id: u64, signaled: bool) {
        self.copy.region().copy_in(offset, bytes);
        let op = SendOp::Write {
            remote: self.ring.at(offset),
            imm: None,
        };
        let sge = self.copy.sge(offset, bytes.len());
        queues.stage_to_port(wr_id, op, sge, signaled);
    }

    /// The WRITE of the record that ends at `tail` has completed.
    #[inline]
    pub fn sent(&mut self, tail: u64) {
        self.sender.landed(tail);
    }

    /// Reads how far the server has consumed the ring; returns whether that has changed, so that there may be space.
    ///
    /// # Errors
    /// [`BadHead`]: no correct server wrote this; the session must end.
    pub fn read_notice(&mut self) -> Result<bool, BadHead> {
        self.sender.acknowledge(self.replies.notice())
    }

    /// As [`Mailbox::reply`].
    ///
    /// # Errors
    /// As [`Mailbox::reply`].
    #[inline]
    pub fn reply(
        &self,
        (slot, sequence): (usize, u64),
        space: Option<(&Region, usize, usize)>,
        out: &mut Vec<u8>,
        value_place: impl Fn(u8) -> Option<ValuePlace>,
    ) -> Result<Option<Reply>, BadReply> {
        self.replies.reply(slot, sequence, space, out, value_place)
    }
}

impl<P: Provider> Drop for RingClient<P> {
    fn drop(&mut self) {
        self.ctx.forget_region(&self.ring);
    }
}

impl RingParams {
    /// Bytes of a mailbox.
    pub(super) fn mailbox_bytes(&self) -> usize {
        NOTICE_BYTES + self.slot_count * self.reply_bytes
    }
}
