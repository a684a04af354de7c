//! Requests and replies as SENDs into RECVs that the other end has posted, over one RC queue pair.
//!
//! ```text
//! client, per slot:   | request | reply |          server, per client:   requests: | of RECV 0 | of RECV 1 | ...
//!   SEND request ------------------------------------------------------> a RECV
//!   a RECV <------------------------------------------------------------ SEND reply    replies: | 0 | 1 | ...
//! ```
//! Both ends post their RECVs before the first request, as many as the client has slots, so no message waits for a
//! RECV. A RECV takes whichever message comes next: what a reply answers is said in the reply.
//!
//! A message is staged in the [`Queues`] of the connection; ids of work requests are [`RECV`] or [`SENT`] plus an index
//! below [`WHICH`](drover_rt::WHICH). Kinds from [`KIND_FREE`] on are the system's own.

use drover_mem::{PageWish, Region};
use drover_rt::{Queues, ResourceError};
use drover_verbs::{Access, Context, MemoryRegion, Provider, SendOp};
use std::collections::VecDeque;

/// Kind of work request, the upper half of its id: a RECV; the index is that of its buffer.
pub const RECV: u64 = 0;
/// Kind of work request: a message of ours. At the client the index is its slot, at the server that of the reply.
pub const SENT: u64 = 1 << 32;
/// First kind of work request that this module does not use.
pub const KIND_FREE: u64 = 2 << 32;

const SEND: SendOp = SendOp::Send {
    dest: None,
    imm: None,
};

/// A client's buffers: each slot has one for its request and one for a reply, not necessarily its own.
pub struct ClientMessages<P: Provider> {
    buffers: P::Mr,
    slot_count: usize,
    message_bytes: usize,
}

impl<P: Provider> ClientMessages<P> {
    /// Creates buffers for messages of up to `message_bytes` bytes in `slot_count` slots.
    ///
    /// # Errors
    /// [`ResourceError`] if the memory cannot be allocated or registered.
    pub fn new(
        ctx: &P::Context,
        slot_count: usize,
        message_bytes: usize,
    ) -> Result<ClientMessages<P>, ResourceError> {
        let memory = ctx.alloc(2 * slot_count * message_bytes, PageWish::Small)?;
        Ok(ClientMessages {
            buffers: ctx.register(&memory, Access::LOCAL)?,
            slot_count,
            message_bytes,
        })
    }

    /// Stages the RECVs for all replies; once, before the first request.
    pub fn expect_all(&self, queues: &mut Queues<P>) {
        (0..self.slot_count).for_each(|slot| self.expect(queues, slot));
    }

    fn expect(&self, queues: &mut Queues<P>, slot: usize) {
        let sge = self.buffers.sge(self.reply_offset(slot), self.message_bytes);
        queues.expect(RECV | slot as u64, sge);
    }

    fn reply_offset(&self, slot: usize) -> usize {
        (2 * slot + 1) * self.message_bytes
    }

    /// The memory of the request of `slot`, and its offset there, to be filled. The slot's previous request has
    /// completed as [`SENT`].
    #[inline]
    pub fn request(&self, slot: usize) -> (&Region, usize) {
        (self.buffers.region(), 2 * slot * self.message_bytes)
    }

    /// Stages the request of `len` bytes of `slot`.
    #[inline]
    pub fn send(&self, queues: &mut Queues<P>, slot: usize, len: usize) {
        debug_assert!(len <= self.message_bytes, "a request of {len} bytes");
        let sge = self.buffers.sge(2 * slot * self.message_bytes, len);
        queues.stage(SENT | slot as u64, SEND, sge, true);
    }

    /// Copies the reply of `len` bytes that RECV `slot` received to `out`, and stages the RECV again.
    #[inline]
    pub fn take_reply(&self, queues: &mut Queues<P>, slot: usize, len: usize, out: &mut Vec<u8>) {
        out.resize(len, 0);
        self.buffers.region().copy_out(self.reply_offset(slot), out);
        self.expect(queues, slot);
    }
}

/// A server's buffers for one client: as many requests and replies as the client has slots.
pub struct ServerMessages<P: Provider> {
    requests: P::Mr,
    replies: P::Mr,
    free_replies: Vec<u32>,
    /// Requests that arrived, index of their RECV and length, and could not be taken yet: a client that has received a
    /// reply may send its next request before the reply's completion is seen here.
    waiting: VecDeque<(u32, u32)>,
    slot_count: usize,
    message_bytes: usize,
}

impl<P: Provider> ServerMessages<P> {
    /// Creates buffers for messages of up to `message_bytes` bytes of a client with `slot_count` slots.
    ///
    /// # Errors
    /// [`ResourceError`] if the memory cannot be allocated or registered.
    pub fn new(
        ctx: &P::Context,
        slot_count: usize,
        message_bytes: usize,
    ) -> Result<ServerMessages<P>, ResourceError> {
        let buffers = |access| -> Result<P::Mr, ResourceError> {
            Ok(ctx.register(&ctx.alloc(slot_count * message_bytes, PageWish::Small)?, access)?)
        };
        Ok(ServerMessages {
            requests: buffers(Access::LOCAL)?,
            replies: buffers(Access::LOCAL_READ)?,
            free_replies: (0..slot_count as u32).collect(),
            waiting: VecDeque::with_capacity(slot_count),
            slot_count,
            message_bytes,
        })
    }

    /// Stages the RECVs for all requests; once, before the client sends.
    pub fn expect_all(&self, queues: &mut Queues<P>) {
        (0..self.slot_count as u32).for_each(|recv| self.expect(queues, recv));
    }

    fn expect(&self, queues: &mut Queues<P>, recv: u32) {
        let sge = self
            .requests
            .sge(recv as usize * self.message_bytes, self.message_bytes);
        queues.expect(RECV | u64::from(recv), sge);
    }

    /// Longest message, bytes.
    pub fn message_bytes(&self) -> usize {
        self.message_bytes
    }

    /// Notes that RECV `recv` has completed with a request of `len` bytes.
    #[inline]
    pub fn arrived(&mut self, recv: u32, len: u32) {
        self.waiting.push_back((recv, len));
    }

    /// Notes that reply `reply` has completed as [`SENT`]: its buffer is free.
    #[inline]
    pub fn sent(&mut self, reply: u32) {
        self.free_replies.push(reply);
    }

    /// Copies the next request to `message`, stages its RECV again, and returns the number of the buffer for the reply,
    /// which the caller fills and passes to [`send`](ServerMessages::send), now or later. `None`: there is no request,
    /// or no buffer.
    #[inline]
    pub fn next(&mut self, queues: &mut Queues<P>, message: &mut Vec<u8>) -> Option<u32> {
        let reply = *self.free_replies.last()?;
        let (recv, len) = self.waiting.pop_front()?;
        self.free_replies.pop();
        message.resize(len as usize, 0);
        let offset = recv as usize * self.message_bytes;
        self.requests.region().copy_out(offset, message);
        // The RECV is staged now: as soon as the client has the reply, it may send its next request.
        self.expect(queues, recv);
        Some(reply)
    }

    /// The memory of buffer `reply`, and its offset there, to be filled.
    #[inline]
    pub fn reply(&self, reply: u32) -> (&Region, usize) {
        (self.replies.region(), reply as usize * self.message_bytes)
    }

    /// Stages the reply of `len` bytes in buffer `reply`.
    #[inline]
    pub fn send(&self, queues: &mut Queues<P>, reply: u32, len: usize) {
        let sge = self.replies.sge(reply as usize * self.message_bytes, len);
        queues.stage(SENT | u64::from(reply), SEND, sge, true);
    }
}
