//! [`Session`]: a client's resources at one shard; [`Agreed`] and [`Values`] are parts of every session.

use super::fair_buffers::FairBuffers;
use crate::control::{QpExports, ServerParams, Ticket};
use crate::request::{REQUEST_HEADER_BYTES, Request};
use drover_base::{KeyHasher, Ns};
use drover_control::{ControlStream, Field, Frame, Loss, Message};
use drover_kv::{PartitionMap, ResultTransfer, SetupError};
use drover_mem::{PageWish, round_up};
use drover_rt::{Depths, Queues};
use drover_verbs::{Access, Context, MemoryRegion, Provider, QueuePair, Sge};
use std::fmt::Debug;
use std::rc::Rc;

/// Number of buffers per session for long values: those that fit neither into a message nor into an operation's own
/// buffer. *(our choice)*
pub const VALUES_MAX: usize = 2;

/// Parameters agreed at the handshake, and whether the session is broken.
pub struct Agreed {
    /// Session id, chosen by the server; never 0.
    pub id: u64,
    /// Hasher of keys under the service's seed.
    pub hasher: KeyHasher,
    /// Longest item that the server accepts, bytes, counted as by [`Reader::item_bytes`](super::Reader::item_bytes).
    pub item_bytes_max: usize,
    /// Longest request with its header, bytes.
    pub message_bytes: usize,
    /// Names this session and those that it goes on from.
    pub ticket: Ticket,
    /// Whether the server knows the updates of the client's previous session, so that those without an answer can be
    /// sent again.
    pub goes_on: bool,
    /// Whether the session has failed: its requests in flight will never complete.
    pub broken: bool,
    /// A value of the server's clock, seconds, and a local time that is no later than that reading.
    clock: (u32, Ns),
}

impl Agreed {
    /// Takes over the parameters in the server's `terms`, which it sent at local time `since` or later.
    ///
    /// # Errors
    /// [`SetupError::Unusable`]: messages are too short for a request.
    pub fn new(terms: &ServerParams, since: Ns) -> Result<Agreed, SetupError> {
        if terms.message_bytes as usize <= REQUEST_HEADER_BYTES {
            return Err(SetupError::Unusable { what: "geometry" });
        }
        Ok(Agreed {
            id: terms.session,
            hasher: terms.hash_seed.hasher(),
            item_bytes_max: terms.item_bytes_max as usize,
            message_bytes: terms.message_bytes as usize,
            ticket: terms.ticket,
            goes_on: false,
            broken: false,
            clock: (terms.now_s, since),
        })
    }

    /// The server's clock, in seconds, at local time `now`; up to one second plus the duration of the handshake too
    /// high, but never too low as long as both clocks run at the same rate. An item that has not expired by this clock
    /// is alive; about other items the client asks the server. With a clock that lags, a client could read an item that
    /// the server has reported to another client as expired.
    pub fn now_s(&self, now: Ns) -> u32 {
        self.clock.0 + 1 + now.since(self.clock.1).as_s() as u32
    }

    /// Whether a value of `bytes` bytes fits into a request together with its key.
    pub fn fits_message(&self, key_bytes: usize, bytes: usize) -> bool {
        REQUEST_HEADER_BYTES + key_bytes + bytes <= self.message_bytes
    }
}

/// The [`VALUES_MAX`] buffers of a session for long values. The server READs values from them and, in FaRM-KV, WRITEs
/// values to them; the client READs long records or objects into them. Operations get them first come, first served.
pub struct Values<P: Provider> {
    /// The buffers' memory, exported to the server.
    pub mr: P::Mr,
    bytes: usize,
    free: FairBuffers,
}

impl<P: Provider> Values<P> {
    /// Creates buffers for values of up to `bytes` bytes, rounded up to whole pages of 4 KiB, registered with `access`
    /// for the server.
    ///
    /// # Errors
    /// [`SetupError`] if memory cannot be allocated or registered.
    pub fn new(ctx: &P::Context, bytes: usize, access: Access) -> Result<Values<P>, SetupError> {
        let bytes = round_up(bytes, 4096);
        let memory = ctx.alloc(VALUES_MAX * bytes, PageWish::Small)?;
        Ok(Values {
            mr: ctx.register(&memory, access)?,
            bytes,
            free: FairBuffers::new(VALUES_MAX as u8),
        })
    }

    /// Lends a buffer to operation `at` and returns the buffer's number. `None`: none is free for it; the operation is
    /// queued and must call again.
    pub fn lend(&mut self, at: usize) -> Option<u8> {
        self.free.take(at)
    }

    /// Removes place `at` from the queue.
    pub(super) fn leave(&mut self, at: usize) {
        self.free.leave(at);
    }

    /// Takes buffer `which` back from its borrower.
    pub fn take_back(&mut self, which: u8) {
        self.free.give_back(which);
    }

    /// Length of each buffer, bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Offset of buffer `which` in the memory of [`mr`](Values::mr), bytes.
    pub fn offset(&self, which: u8) -> usize {
        usize::from(which) * self.bytes
    }

    /// Scatter-gather element of the first `len` bytes of buffer `which`.
    pub fn sge(&self, which: u8, len: usize) -> Sge {
        self.mr.sge(self.offset(which), len)
    }

