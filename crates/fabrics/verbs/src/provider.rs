//! The provider traits.

use crate::{
    Access, Caps, ConnectError, CreateError, DatagramList, DeviceCounters, DeviceMemory, Domain,
    DomainOptions, Export, ImportError, OpenError, PostError, QpKind, Qpn, RecvList, RegisterError, SendList,
    Sge, SharedQueue, UdDest, Wc, WriteList,
};
use drover_base::{Cpu, Ns};
use drover_mem::{AllocError, PageWish, Region};
use std::fmt::Debug;
use std::ops::Range;
use std::os::fd::BorrowedFd;

/// A kind of fabric, such as shared memory or RDMA cards: the bundle of types that a protocol is generic over. It has
/// no values of its own; an opened fabric is a [`Device`].
pub trait Provider: Sized + 'static {
    /// Name in test names, logs and result files, such as `shm`, `sim` or `ibv`.
    const NAME: &'static str;
    /// Whether a peer that guesses a key could reach memory that it was not given, so that [`Context::isolated`] gives contexts
    /// that keep peers apart. A constant, so that other fabrics pay nothing for it.
    const ISOLATES: bool = false;
    /// Clock, random numbers and prefetch of the core that code runs on.
    type Cpu: Cpu;
    /// The opened fabric, shared by threads.
    type Device: Device<Self>;
    /// What threads of one process share.
    type Domain: Domain<Self>;
    /// One thread's handle of the device.
    type Context: Context<Self>;
    /// A registered region; dropping it deregisters it.
    type Mr: MemoryRegion;
    /// A region registered for all contexts of a domain; see [`Domain::register`].
    type SharedMr: Clone + Send + Sync + 'static;
    /// Memory on the card; [`NoDeviceMemory`](crate::NoDeviceMemory) for fabrics without.
    type DeviceMemory: DeviceMemory;
    /// A queue pair.
    type Qp: QueuePair<Self>;
    /// A completion queue.
    type Cq: CompletionQueue<Self>;
    /// A receive queue shared by queue pairs.
    type Srq: SharedReceiveQueue<Self>;
    /// A queue pair and its completion queue for all threads of a domain; [`NoSharedQueue`](crate::provide::NoSharedQueue)
    /// where there is none.
    type SharedQueue: SharedQueue<Self>;
}

/// An opened fabric, shared by threads. Clones are handles of the same one.
pub trait Device<P: Provider>: Clone + Send + Sync + 'static {
    /// Creates a context for the calling thread, in a domain of its own. Contexts of different domains access each
    /// other's memory only through exports.
    ///
    /// # Errors
    /// [`OpenError`] if the fabric is not available or lacks resources.
    fn context(&self) -> Result<P::Context, OpenError>;

    /// Creates a domain, for threads that share registrations and imports.
    ///
    /// # Errors
    /// [`OpenError`] if the fabric is not available or lacks resources.
    fn domain(&self, options: &DomainOptions) -> Result<P::Domain, OpenError>;

    /// Capabilities of the fabric.
    fn caps(&self) -> &Caps;

    /// What this process has done with the device, for operators. May make system calls. `None` (the default): there is
    /// no card to be asked.
    fn counters(&self) -> Option<DeviceCounters> {
        None
    }
}

