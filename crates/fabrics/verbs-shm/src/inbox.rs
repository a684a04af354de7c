//! [`Inbox`]: the receiving end of one lane. Everything in it was written by a peer that may be hostile or dead.

use crate::core::{Core, Tables};
use crate::lane::{CLAIM, CLOSED, LaneConsumer, LaneMemory, REVOKED, STATE};
use crate::qp::Queue;
use crate::ring::{FIRST_BYTES, HEAD_BYTES, Head, Memory};
use crate::stats::count;
use drover_base::sync::Ordering;
use drover_mem::Region;
use drover_verbs::{GRH_BYTES, Imm, Opcode, QpKind, Qpn, RecvWr, Sge, Wc, WcStatus};
use rustix::fs::{FlockOperation, flock};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::AtomicU64;

pub(crate) struct Inbox {
    lane: LaneConsumer,
    queue: Rc<Queue>,
    kind: QpKind,
    /// Lanes of one queue pair in the order of their making.
    serial: u64,
    /// Whoever has it, or may come to have it, holds a lock on its file.
    ticketed: bool,
}

/// What one look at a lane brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// Nothing new (or a message that waits for a RECV).
    Idle,
    /// A message was dropped: look again.
    Skip,
    /// A message completed a RECV.
    Complete,
    /// The queue pair fails, perhaps after a last completion.
    Fail { completed: bool },
    /// The sender is gone, or broke the format: the lane can go.
    Gone,
}

impl Step {
    /// Whether a completion was written.
    #[inline(always)]
    pub(crate) fn has_completed(self) -> bool {
        matches!(self, Step::Complete | Step::Fail { completed: true })
    }
}

impl Inbox {
    pub(crate) fn new(lane: LaneConsumer, queue: Rc<Queue>, serial: u64, ticketed: bool) -> Inbox {
        let kind = queue.kind();
        Inbox {
            lane,
            queue,
            kind,
            serial,
            ticketed,
        }
    }

    pub(crate) fn serial(&self) -> u64 {
        self.serial
    }

    /// Whether no sender has made an address handle of this lane yet.
    pub(crate) fn is_unclaimed(&self) -> bool {
        self.memory().load(CLAIM, Ordering::Acquire) == 0
    }

    /// Takes an unclaimed lane back: whoever comes later with its export finds the peer gone.
    pub(crate) fn revoke(&self) -> bool {
        self.memory().region().compare_swap_u64(CLAIM * 8, 0, REVOKED) == 0
    }

    /// Whether nothing more can come through a datagram lane: the sender said so, or is dead, or nobody can become it any more. A system
    /// call or two.
    pub(crate) fn is_abandoned(&self) -> bool {
        if self.kind != QpKind::Ud || !matches!(self.lane.peek(), Ok(None)) {
            return false;
        }
        if self.memory().load(CLOSED, Ordering::Acquire) != 0 {
            return true;
        }
        let (true, Some(fd)) = (self.ticketed, self.memory().region().fd()) else {
            return false;
        };
        let free = flock(fd, FlockOperation::NonBlockingLockShared).is_ok();
        if free {
            let _ = flock(fd, FlockOperation::Unlock);
        }
        free
    }

    pub(crate) fn queue(&self) -> &Rc<Queue> {
        &self.queue
    }

    pub(crate) fn is_of(&self, queue: &Queue) -> bool {
        std::ptr::eq(&*self.queue, queue)
    }

    /// Where the next message will show, and with which lap.
    #[inline(always)]
    pub(crate) fn look(&self) -> (*const AtomicU64, u32) {
        let (word, lap) = self.lane.next();
        (self.memory().word(word), lap)
    }

    /// Whether there are certainly no more than `count` messages in the lane.
    #[inline(always)]
    pub(crate) fn holds_at_most(&self, count: u64) -> bool {
        self.lane.holds_at_most(count)
    }

    /// Whether nothing can arrive until a RECV is posted.
    #[inline(always)]
    pub(crate) fn can_sleep(&self) -> bool {
        self.kind != QpKind::Ud && self.queue.stop_listening()
    }

    /// Takes the next message, if there is one; its completion goes to `wc`. Idle: one load.
    #[inline(always)]
    pub(crate) fn step(&mut self, core: &Core, tables: &Tables, wc: &mut Wc) -> Step {
        match self.lane.peek() {
            Ok(None) => Step::Idle,
            Ok(Some(head)) => self.message(head, core, tables, wc),
            Err(_) => self.poisoned(core),
        }
    }

