//! [`IbvSrq`].

use crate::Ibv;
use crate::core::Core;
use crate::post::{build_recvs, refusal};
use crate::raw::SharedRecvs;
use crate::scratch::index_of;
use drover_mem::NativeCpu;
use drover_verbs::{PostError, RecvList, SharedReceiveQueue};
use std::rc::Rc;

/// A receive queue shared by queue pairs of one context.
pub struct IbvSrq {
    pub(crate) core: Rc<Core>,
    pub(crate) raw: Rc<SharedRecvs>,
}

impl SharedReceiveQueue<Ibv> for IbvSrq {
    #[inline]
    fn post_recv(&mut self, _cpu: &NativeCpu, list: &RecvList) -> Result<(), PostError> {
        let scratch = &mut *self.core.scratch.borrow_mut();
        let mut wrs = list.wrs();
        while !wrs.is_empty() {
            let accepted = list.wrs().len() - wrs.len();
            let count = build_recvs(scratch, wrs);
            let chain = scratch.recvs.as_mut_ptr();
            // SAFETY: `build_recvs` linked so many requests to elements beside them, borrowed until the end.
            if let Err((errno, bad)) = unsafe { self.raw.post(chain) } {
                let accepted = accepted + index_of(chain, bad, count);
                let kind = refusal(errno);
                return Err(PostError { accepted, kind });
            }
            wrs = &wrs[count..];
        }
        Ok(())
    }
}
