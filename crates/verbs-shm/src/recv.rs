//! [`RecvQueue`]: posted RECVs, of one queue pair or of many ([`ShmSrq`]).

use crate::Shm;
use crate::core::{Core, Tables};
use crate::cq::CqShared;
use drover_mem::NativeCpu;
use drover_verbs::{PostError, PostErrorKind, RecvList, RecvWr, SharedReceiveQueue};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// RECVs in posting order; never longer than its depth, so it never allocates after creation.
pub(crate) struct RecvQueue {
    wrs: VecDeque<RecvWr>,
    depth: usize,
}

impl RecvQueue {
    pub(crate) fn new(depth: usize) -> RecvQueue {
        RecvQueue {
            wrs: VecDeque::with_capacity(depth),
            depth,
        }
    }

    /// Adds the RECVs of `list`, up to the first bad one; `each` sees every one that was added.
    #[inline]
    pub(crate) fn post(
        &mut self,
        list: &RecvList,
        tables: &Tables,
        mut each: impl FnMut(&RecvWr),
    ) -> Result<(), PostError> {
        for (accepted, wr) in list.wrs().iter().enumerate() {
            if self.wrs.len() == self.depth {
                return Err(PostError {
                    accepted,
                    kind: PostErrorKind::QueueFull,
                });
            }
            tables
                .local(wr.sge, true)
                .map_err(|kind| PostError { accepted, kind })?;
            self.wrs.push_back(*wr);
            each(wr);
        }
        Ok(())
    }

    #[inline(always)]
    pub(crate) fn front(&self) -> Option<&RecvWr> {
        self.wrs.front()
    }

    #[inline(always)]
    pub(crate) fn pop(&mut self) -> Option<RecvWr> {
        self.wrs.pop_front()
    }
}

/// A receive queue shared by several queue pairs of one context.
///
/// A sender over RC cannot see how many RECVs it may count on: its SENDs complete when they are in the ring,
/// wait there while the shared queue is empty, and never end with `RnrRetryExceeded`.
pub struct ShmSrq {
    pub(crate) core: Rc<Core>,
    pub(crate) recvs: Rc<RefCell<RecvQueue>>,
    /// Completion queues of the queue pairs that use it, so that a post first takes what has arrived.
    pub(crate) cqs: Rc<RefCell<Vec<Rc<CqShared>>>>,
}

impl SharedReceiveQueue<Shm> for ShmSrq {
    fn post_recv(&mut self, _cpu: &NativeCpu, list: &RecvList) -> Result<(), PostError> {
        for cq in self.cqs.borrow().iter() {
            cq.ingest(&self.core, &self.recvs);
        }
        self.recvs
            .borrow_mut()
            .post(list, &self.core.tables.borrow(), |_| {})
    }
}
