//! Posting: immediate refusals, the cost for the core, and the transfer to the card.

use super::Net;
use super::objects::{Qp, RecvQueue};
use super::op::{NONE, Posted};
use super::prices::Verb;
use drover_base::{Cost, Cpu};
use drover_sim::{Ps, Queue, VirtualCpu};
use drover_verbs::{
    MaskedSwap, Payload, PostError, PostErrorKind, QpKind, QpState, RecvList, RecvWr, RemoteAddr, SendList,
    SendOp, SendWr, Sge,
};

/// Post of a request of one line.
pub(crate) const POST: Cost = Cost::new("verbs.post");
/// Every further line.
pub(crate) const POST_LINE: Cost = Cost::new("verbs.post_line");
/// Every further request of a list.
pub(crate) const POST_LIST: Cost = Cost::new("verbs.post_list");
/// Post of a RECV.
pub(crate) const POST_RECV: Cost = Cost::new("verbs.post_recv");
/// Every further RECV of a list.
pub(crate) const POST_RECV_LIST: Cost = Cost::new("verbs.post_recv_list");
/// Waiting until the card has ingested enough of the written lines.
const PIO_STALL: Cost = Cost::new("verbs.pio_stall");

impl Net {
    /// Posts a list: one doorbell.
    pub(crate) fn post_send(
        &mut self,
        cpu: &VirtualCpu,
        qpn: u32,
        list: &SendList,
        queue: &mut Queue,
    ) -> Result<(), PostError> {
        let ctx = self.qps.at(qpn).ctx;
        self.post_from(cpu, ctx, qpn, list, queue)
    }

    /// As [`post_send`](Net::post_send), on the account of `ctx`, which is that of the queue pair unless this is shared.
    pub(crate) fn post_from(
        &mut self,
        cpu: &VirtualCpu,
        ctx: u32,
        qpn: u32,
        list: &SendList,
        queue: &mut Queue,
    ) -> Result<(), PostError> {
        let mut first = NONE;
        let mut last = NONE;
        let mut accepted = 0;
        let mut result = Ok(());
        for wr in list.wrs() {
            match self.admit(qpn, list, wr) {
                Ok(()) => {
                    let op = self.make(qpn, ctx, list, wr);
                    match last {
                        NONE => first = op,
                        last => self.ops[last].handover.next = op,
                    }
                    last = op;
                    accepted += 1;
                }
                Err(kind) => {
                    result = Err(PostError { accepted, kind });
                    break;
                }
            }
        }
        if first != NONE {
            self.hand_over(cpu, (qpn, ctx), first, accepted as u32, queue);
        }
        result
    }

    fn admit(&self, qpn: u32, list: &SendList, wr: &SendWr) -> Result<(), PostErrorKind> {
        let qp = self.qps.get(qpn).expect("its handle keeps it alive");
        if qp.state == QpState::Init {
            return Err(PostErrorKind::NotReady);
        }
        check_verb(qp, wr)?;
        if let SendOp::Send { dest: Some(dest), .. } = wr.op
            && !self.keys.has_ah(qp.ctx, dest.ah)
        {
            return Err(PostErrorKind::BadAddress);
        }
        self.check_payload(qp, list, wr)?;
        match qp.sends.is_full() {
            false => Ok(()),
            true => Err(PostErrorKind::QueueFull),
        }
    }

    fn check_payload(&self, qp: &Qp, list: &SendList, wr: &SendWr) -> Result<(), PostErrorKind> {
        let caps = &self.fabric.caps;
        let fetches = verb_of(&wr.op).fetches();
        let (sges, one);
        match wr.payload {
            Payload::Inline { len, .. } if fetches && len > 0 => return Err(PostErrorKind::NotSupported),
            Payload::Inline { len, .. } if len as usize > qp.inline_bytes => {
                return Err(PostErrorKind::InlineTooLong);
            }
            Payload::Inline { .. } => sges = &[][..],
            Payload::Region(sge) => {
                one = [sge];
                sges = &one[..];
            }
            Payload::Gather { start, count } => sges = list.sges(start, count),
        }
        let len = payload_len(list, wr);
        let longest = match qp.kind {
            QpKind::Ud => caps.mtu_bytes,
            _ => caps.message_bytes_max,
        };
        if sges.len() > caps.sge_max || len > longest {
            return Err(PostErrorKind::MessageTooLong);
        }
        if verb_of(&wr.op).is_atomic() && len != 8 {
            return Err(PostErrorKind::LocalProtection);
        }
        match sges
            .iter()
            .all(|sge| self.keys.local(qp.card.domain, sge, fetches).is_some())
        {
            true => Ok(()),
            false => Err(PostErrorKind::LocalProtection),
        }
    }