/// One thread's handle of a device: it registers memory, creates and imports all other objects (the control path), and
/// sleeps. Not `Send`.
pub trait Context<P: Provider>: 'static {
    /// Clock, random numbers and prefetch of the core that this context's thread runs on.
    fn cpu(&self) -> &P::Cpu;

    /// Capabilities of the fabric.
    fn caps(&self) -> &Caps;

    /// Name of the device and of what the speed of its verbs depends on: the same for all contexts of a process for which
    /// verbs take as long. `None` (the default): each context must find that out for itself, as where faults are added, or
    /// where one process has several networks that know nothing of each other.
    fn device_name(&self) -> Option<String> {
        None
    }

    /// Another context of this thread, in a protection domain of its own: what is registered in it can be reached through
    /// its own queue pairs alone, whatever keys a peer guesses. For what belongs to one peer that others must not touch.
    /// `None`, exactly if not [`Provider::ISOLATES`]: the fabric needs none for that, as shared memory, where a peer maps only
    /// what it was given.
    ///
    /// # Errors
    /// [`OpenError`] if the device lacks resources.
    fn isolated(&self) -> Result<Option<P::Context>, OpenError> {
        Ok(None)
    }

    /// Allocates zeroed memory that this fabric can register with any rights, for example shared memory. The length is
    /// rounded up to whole pages.
    ///
    /// # Errors
    /// [`AllocError`] if the system does not provide the memory.
    fn alloc(&self, bytes: usize, pages: PageWish) -> Result<Region, AllocError>;

    /// Registers `region` with the rights `access`. Dropping the result deregisters it: later requests with its local
    /// key fail. Peers lose access too where a device checks it; over shared memory they keep it.
    ///
    /// # Errors
    /// [`RegisterError`] if the access or the memory is unsuitable, or a limit is reached.
    fn register(&self, region: &Region, access: Access) -> Result<P::Mr, RegisterError>;

    /// This context's handle of a region that was registered in its domain. Cheap: nothing is registered again.
    ///
    /// # Errors
    /// [`RegisterError`] if `shared` is of another domain, or a limit is reached.
    fn adopt(&self, shared: &P::SharedMr) -> Result<P::Mr, RegisterError>;

    /// Allocates zeroed memory on the card and registers it with the rights `access`. The length is rounded up to whole words
    /// of 8 bytes. Refused (the default) where [`Support::device_memory_bytes`] is 0.
    ///
    /// # Errors
    /// [`RegisterError`] if there is none, or not enough, the access is inconsistent, or the device refuses.
    fn alloc_device(&self, bytes: usize, access: Access) -> Result<P::DeviceMemory, RegisterError> {
        let _ = (bytes, access);
        Err(RegisterError::NoDeviceMemory { fabric: P::NAME })
    }

    /// Creates a completion queue for at least `depth` completions. The caller limits the requests that complete in it
    /// and are not yet polled to that number: more may overrun the queue, which is fatal.
    ///
    /// # Errors
    /// [`CreateError`] if a limit is exceeded or the system refuses.
    fn create_cq(&self, depth: usize) -> Result<P::Cq, CreateError>;

    /// Creates a shared receive queue that holds up to `depth` RECVs.
    ///
    /// # Errors
    /// [`CreateError`] if a limit is exceeded, the fabric has none, or the system refuses.
    fn create_srq(&self, depth: usize) -> Result<P::Srq, CreateError>;

    /// Creates a queue pair. UD queue pairs are ready at once; RC and UC ones need [`QueuePair::connect`].
    ///
    /// # Errors
    /// [`CreateError`] if a limit is exceeded, the fabric lacks the kind, or the system refuses.
    fn create_qp(&self, options: &QpOptions<'_, P>) -> Result<P::Qp, CreateError>;

    /// Makes the region that a peer exported usable in WRITE, READ and atomics posted from the contexts of this
    /// context's domain. The result's key is a number of the domain, not the peer's rkey.
    ///
    /// # Errors
    /// [`ImportError`] if the export is malformed, the peer is gone, or resources do not suffice.
    fn import_region(&self, export: &Export) -> Result<RemoteRegion, ImportError>;

    /// Releases an imported region: later requests of this context with its key fail with `RemoteAccess` (over UC, are
    /// lost); for other contexts of the domain see [`Domain::forget_region`]. An unknown region is ignored.
    fn forget_region(&self, region: &RemoteRegion);

    /// Creates an address handle for the UD queue pair that `export` names. Fabrics may allow only one handle per
    /// export: a receiver exports once per sender.
    ///
    /// # Errors
    /// [`ImportError`] if the export is malformed, in use, or of something else, the peer is gone, or resources do not
    /// suffice.
    fn create_ah(&self, export: &Export) -> Result<UdDest, ImportError>;

    /// Destroys an address handle: later posts with it are refused as `BadAddress`. An unknown handle is ignored.
    fn destroy_ah(&self, dest: &UdDest);

    /// A handle with which any thread ends this context's [`park`](Context::park); see [`Waker::wake`].
    fn waker(&self) -> Waker;

    /// The bell that peers ring, to wake this context, after a WRITE or atomic to memory exported with a [`Watch`] that
    /// names it. `Send`: another thread may name it when its own context exports a region. Never rung on fabrics
    /// without [`WakeCaps::on_memory`](crate::WakeCaps::on_memory).
    fn bell(&self) -> Bell;

    /// Announces that this thread is about to sleep. Check rings, completion queues and watched memory once more
    /// afterwards: a peer's action is either visible in that check or ends the next [`park`](Context::park).
    fn arm(&self);

    /// Withdraws what [`arm`](Context::arm) announced, because the check found work. Does nothing if not armed.
    fn disarm(&self);

    /// Whether a peer waits for the core on which this thread runs, so that only sleep lets it go on. A thread that
    /// `serves` waits for a core whenever it is awake: peers are told where it runs, and it learns that a peer wants
    /// its core. Other threads learn whether a serving peer that is awake ran here last, and tell it. Costs tens of
    /// nanoseconds; to be called when the thread has nothing better to do, and once in a while. Always false (the
    /// default) on fabrics that do not know.
    fn core_is_wanted(&self, serves: bool) -> bool {
        let _ = serves;
        false
    }

    /// Sleeps until a completion or message for this context arrives, a bell of this context rings, a waker fires, or
    /// the core's clock reaches `deadline` ([`Ns::MAX`]: no deadline). Call it only after [`arm`](Context::arm), which
    /// it undoes. It may also return early without a reason.
    fn park(&self, deadline: Ns);

    /// As [`park`](Context::park), but also ends when `fd` is readable: for a core that also waits for sockets. Only
    /// fabrics that offer [`WakeCaps::on_fd`](crate::WakeCaps::on_fd) implement it.
    ///
    /// # Panics
    /// In debug builds, if the capability is not offered. In release builds `fd` is ignored.
    fn park_beside(&self, deadline: Ns, fd: BorrowedFd<'_>) {
        debug_assert!(
            false,
            "{} does not offer wakes.on_fd, so {fd:?} cannot end a park",
            P::NAME
        );
        self.park(deadline);
    }
}

