//! From the link into the responder: the port, the receive engine, and the checks of a request.

use super::nic::Arrival;
use super::op::{Item, Role};
use super::prices::Verb;
use super::{Net, kind};
use drover_sim::{Event, Ps, Queue};
use drover_verbs::provide::Want;
use drover_verbs::{GRH_BYTES, QpKind, QpState, RecvWr, WcStatus};

/// The responder's decision on a request.
enum Verdict {
    /// Execute it.
    Accept,
    /// Drop it silently: it is unreliable and cannot be executed.
    Drop,
    /// There is no RECV.
    NotReady,
    /// Refuse it with this status.
    Refuse(WcStatus),
    /// It is longer than its RECV.
    TooLong(RecvWr),
}

impl Net {
    /// Lets the receive engine take the next item, if it is free and there is one.
    pub(crate) fn rx(&mut self, machine: u16, queue: &mut Queue) {
        let now = queue.now();
        if !self.nic(machine).rx.alarm.rings(now) {
            return;
        }
        self.take_in(machine, now);
        if let Some(item) = self.nic(machine).rx.station.take(now) {
            let time = self.rx_time(machine, Item(item), now);
            let end = self.nic(machine).rx.station.serve(now, time);
            self.received(machine, Item(item), end, queue);
        }
        self.nic(machine).rx.alarm.silence();
        self.wake_rx(machine, queue);
    }

    /// Schedules the receive engine for the time when it, or the port before it, has work.
    #[inline]
    pub(crate) fn wake_rx(&mut self, machine: u16, queue: &mut Queue) {
        let delay = self.prices.delay.rx;
        let nic = self.nic(machine);
        let mut at = nic.rx.station.next_at().unwrap_or(Ps::MAX);
        if let Some((first_byte_at, arrival)) = nic.rx.incoming.first() {
            // Unless the first byte of another item is earlier.
            let there_at = nic
                .link
                .inbound
                .through_at(first_byte_at, u64::from(arrival.bytes))
                + delay;
            at = at.min(there_at.max(nic.rx.station.free_at()));
        }
        nic.rx.alarm.set(at, Event::new(kind::RX, machine, 0), queue);
    }

    /// Takes in the items that have reached the port.
    fn take_in(&mut self, machine: u16, now: Ps) {
        let delay = self.prices.delay.rx;
        let nic = &mut self.nics[usize::from(machine)];
        while let Some((first_byte_at, Arrival { item, bytes })) = nic.rx.incoming.take(now) {
            if nic.down {
                nic.counters.lost += 1;
                self.ops.release(item.op());
                continue;
            }
            nic.counters.rx_bytes += u64::from(bytes);
            let (_, end) = nic.link.inbound.carry(first_byte_at, u64::from(bytes));
            nic.rx.station.expect(end + delay, item.0);
        }
    }

    /// Adds an item of this machine that arrives at the receive engine at `at`.
    pub(crate) fn rx_arrive(&mut self, machine: u16, item: Item, at: Ps, queue: &mut Queue) {
        self.nic(machine).rx.station.expect(at, item.0);
        self.wake_rx(machine, queue);
    }

    fn rx_time(&mut self, machine: u16, item: Item, now: Ps) -> Ps {
        let (o, prices) = (&self.ops[item.op()], &self.prices);
        match item.role() {
            Role::Request => self.rx_request_time(machine, item.op()),
            Role::Response => {
                let mut time = prices.rx.response(o.wr.len, o.wr.signaled);
                let miss = prices.miss.wqe_read_rx;
                let refetch = prices.bus_read(64);
                self.note_ingested(machine, now);
                let (hash, mut cached) = (self.wqe_hash(item.op()), self.ops[item.op()].cached);
                let nic = &mut self.nics[usize::from(machine)];
                if !nic.caches.wqes.check(hash, &mut cached) {
                    time += miss;
                    nic.bus.inbound.carry(now, refetch);
                    nic.counters.wqe_cache_misses += 1;
                }
                self.ops[item.op()].cached = cached;
                time
            }
            Role::SelfCqe => prices.rx.self_cqe(),
            Role::Ack => prices.rx.ack(o.wr.signaled),
            Role::Nak | Role::SequenceNak | Role::RnrNak => prices.rx.ack(false),
        }
    }

