//! The data path: calls the inner provider, then records the call.

use super::Traced;
use super::context::Log;
use super::event::{What, payload_bytes};
use drover_base::Cpu;
use drover_mem::AllocError;
use drover_verbs::{
    CompletionQueue, ConnectError, Export, Fenced, PostError, Provider, QpState, Qpn, QueuePair, RecvList,
    SendList, SharedReceiveQueue, Wc,
};

/// A queue pair of a [`TracedContext`](super::TracedContext).
pub struct TracedQp<P: Provider> {
    pub(super) inner: P::Qp,
    pub(super) log: Log,
}

impl<P: Provider> QueuePair<Traced<P>> for TracedQp<P> {
    fn qpn(&self) -> Qpn {
        self.inner.qpn()
    }

    fn export(&self) -> Result<Export, AllocError> {
        self.inner.export()
    }

    fn export_for_sender(&self) -> Result<(Export, Option<Qpn>), AllocError> {
        self.inner.export_for_sender()
    }

    fn forget_sender(&mut self, sender: Qpn) {
        self.inner.forget_sender(sender);
    }

    fn connect(&mut self, peer: &Export) -> Result<(), ConnectError> {
        let connected = self.inner.connect(peer);
        let step = if connected.is_ok() {
            "connected"
        } else {
            "could not be connected"
        };
        self.log.qp(self.inner.qpn(), step);
        connected
    }

    fn state(&self) -> QpState {
        self.inner.state()
    }

    fn to_error(&mut self) {
        self.log.qp(self.inner.qpn(), "to error");
        self.inner.to_error();
    }

    fn fence(&mut self) -> Fenced {
        self.log.qp(self.inner.qpn(), "fence");
        self.inner.fence()
    }

    fn post_send(&mut self, cpu: &P::Cpu, list: &SendList) -> Result<(), PostError> {
        let posted = self.inner.post_send(cpu, list);
        let qpn = self.inner.qpn();
        let accepted = posted.map_or_else(|error| error.accepted, |()| list.len());
        for (index, wr) in list.wrs()[..accepted].iter().enumerate() {
            let (wr, bytes) = (*wr, payload_bytes(list, wr.payload));
            let posted = What::Posted {
                qpn,
                index,
                wr,
                bytes,
            };
            self.log.add(cpu.now(), posted);
        }
        self.log.refused(cpu.now(), Some(qpn), &posted);
        posted
    }

    fn post_recv(&mut self, cpu: &P::Cpu, list: &RecvList) -> Result<(), PostError> {
        let posted = self.inner.post_recv(cpu, list);
        self.log.recvs(cpu.now(), Some(self.inner.qpn()), list, &posted);
        posted
    }
}

impl<P: Provider> Drop for TracedQp<P> {
    fn drop(&mut self) {
        self.log.qp(self.inner.qpn(), "destroyed");
    }
}

/// A completion queue of a [`TracedContext`](super::TracedContext): records each completion that is polled.
pub struct TracedCq<P: Provider> {
    pub(super) inner: P::Cq,
    pub(super) log: Log,
}

impl<P: Provider> CompletionQueue<Traced<P>> for TracedCq<P> {
    fn poll(&mut self, cpu: &P::Cpu, wcs: &mut [Wc]) -> usize {
        let count = self.inner.poll(cpu, wcs);
        for wc in &wcs[..count] {
            self.log.add(cpu.now(), What::Completed(*wc));
        }
        count
    }
}

/// A shared receive queue of a [`TracedContext`](super::TracedContext).
pub struct TracedSrq<P: Provider> {
    pub(super) inner: P::Srq,
    pub(super) log: Log,
}

impl<P: Provider> SharedReceiveQueue<Traced<P>> for TracedSrq<P> {
    fn post_recv(&mut self, cpu: &P::Cpu, list: &RecvList) -> Result<(), PostError> {
        let posted = self.inner.post_recv(cpu, list);
        self.log.recvs(cpu.now(), None, list, &posted);
        posted
    }
}
