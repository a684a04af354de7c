//! [`FaultyDevice`] and [`FaultyContext`]: the control path passes calls on and records registered memory, so that late
//! messages can be copied.

use super::forger::ContextNumber;
use super::late::{LATE_DEPTH, LateQueue, PIECE_BYTES};
use super::options::Counters;
use super::results::Results;
use super::{FaultCounts, FaultOptions, Faulty, FaultyCq, FaultyQp, FaultySrq, Forger, KeyMistake};
use drover_base::{Cpu, Ns, Rng};
use drover_mem::{AllocError, BufferPool, PageWish, Region};
use drover_verbs::{
    Access, Bell, Caps, Context, CreateError, Device, Domain, DomainOptions, DoorbellReport, Export,
    ImportError, MemoryRegion, OpenError, Payload, Provider, QpOptions, Qpn, RegisterError, RemoteRegion,
    SendList, Sge, UdDest, Waker, Watch, WrId,
};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Longest park of a context with late messages.
const NAP: Ns = Ns::from_us(50);

/// A device that passes all calls to the device it wraps, and injects faults into the send requests of its queue pairs.
pub struct FaultyDevice<P: Provider> {
    inner: P::Device,
    caps: Arc<Caps>,
    options: Arc<FaultOptions>,
    counters: Arc<Counters>,
    contexts: Arc<AtomicU64>,
    active: Arc<AtomicBool>,
    forger: Option<Forger>,
    fence_pending: u32,
}

impl<P: Provider> FaultyDevice<P> {
    /// Wraps `inner`. The queue pairs of the new device draw faults according to `options`, from the start.
    pub fn new(inner: P::Device, options: FaultOptions) -> FaultyDevice<P> {
        let caps = Arc::new(options.caps(inner.caps()));
        FaultyDevice {
            inner,
            caps,
            options: Arc::new(options),
            counters: Arc::default(),
            contexts: Arc::default(),
            active: Arc::new(AtomicBool::new(true)),
            forger: None,
            fence_pending: 0,
        }
    }

    /// The device with `forger`, if there is one, in contexts opened from now on.
    #[must_use]
    pub fn with_forger(self, forger: Option<Forger>) -> FaultyDevice<P> {
        FaultyDevice { forger, ..self }
    }

    /// The device whose queue pairs say `times` times that a [fence](drover_verbs::QueuePair::fence) is pending, whatever the wrapped
    /// device says, as if a request of the peer took so long.
    #[must_use]
    pub fn with_slow_fences(self, times: u32) -> FaultyDevice<P> {
        FaultyDevice {
            fence_pending: times,
            ..self
        }
    }

    /// The wrapped device.
    pub fn inner(&self) -> &P::Device {
        &self.inner
    }

    /// Faults injected so far, in all contexts of this device and its clones.
    pub fn counts(&self) -> FaultCounts {
        self.counters.read()
    }

    /// Stops or resumes drawing faults in all contexts of this device and its clones. Messages that are late already
    /// still arrive.
    pub fn set_active(&self, active: bool) {
        self.active.store(active, Ordering::Relaxed);
    }
}

impl<P: Provider> Clone for FaultyDevice<P> {
    fn clone(&self) -> FaultyDevice<P> {
        FaultyDevice {
            inner: self.inner.clone(),
            caps: self.caps.clone(),
            options: self.options.clone(),
            counters: self.counters.clone(),
            contexts: self.contexts.clone(),
            active: self.active.clone(),
            forger: self.forger.clone(),
            fence_pending: self.fence_pending,
        }
    }
}

impl<P: Provider> Device<Faulty<P>> for FaultyDevice<P> {
    fn context(&self) -> Result<FaultyContext<P>, OpenError> {
        self.wrap(self.inner.context()?)
    }

    fn domain(&self, options: &DomainOptions) -> Result<FaultyDomain<P>, OpenError> {
        let inner = self.inner.domain(options)?;
        let device = self.clone();
        Ok(FaultyDomain { device, inner })
    }

    fn caps(&self) -> &Caps {
        &self.caps
    }
}

/// A domain of a [`FaultyDevice`].
pub struct FaultyDomain<P: Provider> {
    device: FaultyDevice<P>,
    inner: P::Domain,
}

impl<P: Provider> Clone for FaultyDomain<P> {
    fn clone(&self) -> FaultyDomain<P> {
        FaultyDomain {
            device: self.device.clone(),
            inner: self.inner.clone(),
        }
    }
}