    /// Creates the op of an accepted request; inline payloads are copied now.
    fn make(&mut self, qpn: u32, ctx: u32, list: &SendList, wr: &SendWr) -> u32 {
        let qp = self.qps.at(qpn);
        let (is_ud, sequence) = (qp.kind == QpKind::Ud, qp.sends.take_slot());
        let posted = self.posted(is_ud, list, wr);
        let id = self.ops.add(qpn, ctx, sequence, posted);
        let op = &mut self.ops[id];
        match wr.payload {
            Payload::Inline { start, len } => op.data.extend_from_slice(list.inline_bytes(start, len)),
            Payload::Region(sge) => op.pieces.push(sge),
            Payload::Gather { start, count } => op.pieces.extend_from_slice(list.sges(start, count)),
        }
        id
    }

    fn posted(&self, is_ud: bool, list: &SendList, wr: &SendWr) -> Posted {
        let mut posted = Posted {
            verb: verb_of(&wr.op),
            is_ud,
            wr_id: wr.wr_id,
            signaled: wr.signaled,
            fence: wr.fence,
            inline: matches!(wr.payload, Payload::Inline { .. }),
            len: payload_len(list, wr) as u32,
            imm: None,
            remote: RemoteAddr::default(),
            swap: MaskedSwap::default(),
            add: 0,
            dest: (0, 0, 0),
        };
        match wr.op {
            SendOp::Send { dest, imm } => {
                posted.imm = imm;
                if let Some(dest) = dest {
                    let (to, _) = self.keys.receiver(dest.ah).unwrap_or_default();
                    posted.dest = (dest.qpn.0, dest.qkey, to);
                }
            }
            SendOp::Write { remote, imm } => (posted.remote, posted.imm) = (remote, imm),
            SendOp::Read { remote } => posted.remote = remote,
            SendOp::CompareSwap {
                remote,
                compare,
                swap,
            } => {
                let (compare_mask, swap_mask) = (u64::MAX, u64::MAX);
                posted.remote = remote;
                posted.swap = MaskedSwap {
                    compare,
                    compare_mask,
                    swap,
                    swap_mask,
                };
            }
            SendOp::MaskedCompareSwap { remote, operands } => {
                (posted.remote, posted.swap) = (remote, list.masked_operands(operands));
            }
            SendOp::FetchAdd { remote, add } => (posted.remote, posted.add) = (remote, add),
        }
        posted
    }

    /// Charges the core and sends a request, or a doorbell, to the card.
    fn hand_over(
        &mut self,
        cpu: &VirtualCpu,
        (qpn, ctx): (u32, u32),
        first: u32,
        count: u32,
        queue: &mut Queue,
    ) {
        let machine = self.qps.at(qpn).machine;
        let lines = match count {
            1 => self.written_lines(first),
            _ => 0,
        };
        cpu.charge(POST, 1);
        cpu.charge(POST_LINE, lines.saturating_sub(1));
        cpu.charge(POST_LIST, count - 1);
        let fetches = self.ops[first].wr.verb.fetches();
        self.take_register(cpu, (qpn, ctx), fetches);
        self.ingest(machine, queue);
        self.note_ingested(machine, queue.now());
        self.stall(cpu, ctx, lines, queue.now());
        self.ops[first].handover.lines = lines;
        let far = self.prices.delay.far_socket;
        let delay = self.prices.delay.mmio + self.prices.pio.extra_line * u64::from(lines.saturating_sub(1));
        let c = self.ctxs.at(ctx);
        let delay = if c.far_socket { delay + far } else { delay };
        let mut at = (cpu.local() + delay).max(c.posted_at);
        if let Some(sharing) = &mut self.qps.at(qpn).queues.sharing {
            at = at.max(sharing.posted_at);
            sharing.posted_at = at;
        }
        c.posted_at = at;
        c.lines_ahead += lines;
        let nic = self.nic(machine);
        nic.pio.lines_ahead += lines;
        nic.pio.written.push(at, first);
        self.wake_tx(machine, queue);
    }

    /// Lines that the core writes for a single request; 0 if it only rings the doorbell and the card fetches the
    /// request.
    fn written_lines(&mut self, op: u32) -> u32 {
        let pio = &self.prices.p.pio;
        let o = &self.ops[op];
        let lines = self.prices.lines(o.wr.verb, o.wr.is_ud, o.wr.inline, o.wr.len);
        if u64::from(lines) > pio.bf_lines_max {
            self.ops[op].handover.tx_extra = self.prices.pio.bf_over;
            return 0;
        }
        match pio.bf_every == 1 || o.wr.inline || o.wr.verb.fetches() {
            true => lines,
            false => 0,
        }
    }

