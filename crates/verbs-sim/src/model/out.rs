//! From the core to the link: MMIO ingest, the order of a queue pair, the transmit engine.

use super::op::{Item, NONE, Role};
use super::prices::Verb;
use super::{Net, kind};
use drover_sim::{Event, Ps, Queue};
use drover_verbs::{QpKind, QpState, WcStatus};

impl Net {
    /// A request written by a core, or the doorbell of a list, reaches the card.
    pub(crate) fn mmio(&mut self, machine: u16, first: u32, queue: &mut Queue) {
        let lines = self.ops[first].lines;
        let now = queue.now();
        let bus = self.prices.bus_mmio(lines.max(1));
        let nic = &mut self.nics[usize::from(machine)];
        let (_, end) = nic.pio.carry(now, u64::from(lines.max(1)));
        nic.bus_in.carry(now, bus);
        nic.counters.mmio_lines += u64::from(lines.max(1));
        if lines > 0 {
            // Not before an earlier list of its queue pair, which takes longer to fetch.
            let at = match self.qps.get_mut(self.ops[first].qp) {
                Some(qp) => {
                    qp.ingested_at = end.max(qp.ingested_at);
                    qp.ingested_at
                }
                None => end,
            };
            queue.schedule(at, Event::new(kind::INGESTED, machine, first));
        } else {
            self.fetch_list(machine, first, end, queue);
        }
    }

