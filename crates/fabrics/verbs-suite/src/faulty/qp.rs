//! [`FaultyQp`]: draws the fates of requests.

use super::Faulty;
use super::context::Shared;
use super::fate::{Fate, cut, tear};
use super::forger::{ContextNumber, Poster};
use super::late::{Lateness, is_ours, part_of};
use super::options::count;
use drover_base::Cpu;
use drover_mem::{AllocError, LINE_BYTES};
use drover_verbs::{
    ConnectError, Export, Fenced, Payload, PostError, Provider, QpKind, QpState, Qpn, QueuePair, RecvList,
    SendList, SendOp, SendWr, UdDest,
};
use std::cell::RefCell;
use std::rc::Rc;

/// A queue pair of a [`FaultyContext`](super::FaultyContext): draws faults for each send request posted to it.
pub struct FaultyQp<P: Provider> {
    pub(super) inner: Rc<RefCell<P::Qp>>,
    pub(super) kind: QpKind,
    pub(super) shared: Rc<Shared<P>>,
    pub(super) scratch: SendList,
    pub(super) context: ContextNumber,
    /// The context of the completion queue for its send requests.
    pub(super) completes_in: ContextNumber,
    /// How often a fence is still to be pending.
    pub(super) fence_pending: u32,
}

impl<P: Provider> FaultyQp<P> {
    /// Posts the list with replacements for dropped and late requests.
    fn post_unreliably(&mut self, cpu: &P::Cpu, list: &SendList) -> Result<(), PostError> {
        let mut fates = Vec::with_capacity(list.len());
        self.scratch.clear();
        for wr in list.wrs() {
            let fate = self.fate(wr);
            let payload = copy_payload(list, wr.payload, &mut self.scratch);
            let stand_in = !matches!(fate, Fate::Delivered | Fate::Duplicated);
            let op = match stand_in {
                true => to_nowhere(wr.op),
                false => self.scratch.copy_op(list, wr.op),
            };
            self.scratch.push(SendWr { op, payload, ..*wr });
            fates.push(fate);
        }
        // Copies the bytes before the post: afterwards the owner may reuse them.
        let late: Vec<_> = fates
            .iter()
            .zip(list.wrs())
            .map(|(fate, wr)| self.payload(*fate, list, wr))
            .collect();
        let posted = self.inner.borrow_mut().post_send(cpu, &self.scratch);
        let accepted = posted.map_or_else(|error| error.accepted, |()| list.len());
        for ((fate, wr), bytes) in fates.into_iter().zip(list.wrs()).zip(late).take(accepted) {
            if matches!((self.kind, wr.op), (QpKind::Uc, SendOp::Send { .. }))
                && wr.signaled
                && !matches!(fate, Fate::Delivered | Fate::Duplicated)
            {
                let pair = (self.inner.borrow().qpn(), wr.wr_id);
                self.shared.standing_in.borrow_mut().push(pair);
            }
            self.carry_out(cpu, fate, wr, &bytes);
        }
        posted
    }

    /// Draws the fate of a request, limited to those possible for its kind.
    fn fate(&self, wr: &SendWr) -> Fate {
        debug_assert!(!is_ours(wr.wr_id), "{:?} is reserved for late messages", wr.wr_id);
        let fate = Fate::draw(&self.shared.options, &mut self.shared.rng.borrow_mut());
        match (wr.op, fate) {
            (SendOp::Write { imm: None, .. }, fate) => fate,
            (SendOp::Write { .. } | SendOp::Send { .. }, Fate::Torn) => Fate::Delivered,
            (SendOp::Write { .. } | SendOp::Send { .. }, fate) => fate,
            _ => Fate::Delivered,
        }
    }

    /// The bytes of a message that will be late.
    fn payload(&self, fate: Fate, list: &SendList, wr: &SendWr) -> Vec<u8> {
        match fate {
            Fate::Delivered | Fate::Dropped => Vec::new(),
            _ => self.shared.bytes_of(list, wr.payload),
        }
    }

