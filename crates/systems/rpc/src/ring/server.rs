//! [`RingServer`]: the verbs of a server's end.

use super::{
    BadRecord, Inbox, NOTICE, NOTICE_BYTES, REPLY, REPLY_TRAILER_BYTES, Receiver, Reply, RingParams,
};
use crate::watched_export;
use drover_base::Ns;
use drover_mem::PageWish;
use drover_rt::{Port, Queues, ResourceError};
use drover_verbs::{Access, Context, Export, MemoryRegion, Provider, RemoteRegion, SendOp};
use std::rc::Rc;

/// Maximum number of reply buffers per client; further requests wait for a free one. *(our choice)*
const REPLIES_MAX: usize = 64;

/// A server's ring of one client, and buffers for replies to it. Replies are staged in the [`Queues`] of the connection.
pub struct RingServer<P: Provider> {
    ring: P::Mr,
    inbox: Inbox,
    /// The notice, then the reply buffers.
    replies: P::Mr,
    free_replies: Vec<u32>,
    is_noticing: bool,
    mailbox: Option<RemoteRegion>,
    params: RingParams,
    ctx: Rc<P::Context>,
}

impl<P: Provider> RingServer<P> {
    /// Creates the server's end of a connection, with the ring behind `port`.
    ///
    /// # Errors
    /// [`ResourceError`] if memory cannot be allocated or registered.
    ///
    /// # Panics
    /// If the longest record is longer than a quarter of the ring.
    pub fn new(port: &Port<P>, params: &RingParams) -> Result<RingServer<P>, ResourceError> {
        let ctx = port.server();
        let memory = |owner: &P::Context, bytes, access| -> Result<P::Mr, ResourceError> {
            Ok(owner.register(&ctx.alloc(bytes, PageWish::Small)?, access)?)
        };
        let count = params.slot_count.min(REPLIES_MAX);
        let ring = memory(port.context(), params.ring_bytes, Access::REMOTE_WRITE)?;
        let receiver = Receiver::new(params.ring_bytes, params.request_bytes);
        Ok(RingServer {
            inbox: Inbox::new(ring.region().clone(), receiver, params.sums),
            ring,
            replies: memory(ctx, NOTICE_BYTES + count * params.reply_bytes, Access::LOCAL_READ)?,
            free_replies: (0..count as u32).collect(),
            is_noticing: false,
            mailbox: None,
            params: *params,
            ctx: ctx.clone(),
        })
    }

    /// Most work requests in flight for a client with `slot_count` slots: the replies and the notice.
    pub fn sends_max(slot_count: usize) -> usize {
        slot_count.min(REPLIES_MAX) + 1
    }

    /// The ring, which the client WRITEs. A WRITE there wakes this core, where the fabric supports it.
    ///
    /// # Errors
    /// [`ResourceError`] if it cannot be exported.
    pub fn export(&self) -> Result<Export, ResourceError> {
        watched_export::<P>(&self.ctx, &self.ring)
    }

    /// Imports the client's mailbox; before that, there are no requests.
    ///
    /// # Errors
    /// [`ResourceError`] if it cannot be imported, or is too short.
    pub fn attach(&mut self, mailbox: &Export) -> Result<(), ResourceError> {
        let mailbox = self.ctx.import_region(mailbox)?;
        self.mailbox = Some(mailbox);
        match mailbox.len >= self.params.mailbox_bytes() as u64 {
            true => Ok(()),
            false => Err(ResourceError::Unusable { what: "mailbox" }),
        }
    }

    /// Longest value that a reply can carry, bytes.
    #[inline]
    pub fn value_bytes_max(&self) -> usize {
        self.params.reply_bytes - REPLY_TRAILER_BYTES
    }

    /// If there is a request and a buffer for its reply, `request` gets the request, and the result is the buffer's number.
    /// Then either [`take`](RingServer::take) both, or leave them for later.
    ///
    /// # Errors
    /// [`BadRecord`]: no correct client wrote this; the session must end.
    #[inline]
    pub fn peek(&mut self, now: Ns, request: &mut Vec<u8>) -> Result<Option<u32>, BadRecord> {
        let Some(&reply) = self.free_replies.last() else {
            return Ok(None);
        };
        Ok(self.inbox.peek(now, request)?.then_some(reply))
    }

    /// Takes the request of `bytes` bytes that [`peek`](RingServer::peek) returned, and the buffer for its reply.
    #[inline]
    pub fn take(&mut self, bytes: usize) {
        self.free_replies.pop();
        self.inbox.consume(bytes);
    }

    /// Stages the WRITE of a reply in buffer `reply` for the request of `slot`. `value`: the value itself if the reply
    /// carries it.
    #[inline]
    pub fn reply(&self, queues: &mut Queues<P>, (reply, slot): (u32, u16), trailer: &Reply, value: &[u8]) {
        let Some(mailbox) = &self.mailbox else { return };
        let len = value.len() + REPLY_TRAILER_BYTES;
        let at = NOTICE_BYTES + reply as usize * self.params.reply_bytes;
        let region = self.replies.region();
        region.copy_in(at, value);
        region.copy_in(at + value.len(), &trailer.encode());
        let place_end = NOTICE_BYTES + (usize::from(slot) + 1) * self.params.reply_bytes;
        let remote = mailbox.at(place_end - len);
        let op = SendOp::Write { remote, imm: None };
        let sge = self.replies.sge(at, len);
        queues.stage(REPLY | u64::from(reply), op, sge, true);
    }

    /// The WRITE of the reply in buffer `reply` has completed.
    #[inline]
    pub fn replied(&mut self, reply: u32) {
        self.free_replies.push(reply);
    }

    /// Stages the notice how far the ring has been consumed, if that is due.
    #[inline]
    pub fn notice(&mut self, queues: &mut Queues<P>) {
        let Some(mailbox) = self.mailbox.as_ref().filter(|_| !self.is_noticing) else {
            return;
        };
        let Some(head) = self.inbox.head_to_report() else {
            return;
        };
        self.is_noticing = true;
        self.replies.region().copy_in(0, &head.to_le_bytes());
        let op = SendOp::Write {
            remote: mailbox.at(0),
            imm: None,
        };
        queues.stage(NOTICE, op, self.replies.sge(0, 8), true);
    }

    /// The WRITE of the notice has completed.
    #[inline]
    pub fn noticed(&mut self) {
        self.is_noticing = false;
    }
}

impl<P: Provider> Drop for RingServer<P> {
    fn drop(&mut self) {
        if let Some(mailbox) = &self.mailbox {
            self.ctx.forget_region(mailbox);
        }
    }
}
