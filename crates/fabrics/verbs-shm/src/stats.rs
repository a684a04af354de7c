//! Counters of a context: losses that verbs do not report, and wake-ups.

use std::cell::Cell;

/// Counters of one context since it was opened, from [`ShmContext::stats`](crate::ShmContext::stats).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct ShmStats {
    /// Received: datagrams and UC messages dropped because no RECV was posted. Of a WRITE with immediate data the bytes
    /// arrive; only its completion at the receiver is lost.
    pub dropped_no_recv: u64,
    /// Received: datagrams dropped because their queue key is not that of the queue pair.
    pub dropped_bad_qkey: u64,
    /// Received: datagrams dropped because they carry another sender's number than earlier ones through the same lane of
    /// [one sender](drover_verbs::QueuePair::export_for_sender).
    pub dropped_forged_sender: u64,
    /// Received: datagrams and UC messages dropped because they are longer than their RECV.
    pub dropped_too_long: u64,
    /// Sent: datagrams and UC messages lost because the receiver's ring was full.
    pub dropped_ring_full: u64,
    /// Sent: datagrams lost because the address handle in their [`UdDest`](drover_verbs::UdDest) belongs to another
    /// queue pair than its `qpn`.
    pub dropped_no_qp: u64,
    /// Sent: UC requests lost because the key is unknown here, the peer's rights or bounds forbid them, or its queue
    /// pair is gone or failed.
    pub dropped_no_access: u64,
    /// Lanes (rings of one sender) into this context's queue pairs that it abandoned because the sender violated the
    /// format. An RC or UC queue pair fails with its lane; a UD one only loses this sender.
    pub poisoned: u64,
    /// Wake-ups that this context sent to parked peers; each costs one system call. Wake-ups by a
    /// [`Waker`](drover_verbs::Waker) are not counted.
    pub wakes_sent: u64,
}

/// The counters in use.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) no_recv: Cell<u64>,
    pub(crate) bad_qkey: Cell<u64>,
    pub(crate) forged_sender: Cell<u64>,
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
            dropped_forged_sender: self.forged_sender.get(),
            dropped_too_long: self.too_long.get(),
            dropped_ring_full: self.ring_full.get(),
            dropped_no_qp: self.no_qp.get(),
            dropped_no_access: self.no_access.get(),
            poisoned: self.poisoned.get(),
            wakes_sent,
        }
    }
}