    /// Stalls the core if it is further ahead of the card than its write buffers allow.
    ///
    /// How much the card has ingested since the step began is not known yet: cores that are ahead share its ingest.
    fn stall(&mut self, cpu: &VirtualCpu, ctx: u32, lines: u32, now: Ps) {
        let c = self.ctxs.at(ctx);
        let (machine, ahead) = (c.machine, c.lines_ahead);
        let space = self.prices.p.pio.buf_lines as u32;
        if ahead + lines <= space || ahead == 0 {
            return;
        }
        let line = self.prices.pio.line;
        let nic = &mut self.nics[usize::from(machine)];
        let sharers = u64::from(nic.pio.lines_ahead.max(ahead)) / u64::from(ahead);
        let until = now + line * (u64::from(ahead + lines - space) * sharers);
        nic.counters.pio_stall += until.since(cpu.local());
        cpu.wait_until(until, PIO_STALL);
    }

    /// Posts RECVs to a queue pair's own queue.
    pub(crate) fn post_recv(
        &mut self,
        qpn: u32,
        list: &RecvList,
        queue: &mut Queue,
    ) -> Result<(), PostError> {
        for (accepted, wr) in list.wrs().iter().enumerate() {
            let refused = |kind| PostError { accepted, kind };
            let qp = self.qps.get(qpn).expect("its handle keeps it alive");
            if qp.queues.srq.is_some() {
                return Err(refused(PostErrorKind::NotSupported));
            }
            self.admit_recv(&qp.queues.recvs, wr).map_err(refused)?;
            let qp = self.qps.at(qpn);
            qp.queues.recvs.used += 1;
            qp.queues.recvs.wrs.push_back(*wr);
            if qp.state == QpState::Error {
                self.flush_recvs(qpn, queue);
            }
        }
        Ok(())
    }

    /// Posts RECVs to a shared queue.
    pub(crate) fn post_shared_recv(&mut self, srq: u32, list: &RecvList) -> Result<(), PostError> {
        for (accepted, wr) in list.wrs().iter().enumerate() {
            let refused = |kind| PostError { accepted, kind };
            let recvs = self.srqs.get(srq).expect("its handle keeps it alive");
            self.admit_recv(recvs, wr).map_err(refused)?;
            let recvs = self.srqs.at(srq);
            recvs.used += 1;
            recvs.wrs.push_back(*wr);
        }
        Ok(())
    }

    fn admit_recv(&self, recvs: &RecvQueue, wr: &RecvWr) -> Result<(), PostErrorKind> {
        if recvs.used >= recvs.depth {
            return Err(PostErrorKind::QueueFull);
        }
        match self.keys.local(recvs.domain, &wr.sge, true) {
            Some(_) => Ok(()),
            None => Err(PostErrorKind::LocalProtection),
        }
    }
}

fn verb_of(op: &SendOp) -> Verb {
    match op {
        SendOp::Send { .. } => Verb::Send,
        SendOp::Write { .. } => Verb::Write,
        SendOp::Read { .. } => Verb::Read,
        SendOp::CompareSwap { .. } | SendOp::MaskedCompareSwap { .. } => Verb::CompareSwap,
        SendOp::FetchAdd { .. } => Verb::FetchAdd,
    }
}

fn payload_len(list: &SendList, wr: &SendWr) -> usize {
    let total = |sges: &[Sge]| sges.iter().map(|sge| sge.len as usize).sum();
    match wr.payload {
        Payload::Inline { len, .. } => len as usize,
        Payload::Region(sge) => sge.len as usize,
        Payload::Gather { start, count } => total(list.sges(start, count)),
    }
}

fn check_verb(qp: &Qp, wr: &SendWr) -> Result<(), PostErrorKind> {
    let supported = match verb_of(&wr.op) {
        Verb::Send => true,
        Verb::Write => qp.kind != QpKind::Ud,
        _ => qp.kind == QpKind::Rc,
    };
    match (supported, qp.kind, wr.op) {
        (false, ..) => Err(PostErrorKind::NotSupported),
        (_, QpKind::Ud, SendOp::Send { dest: Some(_), .. }) => Ok(()),
        (_, QpKind::Ud, _) | (_, _, SendOp::Send { dest: Some(_), .. }) => Err(PostErrorKind::BadAddress),
        _ => Ok(()),
    }
}
