//! [`LoopbackQp`]: the handle of a queue pair.

use super::cpu::LoopbackCpu;
use super::device::Shared;
use super::fabric::Fabric;
use super::{Flaw, Loopback};
use drover_mem::AllocError;
use drover_verbs::provide::Name;
use drover_verbs::{
    ConnectError, Export, Fenced, ImportError, PostError, PostErrorKind, QpKind, QpState, Qpn, QueuePair,
    RecvList, SendList, SendWr,
};
use std::rc::Rc;

/// A queue pair; destroyed on drop.
#[derive(Debug)]
pub struct LoopbackQp {
    pub(super) shared: Shared,
    pub(super) qpn: u32,
    pub(super) _one_thread: std::marker::PhantomData<Rc<()>>,
}

impl QueuePair<Loopback> for LoopbackQp {
    fn qpn(&self) -> Qpn {
        Qpn(self.qpn)
    }

    fn export(&self) -> Result<Export, AllocError> {
        let mut fabric = self.shared.lock();
        let kind = fabric.qp(self.qpn).kind;
        Ok(fabric.names.encode(&Name::Qp { qpn: self.qpn, kind }))
    }

    fn connect(&mut self, peer: &Export) -> Result<(), ConnectError> {
        self.shared.lock().connect(self.qpn, peer)
    }

    fn state(&self) -> QpState {
        let mut fabric = self.shared.lock();
        match fabric.has(Flaw::AlwaysReady) {
            true => QpState::ReadyToSend,
            false => fabric.qp(self.qpn).state,
        }
    }

    fn to_error(&mut self) {
        let mut fabric = self.shared.lock();
        fabric.break_qp(self.qpn);
        fabric.execute_all();
    }

    /// Requests are executed when posted, so it is done at once.
    fn fence(&mut self) -> Fenced {
        let mut fabric = self.shared.lock();
        if !fabric.has(Flaw::ForgetsToFence) {
            fabric.break_qp(self.qpn);
            fabric.execute_all();
        }
        Fenced::Done
    }

    fn post_send(&mut self, _: &LoopbackCpu, list: &SendList) -> Result<(), PostError> {
        self.shared.lock().post(self.qpn, list)
    }

    fn post_recv(&mut self, _: &LoopbackCpu, list: &RecvList) -> Result<(), PostError> {
        let mut fabric = self.shared.lock();
        let posted = fabric.post_recv(self.qpn, list);
        fabric.execute_all();
        posted
    }
}

impl Drop for LoopbackQp {
    fn drop(&mut self) {
        self.shared.lock().remove_qp(self.qpn);
    }
}

impl Fabric {
    fn connect(&mut self, qpn: u32, peer: &Export) -> Result<(), ConnectError> {
        let qp = self.qp(qpn);
        let (ours, state) = (qp.kind, qp.state);
        let again = state != QpState::Init && !self.has(Flaw::Reconnects);
        if ours == QpKind::Ud || again {
            return Err(ConnectError::WrongState { kind: ours, state });
        }
        let (peer, theirs) = self.names.queue_pair(peer)?;
        if ours != theirs && !self.has(Flaw::ConnectsAnything) {
            return Err(ConnectError::KindMismatch { ours, theirs });
        }
        if !self.qps.contains_key(&peer) {
            return Err(ImportError::PeerGone.into());
        }
        let forgetful = self.has(Flaw::LosesEarlyRecvs);
        let qp = self.qp(qpn);
        if forgetful {
            qp.recvs.wrs.clear();
        }
        qp.peer = Some(peer);
        qp.state = QpState::ReadyToSend;
        self.execute_all(); // the peer may have been waiting for this connection
        Ok(())
    }

    /// Posts a list, and executes what can be executed.
    pub(super) fn post(&mut self, qpn: u32, list: &SendList) -> Result<(), PostError> {
        let posted = self.post_send(qpn, list);
        if !self.leaves(list) {
            self.execute_all();
        }
        posted
    }

    fn post_send(&mut self, qpn: u32, list: &SendList) -> Result<(), PostError> {
        self.land_late(true);
        if self.has(Flaw::InlineByReference) {
            self.qp(qpn)
                .sends
                .waiting
                .iter_mut()
                .for_each(|request| request.bytes.overwrite());
        }
        let mut result = Ok(());
        let mut order: Vec<usize> = (0..list.len()).collect();
        if self.has(Flaw::ReversesLists) {
            order.reverse();
        }
        for (accepted, index) in order.into_iter().enumerate() {
            let Err(kind) = self.post_one(qpn, list, &list.wrs()[index]) else {
                continue;
            };
            let accepted = if self.has(Flaw::MiscountsAccepted) {
                0
            } else {
                accepted
            };
            result = result.and(Err(PostError { accepted, kind }));
            if !self.has(Flaw::PostsPastRefusal) {
                break;
            }
        }
        result
    }

    /// Whether a flaw delays the list until the next poll.
    fn leaves(&self, list: &SendList) -> bool {
        let flaws = [Flaw::SinglesOvertakeLists, Flaw::SinglesReplaceLists];
        list.len() > 1 && flaws.into_iter().any(|flaw| self.has(flaw))
    }

    fn post_one(&mut self, qpn: u32, list: &SendList, wr: &SendWr) -> Result<(), PostErrorKind> {
        let qp = &self.qps[&qpn];
        match qp.state {
            QpState::Init if self.has(Flaw::SendsUnconnected) => return Ok(()),
            QpState::Init => return Err(PostErrorKind::NotReady),
            QpState::Error if self.has(Flaw::RefusesAfterError) => return Err(PostErrorKind::NotReady),
            QpState::Error | QpState::ReadyToSend => {}
        }
        let request = self.admit(qp, list, wr)?;
        let works = self.has(Flaw::WorksAfterError);
        let [overtakes, replaces] =
            [Flaw::SinglesOvertakeLists, Flaw::SinglesReplaceLists].map(|flaw| self.has(flaw));
        let (single, leaves) = (list.len() == 1, self.leaves(list));
        let qp = self.qp(qpn);
        qp.sends.take_slot();
        if single && replaces {
            qp.sends.waiting.pop_back();
        }
        match single && overtakes {
            true => qp.sends.waiting.push_front(request),
            false => qp.sends.waiting.push_back(request),
        }
        match qp.state {
            QpState::Error if !works => self.break_qp(qpn),
            _ if leaves => {}
            _ => self.execute(qpn),
        }
        Ok(())
    }

    fn post_recv(&mut self, qpn: u32, list: &RecvList) -> Result<(), PostError> {
        for (accepted, wr) in list.wrs().iter().enumerate() {
            let refused = |kind| PostError { accepted, kind };
            let qp = &self.qps[&qpn];
            if qp.srq.is_some() && !self.has(Flaw::RecvBesideSrq) {
                return Err(refused(PostErrorKind::NotSupported));
            }
            self.admit_recv(&qp.recvs, wr).map_err(refused)?;
            let qp = self.qp(qpn);
            qp.recvs.used += 1;
            qp.recvs.wrs.push_back(*wr);
            if qp.state == QpState::Error {
                self.flush_recvs(qpn);
            }
        }
        Ok(())
    }
}
