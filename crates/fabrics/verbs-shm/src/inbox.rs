//! [`Inbox`]: the receiving end of one lane. All of its contents are written by a peer that may be hostile or dead.

use crate::core::{Core, Tables};
use crate::lane::{CLAIM, CLOSED, LaneConsumer, LaneMemory, REVOKED, STATE};
use crate::qp::Queue;
use crate::ring::{FIRST_BYTES, HEAD_BYTES, Head, Memory};
use crate::stats::count;
use drover_base::sync::Ordering;
use drover_mem::Region;
use drover_verbs::{GRH_BYTES, Imm, Opcode, QpKind, Qpn, RecvWr, Wc, WcStatus};
use rustix::fs::{FlockOperation, flock};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::AtomicU64;

pub(crate) struct Inbox {
    lane: LaneConsumer,
    queue: Rc<Queue>,
    kind: QpKind,
    /// Creation order of the lanes of one queue pair.
    serial: u64,
    /// Whether the sender, present or future, holds a lock on its file.
    ticketed: bool,
    /// Who sends through a lane of one sender.
    sender: Option<Sender>,
}

/// Who sends through a lane of one sender. What the sender writes does not decide it: a peer writes what it wants.
#[derive(Clone, Copy)]
struct Sender {
    /// The number that completions carry: no queue pair has it, and no other lane into this one.
    name: Qpn,
    /// The number that messages must carry: that of the first one. [`UNHEARD`]: none has come.
    claim: u32,
}

/// No number of a queue pair.
const UNHEARD: u32 = u32::MAX;
/// Bit of all names, and of no number of a queue pair.
const NAME: u32 = 1 << 31;

/// Result of one check of a lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// No new message (or a message that waits for a RECV).
    Idle,
    /// A message was dropped: check again.
    Skip,
    /// A message completed a RECV.
    Complete,
    /// The queue pair must fail, perhaps after a last completion.
    Fail { completed: bool },
    /// The sender is gone or violated the format: the lane can be dropped.
    Gone,
}

/// Why [`Inbox::take_plain`] took no more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stop {
    /// No message is left.
    Idle,
    /// The end of the ring, or of RECVs in a row: there may be more behind it.
    Again,
    /// There is no space for completions, no RECV, or a message that [`Inbox::step`] must take.
    Other,
}

impl Step {
    /// Whether a completion was written.
    #[inline(always)]
    pub(crate) fn has_completed(self) -> bool {
        matches!(self, Step::Complete | Step::Fail { completed: true })
    }
}

impl Inbox {
    /// `named`: a lane of one sender, which must not pass for another.
    pub(crate) fn new(
        lane: LaneConsumer,
        queue: Rc<Queue>,
        serial: u64,
        ticketed: bool,
        named: bool,
    ) -> Inbox {
        let kind = queue.kind();
        let sender = named.then_some(Sender {
            name: Qpn(NAME | serial as u32),
            claim: UNHEARD,
        });
        Inbox {
            lane,
            queue,
            kind,
            serial,
            ticketed,
            sender,
        }
    }

    /// The number that completions carry if the lane is for one sender.
    pub(crate) fn sender_name(&self) -> Option<Qpn> {
        self.sender.map(|sender| sender.name)
    }

    pub(crate) fn serial(&self) -> u64 {
        self.serial
    }

    /// Whether no sender has made an address handle of this lane yet.
    pub(crate) fn is_unclaimed(&self) -> bool {
        self.memory().load(CLAIM, Ordering::Acquire) == 0
    }

    /// Revokes an unclaimed lane: a sender that uses its export later finds the peer gone.
    pub(crate) fn revoke(&self) -> bool {
        self.memory().region().compare_swap_u64(CLAIM * 8, 0, REVOKED) == 0
    }

    /// Whether no message can come through a datagram lane any more: the sender closed it or is dead, or no process can
    /// still claim it. Costs one or two system calls.
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

    /// Word of the next message and the lap it will carry.
    #[inline(always)]
    pub(crate) fn next_word(&self) -> (*const AtomicU64, u32) {
        let (word, lap) = self.lane.next();
        (self.memory().word(word), lap)
    }

    /// Whether there are at most `count` messages in the lane for certain.
    #[inline(always)]
    pub(crate) fn holds_at_most(&self, count: u64) -> bool {
        self.lane.holds_at_most(count)
    }

    /// Whether nothing can arrive until a RECV is posted.
    #[inline(always)]
    pub(crate) fn can_sleep(&self) -> bool {
        self.kind != QpKind::Ud && self.queue.stop_listening()
    }

    /// Takes the next message, if any, and writes its completion to `wc`. Costs one load when idle.
    #[inline(always)]
    pub(crate) fn step(&mut self, core: &Core, tables: &Tables, wc: &mut Wc) -> Step {
        match self.lane.peek() {
            Ok(None) => Step::Idle,
            Ok(Some(head)) => self.message(head, core, tables, wc),
            Err(_) => self.poisoned(core),
        }
    }

