//! [`IbvSharedQueue`]: a queue pair and its completion queue for all threads, behind one lock.

use crate::Ibv;
use crate::context::IbvContext;
use crate::cq::IbvCq;
use crate::qp::IbvQp;
use drover_base::Contended;
use drover_mem::NativeCpu;
use drover_verbs::{CompletionQueue, CreateError, PostError, QueuePair, SendList, SharedQueue, Wc};
use std::rc::Rc;

/// A queue pair and its completion queue that threads share. Posts and polls take the same lock, because both use the
/// tables of the context.
pub struct IbvSharedQueue(Contended<Confined>);

/// A context and all its objects, in the order in which they go.
struct Confined {
    qp: IbvQp,
    cq: IbvCq,
    _ctx: IbvContext,
}

// SAFETY: `confine` has checked that all owners of the context's state are in here, so they move together and are used
// and dropped by one thread at a time; the library's objects belong to no thread.
unsafe impl Send for Confined {}

impl Confined {
    /// The objects, unless the context has others.
    fn confine(ctx: IbvContext, qp: IbvQp, cq: IbvCq) -> Option<Confined> {
        let core = ctx.core();
        let same = Rc::ptr_eq(core, qp.core()) && Rc::ptr_eq(core, &cq.core);
        let all = Rc::strong_count(core) == 3 && Rc::weak_count(core) == 0;
        (same && all).then_some(Confined { qp, cq, _ctx: ctx })
    }
}

impl IbvSharedQueue {
    pub(crate) fn new(ctx: IbvContext, qp: IbvQp, cq: IbvCq) -> Result<IbvSharedQueue, CreateError> {
        match Confined::confine(ctx, qp, cq) {
            Some(confined) => Ok(IbvSharedQueue(Contended::new(confined))),
            None => Err(CreateError::NotSupported {
                what: "sharing a queue pair of a context that has other objects",
                fabric: "ibv",
            }),
        }
    }
}

impl SharedQueue<Ibv> for IbvSharedQueue {
    fn post_send(&self, cpu: &NativeCpu, list: &SendList) -> Result<(), PostError> {
        self.0.lock(cpu).qp.post_send(cpu, list)
    }

    fn poll(&self, cpu: &NativeCpu, wcs: &mut [Wc]) -> usize {
        self.0.lock(cpu).cq.poll(cpu, wcs)
    }
}
