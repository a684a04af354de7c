//! From the card to the link: the order within a queue pair, the transmit engine, the payload.

use super::caches::Found;
use super::nic::Arrival;
use super::op::{Item, Role};
use super::{Net, kind};
use drover_sim::{Event, Ps, Queue};
use drover_verbs::{QpKind, QpState, WcStatus};

impl Net {
    /// Lets the transmit engine take the next item, if it is free and there is one.
    pub(crate) fn tx(&mut self, machine: u16, queue: &mut Queue) {
        let now = queue.now();
        if !self.nic(machine).tx.alarm.rings(now) {
            return;
        }
        self.ingest(machine, queue);
        self.note_ingested(machine, now);
        if let Some(item) = self.nic(machine).tx.station.take(now) {
            self.transmit(machine, Item(item), queue);
        }
        self.nic(machine).tx.alarm.silence();
        self.wake_tx(machine, queue);
    }

    /// Schedules the transmit engine for the time when it, or the ingest before it, has work.
    pub(crate) fn wake_tx(&mut self, machine: u16, queue: &mut Queue) {
        let nic = &mut self.nics[usize::from(machine)];
        let mut at = nic.tx.station.next_at().unwrap_or(Ps::MAX);
        if let Some((written_at, op)) = nic.pio.written.first() {
            let lines = self.ops[op].handover.lines;
            let ingested_at = nic.pio.pipe.through_at(written_at, u64::from(lines.max(1)));
            at = at.min(match lines {
                0 => ingested_at,
                _ => ingested_at.max(nic.tx.station.free_at()),
            });
        }
        nic.tx.alarm.set(at, Event::new(kind::TX, machine, 0), queue);
    }

    /// Passes all requests that may start at `at` to the transmit engine, in order.
    pub(crate) fn start_pending(&mut self, qpn: u32, at: Ps, queue: &mut Queue) {
        while let Some(qp) = self.qps.get_mut(qpn) {
            let Some(op) = qp.sends.next_pending() else {
                return;
            };
            let o = &self.ops[op];
            let fetches = o.wr.verb.fetches();
            let waits = qp.state != QpState::ReadyToSend
                || qp.rc.rnr_wait
                || (o.wr.fence && qp.sends.reads_out() > 0)
                || (fetches && qp.sends.reads_out() >= self.prices.p.qp.reads_max);
            let machine = qp.machine;
            if waits {
                if fetches {
                    self.nic(machine).counters.read_slot_stalls += 1;
                }
                return;
            }
            qp.sends.start(fetches);
            self.transmit_request(qpn, op, at, queue);
        }
    }

    /// Queues a request at the transmit engine, for the first time or again.
    pub(crate) fn transmit_request(&mut self, qpn: u32, op: u32, at: Ps, queue: &mut Queue) {
        let qp = self.qps.at(qpn);
        let machine = qp.machine;
        if qp.kind == QpKind::Rc {
            qp.rc.progress_at = queue.now();
            if !std::mem::replace(&mut qp.rc.timer_set, true) {
                let at = queue.now() + Ps::from(self.options.rc.timeout);
                queue.schedule(at, Event::new(kind::TIMEOUT, machine, qpn));
            }
        }
        self.ops.hold(op);
        self.tx_arrive(machine, Item::new(op, Role::Request), at, queue);
    }

    /// Adds an item that arrives at the transmit engine at `at`.
    #[inline]
    pub(crate) fn tx_arrive(&mut self, machine: u16, item: Item, at: Ps, queue: &mut Queue) {
        let nic = self.nic(machine);
        nic.tx.station.expect(at, item.0);
        let at = nic.tx.station.next_at().unwrap_or(Ps::MAX);
        nic.tx.alarm.set(at, Event::new(kind::TX, machine, 0), queue);
    }

    /// Begins a service; only now are the caches consulted. An item that fetches nothing, and does not follow one that
    /// fetches, departs at the end of the service; no event can intervene.
    fn transmit(&mut self, machine: u16, item: Item, queue: &mut Queue) {
        let time = match item.role() {
            Role::Request => self.request_time(machine, item.op(), queue),
            Role::Response => self.prices.tx.response(self.ops[item.op()].wr.len),
            _ => self.prices.tx.ack(),
        };
        let gathers = item.role() == Role::Request && self.ops[item.op()].wr.gathers();
        let nic = self.nic(machine);
        let end = nic.tx.station.serve(queue.now(), time);
        if gathers || nic.tx.unsent > 0 {
            nic.tx.unsent += 1;
            queue.schedule(end, Event::new(kind::SENT, machine, item.0));
        } else {
            self.served(machine, item, end, queue);
        }
    }