/// A function that wakes a sleeping thread, usually one in [`Context::park`]. Any thread may call it. Clones call the
/// same function.
#[derive(Clone)]
pub struct Waker(std::sync::Arc<dyn Fn() + Send + Sync>);

impl Waker {
    /// Creates a waker that calls `wake` on the thread that uses it.
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Waker {
        Waker(std::sync::Arc::new(wake))
    }

    /// Calls the function of this waker. That of [`Context::waker`] ends the context's park, or its next park if it is
    /// [armed](Context::arm), and does nothing otherwise.
    pub fn wake(&self) {
        (self.0)();
    }
}

impl Debug for Waker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Waker")
    }
}

/// What peers ring to wake a parked context: an opaque export, to be embedded in the exports of regions.
#[derive(Clone, Debug, Default)]
pub struct Bell(pub Export);

/// Part of a region, and the bell that a peer rings after a WRITE or atomic that touches this part.
#[derive(Clone, Debug)]
pub struct Watch {
    /// Watched byte offsets in the region.
    pub range: Range<usize>,
    /// Bell to ring: that of the context to wake.
    pub bell: Bell,
}

/// A registered region. Dropping it deregisters it; [`Context::register`] says what peers can still do.
pub trait MemoryRegion: Debug + 'static {
    /// The memory that was registered.
    fn region(&self) -> &Region;

    /// The scatter/gather element for `[offset, offset + len)`, for requests of the same context.
    ///
    /// # Panics
    /// If the range leaves the region or is 4 GiB or longer.
    fn sge(&self, offset: usize, len: usize) -> Sge;

    /// The export with which a peer uses the region, with the rights it was registered with. Different exports of a
    /// region may carry different watches; fabrics without [`WakeCaps::on_memory`](crate::WakeCaps::on_memory) ignore
    /// them.
    ///
    /// # Errors
    /// [`AllocError`] if the process is out of file descriptors, or the memory is private where peers must map it. Too
    /// many watches for an export, or the bell of another fabric, are bugs: an error or a panic, depending on the
    /// fabric.
    fn export(&self, watches: &[Watch]) -> Result<Export, AllocError>;
}

