//! [`TracedDevice`], [`TracedContext`] and the ring of events.

use super::event::{Event, Trace, What};
use super::{Traced, TracedCq, TracedQp, TracedSrq};
use drover_base::{Cpu, Ns};
use drover_mem::{AllocError, PageWish, Region};
use drover_verbs::{
    Access, Bell, Caps, Context, CreateError, Device, Domain, DomainOptions, DoorbellReport, Export,
    ImportError, OpenError, PostError, Provider, QpOptions, Qpn, QueuePair, RecvList, RegisterError,
    RemoteRegion, UdDest, Waker,
};
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard};

/// The ring, shared by the contexts of a device.
#[derive(Debug, Default)]
struct Ring {
    trace: Trace,
    capacity: usize,
    next_number: u64,
    contexts: u64,
}

/// A context's handle of the ring.
#[derive(Clone, Debug)]
pub(super) struct Log {
    ring: Arc<Mutex<Ring>>,
    context: u64,
}

fn lock(ring: &Mutex<Ring>) -> MutexGuard<'_, Ring> {
    ring.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Log {
    pub(super) fn add(&self, at: Ns, what: What) {
        let mut ring = lock(&self.ring);
        let number = ring.next_number;
        ring.next_number += 1;
        if ring.trace.events.len() >= ring.capacity {
            ring.trace.events.pop_front();
        }
        ring.trace.events.push_back(Event {
            number,
            at,
            context: self.context,
            what,
        });
    }

    /// Records a control-path event, with the time of the previous event.
    pub(super) fn qp(&self, qpn: Qpn, step: &'static str) {
        let at = lock(&self.ring)
            .trace
            .events
            .back()
            .map_or(Ns::ZERO, |event| event.at);
        self.add(at, What::QueuePair { qpn, step });
    }

    pub(super) fn refused(&self, at: Ns, qpn: Option<Qpn>, posted: &Result<(), PostError>) {
        if let Err(PostError { accepted, kind }) = *posted {
            let index = accepted;
            self.add(at, What::Refused { qpn, index, kind });
        }
    }

    pub(super) fn recvs(&self, at: Ns, qpn: Option<Qpn>, list: &RecvList, posted: &Result<(), PostError>) {
        let accepted = posted.map_or_else(|error| error.accepted, |()| list.wrs().len());
        for wr in &list.wrs()[..accepted] {
            let (wr_id, bytes) = (wr.wr_id, wr.sge.len);
            self.add(at, What::PostedRecv { qpn, wr_id, bytes });
        }
        self.refused(at, qpn, posted);
    }
}

/// A device that passes all calls to the device it wraps, and records the posts, completions and parks of its contexts,
/// and the creation, connection and end of their queue pairs ([`What`]).
pub struct TracedDevice<P: Provider> {
    inner: P::Device,
    /// Those of `inner`, without shared queues.
    caps: Arc<Caps>,
    ring: Arc<Mutex<Ring>>,
}

impl<P: Provider> TracedDevice<P> {
    /// Wraps `inner` and keeps the last `capacity` events of all its contexts together; a `capacity` of 0 counts as 1.
    pub fn new(inner: P::Device, capacity: usize) -> TracedDevice<P> {
        let ring = Ring {
            capacity: capacity.max(1),
            ..Ring::default()
        };
        let mut caps = inner.caps().clone();
        caps.supports.shared_queues = false;
        TracedDevice {
            inner,
            caps: Arc::new(caps),
            ring: Arc::new(Mutex::new(ring)),
        }
    }

    /// The wrapped device.
    pub fn inner(&self) -> &P::Device {
        &self.inner
    }

    /// A copy of the events that are kept now, of all contexts.
    pub fn trace(&self) -> Trace {
        lock(&self.ring).trace.clone()
    }
}

impl<P: Provider> Clone for TracedDevice<P> {
    fn clone(&self) -> TracedDevice<P> {
        TracedDevice {
            inner: self.inner.clone(),
            caps: self.caps.clone(),
            ring: self.ring.clone(),
        }
    }
}

impl<P: Provider> Device<Traced<P>> for TracedDevice<P> {
    fn context(&self) -> Result<TracedContext<P>, OpenError> {
        Ok(TracedContext::new(self.inner.context()?, &self.caps, &self.ring))
    }

    fn domain(&self, options: &DomainOptions) -> Result<TracedDomain<P>, OpenError> {
        Ok(TracedDomain {
            inner: self.inner.domain(options)?,
            caps: self.caps.clone(),
            ring: self.ring.clone(),
        })
    }

    fn caps(&self) -> &Caps {
        &self.caps
    }
}

/// A domain of a [`TracedDevice`].
pub struct TracedDomain<P: Provider> {
    inner: P::Domain,
    caps: Arc<Caps>,
    ring: Arc<Mutex<Ring>>,
}

