//! Queue pairs, and shared receive queues.

use super::{Completions, Protection, check, made};
use crate::ffi;
use std::cell::Cell;
use std::ffi::c_int;
use std::io;
use std::ptr::{NonNull, null_mut};
use std::rc::Rc;
use std::sync::Arc;

/// A shared receive queue.
pub(crate) struct SharedRecvs {
    pd: Arc<Protection>,
    ptr: NonNull<ffi::Srq>,
    post: ffi::PostSrqRecv,
}

impl SharedRecvs {
    pub(crate) fn new(pd: &Arc<Protection>, depth: u32) -> io::Result<Rc<SharedRecvs>> {
        let post = pd.opened.path.post_srq_recv;
        let post = post.ok_or_else(|| io::Error::from_raw_os_error(libc::EOPNOTSUPP))?;
        let mut attr = ffi::SrqInitAttr {
            srq_context: null_mut(),
            max_wr: depth,
            max_sge: 1,
            srq_limit: 0,
        };
        // SAFETY: our protection domain.
        let ptr = made(unsafe { (pd.opened.lib.create_srq)(pd.ptr.as_ptr(), &mut attr) })?;
        let pd = pd.clone();
        Ok(Rc::new(SharedRecvs { pd, ptr, post }))
    }

    /// Posts a chain. Returns 0 or an error number; on failure, `bad` points to the first request not accepted.
    ///
    /// # Safety
    /// `chain` is a chain of requests that, with its elements, lives for the call.
    #[inline(always)]
    pub(crate) unsafe fn post(&self, chain: *mut ffi::RecvWr, bad: &mut *mut ffi::RecvWr) -> c_int {
        // SAFETY: our queue, used by this thread alone; the caller's chain.
        unsafe { (self.post)(self.ptr.as_ptr(), chain, bad) }
    }
}

impl Drop for SharedRecvs {
    fn drop(&mut self) {
        // SAFETY: created by us, destroyed once; queue pairs held an Rc of it and are gone.
        unsafe { (self.pd.opened.lib.destroy_srq)(self.ptr.as_ptr()) };
    }
}

/// A queue pair and the objects that it uses.
pub(crate) struct Pair {
    pd: Arc<Protection>,
    ptr: NonNull<ffi::Qp>,
    send: Cell<ffi::PostSend>,
    recv: Cell<ffi::PostRecv>,
    /// Whether anything was posted to it; known only if it [notes](Pair::note_first_post) that.
    is_used: Cell<bool>,
    send_cq: Rc<Completions>,
    _recv_cq: Rc<Completions>,
    _srq: Option<Rc<SharedRecvs>>,
}

impl Pair {
    pub(crate) fn new(
        pd: &Arc<Protection>,
        send_cq: &Rc<Completions>,
        recv_cq: &Rc<Completions>,
        srq: Option<&Rc<SharedRecvs>>,
        cap: ffi::QpCap,
        qp_type: u32,
    ) -> io::Result<Pair> {
        let mut attr = ffi::QpInitAttr {
            qp_context: null_mut(),
            send_cq: send_cq.ptr.as_ptr(),
            recv_cq: recv_cq.ptr.as_ptr(),
            srq: srq.map_or(null_mut(), |srq| srq.ptr.as_ptr()),
            cap,
            qp_type,
            sq_sig_all: 0,
        };
        // SAFETY: objects of one device, which the new owner keeps alive.
        let ptr = made(unsafe { (pd.opened.lib.create_qp)(pd.ptr.as_ptr(), &mut attr) })?;
        Ok(Pair {
            pd: pd.clone(),
            ptr,
            send: Cell::new(not_ready as ffi::PostSend),
            recv: Cell::new(pd.opened.path.post_recv),
            is_used: Cell::new(true),
            send_cq: send_cq.clone(),
            _recv_cq: recv_cq.clone(),
            _srq: srq.cloned(),
        })
    }

    pub(crate) fn qpn(&self) -> u32 {
        // SAFETY: created by us; the number does not change.
        unsafe { self.ptr.as_ref() }.qp_num
    }

    pub(crate) fn modify(&self, attr: &mut ffi::QpAttr, mask: c_int) -> io::Result<()> {
        // SAFETY: our queue pair; the attributes are only read.
        check(unsafe { (self.pd.opened.lib.modify_qp)(self.ptr.as_ptr(), attr, mask) })
    }

