//! [`Client`]: keeps its window full of GETs and PUTs.

use super::super::{Tally, wiring};
use super::port::{Port, Queues, Slots, charge_looks};
use super::{Chain, Emulation, Latencies};
use drover_base::{Actor, Cpu, Ns, Progress};
use drover_mem::Region;
use drover_verbs::{MemoryRegion, Provider, QueuePair, RemoteRegion, SendList, SendWr, Wc, WrId};
use std::collections::VecDeque;

/// Bytes of the memory that READs read.
pub const TABLE_BYTES: usize = 1 << 20;

/// A client's queue pair and completion queue for READs, and the memory that they read.
pub struct Reads<P: Provider> {
    pub qp: P::Qp,
    pub cq: P::Cq,
    /// Memory that READs read.
    pub table: RemoteRegion,
}

/// What a client needs to send PUTs and to receive their answers.
pub struct Puts<P: Provider> {
    pub port: Port,
    pub queues: Queues<P>,
    /// Memory for answers, unless they are datagrams.
    pub answers: Region,
    /// RECVs for answers, if they are datagrams.
    pub recvs: Option<Slots>,
    /// Queue pairs and memory of the answers, kept alive.
    pub _passive: (Vec<P::Qp>, Vec<P::Mr>),
}

/// Everything that a client owns on the fabric: memory, queue pairs, completion queues.
pub struct Connections<P: Provider> {
    /// Memory for READ results, at its start, and for datagrams.
    pub mr: P::Mr,
    pub reads: Reads<P>,
    pub puts: Puts<P>,
}

/// Counter and latencies to which all clients of a run add what they have done. Clones share them.
#[derive(Clone)]
pub struct Recorder {
    pub tally: Tally,
    /// Time from which on latencies are recorded.
    pub from: Ns,
    pub latencies: Latencies,
}

/// The operations under way.
struct Window {
    lanes: Vec<Lane>,
    /// Lanes without an operation.
    free: Vec<usize>,
    /// Lanes with a PUT, oldest first: answers come in this order.
    puts: VecDeque<usize>,
}

/// An operation of the window.
#[derive(Clone, Copy, Default)]
struct Lane {
    started: Ns,
    chain: Chain,
    /// Number of posted READs of the chain.
    posted: usize,
}

impl Window {
    fn has_gets(&self) -> bool {
        self.lanes.len() > self.free.len() + self.puts.len()
    }
}

/// An actor that keeps its window full of operations: it posts the verbs of the emulated system's GETs and PUTs.
pub struct Client<P: Provider> {
    plan: Emulation,
    mr: P::Mr,
    reads: Reads<P>,
    puts: Puts<P>,
    window: Window,
    list: SendList,
    recorder: Recorder,
}

impl<P: Provider> Client<P> {
    /// A client that keeps `window` operations under way.
    pub fn new(
        plan: &Emulation,
        connections: Connections<P>,
        window: usize,
        recorder: &Recorder,
    ) -> Client<P> {
        let Connections { mr, reads, puts } = connections;
        Client {
            plan: plan.clone(),
            mr,
            reads,
            puts,
            window: Window {
                lanes: vec![Lane::default(); window],
                free: (0..window).collect(),
                puts: VecDeque::new(),
            },
            list: SendList::with_capacity(1, 0),
            recorder: recorder.clone(),
        }
    }

    fn take_reads(&mut self, cpu: &P::Cpu) -> bool {
        if !self.window.has_gets() {
            return false;
        }
        let mut wcs = [Wc::default(); 4];
        let count = wiring::poll::<P>(&mut self.reads.cq, cpu, &mut wcs);
        for wc in &wcs[..count] {
            let lane = wc.wr_id.0 as usize;
            match self.window.lanes[lane].chain.get(self.window.lanes[lane].posted) {
                Some(&bytes) if bytes > 0 => self.read(cpu, lane, bytes),
                _ => self.end(cpu, lane),
            }
        }
        count > 0
    }

    fn take_answers(&mut self, cpu: &P::Cpu) -> bool {
        if self.window.puts.is_empty() || !self.answered(cpu) {
            return false;
        }
        let lane = self.window.puts.pop_front().expect("not empty");
        self.end(cpu, lane);
        true
    }

    fn answered(&mut self, cpu: &P::Cpu) -> bool {
        let puts = &mut self.puts;
        match &puts.recvs {
            Some(slots) => puts.queues.take_datagram(cpu, &self.mr, slots).is_some(),
            None => {
                charge_looks(cpu, 1);
                puts.port.take(&puts.answers)
            }
        }
    }

    fn end(&mut self, cpu: &P::Cpu, lane: usize) {
        self.window.free.push(lane);
        self.recorder.tally.add_done(1);
        let now = cpu.refresh();
        if now >= self.recorder.from {
            let took = now.since(self.window.lanes[lane].started);
            self.recorder.latencies.borrow_mut().push(took.0);
        }
    }

    fn begin(&mut self, cpu: &P::Cpu, lane: usize) {
        self.window.lanes[lane] = Lane {
            started: cpu.refresh(),
            ..Lane::default()
        };
        if cpu.random() % 100 < self.plan.put_percent {
            self.puts.queues.send(cpu, &mut self.puts.port);
            self.window.puts.push_back(lane);
            return;
        }
        let chain = self.plan.chain(cpu.random());
        self.window.lanes[lane].chain = chain;
        self.read(cpu, lane, chain[0]);
    }

    /// Posts the next READ of a GET: at a random address, aligned as items of its length are.
    fn read(&mut self, cpu: &P::Cpu, lane: usize, bytes: usize) {
        let stride = bytes.next_multiple_of(8);
        let place = cpu.random() as usize % (TABLE_BYTES / stride);
        let into = lane * self.plan.longest().next_multiple_of(64);
        self.list.clear();
        self.list.push(
            SendWr::read(self.reads.table.at(place * stride), self.mr.sge(into, bytes))
                .signaled(WrId(lane as u64)),
        );
        let posted = self.reads.qp.post_send(cpu, &self.list);
        posted.expect("a window fits the queue");
        self.window.lanes[lane].posted += 1;
    }
}

impl<P: Provider> Actor<P::Cpu> for Client<P> {
    fn step(&mut self, cpu: &P::Cpu) -> Progress {
        self.puts.queues.reap(cpu);
        let mut busy = self.take_reads(cpu);
        busy |= self.take_answers(cpu);
        while let Some(lane) = self.window.free.pop() {
            self.begin(cpu, lane);
            busy = true;
        }
        match busy {
            true => Progress::Busy,
            false => Progress::Idle { wake_at: Ns::MAX },
        }
    }
}
