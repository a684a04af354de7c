//! [`IbvQp`]: states, connecting and posting.

use crate::Ibv;
use crate::agree::{Agreed, Agreement, MtuMismatch, agree};
use crate::chain::{SGE_MAX, index_of};
use crate::core::Core;
use crate::ffi;
use crate::post::{Bounds, Stop, build_recv, build_send, build_sends, post_recvs, refusal};
use crate::raw::Pair;
use crate::rnr;
use crate::watch::Link;
use crate::wire::{self, QpName};
use drover_base::{Cpu, Ns};
use drover_mem::{AllocError, NativeCpu};
use drover_verbs::provide::check_queue_pair;
use drover_verbs::{
    ConnectError, CreateError, Export, Fenced, ImportError, PostError, PostErrorKind, QpKind, QpOptions,
    QpState, Qpn, QueuePair, RecvList, RecvWr, SendList, SendWr,
};
use std::io;
use std::ptr::null_mut;
use std::rc::Rc;
use std::sync::atomic::{Ordering, fence};

/// Most routers that a packet may pass. *(our choice: IP's usual limit)*
pub(crate) const HOP_LIMIT: u8 = 64;

/// A queue pair. A post costs libibverbs' own post and the conversion of each request. Dropping it destroys it.
pub struct IbvQp {
    core: Rc<Core>,
    link: Rc<Link>,
    bounds: Bounds,
    shares_recvs: bool,
    psn: u32,
    qkey: u32,
    rnr_timeout: Ns,
    agreement: Option<Agreement>,
    /// Whether the peer was shut out.
    is_fenced: bool,
}

/// Converts a mismatch of both ends to the error of an import.
pub(crate) fn unfit(why: MtuMismatch) -> ImportError {
    let reason = why.to_string();
    ImportError::Incompatible { reason }
}

impl IbvQp {
    pub(crate) fn create(core: &Rc<Core>, options: &QpOptions<'_, Ibv>) -> Result<IbvQp, CreateError> {
        let kind = options.kind;
        if !core.caps.has(kind) {
            return Err(CreateError::NotSupported {
                what: "this kind of queue pair",
                fabric: "ibv",
            });
        }
        check_queue_pair(&core.caps, options)?;
        let cap = ffi::QpCap {
            max_send_wr: options.send_depth.max(1) as u32,
            max_recv_wr: if options.srq.is_some() {
                0
            } else {
                options.recv_depth.max(1) as u32
            },
            max_send_sge: core.caps.sge_max.min(SGE_MAX) as u32,
            max_recv_sge: 1,
            max_inline_data: options.inline_bytes as u32,
        };
        let srq = options.srq.map(|srq| &srq.raw);
        let (send_cq, recv_cq) = (&options.send_cq.raw, &options.recv_cq.raw);
        let raw = Pair::new(&core.pd, send_cq, recv_cq, srq, cap, qp_type(kind)).map_err(|source| {
            let advice = "ask for shallower queues or shorter inline payloads, or raise `ulimit -l`";
            CreateError::System {
                what: "ibv_create_qp",
                source: core.explain(&source, advice),
            }
        })?;
        let message_bytes = match kind {
            QpKind::Ud => core.caps.mtu_bytes,
            QpKind::Rc | QpKind::Uc => core.caps.message_bytes_max,
        };
        let bounds = Bounds {
            kind,
            atomics: core.caps.supports.atomics.are_offered(),
            inline_bytes: options.inline_bytes.min(message_bytes),
            message_bytes,
            sge_max: cap.max_send_sge as usize,
        };
        let others = core.links();
        let link = Rc::new(Link::new(raw, kind, others.into_iter()));
        core.qps.borrow_mut().insert(link.raw.qpn(), Rc::downgrade(&link));
        core.opening.counters.qp_created();
        if kind == QpKind::Uc && options.srq.is_none() {
            // SAFETY: inside an `Rc` it does not move, and it is new.
            unsafe { link.raw.note_first_post() };
        }
        let qp = IbvQp {
            core: core.clone(),
            link,
            bounds,
            shares_recvs: options.srq.is_some(),
            psn: (core.cpu.random() & 0xff_ffff) as u32,
            qkey: options.qkey,
            rnr_timeout: options.rnr_timeout,
            agreement: None,
            is_fenced: false,
        };
        qp.initialize().map_err(|source| CreateError::System {
            what: "ibv_modify_qp to INIT",
            source: core.explain(&source, "the port may have gone down"),
        })?;
        Ok(qp)
    }

