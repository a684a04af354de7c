//! [`Issuer`]: a thread that posts one verb repeatedly.

use super::costs::BATCH_TAIL;
use super::{Pacing, Tally, Verb, Verbs, wiring};
use drover_base::{Actor, Cpu, Ns, Progress};
use drover_verbs::{
    Payload, Provider, QueuePair, RemoteRegion, SendList, SendOp, SendWr, Sge, UdDest, Wc, WrId,
};

/// Maximum completions per poll.
const POLL: usize = 16;

/// Destination of an [`Issuer`]'s requests: a queue pair with remote memory or a UD address. Owns neither.
pub struct Target {
    /// Index of the issuer's queue pair that leads to the target.
    pub qp: usize,
    /// Memory of the target; unused for SENDs.
    pub remote: RemoteRegion,
    /// Address of the target, if the queue pair is UD.
    pub dest: Option<UdDest>,
}

/// A queue pair and the requests to account for.
struct Lane<P: Provider> {
    qp: P::Qp,
    /// Requests posted since the last signaled one.
    unsignaled: usize,
}

/// An actor that posts the verb of a [`Verbs`] plan to its targets, in turn or at random, and counts completions.
pub struct Issuer<P: Provider> {
    lanes: Vec<Lane<P>>,
    targets: Vec<Target>,
    cq: P::Cq,
    /// Local memory for payloads and READ results.
    local: Sge,
    /// Keeps the registration alive.
    _mr: P::Mr,
    plan: Verbs,
    bytes: Vec<u8>,
    list: SendList,
    tally: Tally,
    next: usize,
    outstanding: usize,
    /// Requests of the batch still to be posted.
    left: usize,
    not_before: Ns,
}

impl<P: Provider> Issuer<P> {
    /// Creates an issuer for `plan`; `qps` must be connected.
    ///
    /// # Panics
    /// If `plan` signals so rarely that unsignaled requests could fill the window.
    pub fn new(
        plan: &Verbs,
        qps: Vec<P::Qp>,
        targets: Vec<Target>,
        cq: P::Cq,
        mr: P::Mr,
        tally: &Tally,
    ) -> Issuer<P> {
        use drover_verbs::MemoryRegion;
        let len = if plan.verb == Verb::FetchAdd {
            8
        } else {
            plan.bytes
        };
        assert!(
            plan.posting.signal_every * qps.len() <= plan.posting.pacing.outstanding()
                || plan.posting.signal_every <= 1,
            "unsignaled requests could fill the window"
        );
        let lanes = qps.into_iter().map(|qp| Lane { qp, unsignaled: 0 });
        Issuer {
            lanes: lanes.collect(),
            targets,
            cq,
            local: mr.sge(0, len),
            _mr: mr,
            plan: plan.clone(),
            bytes: vec![7; plan.bytes],
            list: SendList::with_capacity(plan.posting.list, plan.posting.list * plan.bytes),
            tally: tally.clone(),
            next: 0,
            outstanding: 0,
            left: batch(plan.posting.pacing),
            not_before: Ns::ZERO,
        }
    }

    fn collect(&mut self, cpu: &P::Cpu) -> usize {
        let mut wcs = [Wc::default(); POLL];
        let count = wiring::poll::<P>(&mut self.cq, cpu, &mut wcs);
        let covered: u64 = wcs[..count].iter().map(|wc| wc.wr_id.0).sum();
        self.outstanding -= covered as usize;
        self.tally.add_done(covered);
        if count > 0 && self.outstanding == 0 && self.left == 0 {
            if self.plan.posting.batch_tail {
                cpu.charge(BATCH_TAIL, 1);
            }
            self.left = batch(self.plan.posting.pacing);
        }
        count
    }

    /// Number of requests to post now, at most one list.
    fn allowance(&self, cpu: &P::Cpu) -> usize {
        if self.plan.posting.gap_ns > 0 && cpu.now() < self.not_before {
            return 0;
        }
        let allowed = match self.plan.posting.pacing {
            Pacing::Window(window) => window - self.outstanding,
            Pacing::Batch(_) => self.left,
        };
        if allowed < self.plan.posting.list && matches!(self.plan.posting.pacing, Pacing::Window(_)) {
            return 0;
        }
        allowed.min(self.plan.posting.list)
    }

    fn post(&mut self, cpu: &P::Cpu, count: usize) {
        let target = self.pick(cpu);
        self.list.clear();
        for n in 0..count {
            let last_of_batch = self.left == n + 1;
            let wr = self.request(cpu, target, last_of_batch);
            self.list.push(wr);
        }
        let lane = self.targets[target].qp;
        let posted = self.lanes[lane].qp.post_send(cpu, &self.list);
        posted.expect("a window fits the queue");
        self.outstanding += count;
        self.left = self.left.saturating_sub(count);
        self.not_before = cpu.now() + Ns(self.plan.posting.gap_ns);
    }

    fn pick(&mut self, cpu: &P::Cpu) -> usize {
        if self.plan.posting.random {
            return (cpu.random() % self.targets.len() as u64) as usize;
        }
        self.next = (self.next + 1) % self.targets.len();
        self.next
    }

    fn request(&mut self, cpu: &P::Cpu, target: usize, last_of_batch: bool) -> SendWr {
        let target = &self.targets[target];
        let lane = &mut self.lanes[target.qp];
        lane.unsignaled += 1;
        let every = self.plan.posting.signal_every;
        let signaled = if every == 0 {
            last_of_batch
        } else {
            lane.unsignaled >= every
        };
        let covers = lane.unsignaled as u64;
        if signaled {
            lane.unsignaled = 0;
        }
        let payload = match (self.plan.inline, self.plan.bytes) {
            (_, 0) => Payload::EMPTY,
            (true, _) => self.list.inline(&self.bytes),
            (false, _) => Payload::Region(self.local),
        };
        SendWr::new(operation(&self.plan, target, cpu), payload).signaled_if(signaled, WrId(covers))
    }
}

fn batch(pacing: Pacing) -> usize {
    match pacing {
        Pacing::Window(_) => 0,
        Pacing::Batch(count) => count,
    }
}

fn operation<C: Cpu>(plan: &Verbs, target: &Target, cpu: &C) -> SendOp {
    let place = if plan.words > 1 {
        cpu.random() % plan.words as u64
    } else {
        0
    };
    let stride = if plan.verb == Verb::FetchAdd {
        8
    } else {
        plan.bytes.next_multiple_of(8)
    };
    let remote = target.remote.at(place as usize * stride);
    match plan.verb {
        Verb::Write => SendOp::Write { remote, imm: None },
        Verb::Read => SendOp::Read { remote },
        Verb::FetchAdd => SendOp::FetchAdd { remote, add: 1 },
        Verb::Send => SendOp::Send {
            imm: None,
            dest: target.dest,
        },
    }
}

impl<P: Provider> Actor<P::Cpu> for Issuer<P> {
    fn step(&mut self, cpu: &P::Cpu) -> Progress {
        if self.plan.posting.gap_ns > 0 {
            cpu.refresh();
        }
        let collected = if self.outstanding > 0 {
            self.collect(cpu)
        } else {
            0
        };
        let count = self.allowance(cpu);
        if count > 0 {
            self.post(cpu, count);
        }
        if collected > 0 || count > 0 {
            return Progress::Busy;
        }
        let paced = self.plan.posting.gap_ns > 0 && cpu.now() < self.not_before;
        let wake_at = if paced { self.not_before } else { Ns::MAX };
        Progress::Idle { wake_at }
    }
}