    fn rx_request_time(&mut self, machine: u16, op: u32) -> Ps {
        let (o, prices) = (&self.ops[op], &self.prices);
        let to = self.receiver(op);
        let place = to
            .and_then(|to| self.qps.get(to))
            .map(|qp| (qp.card.places, qp.kind));
        let takes_recv = o.wr.takes_recv();
        let is_rc = place.is_some_and(|(_, kind)| kind == QpKind::Rc);
        let mut time = prices.rx.request(o.wr.verb, is_rc, takes_recv, o.wr.len);
        let miss = prices.miss.context_rx(is_rc);
        let nic = &mut self.nics[usize::from(machine)];
        if place.is_some_and(|(places, _)| !nic.caches.touch_responder(places)) {
            time += miss;
        }
        time
    }

    /// The receiving queue pair of a request.
    fn receiver(&self, op: u32) -> Option<u32> {
        let o = &self.ops[op];
        match o.wr.is_ud {
            true => Some(o.wr.dest.0),
            false => Some(self.qps.get(o.qp)?.peer?.0),
        }
    }

    /// The receive engine finishes an item at `end`. Only this engine writes to the host, so the consequences are
    /// known.
    fn received(&mut self, machine: u16, item: Item, end: Ps, queue: &mut Queue) {
        match item.role() {
            Role::Request => self.request_arrived(machine, item.op(), end, queue),
            role => self.answered(machine, item.op(), role, end, queue),
        }
    }

    fn request_arrived(&mut self, machine: u16, op: u32, now: Ps, queue: &mut Queue) {
        let to = match self.receiver(op) {
            Some(to) if self.is_expected_by(op, to) => to,
            _ => {
                self.nic(machine).counters.lost += 1;
                return self.ops.release(op);
            }
        };
        let kind = self.qps.at(to).kind;
        if kind == QpKind::Rc && !self.in_sequence(machine, op, to, now, queue) {
            return;
        }
        match self.judge(op, to) {
            Verdict::Accept => self.accept(machine, op, to, now, queue),
            Verdict::NotReady if kind == QpKind::Rc => {
                self.qps.at(to).rc.nak_sent = true;
                self.nic(machine).counters.out_of_buffer += 1;
                self.send_back(machine, op, Role::RnrNak, now, queue);
            }
            Verdict::NotReady => {
                self.nic(machine).counters.out_of_buffer += 1;
                self.ops.release(op);
            }
            Verdict::Refuse(status) if kind == QpKind::Rc => {
                self.ops[op].ending.status = status;
                self.nic(machine).counters.resp_remote_access_errors += 1;
                self.send_back(machine, op, Role::Nak, now, queue);
            }
            Verdict::TooLong(recv) => {
                self.take_recv(to);
                self.nic(machine).counters.resp_local_length_error += 1;
                self.complete_recv(to, recv, WcStatus::LocalLength, op, 0, queue);
                self.break_qp(to, queue);
                self.ops[op].ending.status = WcStatus::RemoteInvalidRequest;
                self.send_back(machine, op, Role::Nak, now, queue);
            }
            Verdict::Refuse(_) | Verdict::Drop => self.ops.release(op),
        }
    }

    /// Whether the receiver is connected to the sender (UD: whether it is the addressee).
    fn is_expected_by(&self, op: u32, to: u32) -> bool {
        let o = &self.ops[op];
        let Some(qp) = self.qps.get(to).filter(|qp| qp.state == QpState::ReadyToSend) else {
            return false;
        };
        match o.wr.is_ud {
            true => qp.kind == QpKind::Ud && qp.ctx == o.wr.dest.2 && qp.qkey == o.wr.dest.1,
            false => qp.peer.is_some_and(|peer| peer.0 == o.qp),
        }
    }

    fn judge(&self, op: u32, to: u32) -> Verdict {
        let o = &self.ops[op];
        let Some(qp) = self.qps.get(to) else {
            return Verdict::Drop;
        };
        let from = self.qps.get(o.qp).map(|qp| qp.card.domain).unwrap_or_default();
        let len = o.wr.len as usize;
        let allowed = |want| match self.keys.remote(from, qp.card.domain, o.wr.remote, len, want) {
            Some(found) => Ok(found.1),
            None => Err(Verdict::Refuse(WcStatus::RemoteAccess)),
        };
        match o.wr.verb {
            Verb::Send => self.judge_send(op, to),
            Verb::Write if o.wr.imm.is_some() && self.front_recv(to).is_none() => Verdict::NotReady,
            Verb::Write if len == 0 => Verdict::Accept,
            Verb::Write => allowed(Want::Write).err().unwrap_or(Verdict::Accept),
            Verb::Read => allowed(Want::Read).err().unwrap_or(Verdict::Accept),
            Verb::CompareSwap | Verb::FetchAdd => match allowed(Want::Atomic) {
                Ok(offset) if offset % 8 == 0 => Verdict::Accept,
                Ok(_) => Verdict::Refuse(WcStatus::RemoteInvalidRequest),
                Err(refused) => refused,
            },
        }
    }