    fn request_time(&mut self, machine: u16, op: u32, queue: &Queue) -> Ps {
        let (o, prices) = (&self.ops[op], &self.prices);
        let mut time =
            o.handover.tx_extra + prices.tx.request(o.wr.verb, o.wr.is_ud, o.wr.gathers(), o.wr.len);
        let places = self.qps.get(o.qp).map(|qp| qp.card.places);
        let inline = o.wr.inline;
        let (miss, hash, mut cached) = (prices.miss.context_tx, self.wqe_hash(op), o.cached);
        let wqe_miss = prices.miss.wqe_tx(o.wr.verb);
        let (near_miss, refetch) = (prices.miss.context_near, prices.bus_read(64));
        let nic = &mut self.nics[usize::from(machine)];
        if let Some(places) = places {
            match nic.caches.touch_requester(places) {
                Found::Missed => time += miss,
                // READs and gathered requests wait for the host anyway, which hides it.
                Found::Cached if inline => time += near_miss,
                Found::Cached | Found::Near => {}
            }
        }
        if !nic.caches.wqes.check(hash, &mut cached) {
            time += wqe_miss;
            nic.bus.inbound.carry(queue.now(), refetch);
            nic.counters.wqe_cache_misses += 1;
        }
        self.ops[op].cached = cached;
        time
    }

    /// The transmit engine has served an item that fetches, or waits for one that does.
    pub(crate) fn sent(&mut self, machine: u16, item: Item, queue: &mut Queue) {
        self.nic(machine).tx.unsent -= 1;
        self.served(machine, item, queue.now(), queue);
    }

    /// Lets an item that had to wait depart.
    pub(crate) fn delayed(&mut self, machine: u16, item: Item, queue: &mut Queue) {
        self.nic(machine).tx.unsent -= 1;
        self.depart(machine, item, queue.now(), queue);
    }

    /// The transmit engine finishes an item at `end`.
    fn served(&mut self, machine: u16, item: Item, end: Ps, queue: &mut Queue) {
        match item.role() {
            Role::Request => self.request_sent(machine, item, end, queue),
            _ => self.depart(machine, item, end, queue),
        }
    }

    /// Fetches the payload if needed, then lets the request depart; requests of a queue pair depart in order.
    fn request_sent(&mut self, machine: u16, item: Item, end: Ps, queue: &mut Queue) {
        let op = item.op();
        let o = &self.ops[op];
        if o.ending.retired {
            return self.ops.release(op);
        }
        let (qpn, len) = (o.qp, o.wr.len);
        let mut ready = end;
        if o.wr.gathers() {
            if !self.gather(op) {
                self.ops.release(op);
                return self.fail(qpn, op, WcStatus::LocalProtection, queue);
            }
            let bus = self.prices.bus_read(u64::from(len));
            let (_, fetched) = self.nic(machine).bus.inbound.carry(end, bus);
            ready = fetched + self.prices.delay.dma_gather;
        }
        if let Some(qp) = self.qps.get_mut(qpn) {
            ready = qp.order.depart(ready);
        }
        if ready == end {
            return self.depart(machine, item, end, queue);
        }
        self.nic(machine).tx.unsent += 1;
        queue.schedule(ready, Event::new(kind::DEPART, machine, item.0));
    }

    /// Sends an item on its way at `at`; a far port starts receiving as soon as the first byte arrives. Calls for one
    /// machine come in the order of `at`.
    fn depart(&mut self, machine: u16, item: Item, at: Ps, queue: &mut Queue) {
        let (op, is_request) = (item.op(), item.role() == Role::Request);
        let target = self.target(item);
        match target == Some(machine) {
            true => self.loop_back(machine, item, at, queue),
            false => self.transfer(machine, item, target, at, queue),
        }
        if is_request {
            self.request_departed(machine, op, at, queue);
        }
    }

    /// Passes an item for its own machine from the transmit to the receive engine: no link, no switch. What it carries
    /// crosses the machine's bus in both directions.
    fn loop_back(&mut self, machine: u16, item: Item, at: Ps, queue: &mut Queue) {
        if self.nic(machine).down {
            self.nic(machine).counters.lost += 1;
            return self.ops.release(item.op());
        }
        let there_at = at + self.prices.delay.tx + self.prices.delay.rx;
        self.rx_arrive(machine, item, there_at, queue);
    }

    /// Puts an item on the link at `at`, for another machine.
    fn transfer(&mut self, machine: u16, item: Item, target: Option<u16>, at: Ps, queue: &mut Queue) {
        let op = item.op();
        let (verb, is_ud, len) = (self.ops[op].wr.verb, self.ops[op].wr.is_ud, self.ops[op].wr.len);
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
        let delay = self.prices.delay.tx;
        let wire = self.prices.delay.wire;
        let loss = self.options.loss;
        let nic = &mut self.nics[usize::from(machine)];
        nic.counters.tx_packets += packets;
        nic.counters.tx_bytes += bytes;
        let (start, _) = nic.link.outbound.carry(at + delay, bytes);
        let lost =
            nic.down || (loss > 0.0 && nic.chance.loss.chance(1.0 - (1.0 - loss).powi(packets as i32)));
        nic.counters.lost += u64::from(lost);
        match target {
            Some(target) if !lost => {
                let bytes = bytes as u32;
                self.nic(target)
                    .rx
                    .incoming
                    .push(start + wire, Arrival { item, bytes });
                self.wake_rx(target, queue);
            }
            _ => self.ops.release(op),
        }
    }

    /// Machine that receives an item.
    fn target(&self, item: Item) -> Option<u16> {
        let o = &self.ops[item.op()];
        let qp = self.qps.get(o.qp)?;
        match item.role() {
            Role::Request if o.wr.is_ud => self.ctxs.get(o.wr.dest.2).map(|ctx| ctx.machine),
            Role::Request => qp.peer.map(|peer| peer.1),
            _ => Some(qp.machine),
        }
    }
}