/// An address in an imported region: the importing domain's key for the region, and an offset from its start.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct RemoteAddr {
    /// Key from [`RemoteRegion::rkey`], valid in the domain that imported the region.
    pub rkey: u32,
    /// Offset in bytes from the start of the region.
    pub offset: u64,
}

/// A peer's region as one domain imported it. A plain value: only [`Context::forget_region`] and
/// [`Domain::forget_region`] release the import.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RemoteRegion {
    /// Key of the region: a number that the importing domain assigned and that is valid only there, not the rkey of
    /// the peer's device.
    pub rkey: u32,
    /// Length of the region in bytes.
    pub len: u64,
    /// Rights with which the peer registered the region.
    pub access: Access,
}

impl RemoteRegion {
    /// The address `offset` bytes into the region. Bounds are not checked here but when a request is executed.
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
    /// Completion queue for its received messages, also with `srq` (may be the same as `send_cq`).
    pub recv_cq: &'a P::Cq,
    /// Shared receive queue to take RECVs from; `None` for a receive queue of its own.
    pub srq: Option<&'a P::Srq>,
    /// Depth of the send queue: most send requests that hold a place in it. A request holds one from its post until its
    /// completion is polled or, if it has none, that of a later request.
    pub send_depth: usize,
    /// Depth of its own receive queue: most RECVs posted whose completions are not yet polled. With `srq` there is no
    /// such queue; the number is still checked against the limit, and `shm` sizes the ring for incoming messages of an
    /// RC or UC queue pair by it.
    pub recv_depth: usize,
    /// Longest inline payload to be posted, in bytes.
    pub inline_bytes: usize,
    /// UD only: key of this queue pair, which drops datagrams with another key.
    pub qkey: u32,
    /// RC only: time that a message of this queue pair waits for a RECV of the peer before it fails with
    /// `RnrRetryExceeded`. `Ns::MAX` waits for ever. `ibv` can count at most six waits, whose length the peer's own
    /// `rnr_timeout` determines: a time longer than these, and any time above 61.44 ms, waits for ever. `shm` waits for
    /// ever if the peer has a shared receive queue.
    pub rnr_timeout: Ns,
}

impl<'a, P: Provider> QpOptions<'a, P> {
    /// Default options: `cq` for both queues, depths of 128 or the fabric's maximum if that is less, no shared receive
    /// queue, the fabric's longest inline payload, key 0, and an RNR timeout of half a second (which `ibv` takes as no
    /// limit, see [`rnr_timeout`](QpOptions::rnr_timeout)).
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
    /// Created and not connected: RECVs may be posted, sends are refused as
    /// [`NotReady`](crate::PostErrorKind::NotReady).
    Init,
    /// Connected, or a UD queue pair: sends and RECVs may be posted.
    ReadyToSend,
    /// Failed, or moved here by [`QueuePair::to_error`]. Outstanding requests complete as `Flushed`, and so do those
    /// posted later, except RECVs of a shared receive queue.
    Error,
}

/// Result of [`QueuePair::fence`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Fenced {
    /// Nothing of the peer lands through the queue pair any more.
    Done,
    /// A request of the peer may still be under way: ask again.
    Pending,
}