    /// What all objects of its context hold.
    pub(crate) fn core(&self) -> &Rc<Core> {
        &self.core
    }

    /// The parameters agreed with the peer; `None` for UD, and for RC and UC until they are connected.
    pub fn agreement(&self) -> Option<Agreement> {
        self.agreement
    }

    /// Moves from RESET to INIT, where RECVs may be posted; a UD queue pair goes on to RTS.
    fn initialize(&self) -> io::Result<()> {
        let mut attr = ffi::QpAttr::to(ffi::QPS_INIT);
        attr.local.port_num = self.core.opening.choice.port;
        attr.qkey = self.qkey;
        attr.qp_access_flags = match self.bounds.kind {
            QpKind::Rc => ffi::ACCESS_REMOTE_WRITE | ffi::ACCESS_REMOTE_READ | ffi::ACCESS_REMOTE_ATOMIC,
            QpKind::Uc => ffi::ACCESS_REMOTE_WRITE,
            QpKind::Ud => 0,
        } as u32;
        attr.sq_psn = self.psn;
        let last = match self.bounds.kind {
            QpKind::Rc | QpKind::Uc => ffi::QP_ACCESS_FLAGS,
            QpKind::Ud => ffi::QP_QKEY,
        };
        self.link.raw.modify(
            &mut attr,
            ffi::QP_STATE | ffi::QP_PKEY_INDEX | ffi::QP_PORT | last,
        )?;
        if self.bounds.kind == QpKind::Ud {
            attr.qp_state = ffi::QPS_RTR;
            self.link.raw.modify(&mut attr, ffi::QP_STATE)?;
            attr.qp_state = ffi::QPS_RTS;
            self.link.raw.modify(&mut attr, ffi::QP_STATE | ffi::QP_SQ_PSN)?;
            self.ready();
        }
        Ok(())
    }

    /// Moves from INIT over RTR to RTS, with parameters that both ends support.
    fn join(&self, peer: &QpName, agreed: &Agreed) -> io::Result<()> {
        let reliable = self.bounds.kind == QpKind::Rc;
        let opening = &self.core.opening;
        let mut attr = ffi::QpAttr::to(ffi::QPS_RTR);
        attr.ah_attr = opening.route(&peer.gid, peer.lid);
        attr.path_mtu = agreed.mtu_code.into();
        attr.dest_qp_num = peer.qpn;
        attr.rq_psn = peer.psn;
        attr.local.max_dest_rd_atomic = opening.end.reads_max;
        attr.local.min_rnr_timer = rnr::timer_for(self.rnr_timeout);
        let mut mask = ffi::QP_STATE | ffi::QP_AV | ffi::QP_PATH_MTU | ffi::QP_DEST_QPN | ffi::QP_RQ_PSN;
        if reliable {
            mask |= ffi::QP_MAX_DEST_RD_ATOMIC | ffi::QP_MIN_RNR_TIMER;
        }
        self.link.raw.modify(&mut attr, mask)?;
        attr.qp_state = ffi::QPS_RTS;
        attr.sq_psn = self.psn;
        attr.local.timeout = opening.retries.timeout_code;
        attr.local.retry_cnt = opening.retries.count;
        attr.local.rnr_retry = rnr::tries_for(self.rnr_timeout, peer.rnr_timer);
        attr.local.max_rd_atomic = agreed.reads_max;
        mask = ffi::QP_STATE | ffi::QP_SQ_PSN;
        if reliable {
            mask |= ffi::QP_TIMEOUT | ffi::QP_RETRY_CNT | ffi::QP_RNR_RETRY | ffi::QP_MAX_QP_RD_ATOMIC;
        }
        self.link.raw.modify(&mut attr, mask)
    }

