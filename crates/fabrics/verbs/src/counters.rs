//! [`DeviceCounters`]: what a process has done with a device, for operators.

use crate::WcStatus;
use drover_base::Ns;

/// What the contexts of one [`Device`](crate::Device) and all its clones have done since it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceCounters {
    /// Queue pairs that exist.
    pub qps: u64,
    /// Completions polled, by status, in the order of [`WcStatus::ALL`]. Those of a core that polls a full queue are
    /// counted when it finds one empty again, so a count may lag by milliseconds.
    pub completions: [u64; WcStatus::ALL.len()],
    /// Packets that the device's port has sent again, for this process and all others, since the device was there. `None`: the
    /// device does not say.
    pub retries: Option<u64>,
    /// Bytes registered now.
    pub registered_bytes: u64,
    /// Time that all registrations took.
    pub registration_time: Ns,
    /// Completion queues that were overrun: fatal for the queue pairs that use them.
    pub cq_overruns: u64,
    /// Asynchronous events of the device, overruns included.
    pub async_events: u64,
}
