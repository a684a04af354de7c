//! Counters of a context: losses that verbs do not report, and wake-ups.

use std::cell::Cell;

/// Counters of one context since it was opened, from [`ShmContext::stats`](crate::ShmContext::stats).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct ShmStats {
    /// Received: datagrams and UC messages that found no posted RECV. Of a WRITE with immediate data only the notice is
    /// lost.
    pub dropped_no_recv: u64,
    /// Received: datagrams with another queue key than the queue pair's.
    pub dropped_bad_qkey: u64,
    /// Received: datagrams and UC messages longer than their RECV.
    pub dropped_too_long: u64,
    /// Sent: datagrams and UC messages lost because the receiver's ring was full.
    pub dropped_ring_full: u64,
    /// Sent: datagrams whose address handle is of another queue pair than the one they name.
    pub dropped_no_qp: u64,
    /// Sent: UC requests lost because the key is unknown here, the peer's rights or bounds forbid them, or its queue
    /// pair is gone or failed.
    pub dropped_no_access: u64,
    /// Lanes (rings of one sender) into this context's queue pairs that it abandoned because the sender violated the
    /// format. An RC or UC queue pair fails with its lane; a UD one only loses this sender.
    pub poisoned: u64,
    /// Wake-ups sent to parked peers through their bells; each costs one system call. Those by a
    /// [`Waker`](drover_verbs::Waker) are not counted.
    pub wakes_sent: u64,
}

/// The counters in use.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) no_recv: Cell<u64>,
    pub(crate) bad_qkey: Cell<u64>,
    pub(crate) too_long: Cell<u64>,
    pub(crate) ring_full: Cell<u64>,
    pub(crate) no_qp: Cell<u64>,
    pub(crate) no_access: Cell<u64>,
    pub(crate) poisoned: Cell<u64>,
}

#[cold]
pub(crate) fn count(counter: &Cell<u64>) {
    counter.set(counter.get() + 1);
}

impl Counters {
    pub(crate) fn snapshot(&self, wakes_sent: u64) -> ShmStats {
        ShmStats {
            dropped_no_recv: self.no_recv.get(),
            dropped_bad_qkey: self.bad_qkey.get(),
            dropped_too_long: self.too_long.get(),
            dropped_ring_full: self.ring_full.get(),
            dropped_no_qp: self.no_qp.get(),
            dropped_no_access: self.no_access.get(),
            poisoned: self.poisoned.get(),
            wakes_sent,
        }
    }
}