    /// Attributes that the device reports.
    pub(crate) fn query(&self) -> io::Result<ffi::QpAttr> {
        let mut attr = ffi::QpAttr::to(ffi::QPS_RESET);
        // SAFETY: numbers and pointers, for which zero is valid.
        let mut init = unsafe { std::mem::zeroed::<ffi::QpInitAttr>() };
        let mask = ffi::QP_STATE | ffi::QP_SQ_PSN | ffi::QP_RQ_PSN | ffi::QP_TIMEOUT | ffi::QP_RETRY_CNT;
        // SAFETY: our queue pair, and space for the results.
        check(unsafe { (self.pd.opened.lib.query_qp)(self.ptr.as_ptr(), &mut attr, mask, &mut init) })?;
        Ok(attr)
    }

    /// Completion queue of its send requests.
    pub(crate) fn send_cq(&self) -> &Rc<Completions> {
        &self.send_cq
    }

    /// Lets posts go to the device from now on.
    pub(crate) fn open_sends(&self) {
        self.send.set(match self.is_used.get() {
            true => self.pd.opened.path.post_send,
            false => first_send,
        });
    }

    /// Notes the first post from now on, which costs no later one anything.
    ///
    /// # Safety
    /// `self` stays where it is, and nothing was posted to it yet.
    pub(crate) unsafe fn note_first_post(&self) {
        // SAFETY: our queue pair; the library leaves this field to its user.
        unsafe { (*self.ptr.as_ptr()).qp_context = std::ptr::from_ref(self).cast_mut().cast() };
        self.is_used.set(false);
        self.recv.set(first_recv);
    }

    /// Whether anything may have been posted to it.
    pub(crate) fn is_used(&self) -> bool {
        self.is_used.get()
    }

    /// Notes that something is being posted.
    #[cold]
    fn used(&self) {
        self.is_used.set(true);
        self.recv.set(self.pd.opened.path.post_recv);
    }

    /// Posts a chain. Returns 0 or an error number; on failure, `bad` points to the first request not accepted, if the
    /// library sets it.
    ///
    /// # Safety
    /// `chain` is a chain of requests that, with its elements and inline payloads, lives for the call.
    #[inline(always)]
    pub(crate) unsafe fn post_send(&self, chain: *mut ffi::SendWr, bad: &mut *mut ffi::SendWr) -> c_int {
        // SAFETY: our queue pair, used by this thread alone; the caller's chain.
        unsafe { (self.send.get())(self.ptr.as_ptr(), chain, bad) }
    }

    /// Posts a chain of RECVs, as [`post_send`](Pair::post_send).
    ///
    /// # Safety
    /// As for [`post_send`](Pair::post_send).
    #[inline(always)]
    pub(crate) unsafe fn post_recv(&self, chain: *mut ffi::RecvWr, bad: &mut *mut ffi::RecvWr) -> c_int {
        // SAFETY: our queue pair, used by this thread alone; the caller's chain.
        unsafe { (self.recv.get())(self.ptr.as_ptr(), chain, bad) }
    }
}

/// The owner of a queue pair that notes its first post.
fn owner<'q>(qp: *mut ffi::Qp) -> &'q Pair {
    // SAFETY: `note_first_post` stored the owner, which stays where it is and lives while its queue pair is used.
    unsafe { &*(*qp).qp_context.cast::<Pair>() }
}

/// The first post to a queue pair that notes it.
extern "C" fn first_send(qp: *mut ffi::Qp, wr: *mut ffi::SendWr, bad: *mut *mut ffi::SendWr) -> c_int {
    let pair = owner(qp);
    pair.used();
    pair.open_sends();
    // SAFETY: the caller's queue pair and chain.
    unsafe { (pair.send.get())(qp, wr, bad) }
}

/// The first RECV of a queue pair that notes it.
extern "C" fn first_recv(qp: *mut ffi::Qp, wr: *mut ffi::RecvWr, bad: *mut *mut ffi::RecvWr) -> c_int {
    let pair = owner(qp);
    pair.used();
    // SAFETY: the caller's queue pair and chain.
    unsafe { (pair.recv.get())(qp, wr, bad) }
}

/// Error number of posting to a queue pair that is not connected.
pub(crate) const NOT_READY: c_int = libc::ENOTCONN;

/// Replaces the device's function until the queue pair is connected: libraries differ in that case, and posts then need
/// no check of the state.
extern "C" fn not_ready(_: *mut ffi::Qp, _: *mut ffi::SendWr, _: *mut *mut ffi::SendWr) -> c_int {
    NOT_READY
}

impl Drop for Pair {
    fn drop(&mut self) {
        // SAFETY: created by us, destroyed once; its queues and its domain are dropped after this.
        unsafe { (self.pd.opened.lib.destroy_qp)(self.ptr.as_ptr()) };
    }
}