    /// The card reads a list of requests that a doorbell told it of.
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
            let at = match self.qps.get_mut(self.ops[op].qp) {
                Some(qp) => {
                    let at = arrived.max(qp.fetch_at).max(qp.ingested_at);
                    qp.fetch_at = at + self.prices.fetch_spacing;
                    qp.ingested_at = at;
                    at
                }
                None => arrived,
            };
            queue.schedule(at, Event::new(kind::INGESTED, machine, op));
            op = self.ops[op].next;
        }
    }

    /// A request is in the card.
    pub(crate) fn ingested(&mut self, machine: u16, op: u32, queue: &mut Queue) {
        let (core, lines, qpn) = (self.ops[op].core, self.ops[op].lines, self.ops[op].qp);
        if let Some(ctx) = self.ctxs.get_mut(core) {
            ctx.lines_ahead -= lines;
        }
        let hash = self.wqe_hash(op);
        let nic = self.nic(machine);
        nic.lines_ahead -= lines;
        let cached = nic.wqes.insert(hash);
        self.ops[op].cached = cached;
        match self.qps.get_mut(qpn) {
            Some(qp) if qp.state == QpState::Error => self.flush(qpn, op, queue),
            Some(qp) => {
                qp.pending.push_back(op);
                self.start_pending(qpn, queue);
            }
            None => {
                self.ops[op].retired = true;
                self.ops.release(op);
            }
        }
    }

    /// What chooses a request's place in the cache of requests.
    pub(crate) fn wqe_hash(&self, op: u32) -> u64 {
        u64::from(self.ops[op].qp) << 32 ^ self.ops[op].sequence
    }

    /// Hands over to the transmit engine whatever may start, in order.
    pub(crate) fn start_pending(&mut self, qpn: u32, queue: &mut Queue) {
        while let Some(qp) = self.qps.get_mut(qpn) {
            let Some(&op) = qp.pending.front() else { return };
            let o = &self.ops[op];
            let fetches = o.verb.fetches();
            let waits = qp.state != QpState::ReadyToSend
                || qp.rc.rnr_wait
                || (o.fence && qp.reads_out > 0)
                || (fetches && qp.reads_out >= self.prices.p.qp.reads_max);
            let machine = qp.machine;
            if waits {
                if fetches {
                    self.nic(machine).counters.read_slot_stalls += 1;
                }
                return;
            }
            qp.pending.pop_front();
            qp.flight.push_back(op);
            qp.reads_out += u64::from(fetches);
            self.transmit_request(qpn, op, queue);
        }
    }

    /// Queues a request at the transmit engine, for the first time or again.
    pub(crate) fn transmit_request(&mut self, qpn: u32, op: u32, queue: &mut Queue) {
        let qp = self.qps.at(qpn);
        let machine = qp.machine;
        if qp.kind == QpKind::Rc {
            qp.rc.progress_at = queue.now();
            if !std::mem::replace(&mut qp.rc.timer_set, true) {
                let at = queue.now() + Ps::from(self.options.rc_timeout);
                queue.schedule(at, Event::new(kind::TIMEOUT, machine, qpn));
            }
        }
        self.ops.hold(op);
        self.tx_arrive(machine, Item::new(op, Role::Request), queue);
    }

    pub(crate) fn tx_arrive(&mut self, machine: u16, item: Item, queue: &mut Queue) {
        if self.nic(machine).tx.arrive(item.0) {
            self.tx_begin(machine, item, queue);
        }
    }

    /// Service begins: only now are the caches asked.
    fn tx_begin(&mut self, machine: u16, item: Item, queue: &mut Queue) {
        let time = match item.role() {
            Role::Request => self.request_time(machine, item.op(), queue),
            Role::Response => self.prices.tx_response.of(self.ops[item.op()].len),
            _ => self.prices.tx_ack,
        };
        self.nic(machine).tx.begin(item.0, time);
        queue.schedule(queue.now() + time, Event::new(kind::TX_DONE, machine, 0));
    }

    fn request_time(&mut self, machine: u16, op: u32, queue: &Queue) -> Ps {
        let (o, prices) = (&self.ops[op], &self.prices);
        let mut time = o.tx_extra
            + match o.verb {
                Verb::Read => prices.tx_read,
                Verb::CompareSwap | Verb::FetchAdd => prices.tx_atomic,
                Verb::Send | Verb::Write if !o.inline && o.len > 0 => prices.tx_gather.of(o.len),
                Verb::Send if o.is_ud => prices.tx_send_ud,
                Verb::Send | Verb::Write => prices.tx_write_inline,
            };
        let fetches = o.verb.fetches();
        let place = self.qps.get(o.qp).map(|qp| qp.places.0);
        let (miss, hash, mut cached) = (prices.ctx_miss_tx, self.wqe_hash(op), o.cached);
        let wqe_miss = match fetches {
            true => prices.wqe_miss_read_tx,
            false => prices.wqe_miss_write_tx,
        };
        let (near_miss, refetch) = (prices.ctx_near_miss, prices.bus_read(64));
        let nic = &mut self.nics[usize::from(machine)];
        if let Some(place) = place {
            let is_near = nic.near_contexts.as_mut().is_none_or(|near| near.touch(place));
            if !nic.contexts.touch(place) {
                time += miss;
            } else if !is_near && o.inline {
                // READs and gathered requests wait for the host anyway, which hides it.
                time += near_miss;
            }
        }
        if !nic.wqes.check(hash, &mut cached) {
            time += wqe_miss;
            nic.bus_in.carry(queue.now(), refetch);
            nic.counters.wqe_cache_misses += 1;
        }
        self.ops[op].cached = cached;
        time
    }

    /// The transmit engine is done with one item and begins the next.
    pub(crate) fn tx_done(&mut self, machine: u16, queue: &mut Queue) {
        let (item, next) = self.nic(machine).tx.finish();
        if let Some(next) = next {
            self.tx_begin(machine, Item(next), queue);
        }
        let item = Item(item);
        match item.role() {
            Role::Request => self.request_sent(machine, item, queue),
            _ => self.depart(machine, item, queue),
        }
    }

    /// Fetches the payload if it has to, then departs; requests of a queue pair depart in order.
    fn request_sent(&mut self, machine: u16, item: Item, queue: &mut Queue) {
        let op = item.op();
        let now = queue.now();
        let o = &self.ops[op];
        if o.retired {
            return self.ops.release(op);
        }
        let (qpn, len) = (o.qp, o.len);
        let mut ready = now;
        if !o.inline && !o.verb.fetches() && len > 0 {
            if !self.gather(op) {
                self.ops.release(op);
                return self.fail(qpn, op, WcStatus::LocalProtection, queue);
            }
            let bus = self.prices.bus_read(u64::from(len));
            let (_, end) = self.nic(machine).bus_in.carry(now, bus);
            ready = end + self.prices.dma_gather;
        }
        if let Some(qp) = self.qps.get_mut(qpn) {
            ready = ready.max(qp.departed_at);
            qp.departed_at = ready;
        }
        match ready == now {
            true => self.depart(machine, item, queue),
            false => queue.schedule(ready, Event::new(kind::DEPART, machine, item.0)),
        }
    }

    /// Enters the link; the far port begins as soon as the first byte is there.
    pub(crate) fn depart(&mut self, machine: u16, item: Item, queue: &mut Queue) {
        let op = item.op();
        let (verb, is_ud, len) = (self.ops[op].verb, self.ops[op].is_ud, self.ops[op].len);
        let is_request = item.role() == Role::Request;
        let bytes = match item.role() {
            Role::Request => self.prices.request_bytes(verb, is_ud, len),
            Role::Response => self.prices.response_bytes(len),
            _ => self.prices.ack_bytes(),
        };
        let packets = match item.role() {
            Role::Request if verb.fetches() => 1,
            Role::Request | Role::Response => self.prices.packets(len),
            _ => 1,
        };
        let delay = self.prices.tx_delay;
        let wire = self.prices.wire;
        let loss = self.options.loss;
        let nic = &mut self.nics[usize::from(machine)];
        nic.counters.tx_packets += packets;
        nic.counters.tx_bytes += bytes;
        let (start, _) = nic.link_out.carry(queue.now() + delay, bytes);
        let lost = nic.down || (loss > 0.0 && nic.loss.chance(1.0 - (1.0 - loss).powi(packets as i32)));
        let target = self.target(item);
        if lost {
            self.nic(machine).counters.lost += 1;
        }
        match target {
            Some(target) if !lost => {
                queue.schedule(start + wire, Event::new(kind::LINK_IN, target, item.0));
            }
            _ => self.ops.release(op),
        }
        if is_request {
            self.request_departed(machine, op, queue);
        }
    }

    /// Where an item goes.
    fn target(&self, item: Item) -> Option<u16> {
        let o = &self.ops[item.op()];
        let qp = self.qps.get(o.qp)?;
        match item.role() {
            Role::Request if o.is_ud => self.ctxs.get(o.dest.2).map(|ctx| ctx.machine),
            Role::Request => qp.peer.map(|peer| peer.1),
            _ => Some(qp.machine),
        }
    }
}
