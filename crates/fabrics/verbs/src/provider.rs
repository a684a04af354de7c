//! The provider traits.

use crate::{
    Access, Caps, ConnectError, CreateError, Export, ImportError, OpenError, PostError, QpKind, Qpn,
    RecvList, RegisterError, SendList, Sge, UdDest, Wc,
};
use drover_base::{Cpu, Ns};
use drover_mem::{AllocError, PageWish, Region};
use std::fmt::Debug;
use std::ops::Range;
use std::os::fd::BorrowedFd;

/// A fabric: the bundle of types that a protocol is generic over.
pub trait Provider: Sized + 'static {
    /// In test names, logs and result files: `shm`, `sim`, `ibv`.
    const NAME: &'static str;
    /// The core we run on.
    type Cpu: Cpu;
    /// The opened fabric, shared by threads.
    type Device: Device<Self>;
    /// One thread's view of it.
    type Context: Context<Self>;
    /// A registered region.
    type Mr: MemoryRegion;
    /// A queue pair.
    type Qp: QueuePair<Self>;
    /// A completion queue.
    type Cq: CompletionQueue<Self>;
    /// A receive queue shared by queue pairs.
    type Srq: SharedReceiveQueue<Self>;
}

/// An opened fabric. Clones share it.
pub trait Device<P: Provider>: Clone + Send + Sync + 'static {
    /// This thread's context. Contexts of one device see each other's memory only through exports.
    fn context(&self) -> Result<P::Context, OpenError>;

    /// What it can do.
    fn caps(&self) -> &Caps;
}

/// One thread's view of a device: the control path, and waiting. Not `Send`.
pub trait Context<P: Provider>: 'static {
    /// The core of this thread.
    fn cpu(&self) -> &P::Cpu;

    /// What the fabric can do.
    fn caps(&self) -> &Caps;

    /// Memory of the kind that this fabric registers (shared memory, pinned memory ...).
    fn alloc(&self, bytes: usize, pages: PageWish) -> Result<Region, AllocError>;

    /// Registers `region` with `access`. Deregistered when the result and everything using it is dropped.
    fn register(&self, region: &Region, access: Access) -> Result<P::Mr, RegisterError>;

    /// A completion queue for at least `depth` completions; queue pairs beyond that overrun it.
    fn create_cq(&self, depth: usize) -> Result<P::Cq, CreateError>;

    /// A shared receive queue of `depth` RECVs.
    fn create_srq(&self, depth: usize) -> Result<P::Srq, CreateError>;

    /// A queue pair. UD ones are ready at once; RC and UC ones want [`QueuePair::connect`].
    fn create_qp(&self, options: &QpOptions<'_, P>) -> Result<P::Qp, CreateError>;

    /// Makes a peer's region usable in WRITE, READ and atomics posted from this context.
    fn import_region(&self, export: &Export) -> Result<RemoteRegion, ImportError>;

    /// Forgets an imported region: later requests naming its key fail with `RemoteAccess`.
    fn forget_region(&self, region: &RemoteRegion);

    /// An address handle for the UD queue pair that `export` names.
    fn create_ah(&self, export: &Export) -> Result<UdDest, ImportError>;

    /// Drops an address handle.
    fn destroy_ah(&self, dest: &UdDest);

    /// A handle with which other threads end this context's [`park`](Context::park).
    fn waker(&self) -> Waker;

    /// What peers ring after writing into memory [`Watch`]ed by this context. `Send`; other threads'
    /// contexts attach it to regions they export on our behalf.
    fn bell(&self) -> Bell;

    /// Announces sleep. After this returns, whatever a peer does is either seen by one more look at rings,
    /// completion queues and watched memory, or ends the next [`park`](Context::park).
    fn arm(&self);

    /// Takes the announcement back: there was work after all.
    fn disarm(&self);

    /// Sleeps until something arrives, a waker fires or `deadline` comes. Only after [`arm`](Context::arm);
    /// disarms. May wake for nothing.
    fn park(&self, deadline: Ns);

    /// The same, also ended when `fd` is readable: for a core that waits for sockets, too. Only where
    /// [`Caps::fd_wait`] is offered; other fabrics do not implement it.
    ///
    /// # Panics
    /// In debug builds, if the capability is not offered. In release builds `fd` is ignored.
    fn park_beside(&self, deadline: Ns, fd: BorrowedFd<'_>) {
        debug_assert!(
            false,
            "{} offers no fd_wait, so {fd:?} cannot end a park",
            P::NAME
        );
        self.park(deadline);
    }
}

/// Ends another thread's park. Cheap to clone.
#[derive(Clone)]
pub struct Waker(std::sync::Arc<dyn Fn() + Send + Sync>);

impl Waker {
    /// A waker that calls `wake`.
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Waker {
        Waker(std::sync::Arc::new(wake))
    }

    /// Wakes.
    pub fn wake(&self) {
        (self.0)();
    }
}

impl Debug for Waker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Waker")
    }
}

