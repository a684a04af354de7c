//! From the core into the card: MMIO ingest, and lists that the card fetches.
//!
//! Only lists have events of their own. Requests written by cores wait, ordered by arrival at the card, and are
//! ingested in that order when the transmit engine looks; the end of an ingest follows from those before it.

use super::op::NONE;
use super::{Net, kind};
use drover_sim::{Event, Ps, Queue};
use drover_verbs::QpState;

impl Net {
    /// Ingests the requests and doorbells that cores have written so far.
    pub(crate) fn ingest(&mut self, machine: u16, queue: &mut Queue) {
        let now = queue.now();
        while let Some((at, first)) = self.nic(machine).written.take(now) {
            let lines = self.ops[first].lines;
            let written = u64::from(lines.max(1));
            let bus = self.prices.bus_mmio(lines.max(1));
            let nic = self.nic(machine);
            let (_, end) = nic.pio.carry(at, written);
            nic.bus_in.carry(at, bus);
            nic.counters.mmio_lines += written;
            if lines == 0 {
                self.fetch_list(machine, first, end, queue);
                continue;
            }
            // Not before an earlier list of its queue pair, which takes longer to fetch, nor before a request that
            // waits for such a list.
            let (ingested_at, waits) = match self.qps.get_mut(self.ops[first].qp) {
                Some(qp) => {
                    qp.ingested_at = end.max(qp.ingested_at);
                    let waits = qp.ingested_at > end || qp.fetches > 0;
                    qp.fetches += u32::from(waits);
                    (qp.ingested_at, waits)
                }
                None => (end, false),
            };
            self.ops[first].ingested_at = ingested_at;
            match waits {
                false => self.ingested(machine, first, queue),
                true => queue.schedule(ingested_at, Event::new(kind::FETCHED, machine, first)),
            }
        }
    }

    /// Requests ingested by `now` enter the cache of work requests, and their lines are no longer ahead of the card.
    #[inline]
    pub(crate) fn note_ingested(&mut self, machine: u16, now: Ps) {
        while let Some((_, op)) = self.nic(machine).ingesting.take(now) {
            let hash = self.wqe_hash(op);
            let nic = &mut self.nics[usize::from(machine)];
            let o = &mut self.ops[op];
            o.cached = nic.wqes.insert(hash);
            nic.lines_ahead -= o.lines;
            if let Some(ctx) = self.ctxs.get_mut(o.core) {
                ctx.lines_ahead -= o.lines;
            }
            self.ops.release(op);
        }
    }

    /// The card reads a list of requests after its doorbell.
    fn fetch_list(&mut self, machine: u16, first: u32, now: Ps, queue: &mut Queue) {
        let mut bytes = 0;
        let mut op = first;
        while op != NONE {
            let o = &self.ops[op];
            bytes += 64 * u64::from(self.prices.lines(o.verb, o.is_ud, o.inline, o.len));
            op = o.next;
        }
        let bus = self.prices.bus_read(bytes);
        let (_, end) = self.nic(machine).bus_in.carry(now, bus);
        let arrived = end + self.prices.dma_read;
        let mut op = first;
        while op != NONE {
            let o = &mut self.ops[op];
            o.ingested_at = match self.qps.get_mut(o.qp) {
                Some(qp) => {
                    let at = arrived.max(qp.fetch_at).max(qp.ingested_at);
                    qp.fetch_at = at + self.prices.fetch_spacing;
                    qp.ingested_at = at;
                    at
                }
                None => arrived,
            };
            op = o.next;
        }
        if let Some(qp) = self.qps.get_mut(self.ops[first].qp) {
            qp.fetches += 1;
        }
        let at = self.ops[first].ingested_at;
        queue.schedule(at, Event::new(kind::FETCHED, machine, first));
    }

    /// A list of requests is in the card.
    pub(crate) fn fetched(&mut self, machine: u16, first: u32, queue: &mut Queue) {
        if let Some(qp) = self.qps.get_mut(self.ops[first].qp) {
            qp.fetches -= 1;
        }
        let mut op = first;
        while op != NONE {
            let next = self.ops[op].next;
            self.ingested(machine, op, queue);
            op = next;
        }
    }

    /// A request is in the card, or will be soon.
    fn ingested(&mut self, machine: u16, op: u32, queue: &mut Queue) {
        let (qpn, at) = (self.ops[op].qp, self.ops[op].ingested_at);
        self.ops.hold(op);
        self.nic(machine).ingesting.push(at, op);
        match self.qps.get_mut(qpn) {
            Some(qp) if qp.state == QpState::Error => self.flush(qpn, op, queue),
            Some(qp) => {
                qp.pending.push_back(op);
                self.start_pending(qpn, at, queue);
            }
            None => {
                self.ops[op].retired = true;
                self.ops.release(op);
            }
        }
    }

    /// Hash that selects a request's set in the cache of work requests.
    pub(crate) fn wqe_hash(&self, op: u32) -> u64 {
        u64::from(self.ops[op].qp) << 32 ^ self.ops[op].sequence
    }
}
