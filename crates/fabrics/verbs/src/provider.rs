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
    /// Name in test names, logs and result files: `shm`, `sim`, `ibv`.
    const NAME: &'static str;
    /// The core that code runs on.
    type Cpu: Cpu;
    /// The opened fabric, shared by threads.
    type Device: Device<Self>;
    /// One thread's view of the fabric.
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
    /// Creates this thread's context. Contexts of one device access each other's memory only through exports.
    ///
    /// # Errors
    /// [`OpenError`] if the fabric is not available or lacks resources.
    fn context(&self) -> Result<P::Context, OpenError>;

    /// Capabilities of the fabric.
    fn caps(&self) -> &Caps;
}

/// One thread's view of a device: the control path, and sleeping. Not `Send`.
pub trait Context<P: Provider>: 'static {
    /// The core of this thread.
    fn cpu(&self) -> &P::Cpu;

    /// Capabilities of the fabric.
    fn caps(&self) -> &Caps;

    /// Allocates memory that this fabric can register (shared memory, pinned memory ...).
    ///
    /// # Errors
    /// [`AllocError`] if the system has no such memory.
    fn alloc(&self, bytes: usize, pages: PageWish) -> Result<Region, AllocError>;

    /// Registers `region` with `access`. It is deregistered when the result and all its users are dropped.
    ///
    /// # Errors
    /// [`RegisterError`] if the access or the memory is unsuitable, or a limit is reached.
    fn register(&self, region: &Region, access: Access) -> Result<P::Mr, RegisterError>;

    /// Creates a completion queue for at least `depth` completions; more outstanding requests than that overrun it.
    ///
    /// # Errors
    /// [`CreateError`] if a limit is exceeded or the system refuses.
    fn create_cq(&self, depth: usize) -> Result<P::Cq, CreateError>;

    /// Creates a shared receive queue of `depth` RECVs.
    ///
    /// # Errors
    /// [`CreateError`] if a limit is exceeded, the fabric has none, or the system refuses.
    fn create_srq(&self, depth: usize) -> Result<P::Srq, CreateError>;

    /// Creates a queue pair. UD queue pairs are ready at once; RC and UC ones need [`QueuePair::connect`].
    ///
    /// # Errors
    /// [`CreateError`] if a limit is exceeded, the fabric lacks the kind, or the system refuses.
    fn create_qp(&self, options: &QpOptions<'_, P>) -> Result<P::Qp, CreateError>;

    /// Makes a peer's region usable in WRITE, READ and atomics posted from this context.
    ///
    /// # Errors
    /// [`ImportError`] if the export is malformed, the peer is gone, or mapping fails.
    fn import_region(&self, export: &Export) -> Result<RemoteRegion, ImportError>;

    /// Releases an imported region: later requests with its key fail with `RemoteAccess`.
    fn forget_region(&self, region: &RemoteRegion);

    /// Creates an address handle for the UD queue pair that `export` names.
    ///
    /// # Errors
    /// [`ImportError`] if the export is malformed, the peer is gone, or mapping fails.
    fn create_ah(&self, export: &Export) -> Result<UdDest, ImportError>;

    /// Destroys an address handle.
    fn destroy_ah(&self, dest: &UdDest);

    /// A handle with which other threads end this context's [`park`](Context::park).
    fn waker(&self) -> Waker;

    /// The bell that peers ring after writing into memory [`Watch`]ed by this context. `Send`: other threads' contexts
    /// attach it to regions that they export for us.
    fn bell(&self) -> Bell;

    /// Announces sleep. After this call, an action of a peer is either visible in one more check of rings, completion
    /// queues and watched memory, or ends the next [`park`](Context::park).
    fn arm(&self);

    /// Withdraws the announcement: there is work.
    fn disarm(&self);

    /// Sleeps until something arrives, a waker fires or `deadline` passes. Call it only after [`arm`](Context::arm),
    /// which it undoes. Spurious wake-ups are possible.
    fn park(&self, deadline: Ns);

    /// As [`park`](Context::park), but also ends when `fd` is readable: for a core that also waits for sockets. Only
    /// fabrics that offer [`WakeCaps::on_fd`](crate::WakeCaps::on_fd) implement it.
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

/// Ends the park of another thread. Cheap to clone.
#[derive(Clone)]
pub struct Waker(std::sync::Arc<dyn Fn() + Send + Sync>);

impl Waker {
    /// A waker that calls `wake`.
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Waker {
        Waker(std::sync::Arc::new(wake))
    }

    /// Ends the park.
    pub fn wake(&self) {
        (self.0)();
    }
}

impl Debug for Waker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Waker")
    }
}

/// The doorbell of a context for its peers, as an opaque export to embed in others.
#[derive(Clone, Debug, Default)]
pub struct Bell(pub Export);