impl<P: Provider> Clone for TracedDomain<P> {
    fn clone(&self) -> TracedDomain<P> {
        TracedDomain {
            inner: self.inner.clone(),
            caps: self.caps.clone(),
            ring: self.ring.clone(),
        }
    }
}

impl<P: Provider> Domain<Traced<P>> for TracedDomain<P> {
    fn context(&self) -> Result<TracedContext<P>, OpenError> {
        Ok(TracedContext::new(self.inner.context()?, &self.caps, &self.ring))
    }

    fn register(&self, region: &Region, access: Access) -> Result<P::SharedMr, RegisterError> {
        self.inner.register(region, access)
    }

    fn import_region(&self, export: &Export) -> Result<RemoteRegion, ImportError> {
        self.inner.import_region(export)
    }

    fn forget_region(&self, region: &RemoteRegion) {
        self.inner.forget_region(region);
    }

    fn doorbells(&self) -> DoorbellReport {
        self.inner.doorbells()
    }
}

impl<P: Provider> TracedContext<P> {
    fn new(inner: P::Context, caps: &Arc<Caps>, ring: &Arc<Mutex<Ring>>) -> TracedContext<P> {
        let mut locked = lock(ring);
        let context = locked.contexts;
        locked.contexts += 1;
        drop(locked);
        let ring = ring.clone();
        TracedContext {
            inner,
            caps: caps.clone(),
            log: Log { ring, context },
        }
    }
}

/// A context of a [`TracedDevice`].
pub struct TracedContext<P: Provider> {
    inner: P::Context,
    caps: Arc<Caps>,
    log: Log,
}

impl<P: Provider> TracedContext<P> {
    /// The wrapped context.
    pub fn inner(&self) -> &P::Context {
        &self.inner
    }
}

impl<P: Provider> Context<Traced<P>> for TracedContext<P> {
    fn cpu(&self) -> &P::Cpu {
        self.inner.cpu()
    }

    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn alloc(&self, bytes: usize, pages: PageWish) -> Result<Region, AllocError> {
        self.inner.alloc(bytes, pages)
    }

    fn register(&self, region: &Region, access: Access) -> Result<P::Mr, RegisterError> {
        self.inner.register(region, access)
    }

    fn adopt(&self, shared: &P::SharedMr) -> Result<P::Mr, RegisterError> {
        self.inner.adopt(shared)
    }

    fn alloc_device(&self, bytes: usize, access: Access) -> Result<P::DeviceMemory, RegisterError> {
        self.inner.alloc_device(bytes, access)
    }

    fn create_cq(&self, depth: usize) -> Result<TracedCq<P>, CreateError> {
        Ok(TracedCq {
            inner: self.inner.create_cq(depth)?,
            log: self.log.clone(),
        })
    }

    fn create_srq(&self, depth: usize) -> Result<TracedSrq<P>, CreateError> {
        Ok(TracedSrq {
            inner: self.inner.create_srq(depth)?,
            log: self.log.clone(),
        })
    }

    fn create_qp(&self, options: &QpOptions<'_, Traced<P>>) -> Result<TracedQp<P>, CreateError> {
        let inner = self.inner.create_qp(&QpOptions {
            kind: options.kind,
            send_cq: &options.send_cq.inner,
            recv_cq: &options.recv_cq.inner,
            srq: options.srq.map(|srq| &srq.inner),
            send_depth: options.send_depth,
            recv_depth: options.recv_depth,
            inline_bytes: options.inline_bytes,
            qkey: options.qkey,
            rnr_timeout: options.rnr_timeout,
        })?;
        self.log.qp(inner.qpn(), "created");
        Ok(TracedQp {
            inner,
            log: self.log.clone(),
        })
    }

    fn import_region(&self, export: &Export) -> Result<RemoteRegion, ImportError> {
        self.inner.import_region(export)
    }

    fn forget_region(&self, region: &RemoteRegion) {
        self.inner.forget_region(region);
    }

    fn create_ah(&self, export: &Export) -> Result<UdDest, ImportError> {
        self.inner.create_ah(export)
    }

    fn destroy_ah(&self, dest: &UdDest) {
        self.inner.destroy_ah(dest);
    }

    fn waker(&self) -> Waker {
        self.inner.waker()
    }

    fn bell(&self) -> Bell {
        self.inner.bell()
    }

    fn arm(&self) {
        self.inner.arm();
    }

    fn disarm(&self) {
        self.inner.disarm();
    }

    fn core_is_wanted(&self, serves: bool) -> bool {
        self.inner.core_is_wanted(serves)
    }

    fn park(&self, deadline: Ns) {
        self.log.add(self.cpu().now(), What::Parked { deadline });
        self.inner.park(deadline);
    }

    fn park_beside(&self, deadline: Ns, fd: BorrowedFd<'_>) {
        self.log.add(self.cpu().now(), What::Parked { deadline });
        self.inner.park_beside(deadline, fd);
    }
}