    /// Posts a list of one request, the common case: a reply, or a single request of a client. `None`: nothing was done,
    /// because the request is to be posted by [`post_list`](IbvQp::post_list).
    #[inline(always)]
    fn post_one(&mut self, list: &SendList, wr: &SendWr) -> Option<Result<(), PostError>> {
        // SAFETY: one thread, and no call until the end of this function borrows again.
        let chains = unsafe { self.core.chains.borrow_mut() };
        match build_send(chains, &self.core.tables, &self.bounds, list, wr) {
            Ok(()) => {}
            Err(Stop::Refused(kind)) => return Some(refused(0, kind)),
            Err(Stop::Longer) => return None,
            Err(Stop::Full) => unreachable!("there is space for the pieces of one request"),
        }
        let bad = &mut chains.bad_send;
        // SAFETY: `build_send` made one request with an element in `chains` and a payload in `list`; both are borrowed
        // until the end of this function.
        Some(
            match unsafe { self.link.raw.post_send(&mut chains.send.0, bad) } {
                0 => {
                    self.link.posted(wr.signaled.into());
                    Ok(())
                }
                errno => refused(0, refusal(errno)),
            },
        )
    }

    /// Posts a list of any length in as few chains as possible, usually one.
    #[inline(never)]
    fn post_list(&mut self, list: &SendList) -> Result<(), PostError> {
        // SAFETY: one thread, and no call until the end of this function borrows again.
        let chains = unsafe { self.core.chains.borrow_mut() };
        let mut wrs = list.wrs();
        while !wrs.is_empty() {
            let accepted = list.len() - wrs.len();
            let built = build_sends(chains, &self.core.tables, &self.bounds, list, wrs);
            if built.count > 0 {
                let (chain, mut bad) = (chains.sends.as_mut_ptr(), null_mut());
                // SAFETY: `build_sends` linked the requests to elements in `chains` and to payloads in `list`; both are
                // borrowed until the end of this function.
                let errno = unsafe { self.link.raw.post_send(chain, &mut bad) };
                if errno != 0 {
                    let taken = index_of(chain, bad, built.count);
                    let signaled = wrs[..taken].iter().filter(|wr| wr.signaled);
                    self.link.posted(signaled.count() as u32);
                    return refused(accepted + taken, refusal(errno));
                }
                self.link.posted(built.signaled);
            }
            if let Some(kind) = built.refused {
                return refused(accepted + built.count, kind);
            }
            wrs = &wrs[built.count..];
        }
        Ok(())
    }

    /// Posts one RECV, as [`post_one`](IbvQp::post_one).
    #[inline(always)]
    fn post_one_recv(&mut self, wr: &RecvWr) -> Result<(), PostError> {
        // SAFETY: one thread, and no call until the end of this function borrows again.
        let chains = unsafe { self.core.chains.borrow_mut() };
        build_recv(chains, wr);
        // SAFETY: `build_recv` made one request with an element in `chains`, borrowed until the end of this function.
        match unsafe { self.link.raw.post_recv(&mut chains.recv.0, &mut chains.bad_recv) } {
            0 => Ok(()),
            errno => refused(0, refusal(errno)),
        }
    }

    /// Posts RECVs, as [`post_list`](IbvQp::post_list).
    #[inline(never)]
    fn post_recvs(&mut self, list: &RecvList) -> Result<(), PostError> {
        // SAFETY: one thread, and no call until the end of this function borrows again.
        let chains = unsafe { self.core.chains.borrow_mut() };
        // SAFETY: the chains that are passed live until the end of this function.
        post_recvs(chains, list, |chain, bad| unsafe {
            self.link.raw.post_recv(chain, bad)
        })
    }

    /// Moves to the error state from any state.
    fn fail(&self) {
        let mut attr = ffi::QpAttr::to(ffi::QPS_ERR);
        // Every state allows this transition; if a device refuses, nothing more can be done, so the error is ignored.
        let _ = self.link.raw.modify(&mut attr, ffi::QP_STATE);
        self.link.raw.open_sends(); // they complete as flushed
        self.link.state.set(QpState::Error);
    }

    fn ready(&self) {
        self.link.raw.open_sends();
        self.link.state.set(QpState::ReadyToSend);
    }

    /// Moves from the error state through RESET and back, while nothing is posted.
    fn reset(&self) -> io::Result<()> {
        let mut attr = ffi::QpAttr::to(ffi::QPS_RESET);
        self.link.raw.modify(&mut attr, ffi::QP_STATE)?;
        self.initialize()?;
        self.fail();
        Ok(())
    }

    /// Flushes RECVs that were posted in the error state: software RoCE looks at RECVs only when it needs one, so they
    /// would stay. Entering the error state again makes it look; for other devices it changes nothing.
    #[cold]
    fn flush_again(&self) {
        self.fail();
    }
}

fn qp_type(kind: QpKind) -> u32 {
    match kind {
        QpKind::Rc => ffi::QPT_RC,
        QpKind::Uc => ffi::QPT_UC,
        QpKind::Ud => ffi::QPT_UD,
    }
}

