//! [`Late`]: messages in flight for longer than normal, with their bytes.

use drover_base::{Cpu, Ns};
use drover_mem::{Buffer, BufferPool};
use drover_verbs::{MemoryRegion, Provider, Qpn, QueuePair, RemoteAddr, SendList, SendOp, SendWr, WrId};
use std::cell::RefCell;
use std::rc::Weak;

/// Additional slots of inner send queues and completion queues.
pub(super) const LATE_DEPTH: usize = 256;
/// Most late messages of one context; further ones are lost.
const LATE_MAX: usize = 512;
/// Bytes of a piece of staging memory: longer messages cannot be late.
pub(super) const PIECE_BYTES: usize = 4096;
/// First of the wrapper's own work request ids.
const OURS: u64 = 0xfa17_fa17 << 32;

/// Whether a work request id belongs to the wrapper.
pub(super) fn is_ours(id: WrId) -> bool {
    id.0 & (0xffff_ffff << 32) == OURS
}

/// The late messages of a context.
pub(super) struct LateQueue<P: Provider> {
    pool: Option<(BufferPool, P::Mr)>,
    waiting: Vec<Late<P>>,
    posted: Vec<(WrId, Qpn, Buffer)>,
    next_id: u64,
    list: SendList,
}

struct Late<P: Provider> {
    qp: Weak<RefCell<P::Qp>>,
    op: SendOp,
    bytes: Buffer,
    len: usize,
    polls: u32,
    due: Ns,
}

/// Delay of a late message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lateness {
    pub(super) polls: u32,
    pub(super) due: Ns,
}

impl<P: Provider> LateQueue<P> {
    /// `pool` is registered staging memory; without it no message can be late.
    pub(super) fn new(pool: Option<(BufferPool, P::Mr)>) -> LateQueue<P> {
        LateQueue {
            pool,
            waiting: Vec::new(),
            posted: Vec::new(),
            next_id: 0,
            list: SendList::default(),
        }
    }

    /// Whether no message is late.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Takes a message to be delivered late as one request, which the inner provider delivers or loses completely. (If
    /// it were split, a part could be lost, which no fabric does to a message of one packet.) Returns false, and takes
    /// nothing, if it is longer than a piece or there is no space.
    pub(super) fn add(
        &mut self,
        qp: &Weak<RefCell<P::Qp>>,
        op: SendOp,
        bytes: &[u8],
        late: Lateness,
    ) -> bool {
        if bytes.len() > PIECE_BYTES || self.waiting.len() >= LATE_MAX {
            return false;
        }
        let Some(mut buffer) = self.pool.as_ref().and_then(|(pool, _)| pool.take()) else {
            return false;
        };
        buffer[..bytes.len()].copy_from_slice(bytes);
        self.waiting.push(Late {
            qp: qp.clone(),
            op,
            bytes: buffer,
            len: bytes.len(),
            polls: late.polls,
            due: late.due,
        });
        true
    }

    /// Called at every post and poll: delivers messages that are due.
    pub(super) fn step(&mut self, cpu: &P::Cpu) {
        if self.waiting.is_empty() {
            return;
        }
        let now = cpu.now();
        let mut still = Vec::with_capacity(self.waiting.len());
        for mut late in std::mem::take(&mut self.waiting) {
            late.polls = late.polls.saturating_sub(1);
            if late.polls > 0 || now < late.due {
                still.push(late);
            } else if let Err(late) = self.deliver(cpu, late) {
                still.push(late); // the inner queue is full: retry next time
            }
        }
        self.waiting = still;
    }

    fn deliver(&mut self, cpu: &P::Cpu, late: Late<P>) -> Result<(), Late<P>> {
        let Some(qp) = late.qp.upgrade() else {
            return Ok(()); // undelivered messages of a destroyed queue pair are lost
        };
        let wr_id = WrId(OURS | (self.next_id & 0xffff_ffff));
        let (_, mr) = self.pool.as_ref().expect("late messages live in it");
        self.list.clear();
        self.list
            .push(SendWr::new(late.op, mr.sge(late.bytes.offset(), late.len)).signaled(wr_id));
        let mut qp = qp.borrow_mut();
        match qp.post_send(cpu, &self.list) {
            Ok(()) => {
                self.next_id += 1;
                self.posted.push((wr_id, qp.qpn(), late.bytes));
                Ok(())
            }
            Err(error) if error.kind == drover_verbs::PostErrorKind::QueueFull => Err(late),
            Err(_) => Ok(()), // the peer or the address handle is gone
        }
    }

    /// One of the wrapper's own requests has completed, with any status.
    pub(super) fn completed(&mut self, id: WrId) {
        self.posted.retain(|(posted, ..)| *posted != id);
    }

    /// Drops the late messages of a queue pair that is destroyed.
    pub(super) fn forget(&mut self, qpn: Qpn) {
        self.posted.retain(|(_, posted, _)| *posted != qpn);
    }
}

/// The part of `op` for the bytes from `start` on.
pub(super) fn part_of(op: SendOp, start: usize, last: bool) -> SendOp {
    match op {
        SendOp::Write { remote, imm } => SendOp::Write {
            remote: RemoteAddr {
                offset: remote.offset.wrapping_add(start as u64),
                ..remote
            },
            imm: imm.filter(|_| last),
        },
        whole => whole,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{FaultOptions, Faulty, FaultyDevice};
    use crate::loopback::{Loopback, LoopbackDevice};
    use drover_mem::PageWish;
    use drover_verbs::{
        Access, Context, Device, MemoryRegion, QpKind, QpOptions, QueuePair, SendList, SendWr,
    };

    /// Number of requests for a late WRITE of 76 bytes across a page boundary.
    fn parts_of_a_late_write(splits_late: bool) -> usize {
        let options = FaultOptions {
            delay: 1.0,
            splits_late,
            ..FaultOptions::quiet(1)
        };
        let device = FaultyDevice::<Loopback>::new(LoopbackDevice::new(), options);
        let ctx = device.context().expect("a context");
        let cq = ctx.create_cq(8).expect("a queue");
        let uc = QpOptions::<Faulty<Loopback>>::new(QpKind::Uc, &cq, ctx.caps());
        let (mut here, mut there) = (ctx.create_qp(&uc).expect("qp"), ctx.create_qp(&uc).expect("qp"));
        here.connect(&there.export().expect("export")).expect("connected");
        there.connect(&here.export().expect("export")).expect("connected");
        let region = ctx.alloc(8192, PageWish::Small).expect("memory");
        let mr = ctx.register(&region, Access::ALL).expect("registered");
        let remote = ctx
            .import_region(&mr.export(&[]).expect("export"))
            .expect("imported")
            .at(4096 - 30);
        let mut list = SendList::default();
        let payload = list.inline(&[7; 76]);
        list.push(SendWr::write(remote, payload));
        here.post_send(ctx.cpu(), &list).expect("space");
        here.shared.late.borrow().waiting.len()
    }

    /// The fabric below could lose a part separately, which no fabric does to a message of one packet.
    #[test]
    fn a_late_write_stays_one_request() {
        assert_eq!(parts_of_a_late_write(false), 1);
        assert_eq!(parts_of_a_late_write(true), 2);
    }
}
