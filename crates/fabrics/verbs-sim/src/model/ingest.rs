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
        while let Some((at, first)) = self.nic(machine).pio.written.take(now) {
            let lines = self.ops[first].handover.lines;
            let written = u64::from(lines.max(1));
            let bus = self.prices.bus_mmio(lines.max(1));
            let nic = self.nic(machine);
            let (_, end) = nic.pio.pipe.carry(at, written);
            nic.bus.inbound.carry(at, bus);
            nic.counters.mmio_lines += written;
            if lines == 0 {
                self.fetch_list(machine, first, end, queue);
                continue;
            }
            let (ingested_at, waits) = match self.qps.get_mut(self.ops[first].qp) {
                Some(qp) => qp.order.ingest(end),
                None => (end, false),
            };
            self.ops[first].handover.ingested_at = ingested_at;
            match waits {
                false => self.ingested(machine, first, queue),
                true => queue.schedule(ingested_at, Event::new(kind::FETCHED, machine, first)),
            }
        }
    }

    /// Requests ingested by `now` enter the cache of work requests, and their lines are no longer ahead of the card.
    #[inline]
    pub(crate) fn note_ingested(&mut self, machine: u16, now: Ps) {
        while let Some((_, op)) = self.nic(machine).pio.ingesting.take(now) {
            let hash = self.wqe_hash(op);
            let nic = &mut self.nics[usize::from(machine)];
            let o = &mut self.ops[op];
            o.cached = nic.caches.wqes.insert(hash);
            nic.pio.lines_ahead -= o.handover.lines;
            if let Some(ctx) = self.ctxs.get_mut(o.handover.core) {
                ctx.lines_ahead -= o.handover.lines;
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
            bytes += 64 * u64::from(self.prices.lines(o.wr.verb, o.wr.is_ud, o.wr.inline, o.wr.len));
            op = o.handover.next;
        }
        let bus = self.prices.bus_read(bytes);
        let (_, end) = self.nic(machine).bus.inbound.carry(now, bus);
        let arrived = end + self.prices.delay.dma_read;
        let mut op = first;
        while op != NONE {
            let o = &mut self.ops[op];
            o.handover.ingested_at = match self.qps.get_mut(o.qp) {
                Some(qp) => qp.order.fetch(arrived, self.prices.fetch_spacing),
                None => arrived,
            };
            op = o.handover.next;
        }
        if let Some(qp) = self.qps.get_mut(self.ops[first].qp) {
            qp.order.begin_fetch();
        }
        let at = self.ops[first].handover.ingested_at;
        queue.schedule(at, Event::new(kind::FETCHED, machine, first));
    }

    /// A list of requests is in the card.
    pub(crate) fn fetched(&mut self, machine: u16, first: u32, queue: &mut Queue) {
        if let Some(qp) = self.qps.get_mut(self.ops[first].qp) {
            qp.order.end_fetch();
        }
        let mut op = first;
        while op != NONE {
            let next = self.ops[op].handover.next;
            self.ingested(machine, op, queue);
            op = next;
        }
    }

    /// A request is in the card, or will be soon.
    fn ingested(&mut self, machine: u16, op: u32, queue: &mut Queue) {
        let (qpn, at) = (self.ops[op].qp, self.ops[op].handover.ingested_at);
        self.ops.hold(op);
        self.nic(machine).pio.ingesting.push(at, op);
        match self.qps.get_mut(qpn) {
            Some(qp) if qp.state == QpState::Error => self.flush(qpn, op, queue),
            Some(qp) => {
                qp.sends.enter(op);
                self.start_pending(qpn, at, queue);
            }
            None => {
                self.ops[op].ending.retired = true;
                self.ops.release(op);
            }
        }
    }

    /// Hash that selects a request's set in the cache of work requests.
    pub(crate) fn wqe_hash(&self, op: u32) -> u64 {
        u64::from(self.ops[op].qp) << 32 ^ self.ops[op].sequence
    }
}