/// A context's doorbell for peers, as an opaque export to embed in others.
#[derive(Clone, Debug, Default)]
pub struct Bell(pub Export);

/// "Whoever writes into this part of the region rings that bell."
#[derive(Clone, Debug)]
pub struct Watch {
    /// Offsets in the region.
    pub range: Range<usize>,
    /// Whose.
    pub bell: Bell,
}

/// A registered region.
pub trait MemoryRegion: Debug + 'static {
    /// The memory.
    fn region(&self) -> &Region;

    /// Names `[offset, offset + len)` in requests of the same context. Panics when outside.
    fn sge(&self, offset: usize, len: usize) -> Sge;

    /// What a peer needs to use it, with the rights it was registered with. Every export of one region may
    /// carry different watches.
    fn export(&self, watches: &[Watch]) -> Result<Export, AllocError>;
}

/// A remote address: a key and an offset from the start of the registered region.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct RemoteAddr {
    /// Remote key, as this context knows it.
    pub rkey: u32,
    /// Bytes from the start of the region.
    pub offset: u64,
}

/// A peer's region as imported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RemoteRegion {
    /// Remote key, as this context knows it.
    pub rkey: u32,
    /// Bytes.
    pub len: u64,
    /// The rights the peer gave.
    pub access: Access,
}

impl RemoteRegion {
    /// The address `offset` bytes in. No bounds check here: the responder checks.
    #[inline]
    pub fn at(&self, offset: usize) -> RemoteAddr {
        RemoteAddr {
            rkey: self.rkey,
            offset: offset as u64,
        }
    }
}

/// How to create a queue pair.
pub struct QpOptions<'a, P: Provider> {
    /// RC, UC or UD.
    pub kind: QpKind,
    /// Completions of its send queue.
    pub send_cq: &'a P::Cq,
    /// Completions of its RECVs (may be the same).
    pub recv_cq: &'a P::Cq,
    /// Take RECVs from here instead of an own queue.
    pub srq: Option<&'a P::Srq>,
    /// Outstanding send requests.
    pub send_depth: usize,
    /// Outstanding RECVs.
    pub recv_depth: usize,
    /// Longest inline payload, bytes.
    pub inline_bytes: usize,
    /// UD only: datagrams must carry this key.
    pub qkey: u32,
    /// RC only: how long a SEND may find no RECV before `RnrRetryExceeded`; `Ns::MAX` waits for ever, and so does a
    /// fabric that cannot count as far as asked.
    pub rnr_timeout: Ns,
}

impl<'a, P: Provider> QpOptions<'a, P> {
    /// The usual: one completion queue for both, depth 128, what inline the fabric offers.
    pub fn new(kind: QpKind, cq: &'a P::Cq, caps: &Caps) -> QpOptions<'a, P> {
        QpOptions {
            kind,
            send_cq: cq,
            recv_cq: cq,
            srq: None,
            send_depth: 128.min(caps.send_depth_max),
            recv_depth: 128.min(caps.recv_depth_max),
            inline_bytes: caps.inline_bytes_max,
            qkey: 0,
            rnr_timeout: Ns::from_ms(500),
        }
    }
}

/// State of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QpState {
    /// Created: RECVs may be posted.
    Init,
    /// Connected (UD: always).
    ReadyToSend,
    /// Failed: everything outstanding is flushed, everything posted later completes `Flushed`.
    Error,
}

/// A queue pair. Dropping it destroys it: after that no request of a peer lands through it.
pub trait QueuePair<P: Provider>: 'static {
    /// Its number.
    fn qpn(&self) -> Qpn;

    /// What the other end needs: for [`connect`](QueuePair::connect) or [`Context::create_ah`].
    fn export(&self) -> Result<Export, AllocError>;

    /// Connects an RC or UC queue pair with the other end's export. Both ends do so.
    fn connect(&mut self, peer: &Export) -> Result<(), ConnectError>;

    /// Its state.
    fn state(&self) -> QpState;

    /// Moves it to the error state by hand; outstanding requests are flushed.
    fn to_error(&mut self);

    /// Posts a list of requests. One call, one doorbell; no allocation, lock or system call (but to wake a
    /// parked peer). On error the accepted prefix is posted.
    fn post_send(&mut self, cpu: &P::Cpu, list: &SendList) -> Result<(), PostError>;

    /// Posts RECVs. Not for queue pairs with a shared receive queue.
    fn post_recv(&mut self, cpu: &P::Cpu, list: &RecvList) -> Result<(), PostError>;
}

/// A completion queue.
pub trait CompletionQueue<P: Provider>: 'static {
    /// Takes up to `wcs.len()` completions; returns how many.
    fn poll(&mut self, cpu: &P::Cpu, wcs: &mut [Wc]) -> usize;
}

/// A receive queue shared by several queue pairs.
pub trait SharedReceiveQueue<P: Provider>: 'static {
    /// Posts RECVs for whichever queue pair needs one first.
    fn post_recv(&mut self, cpu: &P::Cpu, list: &RecvList) -> Result<(), PostError>;
}
