//! [`Chains`]: the arrays in which lists become chains. One per context, so that they stay in the cache for all queue
//! pairs; posting allocates nothing.

use crate::ffi;
use std::ptr::null_mut;

/// Most requests per chain. A longer list becomes several chains, which is rare.
pub(crate) const CHAIN_MAX: usize = 256;
/// Most elements per request that we ask devices for. *(our choice: longer gather lists make larger work-queue
/// entries)*
pub(crate) const SGE_MAX: usize = 8;

/// Space for one chain of send requests or of RECVs. A list of one request uses a separate entry that is never linked.
pub(crate) struct Chains {
    pub(crate) send: (ffi::SendWr, ffi::Sge),
    pub(crate) recv: (ffi::RecvWr, ffi::Sge),
    /// The library's pointer to the refused request, when there is only one.
    pub(crate) bad_send: *mut ffi::SendWr,
    pub(crate) bad_recv: *mut ffi::RecvWr,
    pub(crate) sends: Box<[ffi::SendWr; CHAIN_MAX]>,
    pub(crate) recvs: Box<[ffi::RecvWr; CHAIN_MAX]>,
    /// Elements of requests with one element, by request.
    pub(crate) sges: Box<[ffi::Sge; CHAIN_MAX]>,
    pub(crate) pieces: Pieces,
}

/// Elements of requests with several, one after the other.
pub(crate) struct Pieces {
    space: Box<[ffi::Sge; CHAIN_MAX]>,
    used: usize,
}

impl Pieces {
    /// Frees all of the space, after the previous chain has been posted.
    #[inline(always)]
    pub(crate) fn clear(&mut self) {
        self.used = 0;
    }

    /// The free elements.
    pub(crate) fn free(&mut self) -> &mut [ffi::Sge] {
        &mut self.space[self.used..]
    }

    /// Marks the first `count` free elements as used.
    pub(crate) fn take(&mut self, count: usize) {
        self.used += count;
    }
}

impl Chains {
    pub(crate) fn new() -> Chains {
        let recv = ffi::RecvWr {
            wr_id: 0,
            next: null_mut(),
            sg_list: null_mut(),
            num_sge: 0,
        };
        let sge = ffi::Sge::default();
        Chains {
            send: (ffi::SendWr::EMPTY, sge),
            recv: (recv, sge),
            bad_send: null_mut(),
            bad_recv: null_mut(),
            sends: filled(ffi::SendWr::EMPTY),
            recvs: filled(recv),
            sges: filled(sge),
            pieces: Pieces {
                space: filled(sge),
                used: 0,
            },
        }
    }
}

fn filled<T: Copy>(value: T) -> Box<[T; CHAIN_MAX]> {
    let values = vec![value; CHAIN_MAX].into_boxed_slice();
    values.try_into().ok().expect("so many were made")
}

/// Index of the request at which the library stopped, in a chain that begins at `first`.
#[cold]
pub(crate) fn index_of<T>(first: *const T, bad: *const T, count: usize) -> usize {
    let index = (bad as usize).wrapping_sub(first as usize) / size_of::<T>();
    // If the library names no request, assume that it accepted none.
    if bad.is_null() || index >= count { 0 } else { index }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_is_found_by_its_address_and_nonsense_counts_as_none_taken() {
        let chains = Chains::new();
        let at = |n: usize| chains.sends.as_ptr().wrapping_add(n);
        assert_eq!(index_of(at(0), at(5), 7), 5);
        assert_eq!(index_of(at(0), at(7), 7), 0);
        assert_eq!(index_of(at(3), at(0), 7), 0);
        assert_eq!(index_of(at(0), std::ptr::null(), 7), 0);
    }
}
