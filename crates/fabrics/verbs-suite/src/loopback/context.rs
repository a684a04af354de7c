//! [`LoopbackContext`]: the control path, and sleeping.

use super::device::Shared;
use super::fabric::Qp;
use super::memory::{LoopbackSharedMr, check_access};
use super::queues::{Cq, RecvQueue};
use super::send_queue::SendQueue;
use super::{
    Flaw, Loopback, LoopbackCpu, LoopbackCq, LoopbackDeviceMemory, LoopbackMr, LoopbackOptions, LoopbackQp,
    LoopbackSrq, ParkMode,
};
use drover_base::{Cpu, Ns};
use drover_mem::{AllocError, PageWish, Region};
use drover_verbs::provide::{check_domain, check_limit, check_queue_pair};
use drover_verbs::{
    Access, Bell, Caps, Context, CreateError, Export, ImportError, OpenError, QpKind, QpOptions, QpState,
    Qpn, RegisterError, RemoteRegion, UdDest, Waker,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::sync::Arc;

/// Polling interval for descriptors in a context that really sleeps: its condition variable cannot wait for one.
const LOOK_EVERY: Ns = Ns::from_ms(1);

/// One thread's view of the fabric. It cannot leave its thread:
///
/// ```compile_fail
/// use drover_verbs::Device;
/// use drover_verbs_suite::loopback::LoopbackDevice;
/// let context = LoopbackDevice::new().context().unwrap();
/// std::thread::spawn(move || drop(context));
/// ```
#[derive(Debug)]
pub struct LoopbackContext {
    id: u32,
    domain: u32,
    cpu: LoopbackCpu,
    options: Arc<LoopbackOptions>,
    pub(super) shared: Shared,
    _one_thread: PhantomData<Rc<()>>,
}

impl LoopbackContext {
    pub(super) fn new(
        (id, domain): (u32, u32),
        cpu: LoopbackCpu,
        options: &Arc<LoopbackOptions>,
        shared: Shared,
    ) -> LoopbackContext {
        LoopbackContext {
            id,
            domain,
            cpu,
            options: options.clone(),
            shared,
            _one_thread: PhantomData,
        }
    }

    /// Number of regions imported by this context's domain and of address handles created by this context that are not
    /// released: for tests of leaks.
    pub fn imports_held(&self) -> usize {
        let fabric = self.shared.lock();
        let regions = fabric.imports.keys().filter(|key| key.0 == self.domain);
        let handles = fabric.ahs.keys().filter(|key| key.0 == self.id);
        regions.count() + handles.count()
    }

    fn check_options(&self, options: &QpOptions<'_, Loopback>) -> Result<(), CreateError> {
        let caps = &self.options.caps;
        if !caps.has(options.kind) {
            return Err(not_supported(match options.kind {
                QpKind::Rc => "an RC queue pair",
                QpKind::Uc => "a UC queue pair",
                QpKind::Ud => "a UD queue pair",
            }));
        }
        if self.options.flaw == Some(Flaw::IgnoresLimits) {
            return Ok(());
        }
        check_queue_pair(caps, options)
    }
}

fn not_supported(what: &'static str) -> CreateError {
    CreateError::NotSupported {
        what,
        fabric: "loopback",
    }
}

impl Context<Loopback> for LoopbackContext {
    fn cpu(&self) -> &LoopbackCpu {
        &self.cpu
    }

    fn caps(&self) -> &Caps {
        &self.options.caps
    }

    fn isolated(&self) -> Result<Option<LoopbackContext>, OpenError> {
        let (id, domain) = self.shared.lock().add_context(None);
        Ok(Some(LoopbackContext::new(
            (id, domain),
            self.cpu.again(),
            &self.options,
            self.shared.clone(),
        )))
    }

    fn alloc(&self, bytes: usize, pages: PageWish) -> Result<Region, AllocError> {
        Region::private(bytes, pages)
    }

    fn register(&self, region: &Region, access: Access) -> Result<LoopbackMr, RegisterError> {
        check_access(self.options.flaw, region, access)?;
        let shared = LoopbackSharedMr::new(&self.shared, self.domain, region, access);
        Ok(LoopbackMr::of(&shared))
    }

    fn adopt(&self, shared: &LoopbackSharedMr) -> Result<LoopbackMr, RegisterError> {
        check_domain(shared.domain() == self.domain)?;
        Ok(LoopbackMr::of(shared))
    }

    fn alloc_device(&self, bytes: usize, access: Access) -> Result<LoopbackDeviceMemory, RegisterError> {
        LoopbackDeviceMemory::new(&self.shared, self.domain, bytes, access)
    }

    fn create_cq(&self, depth: usize) -> Result<LoopbackCq, CreateError> {
        let mut fabric = self.shared.lock();
        let id = fabric.fresh_id();
        let cq = Cq {
            ctx: self.id,
            depth,
            entries: VecDeque::new(),
            overrun: false,
        };
        fabric.cqs.insert(id, cq);
        Ok(LoopbackCq {
            shared: self.shared.clone(),
            id,
            _one_thread: PhantomData,
        })
    }

    fn create_srq(&self, depth: usize) -> Result<LoopbackSrq, CreateError> {
        if !self.options.caps.supports.srq {
            return Err(not_supported("a shared receive queue"));
        }
        check_limit("a shared receive queue", depth, self.options.caps.recv_depth_max)?;
        let mut fabric = self.shared.lock();
        let id = fabric.fresh_id();
        fabric.srqs.insert(id, RecvQueue::new(self.id, depth));
        Ok(LoopbackSrq {
            shared: self.shared.clone(),
            id,
            _one_thread: PhantomData,
        })
    }

    fn create_qp(&self, options: &QpOptions<'_, Loopback>) -> Result<LoopbackQp, CreateError> {
        self.check_options(options)?;
        let mut fabric = self.shared.lock();
        let qpn = fabric.fresh_id();
        let state = match options.kind {
            QpKind::Ud => QpState::ReadyToSend,
            QpKind::Rc | QpKind::Uc => QpState::Init,
        };
        let qp = Qp {
            ctx: self.id,
            kind: options.kind,
            state,
            peer: None,
            send_cq: options.send_cq.id,
            recv_cq: options.recv_cq.id,
            srq: options.srq.map(|srq| srq.id),
            recvs: RecvQueue::new(self.id, options.recv_depth),
            sends: SendQueue::new(options.send_depth, options.rnr_timeout),
            inline_bytes: options.inline_bytes,
            qkey: options.qkey,
        };
        fabric.qps.insert(qpn, qp);
        Ok(LoopbackQp {
            shared: self.shared.clone(),
            qpn,
            _one_thread: PhantomData,
        })
    }

    fn import_region(&self, export: &Export) -> Result<RemoteRegion, ImportError> {
        self.shared.lock().import(self.domain, export)
    }

    fn forget_region(&self, region: &RemoteRegion) {
        let mut fabric = self.shared.lock();
        if !fabric.has(Flaw::RemembersKeys) {
            fabric.imports.remove(&(self.domain, region.rkey));
        }
    }

    fn create_ah(&self, export: &Export) -> Result<UdDest, ImportError> {
        let mut fabric = self.shared.lock();
        let qpn = fabric.names.datagram_queue_pair(export)?;
        let Some(target) = fabric.qps.get(&qpn) else {
            return Err(ImportError::PeerGone);
        };
        let (ctx, qkey) = (target.ctx, target.qkey);
        let ah = fabric.fresh_id();
        fabric.ahs.insert((self.id, ah), ctx);
        Ok(UdDest {
            ah,
            qpn: Qpn(qpn),
            qkey,
        })
    }

    fn destroy_ah(&self, dest: &UdDest) {
        let mut fabric = self.shared.lock();
        if !fabric.has(Flaw::RemembersHandles) {
            fabric.ahs.remove(&(self.id, dest.ah));
        }
    }

    fn waker(&self) -> Waker {
        let (shared, id) = (self.shared.clone(), self.id);
        let deaf = self.options.flaw == Some(Flaw::DeafToWakers);
        Waker::new(move || {
            if !deaf {
                shared.lock().ring(id);
            }
        })
    }

    fn bell(&self) -> Bell {
        self.shared.lock().names.bell(self.id)
    }

    fn arm(&self) {
        let mut fabric = self.shared.lock();
        let sleep = fabric.contexts.entry(self.id).or_default();
        sleep.armed = true;
        sleep.rung = false;
    }

    fn disarm(&self) {
        let mut fabric = self.shared.lock();
        fabric.contexts.entry(self.id).or_default().armed = false;
    }

    fn park(&self, deadline: Ns) {
        self.sleep(deadline, None);
    }

    fn park_beside(&self, deadline: Ns, fd: BorrowedFd<'_>) {
        self.sleep(deadline, Some(fd));
    }
}

impl LoopbackContext {
    fn sleep(&self, deadline: Ns, fd: Option<BorrowedFd<'_>>) {
        let mut fabric = self.shared.lock();
        let fd = fd.filter(|_| !fabric.has(Flaw::DeafToDescriptors));
        let is_readable = || fd.is_some_and(is_readable);
        let now = fabric.clock.now();
        if fabric.has(Flaw::ForgetsAtPark) {
            fabric.contexts.entry(self.id).or_default().rung = false;
        }
        if self.options.park == ParkMode::Block {
            let mut left = deadline.since(now);
            let asleep = |fabric: &mut super::fabric::Fabric| {
                !fabric.contexts.get(&self.id).is_some_and(|sleep| sleep.rung)
            };
            while asleep(&mut fabric) && left > Ns::ZERO && !is_readable() {
                let nap = fd.map_or(left, |_| left.min(LOOK_EVERY));
                let parked = self
                    .shared
                    .rung
                    .wait_timeout_while(fabric, nap.to_duration(), asleep);
                fabric = parked.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
                left = left.since(nap);
            }
        }
        let sleep = fabric.contexts.entry(self.id).or_default();
        let rung = std::mem::take(&mut sleep.rung);
        sleep.armed = false;
        if !rung && !is_readable() && deadline != Ns::MAX {
            fabric.clock.advance_to(deadline);
        }
        drop(fabric);
        self.cpu.refresh();
    }
}

/// Whether a read would not block. If that is unknown, the descriptor counts as readable, and its owner sees the error.
fn is_readable(fd: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    !matches!(poll(&mut fds, Some(&Timespec::default())), Ok(0))
}

impl Drop for LoopbackContext {
    fn drop(&mut self) {
        self.shared.lock().contexts.remove(&self.id);
    }
}