    /// Takes messages as long as they are plain: of one line, short enough for their RECV, and for this queue pair.
    /// Returns their number and why it stopped. Values that are the same for all messages are looked up once.
    #[inline(always)]
    pub(crate) fn take_plain(&mut self, tables: &Tables, wcs: &mut [Wc]) -> (usize, Stop) {
        match (self.kind, &self.sender) {
            (QpKind::Ud, None) => self.take_plain_of::<true, false>(tables, wcs),
            (QpKind::Ud, Some(_)) => self.take_plain_of::<true, true>(tables, wcs),
            _ => self.take_plain_of::<false, false>(tables, wcs),
        }
    }

    /// [`take_plain`](Inbox::take_plain) of a datagram queue pair, of one lane's sender or not, or of a connected one. A
    /// function of its own, because the loop needs all registers.
    #[inline(never)]
    fn take_plain_of<const UD: bool, const NAMED: bool>(
        &mut self,
        tables: &Tables,
        wcs: &mut [Wc],
    ) -> (usize, Stop) {
        let gap = if UD { GRH_BYTES } else { 0 };
        let sender = self.sender.unwrap_or(Sender {
            name: Qpn(0),
            claim: UNHEARD,
        });
        let (qkey, qpn) = (self.queue.qkey(), self.queue.qpn());
        let mut run = self.lane.run();
        let mut recvs = self.queue.recvs().borrow_mut();
        if !recvs.are_good(tables) {
            return (0, Stop::Other);
        }
        let in_a_row = recvs.front_run();
        let lkey = in_a_row.first().map_or(0, |recv| recv.sge.lkey);
        let Some(memory) = tables.local.find(lkey) else {
            return (0, Stop::Other);
        };
        let memory = memory.region.raw();
        let from = self.lane.memory().lane_view().region();
        let count = wcs.len().min(in_a_row.len()).min(run.space());
        // Not zipped: then each has a register that points to the next.
        let mut recv_left = in_a_row[..count].iter();
        for wc in &mut wcs[..count] {
            let Some(recv) = recv_left.as_slice().first() else {
                break;
            };
            let Some((word, head)) = run.peek_plain() else {
                break;
            };
            let (sge, byte_len) = (recv.sge, (head.len + gap) as u32);
            if sge.lkey != lkey || byte_len > sge.len || (UD && head.qkey != qkey) {
                break;
            }
            if NAMED && head.src_qpn != sender.claim {
                break;
            }
            let (at, to) = (word * 8 + HEAD_BYTES, sge.offset as usize + gap);
            // SAFETY: the line is inside the lane (`Geometry` returned it) and the payload inside the line; the RECV's
            // bytes, at least as many, are inside `memory`, which is writable, or `are_good` would have said no.
            unsafe { from.copy_short_to(at, memory, to, head.len) };
            *wc = Wc {
                wr_id: recv.wr_id,
                status: WcStatus::Success,
                opcode: Opcode::Recv,
                byte_len,
                imm: (head.flags != 0).then_some(Imm(head.imm)),
                qpn,
                src_qpn: if NAMED { sender.name } else { Qpn(head.src_qpn) },
            };
            recv_left.next();
            run.next_plain();
        }
        let taken = count - recv_left.len();
        let stop = match taken == in_a_row.len() || (taken == count && count < wcs.len()) {
            true => Stop::Again,
            false if taken < count && run.is_over() => Stop::Idle,
            false => Stop::Other,
        };
        let end = run.end();
        recvs.take(taken as u32);
        drop(recvs);
        if self.lane.end_run(end) {
            self.published();
        }
        (taken, stop)
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
        if let Some(sender) = &mut self.sender
            && head.src_qpn != sender.claim
        {
            if sender.claim != UNHEARD {
                return self.skip(head, &core.counters.forged_sender);
            }
            sender.claim = head.src_qpn;
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

    /// Copies the payload to `[offset, offset + head.len)` of `to`, which must be inside and writable.
    #[inline(always)]
    fn take_payload(&self, head: Head, to: &Region, offset: usize) {
        if head.len <= FIRST_BYTES {
            let from = self.lane.next().0 * 8 + HEAD_BYTES;
            // SAFETY: the line is inside the lane (`Geometry` returned it) and the payload inside the line; the caller
            // checked that the RECV's bytes are inside `to`, writable, and at least that many.
            unsafe {
                self.memory()
                    .region()
                    .raw()
                    .copy_short_to(from, to.raw(), offset, head.len)
            };
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
            src_qpn: self.sender_name().unwrap_or(Qpn(head.src_qpn)),
        }
    }

    #[inline(always)]
    fn advance(&mut self, head: Head) {
        if self.lane.advance(head) {
            self.published();
        }
    }

    /// Called when a quarter ring became free: a sender that waits for space may continue.
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

    /// The lane's memory, for words outside the ring.
    pub(crate) fn memory(&self) -> &LaneMemory {
        self.lane.memory()
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        // Shows senders that this end receives no more.
        self.memory().store(STATE, 1, Ordering::Release);
    }
}
