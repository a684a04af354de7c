//! A data path that does nothing: posts are accepted, and a poll reports as many completions as requested. What a call
//! costs is then the cost of the provider.

use super::control::{NO_OPS, open_with};
use drover_verbs_ibv::ffi;

/// Opens a device with this data path.
pub(crate) extern "C" fn open_device(device: *mut ffi::Device) -> *mut ffi::Context {
    let ops = ffi::ContextOps {
        poll_cq: Some(poll_cq),
        req_notify_cq: Some(req_notify_cq),
        post_srq_recv: Some(post_srq_recv),
        post_send: Some(post_send),
        post_recv: Some(post_recv),
        ..NO_OPS
    };
    open_with(device, ops)
}

/// Accepts the whole list without executing it; returns 0.
pub extern "C" fn post_send(_qp: *mut ffi::Qp, _wr: *mut ffi::SendWr, _bad: *mut *mut ffi::SendWr) -> i32 {
    0
}

/// Accepts the whole list without executing it; returns 0.
pub extern "C" fn post_recv(_qp: *mut ffi::Qp, _wr: *mut ffi::RecvWr, _bad: *mut *mut ffi::RecvWr) -> i32 {
    0
}

extern "C" fn post_srq_recv(_: *mut ffi::Srq, _: *mut ffi::RecvWr, _: *mut *mut ffi::RecvWr) -> i32 {
    0
}

/// Returns `count` without writing any completion: the caller's array keeps its contents. Zeros in it count as
/// successful SENDs.
pub extern "C" fn poll_cq(_cq: *mut ffi::Cq, count: i32, _wcs: *mut ffi::Wc) -> i32 {
    count
}

extern "C" fn req_notify_cq(_cq: *mut ffi::Cq, _solicited_only: i32) -> i32 {
    0
}
