//! Landing: the bytes of messages become visible in the responder's memory, line by line in ascending order.
//!
//! Usually all lines of a message become visible at one time. In torn mode each line has a seeded time, so that pollers
//! see partial messages; the order is kept, and an acknowledgement waits. With torn words it is each word of 8 bytes.

use super::prices::Verb;
use super::{Net, kind};
use drover_sim::{Event, Ps, Queue};
use drover_verbs::provide::Want;
use drover_verbs::{GRH_BYTES, Imm, Opcode, WcStatus};

impl Net {
    /// Plans the landing of an accepted message; returns the time when its last line is visible.
    pub(crate) fn land(&mut self, machine: u16, op: u32, to: u32, first: Ps, queue: &mut Queue) -> Ps {
        let landed_at = self.qps.at(to).order.landed_at();
        let first = first.max(landed_at);
        let mut last = first;
        if self.options.torn {
            let (start, len) = (self.destination(op), u64::from(self.ops[op].wr.len));
            let unit = self.options.tear_unit();
            let lines = ((start + len).div_ceil(unit) - start / unit).max(1);
            let nic = &self.nics[usize::from(machine)];
            for _ in 1..lines {
                last += Ps(1 + nic.chance.tear.below(self.options.tear_max.0 * 1_000));
            }
            // Each line is an event; all but the last at equal distances within the time drawn.
            let step = Ps((last - first).0 / (lines.max(2) - 1));
            for line in 1..lines {
                self.ops.hold(op);
                queue.schedule(first + step * (line - 1), Event::new(kind::VISIBLE, machine, op));
            }
        }
        self.qps.at(to).order.land(last);
        queue.schedule(last, Event::new(kind::VISIBLE, machine, op));
        last
    }

    /// The next bytes of a message are visible; after the last ones also its completion.
    pub(crate) fn visible(&mut self, machine: u16, op: u32, queue: &mut Queue) {
        let (len, landed) = (self.ops[op].wr.len, self.ops[op].responder.landed);
        let until = match self.options.torn {
            // To the end of the line, a line of memory, not of the message.
            true => {
                let start = self.destination(op);
                let unit = self.options.tear_unit();
                let line_end = (start + u64::from(landed)) / unit * unit + unit;
                len.min((line_end - start) as u32)
            }
            false => len,
        };
        if self.nic(machine).down {
            return self.ops.release(op);
        }
        match self.ops[op].responder.recv {
            Some((to, _)) if self.ops[op].wr.verb == Verb::Send => {
                self.land_message(op, to, landed, until, queue);
            }
            _ => self.land_write(op, landed, until, queue),
        }
        self.ops[op].responder.landed = until;
        self.ops.release(op);
    }

    /// Offset of the message's first byte in its region.
    fn destination(&self, op: u32) -> u64 {
        let o = &self.ops[op];
        match o.responder.recv {
            Some((_, recv)) if o.wr.verb == Verb::Send => {
                recv.sge.offset + if o.wr.is_ud { GRH_BYTES as u64 } else { 0 }
            }
            _ => o.wr.remote.offset,
        }
    }

    fn land_write(&mut self, op: u32, from: u32, until: u32, queue: &mut Queue) {
        let o = &self.ops[op];
        let ends = self.qps.get(o.qp).map(|qp| (qp.card.domain, qp.peer));
        let Some((domain, Some((peer, _)))) = ends else {
            return;
        };
        let Some(peer_domain) = self.qps.get(peer).map(|qp| qp.card.domain) else {
            return; // destroyed: the message is dropped
        };
        let (remote, len) = (o.wr.remote, o.wr.len as usize);
        if len > 0 {
            let found = self.keys.remote(domain, peer_domain, remote, len, Want::Write);
            let Some((region, offset)) = found else { return };
            let (from, until) = (from as usize, until as usize);
            region.copy_in_release(offset + from, &self.ops[op].data[from..until]);
            self.tell_watchers(remote, len, queue);
        }
        if until as usize == len
            && let Some((to, recv)) = self.ops[op].responder.recv
        {
            self.complete_recv(to, recv, WcStatus::Success, op, len as u32, queue);
        }
    }

    fn land_message(&mut self, op: u32, to: u32, from: u32, until: u32, queue: &mut Queue) {
        let Some((_, recv)) = self.ops[op].responder.recv else {
            return;
        };
        let Some(domain) = self.qps.get(to).map(|qp| qp.card.domain) else {
            return;
        };
        let o = &self.ops[op];
        let gap = if o.wr.is_ud { GRH_BYTES } else { 0 };
        if let Some((region, offset, _)) = self.keys.local(domain, &recv.sge, true) {
            let (from, until) = (from as usize, until as usize);
            region.copy_in_release(offset + gap + from, &o.data[from..until]);
        }
        if until == o.wr.len {
            let bytes = gap as u32 + o.wr.len;
            self.complete_recv(to, recv, WcStatus::Success, op, bytes, queue);
        }
    }

    /// Opcode and immediate data of the receiver's completion for `op`.
    pub(crate) fn recv_opcode(&self, op: u32) -> (Opcode, Option<Imm>) {
        let o = &self.ops[op];
        match o.wr.verb {
            Verb::Send => (Opcode::Recv, o.wr.imm),
            _ => (Opcode::RecvWriteImm, o.wr.imm),
        }
    }
}
