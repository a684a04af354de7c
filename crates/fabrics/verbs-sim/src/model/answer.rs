//! Answers: sent back by the responder and handled by the requester.

use super::op::{Item, Role};
use super::prices::Verb;
use super::{Net, kind};
use drover_sim::{Event, Ps, Queue};
use drover_verbs::provide::Want;
use drover_verbs::{QpKind, WcStatus};

/// Progress of copying the data of a READ.
enum Sampled {
    Nothing,
    Part,
    All,
}

impl Net {
    /// Turns an item into its answer, which is transmitted from `now` on.
    pub(crate) fn send_back(&mut self, machine: u16, op: u32, role: Role, now: Ps, queue: &mut Queue) {
        self.tx_arrive(machine, Item::new(op, role), now, queue);
    }

    /// The data of a request has been read, or its atomic executed. Data of a READ is sampled here, after all earlier
    /// writes; in torn mode each line at a seeded time.
    pub(crate) fn answer(&mut self, machine: u16, item: Item, queue: &mut Queue) {
        let op = item.op();
        let is_read = item.role() == Role::Response && self.ops[op].wr.verb == Verb::Read;
        if is_read && !self.ops[op].ending.retired {
            match self.sample(op) {
                Sampled::Nothing => return self.ops.release(op), // one end is gone: no answer
                Sampled::Part => {
                    let tear_max = self.options.tear_max.0 * 1_000;
                    let at = queue.now() + Ps(1 + self.nic(machine).chance.tear.below(tear_max));
                    return queue.schedule(at, Event::new(kind::ANSWER, machine, item.0));
                }
                Sampled::All => {}
            }
        }
        self.tx_arrive(machine, item, queue.now(), queue);
    }

    /// Lets the card read its own memory or the host's for a READ, then answer.
    pub(crate) fn answer_later(&mut self, machine: u16, op: u32, now: Ps, queue: &mut Queue) {
        let mut ready = now;
        if !self.keys.is_on_card(self.ops[op].wr.remote.rkey) {
            let pushed = self.pushed(machine, now);
            let bus = self.prices.bus_read(u64::from(self.ops[op].wr.len));
            let (_, end) = self.nic(machine).bus.inbound.carry(now, bus);
            ready = (end + self.prices.delay.dma_read).max(pushed);
        }
        if let Some(peer) = self.qps.get(self.ops[op].qp).and_then(|qp| qp.peer)
            && let Some(qp) = self.qps.get(peer.0)
        {
            ready = ready.max(qp.order.landed_at());
        }
        let item = Item::new(op, Role::Response);
        self.ops[op].responder.landed = 0;
        queue.schedule(ready, Event::new(kind::ANSWER, machine, item.0));
    }

    /// Copies the data of a READ: all of it, or in torn mode the next line of memory.
    fn sample(&mut self, op: u32) -> Sampled {
        let o = &self.ops[op];
        let len = o.wr.len as usize;
        let (from, until) = match self.options.torn {
            false => (0, len),
            true => {
                let (start, from) = (o.wr.remote.offset, u64::from(o.responder.landed));
                let unit = self.options.tear_unit();
                let line_end = (start.saturating_add(from) / unit + 1).saturating_mul(unit);
                (from as usize, len.min((line_end - start) as usize))
            }
        };
        let ends = self.qps.get(o.qp).map(|qp| (qp.card.domain, qp.peer));
        let Some((domain, Some((peer, _)))) = ends else {
            return Sampled::Nothing;
        };
        let Some(peer_domain) = self.qps.get(peer).map(|qp| qp.card.domain) else {
            return Sampled::Nothing;
        };
        let remote = o.wr.remote;
        let mut data = std::mem::take(&mut self.ops[op].data);
        data.resize(len, 0);
        let part = &mut data[from..until];
        match self.keys.remote(domain, peer_domain, remote, len, Want::Read) {
            Some((region, offset)) => region.copy_out(offset + from, part),
            None => part.fill(0),
        }
        (self.ops[op].data, self.ops[op].responder.landed) = (data, until as u32);
        match until == len {
            true => Sampled::All,
            false => Sampled::Part,
        }
    }