    fn carry_out(&self, cpu: &P::Cpu, fate: Fate, wr: &SendWr, bytes: &[u8]) {
        let counters = &self.shared.counters;
        match fate {
            Fate::Delivered => {}
            Fate::Dropped => count(&counters.dropped),
            Fate::Torn => self.late_pieces(cpu, wr, bytes),
            Fate::Delayed => self.late_whole(wr, bytes, self.lateness(cpu), &counters.delayed),
            Fate::Reordered => {
                let soon = Lateness {
                    polls: 2,
                    due: cpu.now(),
                };
                self.late_whole(wr, bytes, soon, &counters.reordered);
            }
            Fate::Duplicated => self.late_whole(wr, bytes, self.lateness(cpu), &counters.duplicated),
        }
    }

    fn lateness(&self, cpu: &P::Cpu) -> Lateness {
        let mut rng = self.shared.rng.borrow_mut();
        let options = &self.shared.options;
        Lateness {
            polls: 1 + rng.below(u64::from(options.late_polls_max.max(1))) as u32,
            due: cpu.now() + drover_base::Ns(rng.below(options.late_max.0.saturating_add(1).max(1))),
        }
    }

    /// Adds one late copy. If there is no space for it, the message is lost, as an unreliable message may be.
    fn late_whole(&self, wr: &SendWr, bytes: &[u8], late: Lateness, counter: &std::sync::atomic::AtomicU64) {
        let qp = Rc::downgrade(&self.inner);
        let mut queue = self.shared.late.borrow_mut();
        let kept = match wr.op {
            SendOp::Write { remote, .. } if self.shared.options.splits_late => {
                let lines = cut(remote.offset, bytes.len(), LINE_BYTES);
                let mut kept = lines.into_iter().map(|line| {
                    let op = part_of(wr.op, line.start, line.end == bytes.len());
                    queue.add(&qp, op, &bytes[line], late)
                });
                kept.all(|kept| kept)
            }
            _ => queue.add(&qp, wr.op, bytes, late),
        };
        count(if kept {
            counter
        } else {
            &self.shared.counters.overflowed
        });
    }

    fn late_pieces(&self, cpu: &P::Cpu, wr: &SendWr, bytes: &[u8]) {
        let SendOp::Write { remote, .. } = wr.op else {
            return;
        };
        count(&self.shared.counters.torn);
        let qp = Rc::downgrade(&self.inner);
        let pieces = {
            let words = self.shared.options.tear_words;
            tear(
                remote.offset,
                bytes.len(),
                words,
                &mut self.shared.rng.borrow_mut(),
            )
        };
        for piece in pieces {
            let op = part_of(wr.op, piece.start, false);
            let late = self.lateness(cpu);
            if !self.shared.late.borrow_mut().add(&qp, op, &bytes[piece], late) {
                count(&self.shared.counters.overflowed);
            }
        }
    }

    /// Over RC: posts the list, and perhaps breaks the connection before or after.
    fn post_reliably(&mut self, cpu: &P::Cpu, list: &SendList) -> Result<(), PostError> {
        let (breaks, before) = {
            let mut rng = self.shared.rng.borrow_mut();
            let breaks = list
                .wrs()
                .iter()
                .filter(|_| rng.chance(self.shared.options.rc_break))
                .count()
                > 0;
            (breaks, rng.chance(0.5))
        };
        let mut inner = self.inner.borrow_mut();
        let breaks = breaks && inner.state() == QpState::ReadyToSend;
        if breaks {
            count(&self.shared.counters.broken);
        }
        if breaks && before {
            inner.to_error();
        }
        let posted = inner.post_send(cpu, list);
        if breaks && !before {
            inner.to_error();
        }
        posted
    }
}

/// The same request with an unknown address: it completes at the sender and has no effect.
fn to_nowhere(op: SendOp) -> SendOp {
    match op {
        SendOp::Write { mut remote, imm } => {
            remote.rkey = !remote.rkey;
            SendOp::Write { remote, imm }
        }
        SendOp::Send {
            dest: Some(dest),
            imm,
        } => SendOp::Send {
            dest: Some(UdDest {
                qkey: !dest.qkey,
                ..dest
            }),
            imm,
        },
        SendOp::Send { dest: None, .. } => SendOp::Write {
            remote: drover_verbs::RemoteAddr {
                rkey: u32::MAX,
                offset: 0,
            },
            imm: None,
        },
        other => other,
    }
}

