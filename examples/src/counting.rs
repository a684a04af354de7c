//! [`Counting`]: a provider of one's own. It counts the requests that are posted, and leaves the work to another provider.

use drover_base::Ns;
use drover_mem::{AllocError, PageWish, Region};
use drover_verbs::*;
use drover_verbs_shm::{Shm, ShmDevice};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers of posted SENDs, WRITEs and READs.
pub type Counts = Arc<[AtomicU64; 3]>;

/// The provider.
pub struct Counting;
/// A device and its counts.
#[derive(Clone)]
pub struct CountingDevice(pub ShmDevice, pub Counts);
/// A domain of the device.
#[derive(Clone)]
pub struct CountingDomain(<Shm as Provider>::Domain, Counts);
/// A context of the device.
pub struct CountingContext(<Shm as Provider>::Context, Counts);
/// A queue pair.
pub struct CountingQp(<Shm as Provider>::Qp, Counts);
/// A completion queue.
pub struct CountingCq(<Shm as Provider>::Cq);
/// A shared receive queue.
pub struct CountingSrq(<Shm as Provider>::Srq);

impl Provider for Counting {
    const NAME: &'static str = "counting";
    type Cpu = <Shm as Provider>::Cpu;
    type Device = CountingDevice;
    type Domain = CountingDomain;
    type Context = CountingContext;
    type Mr = <Shm as Provider>::Mr;
    type SharedMr = <Shm as Provider>::SharedMr;
    type DeviceMemory = <Shm as Provider>::DeviceMemory;
    type Qp = CountingQp;
    type Cq = CountingCq;
    type Srq = CountingSrq;
    type SharedQueue = drover_verbs::provide::NoSharedQueue;
}

impl Device<Counting> for CountingDevice {
    fn context(&self) -> Result<CountingContext, OpenError> {
        Ok(CountingContext(self.0.context()?, self.1.clone()))
    }
    fn domain(&self, options: &DomainOptions) -> Result<CountingDomain, OpenError> {
        Ok(CountingDomain(self.0.domain(options)?, self.1.clone()))
    }
    fn caps(&self) -> &Caps {
        self.0.caps()
    }
}

impl Domain<Counting> for CountingDomain {
    fn context(&self) -> Result<CountingContext, OpenError> {
        Ok(CountingContext(self.0.context()?, self.1.clone()))
    }
    fn register(
        &self,
        region: &Region,
        access: Access,
    ) -> Result<<Shm as Provider>::SharedMr, RegisterError> {
        self.0.register(region, access)
    }
    fn import_region(&self, export: &Export) -> Result<RemoteRegion, ImportError> {
        self.0.import_region(export)
    }
    fn forget_region(&self, region: &RemoteRegion) {
        self.0.forget_region(region);
    }
    fn doorbells(&self) -> DoorbellReport {
        self.0.doorbells()
    }
}

/// Creates counting objects; everything else is passed on.
impl Context<Counting> for CountingContext {
    fn cpu(&self) -> &<Shm as Provider>::Cpu {
        self.0.cpu()
    }
    fn caps(&self) -> &Caps {
        self.0.caps()
    }
    fn alloc(&self, bytes: usize, pages: PageWish) -> Result<Region, AllocError> {
        self.0.alloc(bytes, pages)
    }
    fn register(&self, region: &Region, access: Access) -> Result<<Shm as Provider>::Mr, RegisterError> {
        self.0.register(region, access)
    }
    fn adopt(&self, shared: &<Shm as Provider>::SharedMr) -> Result<<Shm as Provider>::Mr, RegisterError> {
        self.0.adopt(shared)
    }
    fn create_cq(&self, depth: usize) -> Result<CountingCq, CreateError> {
        self.0.create_cq(depth).map(CountingCq)
    }
    fn create_srq(&self, depth: usize) -> Result<CountingSrq, CreateError> {
        self.0.create_srq(depth).map(CountingSrq)
    }
    fn create_qp(&self, wanted: &QpOptions<'_, Counting>) -> Result<CountingQp, CreateError> {
        let qp = self.0.create_qp(&QpOptions {
            kind: wanted.kind,
            send_cq: &wanted.send_cq.0,
            recv_cq: &wanted.recv_cq.0,
            srq: wanted.srq.map(|srq| &srq.0),
            send_depth: wanted.send_depth,
            recv_depth: wanted.recv_depth,
            inline_bytes: wanted.inline_bytes,
            qkey: wanted.qkey,
            rnr_timeout: wanted.rnr_timeout,
        })?;
        Ok(CountingQp(qp, self.1.clone()))
    }
    fn import_region(&self, export: &Export) -> Result<RemoteRegion, ImportError> {
        self.0.import_region(export)
    }
    fn forget_region(&self, region: &RemoteRegion) {
        self.0.forget_region(region);
    }
    fn create_ah(&self, export: &Export) -> Result<UdDest, ImportError> {
        self.0.create_ah(export)
    }
    fn destroy_ah(&self, dest: &UdDest) {
        self.0.destroy_ah(dest);
    }
    fn waker(&self) -> Waker {
        self.0.waker()
    }
    fn bell(&self) -> Bell {
        self.0.bell()
    }
    fn arm(&self) {
        self.0.arm();
    }
    fn disarm(&self) {
        self.0.disarm();
    }
    fn park(&self, deadline: Ns) {
        self.0.park(deadline);
    }
    fn park_beside(&self, deadline: Ns, fd: BorrowedFd<'_>) {
        self.0.park_beside(deadline, fd);
    }
}

impl QueuePair<Counting> for CountingQp {
    fn qpn(&self) -> Qpn {
        self.0.qpn()
    }
    fn export(&self) -> Result<Export, AllocError> {
        self.0.export()
    }
    fn connect(&mut self, peer: &Export) -> Result<(), ConnectError> {
        self.0.connect(peer)
    }
    fn state(&self) -> QpState {
        self.0.state()
    }
    fn to_error(&mut self) {
        self.0.to_error();
    }
    fn fence(&mut self) -> Fenced {
        self.0.fence()
    }
    fn post_send(&mut self, cpu: &<Shm as Provider>::Cpu, list: &SendList) -> Result<(), PostError> {
        for wr in list.wrs() {
            let kind = match wr.op {
                SendOp::Send { .. } => 0,
                SendOp::Write { .. } => 1,
                _ => 2, // no system here uses atomics
            };
            self.1[kind].fetch_add(1, Ordering::Relaxed); // a count: nothing is ordered by it
        }
        self.0.post_send(cpu, list)
    }
    fn post_recv(&mut self, cpu: &<Shm as Provider>::Cpu, list: &RecvList) -> Result<(), PostError> {
        self.0.post_recv(cpu, list)
    }
}

impl CompletionQueue<Counting> for CountingCq {
    fn poll(&mut self, cpu: &<Shm as Provider>::Cpu, wcs: &mut [Wc]) -> usize {
        self.0.poll(cpu, wcs)
    }
}

impl SharedReceiveQueue<Counting> for CountingSrq {
    fn post_recv(&mut self, cpu: &<Shm as Provider>::Cpu, list: &RecvList) -> Result<(), PostError> {
        self.0.post_recv(cpu, list)
    }
}
