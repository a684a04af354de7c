//! [`IbvSrq`]: shared receive queues.

use crate::Ibv;
use crate::core::Core;
use crate::post::post_recvs;
use crate::raw::SharedRecvs;
use drover_mem::NativeCpu;
use drover_verbs::{PostError, RecvList, SharedReceiveQueue};
use std::rc::Rc;

/// A receive queue that queue pairs of one context share.
pub struct IbvSrq {
    pub(crate) core: Rc<Core>,
    pub(crate) raw: Rc<SharedRecvs>,
}

impl SharedReceiveQueue<Ibv> for IbvSrq {
    #[inline]
    fn post_recv(&mut self, _cpu: &NativeCpu, list: &RecvList) -> Result<(), PostError> {
        // SAFETY: one thread, and no call until the end of this function borrows again.
        let chains = unsafe { self.core.chains.borrow_mut() };
        // SAFETY: the chains that are passed live until the end of this function.
        post_recvs(chains, list, |chain, bad| unsafe { self.raw.post(chain, bad) })
    }
}
