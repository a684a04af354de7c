//! [`RecvQueue`]: posted RECVs, of one queue pair or of several ([`ShmSrq`]).

use crate::Shm;
use crate::core::{Core, LastLocal, Tables};
use crate::cq::CqShared;
use drover_mem::NativeCpu;
use drover_verbs::{PostError, PostErrorKind, RecvList, RecvWr, Sge, SharedReceiveQueue, WrId};
use std::cell::RefCell;
use std::rc::Rc;

/// RECVs in posting order: a ring that never grows after creation.
pub(crate) struct RecvQueue {
    /// Slots: a power of two, at least `depth`.
    wrs: Box<[RecvWr]>,
    depth: u32,
    /// Number of RECVs ever taken, and number ever added.
    taken: u32,
    added: u32,
    /// [Seal](Tables::seal) of the tables in which all RECVs were found good.
    seal: u64,
}

impl RecvQueue {
    pub(crate) fn new(depth: usize) -> RecvQueue {
        let empty = RecvWr {
            wr_id: WrId(0),
            sge: Sge::default(),
        };
        RecvQueue {
            wrs: vec![empty; depth.next_power_of_two()].into(),
            depth: depth as u32,
            taken: 0,
            added: 0,
            seal: 0,
        }
    }

    /// Adds the RECVs of `list`, up to the first bad one; calls `each` for every RECV added.
    #[inline]
    pub(crate) fn post(
        &mut self,
        list: &RecvList,
        tables: &Tables,
        mut each: impl FnMut(&RecvWr),
    ) -> Result<(), PostError> {
        let (wrs, space) = (list.wrs(), (self.depth - self.len()) as usize);
        let fitting = &wrs[..wrs.len().min(space)];
        // Callers post the same lists again and again: one check of each is enough.
        let bad = match list.seal() == tables.seal {
            true => None,
            false => first_bad(fitting, tables),
        };
        let (good, kind) = match bad {
            Some(bad) => (&fitting[..bad], PostErrorKind::LocalProtection),
            None => (fitting, PostErrorKind::QueueFull),
        };
        if good.len() == wrs.len() {
            list.set_seal(tables.seal);
        }
        if self.seal != tables.seal && self.is_empty() {
            self.seal = tables.seal;
        }
        self.append(good);
        good.iter().for_each(&mut each);
        match good.len() {
            accepted if accepted < wrs.len() => Err(PostError { accepted, kind }),
            _ => Ok(()),
        }
    }

    /// Whether the memory of every RECV is registered, inside, and writable. It was when they were posted, so they are
    /// looked at only if memory was deregistered since then.
    #[inline(always)]
    pub(crate) fn are_good(&mut self, tables: &Tables) -> bool {
        self.seal == tables.seal || self.are_still_good(tables)
    }

    #[cold]
    #[inline(never)]
    fn are_still_good(&mut self, tables: &Tables) -> bool {
        let mut to = LastLocal::new();
        let mask = self.wrs.len() - 1;
        let mut posted = (0..self.len()).map(|nth| &self.wrs[self.taken.wrapping_add(nth) as usize & mask]);
        let good = posted.all(|wr| to.find(wr.sge, tables).is_some());
        if good {
            self.seal = tables.seal;
        }
        good
    }

    /// Adds RECVs, for which there is space.
    #[inline(always)]
    fn append(&mut self, wrs: &[RecvWr]) {
        let at = self.added as usize & (self.wrs.len() - 1);
        let in_a_row = wrs.len().min(self.wrs.len() - at);
        let (first, rest) = wrs.split_at(in_a_row);
        self.wrs[at..at + in_a_row].copy_from_slice(first);
        if !rest.is_empty() {
            self.wrs[..rest.len()].copy_from_slice(rest);
        }
        self.added = self.added.wrapping_add(wrs.len() as u32);
    }

    /// Number of posted RECVs.
    #[inline(always)]
    pub(crate) fn len(&self) -> u32 {
        self.added.wrapping_sub(self.taken)
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline(always)]
    pub(crate) fn front(&self) -> Option<&RecvWr> {
        self.front_run().first()
    }

    /// RECVs from the front that are contiguous, that is, up to the end of the ring.
    #[inline(always)]
    pub(crate) fn front_run(&self) -> &[RecvWr] {
        let at = self.taken as usize & (self.wrs.len() - 1);
        let rest = self.wrs.get(at..).unwrap_or_default();
        &rest[..rest.len().min(self.len() as usize)]
    }

    /// Removes `count` RECVs from the front, which must exist.
    #[inline(always)]
    pub(crate) fn take(&mut self, count: u32) {
        debug_assert!(count <= self.len());
        self.taken = self.taken.wrapping_add(count);
    }

    #[inline(always)]
    pub(crate) fn pop(&mut self) -> Option<RecvWr> {
        let front = *self.front()?;
        self.taken = self.taken.wrapping_add(1);
        Some(front)
    }

    /// Removes the first RECV, which must exist.
    #[inline(always)]
    pub(crate) fn take_front(&mut self) {
        self.take(1);
    }
}

/// Position of the first RECV whose memory is not registered, not inside, or not writable.
#[inline(never)]
fn first_bad(wrs: &[RecvWr], tables: &Tables) -> Option<usize> {
    let mut to = LastLocal::new();
    wrs.iter().position(|wr| to.find(wr.sge, tables).is_none())
}

/// A receive queue shared by several queue pairs of one context.
///
/// An RC sender cannot see how many RECVs are available to it: its SENDs complete when they are in its ring, and wait
/// there while the shared queue is empty. They never end with `RnrRetryExceeded`.
pub struct ShmSrq {
    pub(crate) core: Rc<Core>,
    pub(crate) recvs: Rc<RefCell<RecvQueue>>,
    /// Completion queues of its queue pairs, so that a post first takes the messages that have arrived.
    pub(crate) cqs: Rc<RefCell<Vec<Rc<CqShared>>>>,
}

impl SharedReceiveQueue<Shm> for ShmSrq {
    fn post_recv(&mut self, _cpu: &NativeCpu, list: &RecvList) -> Result<(), PostError> {
        let cqs = self.cqs.borrow();
        let share = self.recvs.borrow().len() / (cqs.len() as u32).max(1);
        for cq in cqs.iter() {
            cq.ingest(&self.core, &self.recvs, share);
        }
        drop(cqs);
        self.recvs
            .borrow_mut()
            .post(list, &self.core.tables.borrow(), |_| {})
    }
}
