//! [`LoopbackSharedQueue`]: a queue pair and its completion queue for all threads.

use super::cpu::LoopbackCpu;
use super::device::Shared;
use super::{Flaw, Loopback, LoopbackCq, LoopbackQp};
use drover_verbs::{PostError, SendList, SharedQueue, Wc};

/// A queue pair and its completion queue that threads share: the fabric's own lock serves. Both are destroyed on drop.
#[derive(Debug)]
pub struct LoopbackSharedQueue {
    shared: Shared,
    qpn: u32,
    cq: u32,
}

impl LoopbackSharedQueue {
    pub(super) fn new(mut qp: LoopbackQp, mut cq: LoopbackCq) -> LoopbackSharedQueue {
        LoopbackSharedQueue {
            shared: qp.shared.clone(),
            // Their handles go and leave them: no object has the number 0.
            qpn: std::mem::take(&mut qp.qpn),
            cq: std::mem::take(&mut cq.id),
        }
    }
}

impl SharedQueue<Loopback> for LoopbackSharedQueue {
    fn post_send(&self, _: &LoopbackCpu, list: &SendList) -> Result<(), PostError> {
        let mut fabric = self.shared.lock();
        match fabric.has(Flaw::LosesSharedPosts) && fabric.loses_shared_post() {
            true => Ok(()),
            false => fabric.post(self.qpn, list),
        }
    }

    fn poll(&self, _: &LoopbackCpu, wcs: &mut [Wc]) -> usize {
        self.shared.lock().poll(self.cq, wcs)
    }
}

impl Drop for LoopbackSharedQueue {
    fn drop(&mut self) {
        let mut fabric = self.shared.lock();
        fabric.remove_qp(self.qpn);
        fabric.cqs.remove(&self.cq);
    }
}