/// A queue pair. Dropping it destroys it: after that no request of a peer takes effect through it, and its completions
/// that were not polled may be lost.
pub trait QueuePair<P: Provider>: 'static {
    /// Number of this queue pair.
    fn qpn(&self) -> Qpn;

    /// The export that a peer needs for [`connect`](QueuePair::connect) or [`Context::create_ah`]; one call per peer.
    ///
    /// # Errors
    /// [`AllocError`] if the process is out of memory or file descriptors.
    fn export(&self) -> Result<Export, AllocError>;

    /// As [`export`](QueuePair::export), for a sender of datagrams that must not pass for another one. Also returns the
    /// number that completions of its messages carry as [`Wc::src_qpn`], which no other sender has, whatever it writes.
    /// `None`: they carry the number of the sender's queue pair, for which the sender's card vouches.
    ///
    /// # Errors
    /// As [`export`](QueuePair::export).
    fn export_for_sender(&self) -> Result<(Export, Option<Qpn>), AllocError> {
        Ok((self.export()?, None))
    }

    /// Takes the export of a [sender](QueuePair::export_for_sender) back, by the number that its completions carry: nothing
    /// arrives through it any more, and it costs no memory, even if the sender holds on to it.
    fn forget_sender(&mut self, sender: Qpn) {
        let _ = sender;
    }

    /// Connects an RC or UC queue pair to the one that `peer` names. Both ends call it, once.
    ///
    /// # Errors
    /// [`ConnectError`] if the state or kind does not fit, or the export cannot be used.
    fn connect(&mut self, peer: &Export) -> Result<(), ConnectError>;

    /// Current state, as far as this end knows. May cost a system call.
    fn state(&self) -> QpState;

    /// Moves the queue pair to the error state: outstanding requests and its own RECVs complete as `Flushed`.
    fn to_error(&mut self);

    /// Shuts the peer out: moves the queue pair to the error state, and says whether all that the peer posted through
    /// it has taken effect or never will. Call it until it is `Done`: from then on nothing of the peer lands through this
    /// queue pair. It never waits. Costs a system call the first time, and more while it is `Pending`.
    ///
    /// Over shared memory a process that is stopped in the middle of a request keeps it `Pending`; the caller waits, or
    /// has the process killed. Against a process that breaks the rules it does not help there: that process has the
    /// mapping.
    fn fence(&mut self) -> Fenced;

    /// Posts a list of requests: one doorbell (over `ibv`, one per 256 requests). There is no allocation, lock or
    /// system call, except to wake a parked peer, to keep a request that must wait for its peer, and in the device's
    /// own library (software RoCE makes a system call per doorbell). In the error state requests are accepted and
    /// complete as `Flushed`.
    ///
    /// # Errors
    /// [`PostError`] for the first request refused; those before it are posted.
    fn post_send(&mut self, cpu: &P::Cpu, list: &SendList) -> Result<(), PostError>;

    /// Posts a list of datagrams, as [`post_send`](QueuePair::post_send) of the same requests does; the list may be
    /// [spread](crate::ShortList::spread) by it. A fabric that executes requests on the caller's core need not.
    ///
    /// # Errors
    /// As [`post_send`](QueuePair::post_send).
    #[inline]
    fn post_datagrams(&mut self, cpu: &P::Cpu, list: &mut DatagramList) -> Result<(), PostError> {
        self.post_send(cpu, list.spread())
    }

    /// As [`post_datagrams`](QueuePair::post_datagrams), for WRITEs over a connected queue pair.
    ///
    /// # Errors
    /// As [`post_send`](QueuePair::post_send).
    #[inline]
    fn post_writes(&mut self, cpu: &P::Cpu, list: &mut WriteList) -> Result<(), PostError> {
        self.post_send(cpu, list.spread())
    }

    /// Posts RECVs to the queue pair's own receive queue; refused as
    /// [`NotSupported`](crate::PostErrorKind::NotSupported) if it has a shared one. In the error state they complete as
    /// `Flushed`.
    ///
    /// # Errors
    /// [`PostError`] for the first RECV refused; those before it are posted.
    fn post_recv(&mut self, cpu: &P::Cpu, list: &RecvList) -> Result<(), PostError>;
}

/// A completion queue.
pub trait CompletionQueue<P: Provider>: 'static {
    /// Moves up to `wcs.len()` completions to the front of `wcs` and returns their number; the rest of `wcs` is
    /// unspecified. Completions of one send queue come in order, and so do those of one receive queue.
    ///
    /// # Panics
    /// If the queue was overrun, over fabrics that notice it (`sim`).
    fn poll(&mut self, cpu: &P::Cpu, wcs: &mut [Wc]) -> usize;
}

/// A receive queue shared by several queue pairs.
pub trait SharedReceiveQueue<P: Provider>: 'static {
    /// Posts RECVs; each serves the next message of any of the queue pairs that share this queue. They are not flushed
    /// when one of these queue pairs fails.
    ///
    /// # Errors
    /// [`PostError`] for the first RECV refused; those before it are posted.
    fn post_recv(&mut self, cpu: &P::Cpu, list: &RecvList) -> Result<(), PostError>;
}
