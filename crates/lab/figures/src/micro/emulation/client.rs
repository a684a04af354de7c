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

/// An operation of the window.
#[derive(Clone, Copy, Default)]
pub struct Lane {
    started: Ns,
    chain: Chain,
    /// Number of posted READs of the chain.
    posted: usize,
}

/// A client.
pub struct Client<P: Provider> {
    pub plan: Emulation,
    /// Queue pair for READs.
    pub qp: P::Qp,
    pub read_cq: P::Cq,
    /// Memory for READ results and datagrams.
    pub mr: P::Mr,
    /// Offset of the first lane's READ results.
    pub landing: usize,
    /// Memory that READs read.
    pub table: RemoteRegion,
    pub port: Port,
    pub queues: Queues<P>,
    /// Memory for answers, unless they are datagrams.
    pub answers: Region,
    /// RECVs for answers, if they are datagrams.
    pub recvs: Option<Slots>,
    /// Queue pairs and memory of the answers, kept alive.
    pub _passive: (Vec<P::Qp>, Vec<P::Mr>),
    pub lanes: Vec<Lane>,
    /// Lanes without an operation.
    pub free: Vec<usize>,
    /// Lanes with a PUT, oldest first: answers come in this order.
    pub puts: VecDeque<usize>,
    pub list: SendList,
    pub tally: Tally,
    /// Time from which on latencies are recorded, and their list.
    pub noted: (Ns, Latencies),
}

impl<P: Provider> Client<P> {
    fn take_reads(&mut self, cpu: &P::Cpu) -> bool {
        if self.lanes.len() == self.free.len() + self.puts.len() {
            return false;
        }
        let mut wcs = [Wc::default(); 4];
        let count = wiring::poll::<P>(&mut self.read_cq, cpu, &mut wcs);
        for wc in &wcs[..count] {
            let lane = wc.wr_id.0 as usize;
            match self.lanes[lane].chain.get(self.lanes[lane].posted) {
                Some(&bytes) if bytes > 0 => self.read(cpu, lane, bytes),
                _ => self.end(cpu, lane),
            }
        }
        count > 0
    }

    fn take_answers(&mut self, cpu: &P::Cpu) -> bool {
        if self.puts.is_empty() || !self.answered(cpu) {
            return false;
        }
        let lane = self.puts.pop_front().expect("not empty");
        self.end(cpu, lane);
        true
    }

    fn answered(&mut self, cpu: &P::Cpu) -> bool {
        match &self.recvs {
            Some(slots) => self.queues.take_datagram(cpu, &self.mr, slots).is_some(),
            None => {
                charge_looks(cpu, 1);
                self.port.take(&self.answers)
            }
        }
    }

    fn end(&mut self, cpu: &P::Cpu, lane: usize) {
        self.free.push(lane);
        self.tally.add_done(1);
        let now = cpu.refresh();
        if now >= self.noted.0 {
            let took = now.since(self.lanes[lane].started);
            self.noted.1.borrow_mut().push(took.0);
        }
    }

    fn begin(&mut self, cpu: &P::Cpu, lane: usize) {
        self.lanes[lane] = Lane {
            started: cpu.refresh(),
            ..Lane::default()
        };
        if cpu.random() % 100 < self.plan.put_percent {
            self.queues.send(cpu, &mut self.port);
            self.puts.push_back(lane);
            return;
        }
        let chain = self.plan.chain(cpu.random());
        self.lanes[lane].chain = chain;
        self.read(cpu, lane, chain[0]);
    }

    /// Posts the next READ of a GET: at a random address, aligned as items of its length are.
    fn read(&mut self, cpu: &P::Cpu, lane: usize, bytes: usize) {
        let stride = bytes.next_multiple_of(8);
        let place = cpu.random() as usize % (TABLE_BYTES / stride);
        let into = self.landing + lane * self.plan.longest().next_multiple_of(64);
        self.list.clear();
        self.list.push(
            SendWr::read(self.table.at(place * stride), self.mr.sge(into, bytes)).signaled(WrId(lane as u64)),
        );
        let posted = self.qp.post_send(cpu, &self.list);
        posted.expect("a window fits the queue");
        self.lanes[lane].posted += 1;
    }
}

impl<P: Provider> Actor<P::Cpu> for Client<P> {
    fn step(&mut self, cpu: &P::Cpu) -> Progress {
        self.queues.reap(cpu);
        let mut busy = self.take_reads(cpu);
        busy |= self.take_answers(cpu);
        while let Some(lane) = self.free.pop() {
            self.begin(cpu, lane);
            busy = true;
        }
        match busy {
            true => Progress::Busy,
            false => Progress::Idle { wake_at: Ns::MAX },
        }
    }
}
