//! A loop that posts one verb repeatedly, and its measurements.

use drover_base::{Actor, Cpu, Ns, Progress};
use drover_mem::PageWish;
use drover_sim::VirtualCpu;
use drover_verbs::{
    Access, CompletionQueue, Context, Device, Export, Imm, MemoryRegion, Payload, QpKind, QpOptions,
    QueuePair, RecvList, RecvWr, RemoteRegion, SendList, SendOp, SendWr, UdDest, Wc, WcStatus, WrId,
};
use drover_verbs_sim::profile::Profile;
use drover_verbs_sim::{Report, Sim, SimContext, SimCq, SimDevice, SimMr, SimQp, World, WorldOptions};
use std::cell::RefCell;
use std::rc::Rc;

/// Verb to post.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verb {
    Write,
    Read,
    Send,
    FetchAdd,
}

/// Posting threads, targets and requests of a run.
#[derive(Clone)]
pub struct Plan {
    pub options: WorldOptions,
    pub seed: u64,
    pub verb: Verb,
    pub kind: QpKind,
    pub bytes: usize,
    pub inline: bool,
    /// Machine of every issuing thread.
    pub issuers: Vec<usize>,
    /// Machines to which each issuer has queue pairs.
    pub targets: Vec<usize>,
    /// Queue pairs of an issuer per target.
    pub queue_pairs: usize,
    /// Whether all threads of one machine are one process.
    pub one_process: bool,
    /// Requests outstanding per issuer.
    pub window: usize,
    /// One request in this many of a queue pair is signaled.
    pub signal_every: usize,
    /// Requests per post.
    pub list: usize,
    /// Number of distinct words for atomics.
    pub words: u64,
    pub warm_up: Ns,
    pub measured: Ns,
}

/// Measurements of a run.
pub struct Outcome {
    /// Million requests per second completed, all issuers together.
    pub mops: f64,
    /// Million requests per second taken by machine 0's receive engine: over UC the issuer does not wait for the
    /// responder.
    pub served_mops: f64,
    /// Mean number of requests outstanding, all issuers together.
    pub outstanding: f64,
    /// Microseconds from post to poll, mean over signaled requests.
    pub latency_us: f64,
    pub report: Report,
    pub total: Report,
    pub trace_hash: u64,
    pub posted: u64,
    pub completed: u64,
    pub in_flight: u64,
}

impl Plan {
    /// One verb of `profile`, from one machine to another.
    pub fn new(profile: &str, verb: Verb, kind: QpKind, bytes: usize) -> Plan {
        Plan {
            options: WorldOptions::new(Profile::named(profile).expect("a profile")),
            seed: 1,
            verb,
            kind,
            bytes,
            inline: false,
            issuers: vec![0],
            targets: vec![1],
            queue_pairs: 1,
            one_process: false,
            window: 16,
            signal_every: 4,
            list: 1,
            words: 1,
            warm_up: Ns::from_us(100),
            measured: Ns::from_us(300),
        }
    }

    /// `machines` machines with four threads each post to machine 0.
    pub fn inbound(self, machines: usize) -> Plan {
        Plan {
            issuers: (0..4 * machines).map(|n| 1 + n / 4).collect(),
            targets: vec![0],
            ..self
        }
    }

    /// `threads` threads of machine 0 post to as many machines, each to its own.
    pub fn outbound(self, threads: usize) -> Plan {
        Plan {
            issuers: vec![0; threads],
            targets: (1..=threads).collect(),
            ..self
        }
    }

    pub fn inlined(self) -> Plan {
        Plan { inline: true, ..self }
    }

    pub fn window(self, window: usize) -> Plan {
        Plan { window, ..self }
    }
}

#[derive(Default)]
struct Tally {
    posted: u64,
    completed: u64,
    in_flight: u64,
    latency_ns: f64,
    timed: u64,
    /// Outstanding requests integrated over time.
    area_ns: f64,
}

/// One thread that posts.
struct Issuer {
    plan: Rc<Plan>,
    lanes: Vec<Lane>,
    cq: SimCq,
    mr: SimMr,
    list: SendList,
    next: usize,
    outstanding: usize,
    changed_at: Ns,
    tally: Rc<RefCell<Tally>>,
    _ctx: Rc<SimContext>,
}

struct Lane {
    qp: SimQp,
    remote: Option<RemoteRegion>,
    dest: Option<UdDest>,
    unsignaled: usize,
    /// Times when signaled requests were posted, in order.
    posted_at: std::collections::VecDeque<Ns>,
}

impl Issuer {
    /// Accounts for a change of the number of outstanding requests now.
    fn note(&mut self, now: Ns) {
        let time = now.since(self.changed_at).0 as f64;
        self.tally.borrow_mut().area_ns += self.outstanding as f64 * time;
        self.changed_at = now;
    }

