//! [`Scratch`]: the arrays in which a list becomes a chain. One per context, so that they stay in the cache whichever
//! queue pair posts; nothing is allocated when posting.

use crate::ffi;
use std::ptr::null_mut;

/// Requests per chain. A longer list becomes several chains; no list of a working protocol is.
pub(crate) const CHAIN_MAX: usize = 256;
/// Elements per request that we ask devices for. Our choice: longer gather lists make larger work-queue entries.
pub(crate) const SGE_MAX: usize = 8;

/// Room for one chain.
pub(crate) struct Scratch {
    pub(crate) sends: Box<[ffi::SendWr]>,
    pub(crate) recvs: Box<[ffi::RecvWr]>,
    pub(crate) sges: Box<[ffi::Sge]>,
}

impl Scratch {
    /// Arrays whose links are in place: request `n` is followed by `n + 1` until a chain is cut.
    pub(crate) fn new() -> Scratch {
        let sends = vec![ffi::SendWr::EMPTY; CHAIN_MAX];
        let recv = ffi::RecvWr {
            wr_id: 0,
            next: null_mut(),
            sg_list: null_mut(),
            num_sge: 0,
        };
        Scratch {
            sends: sends.into(),
            recvs: vec![recv; CHAIN_MAX].into(),
            sges: vec![ffi::Sge::default(); CHAIN_MAX * 2 + SGE_MAX].into(),
        }
    }
}

/// Which request of a chain that began at `first` the library stopped at.
pub(crate) fn index_of<T>(first: *const T, bad: *const T, count: usize) -> usize {
    let index = (bad as usize).wrapping_sub(first as usize) / size_of::<T>();
    // A library that names none has taken none, as far as we can know.
    if bad.is_null() || index >= count { 0 } else { index }
}
