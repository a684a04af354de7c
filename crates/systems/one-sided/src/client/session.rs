//! [`Session`]: what a client has with one shard; [`Agreed`] and [`Values`], of which all sessions consist.

use super::fair_buffers::FairBuffers;
use crate::control::{ClientParams, ServerParams};
use crate::queues::{Depths, Queues};
use crate::request::{REQUEST_HEADER_BYTES, Request};
use drover_base::{KeyHasher, Ns};
use drover_kv::SetupError;
use drover_mem::{PageWish, round_up};
use drover_rt::Loss;
use drover_rt::control::{ControlStream, Frame, Message};
use drover_verbs::{Access, Context, MemoryRegion, Provider, Sge};
use std::rc::Rc;

/// Buffers for values that fit no message and no place's own buffer. *(our choice)*
pub const VALUES_MAX: usize = 2;

/// What both ends know of a session, and whether it still stands.
pub struct Agreed {
    /// Its name.
    pub id: u64,
    /// Of keys.
    pub hasher: KeyHasher,
    /// Longest item, as the system counts its bytes.
    pub item_bytes_max: usize,
    /// Longest request, bytes.
    pub message_bytes: usize,
    /// It is of no more use: what it has under way will never end.
    pub broken: bool,
    /// The server's clock said this, then or later.
    clock: (u32, Ns),
}

impl Agreed {
    /// From what the server said, at `since` or later.
    ///
    /// # Errors
    /// No message would have space for a request.
    pub fn new(terms: &ServerParams, since: Ns) -> Result<Agreed, SetupError> {
        if terms.message_bytes as usize <= REQUEST_HEADER_BYTES {
            return Err(SetupError::Unusable { what: "geometry" });
        }
        Ok(Agreed {
            id: terms.session,
            hasher: terms.hash_seed().hasher(),
            item_bytes_max: terms.item_bytes_max as usize,
            message_bytes: terms.message_bytes as usize,
            broken: false,
            clock: (terms.now_s, since),
        })
    }

    /// Seconds of the server's clock, or more, by as long as the handshake took and a second at most. Never fewer, as long as
    /// both clocks run at one rate: what has not expired by this has not expired, and about anything else the server
    /// is asked. Readers with late clocks would find what others were told is gone.
    pub fn now_s(&self, now: Ns) -> u32 {
        self.clock.0 + 1 + now.since(self.clock.1).as_s() as u32
    }

    /// Whether a value of `bytes` fits a request beside a key.
    pub fn fits_message(&self, key_bytes: usize, bytes: usize) -> bool {
        REQUEST_HEADER_BYTES + key_bytes + bytes <= self.message_bytes
    }
}

/// Buffers for long values, which the server READs and, if it is to, WRITEs. Places get them in the order in which they asked.
pub struct Values<P: Provider> {
    /// What the server is told of.
    pub mr: P::Mr,
    bytes: usize,
    free: FairBuffers,
}

impl<P: Provider> Values<P> {
    /// For values of up to `bytes`, to be accessed so by the server.
    ///
    /// # Errors
    /// No memory.
    pub fn new(ctx: &P::Context, bytes: usize, access: Access) -> Result<Values<P>, SetupError> {
        let bytes = round_up(bytes, 4096);
        let memory = ctx.alloc(VALUES_MAX * bytes, PageWish::Small)?;
        Ok(Values {
            mr: ctx.register(&memory, access)?,
            bytes,
            free: FairBuffers::new(VALUES_MAX as u8),
        })
    }

    /// A buffer for place `at`; `None`: it has to wait, and to ask again.
    pub fn lend(&mut self, at: usize) -> Option<u8> {
        self.free.take(at)
    }

    /// Operation `at` waits for none any more.
    pub(super) fn leave(&mut self, at: usize) {
        self.free.leave(at);
    }

    /// It is free again.
    pub fn take_back(&mut self, which: u8) {
        self.free.give_back(which);
    }

    /// Of a buffer.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Where buffer `which` is in the memory.
    pub fn offset(&self, which: u8) -> usize {
        usize::from(which) * self.bytes
    }

    /// The first `len` bytes of it.
    pub fn sge(&self, which: u8, len: usize) -> Sge {
        self.mr.sge(self.offset(which), len)
    }

    /// Copies a value in.
    pub fn copy_in(&self, which: u8, value: &[u8]) {
        self.mr.region().copy_in(self.offset(which), value);
    }

    /// Copies `out.len()` bytes out.
    pub fn copy_out(&self, which: u8, out: &mut [u8]) {
        self.mr.region().copy_out(self.offset(which), out);
    }
}

/// What every session has.
pub struct ConnResources<P: Provider> {
    /// Its queue pair.
    pub queues: Queues<P>,
    /// What both ends know of it.
    pub agreed: Agreed,
    /// Its buffers for long values.
    pub values: Values<P>,
}

impl<P: Provider> ConnResources<P> {
    /// For `sends` requests and `recvs` RECVs under way beside values of up to `value_bytes_max`, which the server accesses as
    /// `access` says.
    ///
    /// # Errors
    /// Why it cannot be.
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
}

/// One client at one shard: queues, buffers, the server's memory.
pub trait Session<P: Provider>: Sized {
    /// What the client says in its `Hello`.
    type ClientParams: ClientParams;
    /// What it is told then.
    type Welcome: Message;
    /// What it says of its end.
    type Attach: Message;

    /// Of messages and layouts.
    const VERSION: u16;

    /// What this client wants.
    fn wishes(ctx: &P::Context) -> Self::ClientParams;

    /// Our side of what the server offers, connected, for operations in `slots` places. What the server says of its clock, it
    /// said at `since` or later.
    ///
    /// # Errors
    /// Why it cannot be.
    fn new(
        ctx: &Rc<P::Context>,
        slots: usize,
        welcome: &Self::Welcome,
        since: Ns,
    ) -> Result<Self, SetupError>;

    /// What the server is told of it.
    ///
    /// # Errors
    /// What it would have to be told cannot be exported.
    fn attach(&self) -> Result<Self::Attach, SetupError>;

    /// Of which it consists, beside what is the system's own.
    fn basis(&self) -> &ConnResources<P>;

    /// The same, to use it.
    fn basis_mut(&mut self) -> &mut ConnResources<P>;

    /// Stages the request of place `at`: how far the way to the server is used up behind it, if the system counts that; `None`:
    /// there is no space now.
    fn send(&mut self, at: usize, request: &Request, key: &[u8], value: &[u8]) -> Option<u64>;

    /// Whether it has a reason to look at its control channel at once.
    fn is_curious(&self) -> bool {
        false
    }

    /// A frame has come to a session that stands.
    ///
    /// # Errors
    /// It is none that this system waits for.
    fn receive(&mut self, frame: &Frame) -> Result<(), SetupError> {
        let _ = frame;
        Err(Loss::Unexpected.into())
    }

    /// Its channel has been looked at.
    ///
    /// # Errors
    /// The session is over.
    fn looked(&mut self, control: &mut ControlStream) -> Result<(), SetupError> {
        let _ = control;
        Ok(())
    }

    /// Posts what is staged.
    fn post(&mut self, cpu: &P::Cpu) {
        let basis = self.basis_mut();
        if let Err(error) = basis.queues.post(cpu) {
            tracing::debug!(%error, "a request was not taken");
            basis.agreed.broken = true;
        }
    }
}
