//! [`Limits`]: the largest numbers and sizes that a device supports.

use std::fmt;

/// Limits of a device as it reports them. A limit is 0 if the device does not report it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of queue pairs.
    pub qp: usize,
    /// Maximum number of outstanding requests per send queue or receive queue.
    pub qp_wr: usize,
    /// Maximum number of scatter/gather elements per request.
    pub sge: usize,
    /// Maximum number of completion queues.
    pub cq: usize,
    /// Maximum number of completions per queue.
    pub cqe: usize,
    /// Maximum number of registered regions.
    pub mr: usize,
    /// Longest region that can be registered, in bytes.
    pub mr_bytes: u64,
    /// Maximum number of READs and atomics that a queue pair answers at a time, as responder.
    pub qp_rd_atom: usize,
    /// Maximum number of READs and atomics that a queue pair has outstanding, as requester.
    pub qp_init_rd_atom: usize,
    /// Maximum number of shared receive queues.
    pub srq: usize,
    /// Maximum number of RECVs per shared receive queue.
    pub srq_wr: usize,
    /// Scope of CAS and FAA.
    pub atomics: Atomics,
}

/// Scope in which CAS and FAA are atomic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Atomics {
    /// The device has no atomics.
    None,
    /// Atomic with respect to other CAS and FAA through the same device.
    Device,
    /// Atomic with respect to all accesses, including those of the machine's cores.
    Machine,
}

impl Limits {
    /// Longest region that can be registered, in bytes; `u64::MAX` if not reported.
    pub(crate) fn registration_bytes(&self) -> u64 {
        match self.mr_bytes {
            0 => u64::MAX, // not reported
            bytes => bytes,
        }
    }
}

impl fmt::Display for Atomics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Atomics::None => "none",
            Atomics::Device => "towards this device",
            Atomics::Machine => "towards everything",
        })
    }
}