    /// The unit executes an atomic.
    pub(crate) fn atomic(&mut self, machine: u16, op: u32, queue: &mut Queue) {
        let o = &self.ops[op];
        let (remote, verb, swap, add) = (o.wr.remote, o.wr.verb, o.wr.swap, o.wr.add);
        let ends = self.qps.get(o.qp).map(|qp| (qp.card.domain, qp.peer));
        let peer_domain = match ends {
            Some((_, Some((peer, _)))) => self.qps.get(peer).map(|qp| qp.card.domain),
            _ => None,
        };
        let (Some((domain, _)), Some(peer_domain)) = (ends, peer_domain) else {
            return self.ops.release(op); // one end is gone
        };
        let found = self.keys.remote(domain, peer_domain, remote, 8, Want::Atomic);
        let old = found.map(|(region, offset)| match verb {
            Verb::CompareSwap => swap.execute(region, offset),
            _ => region.fetch_add_u64(offset, add),
        });
        let o = &mut self.ops[op];
        o.data.clear();
        o.data.extend(old.unwrap_or_default().to_ne_bytes());
        o.responder.executed = true;
        self.tell_watchers(remote, 8, queue);
        let mut ready = queue.now();
        if !self.keys.is_on_card(remote.rkey) {
            // The old value crosses the bus like a READ of 8 bytes.
            let bus = self.prices.bus_read(8);
            let (_, end) = self.nic(machine).bus.inbound.carry(ready, bus);
            ready = end + self.prices.delay.dma_read;
        }
        let item = Item::new(op, Role::Response);
        queue.schedule(ready, Event::new(kind::ANSWER, machine, item.0));
    }

    /// A request of UC or UD departs at `now`: no answer follows, so its own card writes its completion.
    pub(crate) fn request_departed(&mut self, machine: u16, op: u32, now: Ps, queue: &mut Queue) {
        let o = &self.ops[op];
        let is_rc = self.qps.get(o.qp).is_none_or(|qp| qp.kind == QpKind::Rc);
        if is_rc || o.ending.retired {
            return;
        }
        if o.wr.signaled {
            self.ops.hold(op);
            return self.rx_arrive(machine, Item::new(op, Role::SelfCqe), now, queue);
        }
        self.ops[op].ending.done = true;
        let qpn = self.ops[op].qp;
        self.retire_done(qpn, queue);
    }

    /// The requester's receive engine has served an answer at `now`.
    pub(crate) fn answered(&mut self, machine: u16, op: u32, role: Role, now: Ps, queue: &mut Queue) {
        let qpn = self.ops[op].qp;
        if self.ops[op].ending.retired || self.qps.get(qpn).is_none() {
            return self.ops.release(op);
        }
        match role {
            Role::SequenceNak => {
                self.nic(machine).counters.packet_seq_err += 1;
                self.ops.release(op);
                self.go_back(qpn, queue);
            }
            Role::RnrNak => {
                self.ops.release(op);
                self.peer_not_ready(qpn, op, queue);
            }
            Role::Nak => {
                // Earlier answers were served before, because the engine serves in order.
                self.progress(qpn, op, now, queue);
                self.qps.at(qpn).rc.refused = Some((op, self.ops[op].ending.status));
                self.ops.release(op);
                self.retire_done(qpn, queue);
            }
            Role::Response | Role::Ack if self.ops[op].ending.acked => self.ops.release(op), // answered twice
            Role::Response => {
                self.progress(qpn, op, now, queue);
                self.write_result(machine, op, now, queue);
            }
            Role::Ack => {
                self.progress(qpn, op, now, queue);
                self.write_completion(machine, op, now, queue);
            }
            Role::SelfCqe => self.write_completion(machine, op, now, queue),
            Role::Request => unreachable!("requests do not come back"),
        }
    }

    /// Writes fetched data and, if requested, a completion to the host. Takes over the item's reference.
    fn write_result(&mut self, machine: u16, op: u32, now: Ps, queue: &mut Queue) {
        self.ops[op].ending.acked = true;
        let o = &self.ops[op];
        let cqe = if o.wr.signaled { self.prices.bus_cqe() } else { 0 };
        let bus = self.prices.bus_write(u64::from(o.wr.len)) + cqe;
        let (_, end) = self.nic(machine).bus.outbound.carry(now, bus);
        let at = end + self.prices.delay.dma_write;
        queue.schedule(at, Event::new(kind::DONE, machine, op));
    }

    /// Writes a completion to the host if requested. Takes over the item's reference.
    pub(crate) fn write_completion(&mut self, machine: u16, op: u32, now: Ps, queue: &mut Queue) {
        self.ops[op].ending.acked = true;
        if !self.ops[op].wr.signaled {
            return self.finished(op, queue);
        }
        let bus = self.prices.bus_cqe();
        let (_, end) = self.nic(machine).bus.outbound.carry(now, bus);
        let at = end + self.prices.delay.dma_write;
        queue.schedule(at, Event::new(kind::DONE, machine, op));
    }

    /// An op is done at the requester: its result is in memory, and its completion may become visible.
    pub(crate) fn finished(&mut self, op: u32, queue: &mut Queue) {
        let (qpn, verb) = (self.ops[op].qp, self.ops[op].wr.verb);
        if self.ops[op].ending.retired || self.qps.get(qpn).is_none() {
            return self.ops.release(op);
        }
        if verb.fetches() && !self.scatter(op) {
            self.ops.release(op);
            return self.fail(qpn, op, WcStatus::LocalProtection, queue);
        }
        self.ops[op].ending.done = true;
        self.ops.release(op);
        self.retire_done(qpn, queue);
    }
}