/// The error for a refusal after `accepted` requests.
#[cold]
fn refused(accepted: usize, kind: PostErrorKind) -> Result<(), PostError> {
    Err(PostError { accepted, kind })
}

impl QueuePair<Ibv> for IbvQp {
    fn qpn(&self) -> Qpn {
        Qpn(self.link.raw.qpn())
    }

    fn export(&self) -> Result<Export, AllocError> {
        let opening = &self.core.opening;
        Ok(wire::encode_qp(&QpName {
            kind: self.bounds.kind,
            mtu: opening.end.mtu_code,
            rnr_timer: rnr::timer_for(self.rnr_timeout),
            qpn: self.link.raw.qpn(),
            psn: self.psn,
            qkey: self.qkey,
            lid: opening.end.lid,
            reads_max: opening.end.reads_max,
            gid: opening.choice.gid.gid,
            inline_bytes_max: opening.end.inline_bytes_max,
        }))
    }

    fn connect(&mut self, peer: &Export) -> Result<(), ConnectError> {
        let (kind, state) = (self.bounds.kind, self.state());
        if kind == QpKind::Ud || state != QpState::Init {
            return Err(ConnectError::WrongState { kind, state });
        }
        let peer = wire::decode_qp(peer)?;
        if peer.kind != kind {
            let (ours, theirs) = (kind, peer.kind);
            return Err(ConnectError::KindMismatch { ours, theirs });
        }
        let agreed = agree(kind, &self.core.opening, &peer).map_err(unfit)?;
        self.join(&peer, &agreed).map_err(|source| ImportError::System {
            what: "ibv_modify_qp to RTR and RTS",
            source: self
                .core
                .explain(&source, "is there a route to the peer's address?"),
        })?;
        self.agreement = Some(agreed.meaning);
        self.ready();
        Ok(())
    }

    /// Costs a system call on a queue pair that is ready to send and not known to have failed: a responder's device may
    /// move it to the error state without a completion, so the device is asked.
    fn state(&self) -> QpState {
        if self.link.state.get() == QpState::ReadyToSend
            && let Ok(attr) = self.link.raw.query()
            && matches!(attr.qp_state, ffi::QPS_ERR | ffi::QPS_SQE)
        {
            self.link.state.set(QpState::Error);
        }
        self.link.state.get()
    }

    fn to_error(&mut self) {
        self.fail();
    }

    /// The device acknowledges the error state: it accepts nothing from then on, and what it accepted before is in memory.
    /// Software RoCE acknowledges before it has finished the packet that it works on. So a queue pair that has only
    /// received WRITEs goes through the state RESET, for which it finishes. One that requests or RECVs were posted to
    /// cannot, because RESET drops them without completions.
    fn fence(&mut self) -> Fenced {
        if self.link.state.get() != QpState::Error || !self.is_fenced {
            self.fail();
            if self.bounds.kind != QpKind::Ud && !self.link.raw.is_used() && self.reset().is_err() {
                return Fenced::Pending;
            }
            self.is_fenced = true;
        }
        match self.link.raw.query() {
            Ok(attr) if attr.qp_state == ffi::QPS_ERR => {
                // Acquire: what is loaded after this is no older than what the device wrote before.
                fence(Ordering::Acquire);
                Fenced::Done
            }
            _ => Fenced::Pending,
        }
    }

    #[inline]
    fn post_send(&mut self, _cpu: &NativeCpu, list: &SendList) -> Result<(), PostError> {
        if let [wr] = list.wrs()
            && let Some(result) = self.post_one(list, wr)
        {
            return result;
        }
        self.post_list(list)
    }

    #[inline]
    fn post_recv(&mut self, _cpu: &NativeCpu, list: &RecvList) -> Result<(), PostError> {
        if self.shares_recvs {
            return refused(0, PostErrorKind::NotSupported);
        }
        match list.wrs() {
            [wr] => self.post_one_recv(wr)?,
            _ => self.post_recvs(list)?,
        }
        if self.link.state.get() == QpState::Error {
            self.flush_again();
        }
        Ok(())
    }
}

impl Drop for IbvQp {
    fn drop(&mut self) {
        self.core.qps.borrow_mut().remove(&self.link.raw.qpn());
        self.core.opening.counters.qp_destroyed();
    }
}
