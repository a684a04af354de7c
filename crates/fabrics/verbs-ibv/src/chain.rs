//! [`Chains`]: the arrays in which a list becomes a chain. One per context, so that they stay in the cache whichever
//! queue pair posts; nothing is allocated when posting.

use crate::ffi;
use std::ptr::null_mut;

/// Requests per chain. A longer list becomes several chains; no list of a working protocol is.
pub(crate) const CHAIN_MAX: usize = 256;
/// Elements per request that we ask devices for. Our choice: longer gather lists make larger work-queue entries.
pub(crate) const SGE_MAX: usize = 8;

/// Space for one chain of SENDs or of RECVs. A list of one has a place of its own, which is never linked to another.
pub(crate) struct Chains {
    pub(crate) send: (ffi::SendWr, ffi::Sge),
    pub(crate) recv: (ffi::RecvWr, ffi::Sge),
    /// Where the library says which request it did not take, when there is only one.
    pub(crate) bad_send: *mut ffi::SendWr,
    pub(crate) bad_recv: *mut ffi::RecvWr,
    pub(crate) sends: Box<[ffi::SendWr; CHAIN_MAX]>,
    pub(crate) recvs: Box<[ffi::RecvWr; CHAIN_MAX]>,
    /// The element of each request that has one.
    pub(crate) sges: Box<[ffi::Sge; CHAIN_MAX]>,
    pub(crate) pieces: Pieces,
}

/// The elements of requests that have several, one after the other.
pub(crate) struct Pieces {
    space: Box<[ffi::Sge; CHAIN_MAX]>,
    used: usize,
}

impl Pieces {
    /// All of the space is free again: the chain before has been posted.
    #[inline(always)]
    pub(crate) fn clear(&mut self) {
        self.used = 0;
    }

    /// What is free.
    pub(crate) fn free(&mut self) -> &mut [ffi::Sge] {
        &mut self.space[self.used..]
    }

    /// The first `count` of what was free are taken.
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

/// Which request of a chain that began at `first` the library stopped at.
#[cold]
pub(crate) fn index_of<T>(first: *const T, bad: *const T, count: usize) -> usize {
    let index = (bad as usize).wrapping_sub(first as usize) / size_of::<T>();
    // A library that names none has taken none, as far as we can know.
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