    /// Copies `value` into buffer `which`.
    pub fn copy_in(&self, which: u8, value: &[u8]) {
        self.mr.region().copy_in(self.offset(which), value);
    }

    /// Copies the first `out.len()` bytes of buffer `which` to `out`.
    pub fn copy_out(&self, which: u8, out: &mut [u8]) {
        self.mr.region().copy_out(self.offset(which), out);
    }
}

/// Resources of a session that are the same in every one-sided system.
pub struct ConnResources<P: Provider> {
    /// The queue pair and its completion queue.
    pub queues: Queues<P>,
    /// Parameters agreed at the handshake.
    pub agreed: Agreed,
    /// Buffers for long values.
    pub values: Values<P>,
}

impl<P: Provider> ConnResources<P> {
    /// Creates resources for `sends` requests and `recvs` RECVs in flight, in addition to transfers of values of up to
    /// `value_bytes_max` bytes, which the server accesses with `access`.
    ///
    /// # Errors
    /// [`SetupError`] if a queue or the buffers cannot be created.
    pub fn new(
        ctx: &P::Context,
        agreed: Agreed,
        (sends, recvs): (usize, usize),
        (value_bytes_max, access): (usize, Access),
    ) -> Result<ConnResources<P>, SetupError> {
        let depths = Depths {
            sends,
            recvs,
            longs: VALUES_MAX,
            long_bytes_max: value_bytes_max,
        };
        Ok(ConnResources {
            queues: Queues::new(ctx, depths)?,
            agreed,
            values: Values::new(ctx, value_bytes_max, access)?,
        })
    }

    /// Connects to the server's queue pairs.
    ///
    /// # Errors
    /// [`SetupError`] if one cannot be connected.
    pub fn connect(&mut self, ctx: &P::Context, server: &QpExports) -> Result<(), SetupError> {
        self.queues.connect_port(ctx, server.port.as_ref())?;
        Ok(self.queues.qp.connect(&server.qp)?)
    }

    /// The client's queue pairs, after [`connect`](ConnResources::connect).
    ///
    /// # Errors
    /// [`SetupError`] if one cannot be exported.
    pub fn exports(&self) -> Result<QpExports, SetupError> {
        Ok(QpExports {
            qp: self.queues.qp.export()?,
            port: self.queues.export_port()?,
        })
    }
}

/// A client's resources for one shard: its queues and buffers, and the addresses of the server's exported memory.
pub trait Session<P: Provider>: Sized {
    /// The system's parameters in the client's `Hello`.
    type ClientParams: Field + Clone + Debug;
    /// The server's answer to `Hello`.
    type Welcome: Message;
    /// The client's second message: its queue pair and memory.
    type Attach: Message;

    /// Version of the system's messages and layouts.
    const VERSION: u16;

    /// The system's parameters that this client sends in `Hello`; `transfer`: how results are to come to it.
    fn client_params(ctx: &P::Context, transfer: ResultTransfer) -> Self::ClientParams;

    /// Creates the client's resources from the server's `welcome`, for at most `slots` operations in flight, and
    /// connects them. The server read its clock at local time `since` or later.
    ///
    /// # Errors
    /// [`SetupError`] if a resource cannot be created, or `welcome` is unusable.
    fn new(
        ctx: &Rc<P::Context>,
        slots: usize,
        welcome: &Self::Welcome,
        since: Ns,
    ) -> Result<Self, SetupError>;

    /// Returns the message that exports the client's resources to the server.
    ///
    /// # Errors
    /// [`SetupError`] if a resource cannot be exported.
    fn attach(&self) -> Result<Self::Attach, SetupError>;

    /// The session's queues, parameters and buffers that are the same in every system.
    fn resources(&self) -> &ConnResources<P>;

    /// As [`resources`](Session::resources), mutable.
    fn resources_mut(&mut self) -> &mut ConnResources<P>;

    /// The newest map of partitions that the server has sent, if the system has that. Without one, each shard owns one
    /// partition.
    fn map(&self) -> Option<&PartitionMap> {
        None
    }

    /// Stages the request of operation `at`. Returns the position in the request ring after it, or 0 if the system has
    /// no ring; `None` if there is no space now.
    fn send(&mut self, at: usize, request: &Request, key: &[u8], value: &[u8]) -> Option<u64>;

    /// Whether the session should poll its control channel at once, because a frame is likely to have arrived.
    fn expects_frame(&self) -> bool {
        false
    }

    /// Handles a frame that arrived at a working session.
    ///
    /// # Errors
    /// [`SetupError`] if the frame is malformed or the system does not expect it.
    fn receive(&mut self, frame: &Frame) -> Result<(), SetupError> {
        let _ = frame;
        Err(Loss::Unexpected.into())
    }

    /// Called after the session's control channel was polled.
    ///
    /// # Errors
    /// [`SetupError`] if the session must end.
    fn control_polled(&mut self, control: &mut ControlStream) -> Result<(), SetupError> {
        let _ = control;
        Ok(())
    }

    /// Posts all staged requests. If that fails, marks the session as broken.
    fn post(&mut self, cpu: &P::Cpu) {
        let resources = self.resources_mut();
        if let Err(error) = resources.queues.post(cpu) {
            tracing::debug!(%error, session = resources.agreed.id, "requests to a shard could not be posted");
            resources.agreed.broken = true;
        }
    }
}
