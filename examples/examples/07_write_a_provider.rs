//! A provider of one's own: it counts the requests that are posted, and leaves the work to another provider. Every system
//! runs over it unchanged, so it tells what a GET and a PUT cost in verbs, at the client and at the server.

use drover_base::Ns;
use drover_client::{CallError, Client, Connected};
use drover_control::{ControlAddr, ControlListener};
use drover_examples::{Outcome, PATIENCE};
use drover_kv::{Capacity, ConnectOptions, Sizes, SystemJob, connect, dials};
use drover_mem::{AllocError, PageWish, Region};
use drover_systems::System;
use drover_verbs::*;
use drover_verbs_shm::{Shm, ShmDevice};
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// SENDs, WRITEs, READs.
type Counts = Arc<[AtomicU64; 3]>;

struct Counting;
#[derive(Clone)]
struct CountingDevice(ShmDevice, Counts);
struct CountingContext(<Shm as Provider>::Context, Counts);
struct CountingQp(<Shm as Provider>::Qp, Counts);
struct CountingCq(<Shm as Provider>::Cq);
struct CountingSrq(<Shm as Provider>::Srq);

impl Provider for Counting {
    const NAME: &'static str = "counting";
    type Cpu = <Shm as Provider>::Cpu;
    type Device = CountingDevice;
    type Context = CountingContext;
    type Mr = <Shm as Provider>::Mr;
    type Qp = CountingQp;
    type Cq = CountingCq;
    type Srq = CountingSrq;
}

impl Device<Counting> for CountingDevice {
    fn context(&self) -> Result<CountingContext, OpenError> {
        Ok(CountingContext(self.0.context()?, self.1.clone()))
    }
    fn caps(&self) -> &Caps {
        self.0.caps()
    }
}

/// What is not counted is passed on.
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

/// Counts what 1,000 PUTs and 1,000 GETs of a system post.
struct Count;

impl SystemJob for Count {
    type Answer = Outcome;

    fn run<S: drover_kv::System>(self) -> Outcome {
        let (served, asked) = (Counts::default(), Counts::default());
        let path = std::env::temp_dir().join(format!("drover-07-{}-{}", S::FACTS.name, std::process::id()));
        let addr: ControlAddr = format!("unix:{}", path.display()).parse()?;
        let plan = S::plan(&Sizes {
            shard_count: 1,
            capacity: Capacity::Items { count: 4_000, key_bytes: 4 },
            value_bytes_max: 32,
            window: 1,
        })?;
        let device = CountingDevice(ShmDevice::default(), served.clone());
        let listeners = vec![ControlListener::bind(&addr)?];
        let service = S::start::<Counting>(&device, &plan, listeners, Box::new(|_| {}))?;

        let ctx = Rc::new(CountingDevice(ShmDevice::default(), asked.clone()).context()?);
        let dials = dials(&S::FACTS, &addr, 1, None);
        let client =
            connect::<Counting, S::Client<Counting>>(&ctx, dials, &ConnectOptions::default(), PATIENCE)?;
        let mut client = Client::from(Connected::over(ctx, client));
        let (name, sides) = (S::FACTS.name, [&asked, &served]);
        report(name, "PUT", sides, |key| client.put(&key.to_le_bytes(), &[7; 32], 0))?;
        report(name, "GET", sides, |key| {
            let value = client.get(&key.to_le_bytes())?;
            assert_eq!(value.as_deref(), Some(&[7; 32][..]));
            Ok(())
        })?;
        drop(client);
        service.stop();
        Ok(())
    }
}

/// Does `operation` with many keys, and says how many requests both sides have posted for each.
fn report(
    system: &str,
    what: &str,
    sides: [&Counts; 2],
    mut operation: impl FnMut(u32) -> Result<(), CallError>,
) -> Outcome {
    const OPERATIONS: u32 = 1_000;
    let read = |side: &Counts| [0, 1, 2].map(|kind| side[kind].load(Ordering::Relaxed));
    let before = sides.map(read);
    for key in 0..OPERATIONS {
        operation(key)?;
    }
    for ((side, name), before) in sides.iter().zip(["client", "server"]).zip(before) {
        let per = |kind: usize| (read(side)[kind] - before[kind]) as f64 / f64::from(OPERATIONS);
        let (send, write, read) = (per(0), per(1), per(2));
        println!("{system:<6} {what} {name}: {send:.2} SEND, {write:.2} WRITE, {read:.2} READ");
    }
    Ok(())
}

fn main() -> Outcome {
    for system in System::ALL {
        system.run(Count)?;
    }
    Ok(())
}
