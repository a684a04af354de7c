//! Two ends of one queue pair, driven by hand.

use drover_mem::PageWish;
use drover_verbs::{
    Access, CompletionQueue, Context, Device, MemoryRegion, QpKind, QpOptions, QueuePair, RecvList, RecvWr,
    RemoteRegion, SendList, SendOp, SendWr, UdDest, Wc, WrId,
};
use drover_verbs_sim::{Sim, SimContext, SimCq, SimMr, SimQp, World};

/// A queue pair of machine 0 and its other end on machine 1.
pub struct Pair {
    pub qp: SimQp,
    pub there_qp: SimQp,
    pub cq: SimCq,
    pub there_cq: SimCq,
    pub mr: SimMr,
    pub there_mr: SimMr,
    pub remote: RemoteRegion,
    pub dest: Option<UdDest>,
    pub here: SimContext,
    pub there: SimContext,
}

/// A request; [`Pair::post`] sets the source of its bytes.
pub struct Wish {
    id: u64,
    op: SendOp,
    bytes: Vec<u8>,
}

/// A SEND.
pub fn send(pair: &Pair, id: u64, bytes: &[u8]) -> Wish {
    let op = SendOp::Send {
        dest: pair.dest,
        imm: None,
    };
    let bytes = bytes.to_vec();
    Wish { id, op, bytes }
}

/// A WRITE to the start of the other end's memory.
pub fn write(pair: &Pair, id: u64, bytes: &[u8]) -> Wish {
    write_at(pair, id, 0, bytes)
}

/// A WRITE to `offset` of the other end's memory.
pub fn write_at(pair: &Pair, id: u64, offset: usize, bytes: &[u8]) -> Wish {
    let op = SendOp::Write {
        remote: pair.remote.at(offset),
        imm: None,
    };
    let bytes = bytes.to_vec();
    Wish { id, op, bytes }
}

impl Pair {
    /// A connected pair with `depth` slots in each queue.
    pub fn new(world: &World, kind: QpKind, depth: usize) -> Pair {
        Pair::with_cq_depth(world, kind, depth)
    }

    pub fn with_cq_depth(world: &World, kind: QpKind, cq_depth: usize) -> Pair {
        Pair::to_machine(1, world, kind, cq_depth)
    }

    /// A pair whose other end is on another machine than 1, or on the same.
    pub fn to_machine(there: usize, world: &World, kind: QpKind, cq_depth: usize) -> Pair {
        let here = world.device(0).context().expect("this thread's world");
        let there = world.device(there).context().expect("this thread's world");
        let (cq, there_cq) = (
            here.create_cq(cq_depth).expect("a queue"),
            there.create_cq(1024).expect("a queue"),
        );
        let options = |cq, ctx: &SimContext| QpOptions::<Sim> {
            send_depth: 512,
            recv_depth: 512,
            ..QpOptions::new(kind, cq, ctx.caps())
        };
        let mut qp = here.create_qp(&options(&cq, &here)).expect("a queue pair");
        let mut there_qp = there
            .create_qp(&options(&there_cq, &there))
            .expect("a queue pair");
        let (ours, theirs) = (
            qp.export().expect("an export"),
            there_qp.export().expect("an export"),
        );
        let dest = match kind {
            QpKind::Ud => Some(here.create_ah(&theirs).expect("an address")),
            QpKind::Rc | QpKind::Uc => {
                qp.connect(&theirs).expect("connected");
                there_qp.connect(&ours).expect("connected");
                None
            }
        };
        let memory = |ctx: &SimContext| {
            let region = ctx.alloc(1 << 16, PageWish::Small).expect("memory");
            ctx.register(&region, Access::ALL).expect("registered")
        };
        let (mr, there_mr) = (memory(&here), memory(&there));
        let remote = here
            .import_region(&there_mr.export(&[]).expect("an export"))
            .expect("an import");
        Pair {
            qp,
            there_qp,
            cq,
            there_cq,
            mr,
            there_mr,
            remote,
            dest,
            here,
            there,
        }
    }

    /// Posts signaled requests as one list.
    pub fn post(&mut self, wishes: &[Wish]) {
        let mut list = SendList::default();
        for wish in wishes {
            let payload = match wish.bytes.len() {
                0..=256 => list.inline(&wish.bytes),
                len => {
                    self.mr.region().copy_in(0, &wish.bytes);
                    drover_verbs::Payload::Region(self.mr.sge(0, len))
                }
            };
            list.push(SendWr::new(wish.op, payload).signaled(WrId(wish.id)));
        }
        self.qp.post_send(self.here.cpu(), &list).expect("space");
    }

    /// Posts a RECV at the other end.
    pub fn post_recv(&mut self, id: u64) {
        let mut list = RecvList::default();
        list.push(RecvWr {
            wr_id: WrId(id),
            sge: self.there_mr.sge(4096, 512),
        });
        self.there_qp.post_recv(self.there.cpu(), &list).expect("space");
    }

    /// Polls the completions of this end.
    pub fn completions(&mut self) -> Vec<Wc> {
        drain(&mut self.cq, &self.here)
    }

    /// Polls the completions of the other end.
    pub fn arrivals(&mut self) -> Vec<Wc> {
        drain(&mut self.there_cq, &self.there)
    }
}

fn drain(cq: &mut SimCq, ctx: &SimContext) -> Vec<Wc> {
    let mut all = Vec::new();
    let mut wcs = [Wc::default(); 16];
    loop {
        let count = cq.poll(ctx.cpu(), &mut wcs);
        all.extend(&wcs[..count]);
        if count == 0 {
            return all;
        }
    }
}