    fn post(&mut self, cpu: &VirtualCpu) {
        let now = cpu.refresh();
        self.note(now);
        let plan = self.plan.clone();
        let at = self.next % self.lanes.len();
        self.next += 1;
        let lane = &mut self.lanes[at];
        self.list.clear();
        for _ in 0..plan.list {
            lane.unsignaled += 1;
            let signaled = lane.unsignaled >= plan.signal_every;
            let payload = match plan.inline {
                true => self.list.inline(&[7; 256][..plan.bytes]),
                false => Payload::Region(self.mr.sge(0, plan.bytes)),
            };
            let word = cpu.random() % plan.words;
            let remote = |offset| lane.remote.expect("connected").at(offset);
            let op = match plan.verb {
                Verb::Write => SendOp::Write {
                    remote: remote(0),
                    imm: None,
                },
                Verb::Read => SendOp::Read { remote: remote(0) },
                Verb::FetchAdd => SendOp::FetchAdd {
                    remote: remote(8 * word as usize),
                    add: 1,
                },
                Verb::Send => SendOp::Send {
                    dest: lane.dest,
                    imm: None::<Imm>,
                },
            };
            self.list.push(
                SendWr::new(op, payload)
                    .signaled_if(signaled, WrId(lane.unsignaled as u64 | (at as u64) << 32)),
            );
            if signaled {
                lane.unsignaled = 0;
                lane.posted_at.push_back(cpu.refresh());
            }
        }
        lane.qp.post_send(cpu, &self.list).expect("the window fits");
        self.outstanding += plan.list;
        let mut tally = self.tally.borrow_mut();
        tally.posted += plan.list as u64;
        tally.in_flight += plan.list as u64;
    }

    fn collect(&mut self, cpu: &VirtualCpu) -> usize {
        let mut wcs = [Wc::default(); 16];
        let count = self.cq.poll(cpu, &mut wcs);
        let now = cpu.refresh();
        self.note(now);
        let mut tally = self.tally.borrow_mut();
        for wc in &wcs[..count] {
            assert_eq!(wc.status, WcStatus::Success);
            let (covers, lane) = (wc.wr_id.0 & 0xffff_ffff, (wc.wr_id.0 >> 32) as usize);
            let posted_at = self.lanes[lane].posted_at.pop_front().expect("it was signaled");
            self.outstanding -= covers as usize;
            tally.completed += covers;
            tally.in_flight -= covers;
            tally.latency_ns += now.since(posted_at).0 as f64;
            tally.timed += 1;
        }
        count
    }
}

impl Actor<VirtualCpu> for Issuer {
    fn step(&mut self, cpu: &VirtualCpu) -> Progress {
        let collected = self.collect(cpu);
        if self.outstanding + self.plan.list <= self.plan.window {
            self.post(cpu);
            return Progress::Busy;
        }
        match collected {
            0 => Progress::Idle { wake_at: Ns::MAX },
            _ => Progress::Busy,
        }
    }
}

/// Keeps RECVs posted.
struct Sink {
    qps: Vec<SimQp>,
    cq: SimCq,
    mr: SimMr,
    bytes: usize,
    _ctx: Rc<SimContext>,
}

impl Sink {
    fn fill(&mut self, cpu: &VirtualCpu, qp: usize, count: usize) {
        let mut list = RecvList::with_capacity(count);
        for _ in 0..count {
            list.push(RecvWr {
                wr_id: WrId(qp as u64),
                sge: self.mr.sge(0, self.bytes + 64),
            });
        }
        self.qps[qp].post_recv(cpu, &list).expect("space for RECVs");
    }
}

impl Actor<VirtualCpu> for Sink {
    fn step(&mut self, cpu: &VirtualCpu) -> Progress {
        let mut wcs = [Wc::default(); 32];
        let count = self.cq.poll(cpu, &mut wcs);
        for wc in &wcs[..count] {
            self.fill(cpu, wc.wr_id.0 as usize, 1);
        }
        match count {
            0 => Progress::Idle { wake_at: Ns::MAX },
            _ => Progress::Busy,
        }
    }
}

const RECVS: usize = 4096;

struct Cluster {
    world: World,
    devices: Vec<Option<SimDevice>>,
    one_process: bool,
}

impl Cluster {
    fn context(&mut self, machine: usize) -> Rc<SimContext> {
        let device = match &self.devices[machine] {
            Some(device) if self.one_process => device.clone(),
            _ => self.world.device(machine),
        };
        self.devices[machine] = Some(device.clone());
        Rc::new(device.context().expect("this thread's world"))
    }
}

fn memory(ctx: &SimContext, bytes: usize) -> SimMr {
    let region = ctx.alloc(bytes, PageWish::Small).expect("memory");
    ctx.register(&region, Access::ALL).expect("registered")
}