/// Copies a payload to another list.
pub(super) fn copy_payload(from: &SendList, payload: Payload, to: &mut SendList) -> Payload {
    match payload {
        Payload::Inline { start, len } => to.inline(from.inline_bytes(start, len)),
        Payload::Region(sge) => Payload::Region(sge),
        Payload::Gather { start, count } => to.gather(from.sges(start, count)),
    }
}

impl<P: Provider> QueuePair<Faulty<P>> for FaultyQp<P> {
    fn qpn(&self) -> Qpn {
        self.inner.borrow().qpn()
    }

    fn export(&self) -> Result<Export, AllocError> {
        self.inner.borrow().export()
    }

    fn export_for_sender(&self) -> Result<(Export, Option<Qpn>), AllocError> {
        self.inner.borrow().export_for_sender()
    }

    fn forget_sender(&mut self, sender: Qpn) {
        self.inner.borrow_mut().forget_sender(sender);
    }

    fn connect(&mut self, peer: &Export) -> Result<(), ConnectError> {
        self.inner.borrow_mut().connect(peer)
    }

    fn state(&self) -> QpState {
        self.inner.borrow().state()
    }

    fn to_error(&mut self) {
        self.inner.borrow_mut().to_error();
    }

    fn fence(&mut self) -> Fenced {
        let fenced = self.inner.borrow_mut().fence();
        match self.fence_pending.checked_sub(1) {
            Some(left) => {
                self.fence_pending = left;
                Fenced::Pending
            }
            None => fenced,
        }
    }

    fn post_send(&mut self, cpu: &P::Cpu, list: &SendList) -> Result<(), PostError> {
        if let Some(forger) = &self.shared.forger {
            let mut forged = SendList::default();
            let poster = Poster {
                qpn: self.qpn(),
                kind: self.kind,
                context: self.context,
                completes_in: self.completes_in,
            };
            if forger.replace(poster, list, &mut forged) {
                return self.inner.borrow_mut().post_send(cpu, &forged);
            }
        }
        if self.kind != QpKind::Rc || !self.shared.options.checks_results {
            return self.post(cpu, list);
        }
        let requests = self.shared.mark_results(list);
        let posted = self.post(cpu, list);
        let accepted = posted
            .as_ref()
            .map_or_else(|error| error.accepted, |()| list.len());
        self.shared
            .expect_results(self.qpn(), requests.into_iter().take(accepted));
        posted
    }

    fn post_recv(&mut self, cpu: &P::Cpu, list: &RecvList) -> Result<(), PostError> {
        self.inner.borrow_mut().post_recv(cpu, list)
    }
}

impl<P: Provider> FaultyQp<P> {
    fn post(&mut self, cpu: &P::Cpu, list: &SendList) -> Result<(), PostError> {
        self.shared.late.borrow_mut().step(cpu);
        let options = &self.shared.options;
        let possible = match self.kind {
            QpKind::Rc => options.rc_break > 0.0,
            QpKind::Uc | QpKind::Ud => options.any_unreliable(),
        };
        match self.kind {
            _ if !possible || !self.shared.is_active() => self.inner.borrow_mut().post_send(cpu, list),
            QpKind::Rc => self.post_reliably(cpu, list),
            QpKind::Uc | QpKind::Ud => self.post_unreliably(cpu, list),
        }
    }
}

impl<P: Provider> Drop for FaultyQp<P> {
    fn drop(&mut self) {
        let qpn = self.inner.borrow().qpn();
        self.shared.late.borrow_mut().forget(qpn);
        self.shared.results.borrow_mut().remove(&qpn);
        self.shared
            .standing_in
            .borrow_mut()
            .retain(|(whose, _)| *whose != qpn);
    }
}