impl<P: Provider> Domain<Faulty<P>> for FaultyDomain<P> {
    fn context(&self) -> Result<FaultyContext<P>, OpenError> {
        self.device.wrap(self.inner.context()?)
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

impl<P: Provider> FaultyDevice<P> {
    /// The context of this device around `inner`.
    fn wrap(&self, inner: P::Context) -> Result<FaultyContext<P>, OpenError> {
        let pool = match self.options.any_unreliable() {
            true => Some(staging::<P>(&inner)?),
            false => None,
        };
        let index = self.contexts.fetch_add(1, Ordering::Relaxed);
        let shared = Shared {
            options: self.options.clone(),
            counters: self.counters.clone(),
            active: self.active.clone(),
            forger: self.forger.clone(),
            fence_pending: self.fence_pending,
            rng: RefCell::new(Rng::new(self.options.seed, index, 0xfa17)),
            late: RefCell::new(LateQueue::new(pool)),
            regions: RefCell::default(),
            standing_in: RefCell::default(),
            results: RefCell::default(),
        };
        Ok(FaultyContext {
            inner,
            caps: self.caps.clone(),
            number: shared.number(),
            is_isolated: false,
            shared: Rc::new(shared),
        })
    }
}

/// Registered memory for late messages.
fn staging<P: Provider>(inner: &P::Context) -> Result<(BufferPool, P::Mr), OpenError> {
    let pool = BufferPool::new(PIECE_BYTES, LATE_DEPTH, |bytes| {
        inner.alloc(bytes, PageWish::Small)
    })?;
    let mr = inner
        .register(pool.region(), Access::LOCAL_READ)
        .map_err(|error| OpenError::Unavailable {
            fabric: "faulty",
            reason: error.to_string(),
        })?;
    Ok((pool, mr))
}

/// State shared by all objects of a context.
pub(super) struct Shared<P: Provider> {
    pub(super) options: Arc<FaultOptions>,
    pub(super) counters: Arc<Counters>,
    active: Arc<AtomicBool>,
    pub(super) forger: Option<Forger>,
    pub(super) fence_pending: u32,
    pub(super) rng: RefCell<Rng>,
    pub(super) late: RefCell<LateQueue<P>>,
    /// Registered regions by local key, and how many handles there are of each.
    regions: RefCell<BTreeMap<u32, (Region, usize)>>,
    /// Signaled SENDs over UC that were replaced by a WRITE without effect.
    pub(super) standing_in: RefCell<Vec<(Qpn, WrId)>>,
    /// What is outstanding over RC, if results are checked.
    pub(super) results: RefCell<BTreeMap<Qpn, Results>>,
}

impl<P: Provider> Shared<P> {
    /// The number of a new context.
    fn number(&self) -> ContextNumber {
        self.forger
            .as_ref()
            .map_or_else(ContextNumber::default, Forger::opened)
    }

    pub(super) fn is_active(&self) -> bool {
        self.active.load(Ordering::Relaxed)
    }

    /// The bytes of a payload; empty if it is invalid (then the inner provider refuses it).
    pub(super) fn bytes_of(&self, list: &SendList, payload: Payload) -> Vec<u8> {
        match payload {
            Payload::Inline { start, len } => list.inline_bytes(start, len).to_vec(),
            Payload::Region(sge) => self.bytes_at(&[sge]),
            Payload::Gather { start, count } => self.bytes_at(list.sges(start, count)),
        }
    }

    /// The region with this local key.
    pub(super) fn region(&self, lkey: u32) -> Option<Region> {
        Some(self.regions.borrow().get(&lkey)?.0.clone())
    }

    fn bytes_at(&self, sges: &[Sge]) -> Vec<u8> {
        let regions = self.regions.borrow();
        let mut bytes = Vec::new();
        for sge in sges {
            let (offset, len) = (sge.offset as usize, sge.len as usize);
            if let Some((region, _)) = regions
                .get(&sge.lkey)
                .filter(|known| known.0.contains(offset, len))
            {
                let at = bytes.len();
                bytes.resize(at + len, 0);
                region.copy_out(offset, &mut bytes[at..]);
            }
        }
        bytes
    }
}

/// A context of a [`FaultyDevice`].
pub struct FaultyContext<P: Provider> {
    inner: P::Context,
    caps: Arc<Caps>,
    number: ContextNumber,
    is_isolated: bool,
    shared: Rc<Shared<P>>,
}

impl<P: Provider> FaultyContext<P> {
    /// The wrapped context.
    pub fn inner(&self) -> &P::Context {
        &self.inner
    }

    /// Records a registration, so that late messages can be copied.
    fn recorded(&self, inner: P::Mr) -> FaultyMr<P> {
        let (lkey, region) = (inner.sge(0, 0).lkey, inner.region().clone());
        let mut regions = self.shared.regions.borrow_mut();
        regions.entry(lkey).or_insert((region, 0)).1 += 1;
        FaultyMr {
            inner,
            lkey,
            shared: self.shared.clone(),
        }
    }

    /// Counts as a poll for all late messages of this context and delivers those that are due; returns whether any is
    /// still late. For actors that go idle without parking.
    pub fn deliver_late(&self) -> bool {
        let mut late = self.shared.late.borrow_mut();
        late.step(self.cpu());
        !late.is_empty()
    }
}

impl<P: Provider> Context<Faulty<P>> for FaultyContext<P> {
    fn cpu(&self) -> &P::Cpu {
        self.inner.cpu()
    }

    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn isolated(&self) -> Result<Option<FaultyContext<P>>, OpenError> {
        let forger = &self.shared.forger;
        if (forger.as_ref()).is_some_and(|forger| forger.errs(KeyMistake::SharesDomain)) {
            return Ok(None);
        }
        let beside = |inner| FaultyContext {
            inner,
            caps: self.caps.clone(),
            number: self.shared.number(),
            is_isolated: true,
            shared: self.shared.clone(),
        };
        Ok(self.inner.isolated()?.map(beside))
    }

    fn alloc(&self, bytes: usize, pages: PageWish) -> Result<Region, AllocError> {
        self.inner.alloc(bytes, pages)
    }

    fn register(&self, region: &Region, access: Access) -> Result<FaultyMr<P>, RegisterError> {
        let forger = &self.shared.forger;
        let access = (forger.as_ref()).map_or(access, |forger| forger.rights(access, self.is_isolated));
        Ok(self.recorded(self.inner.register(region, access)?))
    }

    fn adopt(&self, shared: &P::SharedMr) -> Result<FaultyMr<P>, RegisterError> {
        Ok(self.recorded(self.inner.adopt(shared)?))
    }

    fn alloc_device(&self, bytes: usize, access: Access) -> Result<P::DeviceMemory, RegisterError> {
        self.inner.alloc_device(bytes, access)
    }

    fn create_cq(&self, depth: usize) -> Result<FaultyCq<P>, CreateError> {
        let extra = if self.shared.options.any() { LATE_DEPTH } else { 0 };
        Ok(FaultyCq {
            inner: self.inner.create_cq(depth + extra)?,
            shared: self.shared.clone(),
            context: self.number,
        })
    }

    fn create_srq(&self, depth: usize) -> Result<FaultySrq<P>, CreateError> {
        let inner = self.inner.create_srq(depth)?;
        Ok(FaultySrq { inner })
    }

    fn create_qp(&self, options: &QpOptions<'_, Faulty<P>>) -> Result<FaultyQp<P>, CreateError> {
        let extra = if self.shared.options.any() { LATE_DEPTH } else { 0 };
        let inner = self.inner.create_qp(&QpOptions {
            kind: options.kind,
            send_cq: &options.send_cq.inner,
            recv_cq: &options.recv_cq.inner,
            srq: options.srq.map(|srq| &srq.inner),
            send_depth: options.send_depth + extra,
            recv_depth: options.recv_depth,
            inline_bytes: options.inline_bytes,
            qkey: options.qkey,
            rnr_timeout: options.rnr_timeout,
        })?;
        Ok(FaultyQp {
            inner: Rc::new(RefCell::new(inner)),
            kind: options.kind,
            shared: self.shared.clone(),
            scratch: SendList::default(),
            context: self.number,
            completes_in: options.send_cq.context,
            fence_pending: self.shared.fence_pending,
        })
    }

    fn import_region(&self, export: &Export) -> Result<RemoteRegion, ImportError> {
        let remote = self.inner.import_region(export)?;
        if let Some(forger) = &self.shared.forger {
            forger.imported(self.number, export, remote, |other| {
                self.inner.import_region(other)
            });
        }
        Ok(remote)
    }

    fn forget_region(&self, region: &RemoteRegion) {
        if let Some(forger) = &self.shared.forger {
            forger.forgot(self.number, region);
        }
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
        let late = !self.shared.late.borrow().is_empty();
        let nap = self.cpu().now() + NAP;
        self.inner.park(if late { deadline.min(nap) } else { deadline });
        self.shared.late.borrow_mut().step(self.cpu());
    }

    fn park_beside(&self, deadline: Ns, fd: BorrowedFd<'_>) {
        let late = !self.shared.late.borrow().is_empty();
        let nap = self.cpu().now() + NAP;
        self.inner
            .park_beside(if late { deadline.min(nap) } else { deadline }, fd);
        self.shared.late.borrow_mut().step(self.cpu());
    }
}

/// A registered region of a [`FaultyContext`].
pub struct FaultyMr<P: Provider> {
    inner: P::Mr,
    lkey: u32,
    shared: Rc<Shared<P>>,
}

impl<P: Provider> MemoryRegion for FaultyMr<P> {
    fn region(&self) -> &Region {
        self.inner.region()
    }

    fn sge(&self, offset: usize, len: usize) -> Sge {
        self.inner.sge(offset, len)
    }

    fn export(&self, watches: &[Watch]) -> Result<Export, AllocError> {
        let export = self.inner.export(watches)?;
        if let Some(forger) = &self.shared.forger {
            forger.exported(&export, self.region());
        }
        Ok(export)
    }
}

impl<P: Provider> fmt::Debug for FaultyMr<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl<P: Provider> Drop for FaultyMr<P> {
    fn drop(&mut self) {
        let mut regions = self.shared.regions.borrow_mut();
        if let Some(known) = regions.get_mut(&self.lkey) {
            known.1 -= 1;
        }
        if regions.get(&self.lkey).is_some_and(|known| known.1 == 0) {
            regions.remove(&self.lkey);
        }
    }
}
