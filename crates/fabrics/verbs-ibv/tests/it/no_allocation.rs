//! Posting and polling allocate nothing, whatever is posted. The allocator counts per thread, so other tests
//! may run meanwhile.

use drover_mem::{CountingAlloc, PageWish};
use drover_verbs::*;
use drover_verbs_ibv::{Ibv, IbvContext, IbvCq, IbvDevice, IbvMr, IbvOptions, IbvQp, IbvSrq};
use drover_verbs_ibv_stub as stub;

#[global_allocator]
static ALLOC: CountingAlloc = CountingAlloc::new();

/// Posts every kind of request and polls the completions.
struct Bench {
    ctx: IbvContext,
    mr: IbvMr,
    remote: RemoteRegion,
    dest: UdDest,
    connected: IbvQp,
    datagrams: IbvQp,
    srq: IbvSrq,
    cq: IbvCq,
    sends: SendList,
    recvs: RecvList,
    wcs: [Wc; 40],
}

impl Bench {
    fn new() -> Bench {
        let mut options = IbvOptions::default();
        options.library = Some(stub::idle_library());
        let ctx = IbvDevice::open(options)
            .expect("a device")
            .context()
            .expect("a context");
        let memory = ctx.alloc(4096, PageWish::Small).expect("memory");
        let mr = ctx.register(&memory, Access::ALL).expect("registered");
        let cq = ctx.create_cq(64).expect("a queue");
        let srq = ctx.create_srq(64).expect("a queue");
        let qp = |kind| {
            let options = QpOptions::<Ibv>::new(kind, &cq, ctx.caps());
            ctx.create_qp(&options).expect("a queue pair")
        };
        let (mut connected, datagrams) = (qp(QpKind::Rc), qp(QpKind::Ud));
        connected
            .connect(&connected.export().expect("an export"))
            .expect("connected");
        let remote = mr.export(&[]).expect("an export");
        let remote = ctx.import_region(&remote).expect("imported");
        let dest = datagrams.export().expect("an export");
        let dest = ctx.create_ah(&dest).expect("an address handle");
        Bench {
            ctx,
            mr,
            remote,
            dest,
            connected,
            datagrams,
            srq,
            cq,
            sends: SendList::with_capacity(512, 1 << 14),
            recvs: RecvList::with_capacity(512),
            wcs: [Wc::default(); 40],
        }
    }

    fn send(&mut self, op: SendOp, payload: Payload) {
        self.sends.push(SendWr::new(op, payload).signaled(WrId(7)));
    }

    /// Posts one request per verb of a connected queue pair, with each kind of payload.
    fn connected(&mut self) {
        let (remote, mr) = (self.remote.at(64), self.mr.sge(0, 8));
        let (imm, dest) = (Some(Imm(9)), None);
        let payload = self.sends.inline(&[7; 32]);
        self.send(SendOp::Write { remote, imm: None }, payload);
        let payload = self.sends.gather(&[mr, mr]);
        self.send(SendOp::Write { remote, imm }, payload);
        self.send(SendOp::Send { dest, imm }, Payload::EMPTY);
        let word = Payload::Region(mr);
        self.send(SendOp::Read { remote }, word);
        let (compare, swap, add) = (1, 2, 3);
        self.send(
            SendOp::CompareSwap {
                remote,
                compare,
                swap,
            },
            word,
        );
        self.send(SendOp::FetchAdd { remote, add }, word);
    }

    fn post(&mut self) {
        let (cpu, sends) = (self.ctx.cpu(), &self.sends);
        self.connected.post_send(cpu, sends).expect("taken");
        self.sends.clear();
    }

    fn round(&mut self) {
        self.connected();
        self.post();
        let payload = self.sends.inline(&[7; 32]);
        let (remote, imm) = (self.remote.at(0), None);
        self.send(SendOp::Write { remote, imm }, payload);
        self.post(); // a list of one request
        let pieces = self.sends.gather(&[self.mr.sge(0, 8); 2]);
        self.send(SendOp::Write { remote, imm }, pieces);
        self.post();
        (0..60).for_each(|_| self.connected());
        self.post(); // several chains
        let dest = Some(self.dest);
        for count in [1, 16] {
            for _ in 0..count {
                let payload = self.sends.inline(&[7; 32]);
                self.send(SendOp::Send { dest, imm }, payload);
            }
            let cpu = self.ctx.cpu();
            self.datagrams.post_send(cpu, &self.sends).expect("taken");
            self.sends.clear();
        }
        for count in [1, 16, 300] {
            for _ in 0..count {
                let (wr_id, sge) = (WrId(7), self.mr.sge(0, 64));
                self.recvs.push(RecvWr { wr_id, sge });
            }
            let cpu = self.ctx.cpu();
            self.connected.post_recv(cpu, &self.recvs).expect("taken");
            self.srq.post_recv(cpu, &self.recvs).expect("taken");
            self.recvs.clear();
        }
        for count in [0, 1, 16, 40] {
            let got = self.cq.poll(self.ctx.cpu(), &mut self.wcs[..count]);
            assert_eq!(got, count);
        }
    }
}

#[test]
fn post_and_poll_allocate_nothing() {
    let mut bench = Bench::new();
    bench.round(); // lists grow in the first round
    let before = ALLOC.count();
    for _ in 0..100 {
        bench.round();
    }
    assert_eq!(ALLOC.count() - before, 0, "allocations in 100 rounds");
    drop(std::hint::black_box(vec![0u8; 64]));
    assert_eq!(ALLOC.count() - before, 1, "what is counted");
}