    /// Takes messages as long as they are plain ones: of one line, for a RECV that they fit, to whom they say. Returns
    /// how many, and whether it was for want of RECVs in a row that no more were taken; whatever else stopped it is left
    /// to [`step`](Inbox::step). What does not change from message to message is looked up once.
    #[inline(always)]
    pub(crate) fn take_plain(&mut self, tables: &Tables, wcs: &mut [Wc]) -> (usize, bool) {
        let is_ud = self.kind == QpKind::Ud;
        let gap = if is_ud { GRH_BYTES } else { 0 };
        let (qkey, qpn) = (self.queue.qkey(), self.queue.qpn());
        let (region, mut run) = (self.lane.memory().region(), self.lane.run());
        let mut recvs = self.queue.recvs().borrow_mut();
        let in_a_row = recvs.front_run();
        let first = in_a_row.first().map_or(Sge::default(), |recv| recv.sge);
        let Ok(memory) = tables.local(first, true) else {
            return (0, false);
        };
        let mut taken = 0;
        for (wc, recv) in wcs.iter_mut().zip(in_a_row) {
            let Some((word, head)) = self.lane.peek_plain(&mut run) else {
                break;
            };
            let (sge, byte_len) = (recv.sge, (head.len + gap) as u32);
            let fits = sge.lkey == first.lkey && byte_len <= sge.len;
            let inside = memory.contains(sge.offset as usize, sge.len as usize);
            if !fits || !inside || (is_ud && head.qkey != qkey) {
                break;
            }
            let (from, at) = (word * 8 + HEAD_BYTES, sge.offset as usize + gap);
            // SAFETY: the line is inside the lane (`Geometry` named it) and the payload inside the line; the bytes of
            // the RECV, which are at least as many, are inside `memory`, which may be written.
            unsafe { region.copy_short_to(from, memory, at, head.len) };
            *wc = Wc {
                wr_id: recv.wr_id,
                status: WcStatus::Success,
                opcode: Opcode::Recv,
                byte_len,
                imm: (head.flags != 0).then_some(Imm(head.imm)),
                qpn,
                src_qpn: Qpn(head.src_qpn),
            };
            taken += 1;
            self.lane.next_plain(&mut run);
        }
        let more = taken as usize == in_a_row.len();
        recvs.take(taken);
        drop(recvs);
        if self.lane.end_run(run) {
            self.published();
        }
        (taken as usize, more)
    }

    #[inline(always)]
    fn message(&mut self, head: Head, core: &Core, tables: &Tables, wc: &mut Wc) -> Step {
        if head.flags & !(Head::IMM | Head::WRITE) != 0 {
            return self.rare(head, core, wc);
        }
        let is_ud = self.kind == QpKind::Ud;
        if is_ud && head.qkey != self.queue.qkey() {
            return self.skip(head, &core.counters.bad_qkey);
        }
        let mut recvs = self.queue.recvs().borrow_mut();
        let Some(recv) = recvs.front() else {
            drop(recvs);
            return self.no_recv(head, core);
        };
        let gap = if is_ud { GRH_BYTES } else { 0 };
        if head.len + gap > recv.sge.len as usize {
            drop(recvs);
            return self.too_long(head, core, wc);
        }
        let Ok(to) = tables.local(recv.sge, true) else {
            *wc = self.completion(recv, head, WcStatus::LocalProtection, 0);
            recvs.take_front();
            return Step::Fail { completed: true };
        };
        let offset = recv.sge.offset as usize + gap;
        self.take_payload(head, to, offset);
        *wc = self.completion(recv, head, WcStatus::Success, (head.len + gap) as u32);
        recvs.take_front();
        drop(recvs);
        self.advance(head);
        Step::Complete
    }

    /// Copies to `[offset, offset + head.len)` of `to`, which is inside and writable.
    #[inline(always)]
    fn take_payload(&self, head: Head, to: &Region, offset: usize) {
        if head.len <= FIRST_BYTES {
            let from = self.lane.next().0 * 8 + HEAD_BYTES;
            // SAFETY: the line is inside the lane (`Geometry` named it) and the payload inside the line; the
            // caller checked that the RECV's bytes are inside `to`, writable, and at least that many.
            unsafe { self.memory().region().copy_short_to(from, to, offset, head.len) };
        } else {
            self.take_long_payload(head, to, offset);
        }
    }

    #[inline(never)]
    fn take_long_payload(&self, head: Head, to: &Region, offset: usize) {
        self.lane.payload(head, |lane, at, from, n| {
            lane.region().copy_to(at, to, offset + from, n);
        });
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

    /// A quarter ring became free: a sender that waits for space may go on.
    #[cold]
    fn published(&self) {
        self.queue.ring_waiting_peer();
    }

    #[cold]
    fn skip(&mut self, head: Head, counter: &Cell<u64>) -> Step {
        count(counter);
        self.advance(head);
        Step::Skip
    }

    #[cold]
    fn no_recv(&mut self, head: Head, core: &Core) -> Step {
        if self.kind == QpKind::Rc {
            return Step::Idle;
        }
        self.skip(head, &core.counters.no_recv)
    }

    #[cold]
    fn too_long(&mut self, head: Head, core: &Core, wc: &mut Wc) -> Step {
        if self.kind != QpKind::Rc {
            return self.skip(head, &core.counters.too_long);
        }
        self.length_error(head, wc)
    }

    fn length_error(&mut self, head: Head, wc: &mut Wc) -> Step {
        let recv = self.queue.recvs().borrow_mut().pop();
        if let Some(recv) = &recv {
            *wc = self.completion(recv, head, WcStatus::LocalLength, 0);
        }
        self.advance(head);
        Step::Fail {
            completed: recv.is_some(),
        }
    }

    #[cold]
    fn rare(&mut self, head: Head, core: &Core, wc: &mut Wc) -> Step {
        if head.flags == Head::CLOSE && self.kind == QpKind::Ud {
            return Step::Gone;
        }
        if head.flags == Head::TOO_LONG && self.kind == QpKind::Rc {
            return self.length_error(head, wc);
        }
        self.poisoned(core)
    }

    #[cold]
    fn poisoned(&mut self, core: &Core) -> Step {
        count(&core.counters.poisoned);
        if self.kind == QpKind::Ud {
            Step::Gone
        } else {
            Step::Fail { completed: false }
        }
    }

    /// The lane's memory, for its other words.
    pub(crate) fn memory(&self) -> &LaneMemory {
        self.lane.memory()
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        // Senders see it: nobody receives here any more.
        self.memory().store(STATE, 1, Ordering::Release);
    }
}
