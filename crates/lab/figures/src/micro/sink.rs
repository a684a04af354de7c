//! [`Sink`]: a thread that receives messages and keeps RECVs posted.

use super::{Tally, wiring};
use drover_base::{Actor, Ns, Progress};
use drover_verbs::{GRH_BYTES, MemoryRegion, Provider, QueuePair, RecvList, RecvWr, Wc, WrId};

/// Number of RECVs posted again at once.
const BATCH: usize = 16;

/// An actor that receives messages on queue pairs with a common completion queue, and counts them as served.
pub struct Sink<P: Provider> {
    qps: Vec<P::Qp>,
    cq: P::Cq,
    mr: P::Mr,
    bytes: usize,
    list: RecvList,
    /// Number of consumed RECVs to be posted again, per queue pair.
    used: Vec<usize>,
    tally: Tally,
}

impl<P: Provider> Sink<P> {
    /// Creates a sink for messages of up to `bytes` with up to `depth` RECVs per queue pair. None is posted yet: call
    /// [`fill`](Sink::fill) before the first message arrives.
    pub fn new(qps: Vec<P::Qp>, cq: P::Cq, mr: P::Mr, bytes: usize, depth: usize, tally: &Tally) -> Sink<P> {
        Sink {
            used: vec![depth; qps.len()],
            qps,
            cq,
            mr,
            bytes: bytes + GRH_BYTES,
            list: RecvList::with_capacity(BATCH),
            tally: tally.clone(),
        }
    }

    /// Posts RECVs, in batches of 16, to each queue pair that lacks at least a batch of them.
    pub fn fill(&mut self, cpu: &P::Cpu) {
        for (index, qp) in self.qps.iter_mut().enumerate() {
            while self.used[index] >= BATCH {
                self.list.clear();
                for _ in 0..BATCH {
                    self.list.push(RecvWr {
                        wr_id: WrId(index as u64),
                        sge: self.mr.sge(0, self.bytes),
                    });
                }
                qp.post_recv(cpu, &self.list).expect("space for what was used up");
                self.used[index] -= BATCH;
            }
        }
    }
}

impl<P: Provider> Actor<P::Cpu> for Sink<P> {
    fn step(&mut self, cpu: &P::Cpu) -> Progress {
        let mut wcs = [Wc::default(); BATCH];
        let count = wiring::poll::<P>(&mut self.cq, cpu, &mut wcs);
        for wc in &wcs[..count] {
            self.used[wc.wr_id.0 as usize] += 1;
        }
        self.tally.add_served(count as u64);
        self.fill(cpu);
        match count {
            0 => Progress::Idle { wake_at: Ns::MAX },
            _ => Progress::Busy,
        }
    }
}
