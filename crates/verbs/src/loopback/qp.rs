//! [`LoopbackQp`]: the handle of a queue pair.

use super::Loopback;
use super::cpu::LoopbackCpu;
use super::device::Shared;
use super::fabric::Fabric;
use super::wire::{Name, decode, encode};
use crate::{
    ConnectError, Export, ImportError, PostError, PostErrorKind, QpKind, QpState, Qpn, QueuePair, RecvList,
    SendList,
};
use drover_mem::AllocError;
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
        Ok(encode(fabric.id, &Name::Qp { qpn: self.qpn, kind }))
    }

    fn connect(&mut self, peer: &Export) -> Result<(), ConnectError> {
        self.shared.lock().connect(self.qpn, peer)
    }

    fn state(&self) -> QpState {
        self.shared.lock().qp(self.qpn).state
    }

    fn to_error(&mut self) {
        let mut fabric = self.shared.lock();
        fabric.break_qp(self.qpn);
        fabric.execute_all();
    }

    fn post_send(&mut self, _: &LoopbackCpu, list: &SendList) -> Result<(), PostError> {
        let mut fabric = self.shared.lock();
        let posted = fabric.post_send(self.qpn, list);
        fabric.execute_all();
        posted
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
        if ours == QpKind::Ud || state != QpState::Init {
            return Err(ConnectError::WrongState { kind: ours, state });
        }
        let Name::Qp {
            qpn: peer,
            kind: theirs,
        } = decode(self.id, peer)?
        else {
            let reason = "not a queue pair";
            return Err(ImportError::Malformed { reason }.into());
        };
        if ours != theirs {
            return Err(ConnectError::KindMismatch { ours, theirs });
        }
        if !self.qps.contains_key(&peer) {
            return Err(ImportError::PeerGone.into());
        }
        let qp = self.qp(qpn);
        qp.peer = Some(peer);
        qp.state = QpState::ReadyToSend;
        self.execute_all(); // the peer may have been waiting for us
        Ok(())
    }

    fn post_send(&mut self, qpn: u32, list: &SendList) -> Result<(), PostError> {
        for (accepted, wr) in list.wrs().iter().enumerate() {
            let refused = |kind| PostError { accepted, kind };
            let qp = &self.qps[&qpn];
            if qp.state == QpState::Init {
                return Err(refused(PostErrorKind::NotReady));
            }
            let request = self.admit(qp, list, wr).map_err(refused)?;
            let qp = self.qp(qpn);
            qp.send_used += 1;
            qp.waiting.push_back(request);
            match qp.state {
                QpState::Error => self.break_qp(qpn),
                _ => self.execute(qpn),
            }
        }
        Ok(())
    }

    fn post_recv(&mut self, qpn: u32, list: &RecvList) -> Result<(), PostError> {
        for (accepted, wr) in list.wrs().iter().enumerate() {
            let refused = |kind| PostError { accepted, kind };
            let qp = &self.qps[&qpn];
            if qp.srq.is_some() {
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