fn import(ctx: &SimContext, mr: &SimMr) -> RemoteRegion {
    let export: Export = mr.export(&[]).expect("an export");
    ctx.import_region(&export).expect("an import")
}

/// Runs `plan`.
pub fn run(plan: &Plan) -> Outcome {
    let machines = 1 + plan
        .issuers
        .iter()
        .chain(&plan.targets)
        .max()
        .copied()
        .unwrap_or(0);
    let mut cluster = Cluster {
        world: World::with_options(plan.options.clone(), machines, plan.seed),
        devices: vec![None; machines],
        one_process: plan.one_process,
    };
    let plan = Rc::new(plan.clone());
    let tally = Rc::new(RefCell::new(Tally::default()));
    let own_targets = plan.targets.len() == plan.issuers.len() && plan.targets.len() > 1;
    for (n, &machine) in plan.issuers.iter().enumerate() {
        let targets = match own_targets {
            true => vec![plan.targets[n]],
            false => plan.targets.clone(),
        };
        connect(&mut cluster, &plan, machine, &targets, &tally);
    }
    let world = &cluster.world;
    world.run_for(plan.warm_up);
    let (before, completed) = (world.report(), tally.borrow().completed);
    let area_ns = tally.borrow().area_ns;
    (tally.borrow_mut().latency_ns, tally.borrow_mut().timed) = (0.0, 0);
    world.run_for(plan.measured);
    let total = world.report();
    let tally = tally.borrow();
    let report = total.since(&before);
    Outcome {
        served_mops: report.machines[0].parts.rx.served as f64 / plan.measured.0 as f64 * 1e3,
        outstanding: (tally.area_ns - area_ns) / plan.measured.0 as f64,
        mops: (tally.completed - completed) as f64 / plan.measured.0 as f64 * 1e3,
        latency_us: tally.latency_ns / tally.timed.max(1) as f64 / 1e3,
        report,
        total,
        trace_hash: world.trace_hash(),
        posted: tally.posted,
        completed: tally.completed,
        in_flight: tally.in_flight,
    }
}

fn connect(
    cluster: &mut Cluster,
    plan: &Rc<Plan>,
    machine: usize,
    targets: &[usize],
    tally: &Rc<RefCell<Tally>>,
) {
    let ctx = cluster.context(machine);
    let cq = ctx.create_cq(8192).expect("a queue");
    let mut lanes = Vec::new();
    for &target in targets {
        let there = cluster.context(target);
        let there_cq = there.create_cq(2 * RECVS).expect("a queue");
        let mr = memory(&there, (8 * plan.words as usize).max(plan.bytes + 64));
        let mut qps = Vec::new();
        for _ in 0..plan.queue_pairs {
            let (lane, qp) = pair(&ctx, &cq, &there, &there_cq, &mr, plan);
            lanes.push(lane);
            qps.push(qp);
        }
        let mut sink = Sink {
            qps,
            cq: there_cq,
            mr,
            bytes: plan.bytes,
            _ctx: there.clone(),
        };
        if plan.verb == Verb::Send {
            (0..plan.queue_pairs).for_each(|qp| sink.fill(there.cpu(), qp, RECVS));
        }
        cluster.world.spawn(&there, Box::new(sink));
    }
    let mr = memory(&ctx, plan.bytes.max(8));
    let issuer = Issuer {
        plan: plan.clone(),
        lanes,
        cq,
        mr,
        list: SendList::default(),
        next: 0,
        outstanding: 0,
        changed_at: Ns::ZERO,
        tally: tally.clone(),
        _ctx: ctx.clone(),
    };
    cluster.world.spawn(&ctx, Box::new(issuer));
}

fn pair(
    ctx: &SimContext,
    cq: &SimCq,
    there: &SimContext,
    there_cq: &SimCq,
    mr: &SimMr,
    plan: &Plan,
) -> (Lane, SimQp) {
    let options = |cq, ctx: &SimContext| QpOptions::<Sim> {
        send_depth: 4096,
        recv_depth: RECVS,
        ..QpOptions::new(plan.kind, cq, ctx.caps())
    };
    let mut qp = ctx.create_qp(&options(cq, ctx)).expect("a queue pair");
    let mut other = there.create_qp(&options(there_cq, there)).expect("a queue pair");
    let dest = match plan.kind {
        QpKind::Ud => Some(
            ctx.create_ah(&other.export().expect("an export"))
                .expect("an address"),
        ),
        QpKind::Rc | QpKind::Uc => {
            qp.connect(&other.export().expect("an export"))
                .expect("connected");
            other
                .connect(&qp.export().expect("an export"))
                .expect("connected");
            None
        }
    };
    let lane = Lane {
        qp,
        remote: (plan.kind != QpKind::Ud).then(|| import(ctx, mr)),
        dest,
        unsignaled: 0,
        posted_at: Default::default(),
    };
    (lane, other)
}