    fn judge_send(&self, op: u32, to: u32) -> Verdict {
        let o = &self.ops[op];
        let Some(recv) = self.front_recv(to) else {
            return Verdict::NotReady;
        };
        let (kind, domain) = match self.qps.get(to) {
            Some(qp) => (qp.kind, qp.card.domain),
            None => return Verdict::Drop,
        };
        let gap = if o.wr.is_ud { GRH_BYTES } else { 0 };
        match (self.keys.local(domain, &recv.sge, true), kind) {
            (Some((_, _, space)), _) if gap + o.wr.len as usize <= space => Verdict::Accept,
            (Some(_), QpKind::Rc) => Verdict::TooLong(recv),
            (None, QpKind::Rc) => Verdict::Refuse(WcStatus::RemoteOperation),
            _ => Verdict::Drop,
        }
    }

    /// Executes a request: data for the host crosses the bus, an answer (RC) is sent back.
    fn accept(&mut self, machine: u16, op: u32, to: u32, now: Ps, queue: &mut Queue) {
        let (verb, len) = (self.ops[op].wr.verb, self.ops[op].wr.len);
        let takes_recv = self.ops[op].wr.takes_recv();
        let is_rc = self.qps.at(to).kind == QpKind::Rc;
        if is_rc {
            let rc = &mut self.qps.at(to).rc;
            rc.expected += 1;
            rc.nak_sent = false;
        }
        self.nic(machine).counters.count_request(verb);
        if takes_recv {
            let recv = self.front_recv(to).expect("it was judged so");
            self.take_recv(to);
            self.ops[op].responder.recv = Some((to, recv));
        }
        match verb {
            Verb::Read => self.answer_later(machine, op, now, queue),
            Verb::CompareSwap | Verb::FetchAdd => {
                let address = self.ops[op].wr.remote.offset ^ u64::from(self.ops[op].wr.remote.rkey) << 40;
                let is_on_card = self.keys.is_on_card(self.ops[op].wr.remote.rkey);
                let mut from = match is_on_card {
                    true => now,
                    false => self.pushed(machine, now),
                };
                // Torn messages become visible long after they have crossed the bus.
                if is_on_card || self.options.torn {
                    from = from.max(self.qps.at(to).order.landed_at());
                }
                let end = self.nic(machine).atomics.serve(from, address);
                self.qps.at(to).order.land(end);
                queue.schedule(end, Event::new(kind::ATOMIC, machine, op));
            }
            Verb::Send | Verb::Write => {
                if is_rc {
                    self.ops.hold(op);
                }
                let on_card = verb == Verb::Write && self.keys.is_on_card(self.ops[op].wr.remote.rkey);
                let data = if on_card {
                    0
                } else {
                    self.prices.bus_write(u64::from(len))
                };
                let bus = data + if takes_recv { self.prices.bus_cqe() } else { 0 };
                let visible = match bus {
                    0 => now,
                    bus => self.nic(machine).bus.outbound.carry(now, bus).1 + self.prices.delay.dma_write,
                };
                let landed = self.land(machine, op, to, visible, queue);
                if is_rc {
                    let at = (now + self.prices.delay.ack).max(match self.options.torn {
                        true => landed,
                        false => Ps::ZERO,
                    });
                    self.ops[op].responder.executed = true;
                    self.tx_arrive(machine, Item::new(op, Role::Ack), at, queue);
                }
            }
        }
    }

    /// Time when all data written to the host before `now` is visible: reads push earlier writes.
    pub(crate) fn pushed(&mut self, machine: u16, now: Ps) -> Ps {
        let bytes = self.prices.p.pcie.request_tlp as u64;
        let delay = self.prices.delay.dma_write;
        let (_, end) = self.nic(machine).bus.outbound.carry(now, bytes);
        end + delay
    }
}