/// Part of a region whose writers ring a bell.
#[derive(Clone, Debug)]
pub struct Watch {
    /// Watched offsets in the region.
    pub range: Range<usize>,
    /// Bell of the context to wake.
    pub bell: Bell,
}

/// A registered region.
pub trait MemoryRegion: Debug + 'static {
    /// The memory.
    fn region(&self) -> &Region;

    /// The scatter/gather element for `[offset, offset + len)`, for requests of the same context.
    ///
    /// # Panics
    /// If the range leaves the region.
    fn sge(&self, offset: usize, len: usize) -> Sge;

    /// The export with which a peer uses the region, with the rights it was registered with. Different exports of a
    /// region may carry different watches.
    ///
    /// # Errors
    /// [`AllocError`] if the process is out of file descriptors.
    fn export(&self, watches: &[Watch]) -> Result<Export, AllocError>;
}

/// A remote address: a key and an offset from the start of the registered region.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct RemoteAddr {
    /// Remote key, valid in this context.
    pub rkey: u32,
    /// Bytes from the start of the region.
    pub offset: u64,
}

/// A peer's region as imported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RemoteRegion {
    /// Remote key, valid in this context.
    pub rkey: u32,
    /// Length in bytes.
    pub len: u64,
    /// Rights that the peer granted.
    pub access: Access,
}

impl RemoteRegion {
    /// The address `offset` bytes into the region. Not checked here: the responder checks bounds.
    #[inline]
    pub fn at(&self, offset: usize) -> RemoteAddr {
        RemoteAddr {
            rkey: self.rkey,
            offset: offset as u64,
        }
    }
}

/// Options of a new queue pair.
pub struct QpOptions<'a, P: Provider> {
    /// RC, UC or UD.
    pub kind: QpKind,
    /// Completion queue of its send queue.
    pub send_cq: &'a P::Cq,
    /// Completion queue of its RECVs (may be the same).
    pub recv_cq: &'a P::Cq,
    /// Shared receive queue to use instead of its own.
    pub srq: Option<&'a P::Srq>,
    /// Most outstanding send requests.
    pub send_depth: usize,
    /// Most outstanding RECVs.
    pub recv_depth: usize,
    /// Longest inline payload, bytes.
    pub inline_bytes: usize,
    /// UD only: key that datagrams must carry.
    pub qkey: u32,
    /// RC only: time that a SEND waits for a RECV before `RnrRetryExceeded`. `Ns::MAX` waits for ever; so does a fabric
    /// that cannot count as far as asked.
    pub rnr_timeout: Ns,
}

impl<'a, P: Provider> QpOptions<'a, P> {
    /// Default options: one completion queue for both, depth 128, the fabric's longest inline payload.
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
    /// Failed: outstanding requests are flushed, later ones complete with `Flushed`.
    Error,
}

/// A queue pair. Dropping it destroys it: after that no request of a peer takes effect through it.
pub trait QueuePair<P: Provider>: 'static {
    /// Number of the queue pair.
    fn qpn(&self) -> Qpn;

    /// The export that the other end needs for [`connect`](QueuePair::connect) or [`Context::create_ah`].
    ///
    /// # Errors
    /// [`AllocError`] if the process is out of memory or file descriptors.
    fn export(&self) -> Result<Export, AllocError>;

    /// Connects an RC or UC queue pair with the export of the other end. Both ends call it.
    ///
    /// # Errors
    /// [`ConnectError`] if the state or kind does not fit, or the export cannot be used.
    fn connect(&mut self, peer: &Export) -> Result<(), ConnectError>;

    /// State of the queue pair.
    fn state(&self) -> QpState;

    /// Moves the queue pair to the error state; outstanding requests are flushed.
    fn to_error(&mut self);

    /// Posts a list of requests. One call is one doorbell; there is no allocation, lock or system call (except to wake
    /// a parked peer).
    ///
    /// # Errors
    /// [`PostError`] for the first request refused; those before it are posted.
    fn post_send(&mut self, cpu: &P::Cpu, list: &SendList) -> Result<(), PostError>;

    /// Posts RECVs. Not for queue pairs with a shared receive queue.
    ///
    /// # Errors
    /// [`PostError`] for the first RECV refused; those before it are posted.
    fn post_recv(&mut self, cpu: &P::Cpu, list: &RecvList) -> Result<(), PostError>;
}

/// A completion queue.
pub trait CompletionQueue<P: Provider>: 'static {
    /// Takes up to `wcs.len()` completions; returns their number.
    fn poll(&mut self, cpu: &P::Cpu, wcs: &mut [Wc]) -> usize;
}

/// A receive queue shared by several queue pairs.
pub trait SharedReceiveQueue<P: Provider>: 'static {
    /// Posts RECVs; each serves the next message of any of its queue pairs.
    ///
    /// # Errors
    /// [`PostError`] for the first RECV refused; those before it are posted.
    fn post_recv(&mut self, cpu: &P::Cpu, list: &RecvList) -> Result<(), PostError>;
}
