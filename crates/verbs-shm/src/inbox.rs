//! [`Inbox`]: the receiving end of one lane. Everything in it was written by a peer that may be hostile or dead.

use crate::core::{Core, Tables};
use crate::lane::{LaneConsumer, STATE};
use crate::qp::Queue;
use crate::ring::{Head, Memory};
use crate::stats::count;
use drover_base::sync::Ordering;
use drover_mem::Region;
use drover_verbs::{GRH_BYTES, Imm, Opcode, QpKind, Qpn, RecvWr, Wc, WcStatus};
use std::rc::Rc;

pub(crate) struct Inbox {
    lane: LaneConsumer,
    queue: Rc<Queue>,
    kind: QpKind,
}

/// What one look at a lane brought.
pub(crate) enum Step {
    /// Nothing new (or a message that waits for a RECV).
    Idle,
    /// A message was dropped: look again.
    Skip,
    /// A message completed a RECV.
    Complete(Wc),
    /// The queue pair fails, after this completion.
    Fail(Option<Wc>),
    /// The sender is gone, or broke the format: the lane can go.
    Gone,
}

impl Inbox {
    pub(crate) fn new(lane: LaneConsumer, queue: Rc<Queue>) -> Inbox {
        let kind = queue.kind();
        Inbox { lane, queue, kind }
    }

    pub(crate) fn queue(&self) -> &Rc<Queue> {
        &self.queue
    }

    /// Takes the next message, if there is one. Idle: one load.
    #[inline(always)]
    pub(crate) fn step(&mut self, core: &Core, tables: &Tables) -> Step {
        match self.lane.peek() {
            Ok(None) => Step::Idle,
            Ok(Some(head)) => self.message(head, core, tables),
            Err(_) => self.poisoned(core),
        }
    }

    #[inline]
    fn message(&mut self, head: Head, core: &Core, tables: &Tables) -> Step {
        if head.flags & !(Head::IMM | Head::WRITE) != 0 {
            return self.rare(head, core);
        }
        let mut recvs = self.queue.recvs().borrow_mut();
        let Some(recv) = recvs.front() else {
            drop(recvs);
            return self.no_recv(head, core);
        };
        let gap = if self.kind == QpKind::Ud { GRH_BYTES } else { 0 };
        if self.kind == QpKind::Ud && head.qkey != self.queue.qkey() {
            drop(recvs);
            count(&core.counters.bad_qkey);
            return self.skip(head);
        }
        if head.len + gap > recv.sge.len as usize {
            drop(recvs);
            return self.too_long(head, core);
        }
        let Ok(to) = tables.local(recv.sge, true) else {
            let wc = self.completion(recv, head, WcStatus::LocalProtection, 0);
            recvs.pop();
            drop(recvs);
            return Step::Fail(Some(wc));
        };
        let offset = recv.sge.offset as usize + gap;
        self.lane
            .payload(head, |lane, at, from, n| lane.copy_to(at, to, offset + from, n));
        let wc = self.completion(recv, head, WcStatus::Success, (head.len + gap) as u32);
        recvs.pop();
        drop(recvs);
        self.advance(head);
        Step::Complete(wc)
    }

    #[inline(always)]
    fn completion(&self, recv: &RecvWr, head: Head, status: WcStatus, byte_len: u32) -> Wc {
        let is_write = head.flags & Head::WRITE != 0;
        Wc {
            wr_id: recv.wr_id,
            status,
            opcode: if is_write {
                Opcode::RecvWriteImm
            } else {
                Opcode::Recv
            },
            byte_len: if is_write { head.qkey } else { byte_len },
            imm: (head.flags & Head::IMM != 0).then_some(Imm(head.imm)),
            qpn: self.queue.qpn(),
            src_qpn: Qpn(head.src_qpn),
        }
    }

    #[inline(always)]
    fn advance(&mut self, head: Head) {
        if self.lane.advance(head) {
            self.published();
        }
    }

    /// A quarter ring became free: a sender that waits for room may go on.
    #[cold]
    fn published(&self) {
        self.queue.ring_waiting_peer();
    }

    fn skip(&mut self, head: Head) -> Step {
        self.advance(head);
        Step::Skip
    }

    #[cold]
    fn no_recv(&mut self, head: Head, core: &Core) -> Step {
        if self.kind == QpKind::Rc {
            return Step::Idle;
        }
        count(&core.counters.no_recv);
        self.skip(head)
    }

    #[cold]
    fn too_long(&mut self, head: Head, core: &Core) -> Step {
        if self.kind != QpKind::Rc {
            count(&core.counters.too_long);
            return self.skip(head);
        }
        self.length_error(head)
    }

    fn length_error(&mut self, head: Head) -> Step {
        let recv = self.queue.recvs().borrow_mut().pop();
        let wc = recv.map(|recv| self.completion(&recv, head, WcStatus::LocalLength, 0));
        self.advance(head);
        Step::Fail(wc)
    }

    #[cold]
    fn rare(&mut self, head: Head, core: &Core) -> Step {
        if head.flags == Head::CLOSE && self.kind == QpKind::Ud {
            return Step::Gone;
        }
        if head.flags == Head::TOO_LONG && self.kind == QpKind::Rc {
            return self.length_error(head);
        }
        self.poisoned(core)
    }

    #[cold]
    fn poisoned(&mut self, core: &Core) -> Step {
        count(&core.counters.poisoned);
        if self.kind == QpKind::Ud {
            Step::Gone
        } else {
            Step::Fail(None)
        }
    }

    /// The lane's memory, for its other words.
    pub(crate) fn memory(&self) -> &Region {
        self.lane.memory()
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        // Senders see it: nobody receives here any more.
        self.memory().store(STATE, 1, Ordering::Release);
    }
}
