//! [`Counters`]: what the contexts of a device have done, as [`DeviceCounters`] shows it.
//!
//! A poll adds to a number of its queue; everything else here happens on the control path, after failures, or when an
//! operator asks.

use crate::choose::Choice;
use crate::ffi;
use crate::raw::Opened;
use drover_base::Ns;
use drover_mem::{NativeCpu, timestamp};
use drover_verbs::{DeviceCounters, WcStatus};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Counters shared by all contexts of a device. Relaxed: they are independent of each other.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    qps: AtomicU64,
    completions: AtomicU64,
    failed: [AtomicU64; WcStatus::ALL.len()],
    registered_bytes: AtomicU64,
    registration_ns: AtomicU64,
    async_events: AtomicU64,
    cq_overruns: AtomicU64,
    opened: Mutex<Vec<Weak<Opened>>>,
}

/// What the kernel counts of packets that were sent again, by the names of its drivers: those of NVIDIA's cards, then software
/// RoCE's.
const RETRIES: [&str; 6] = [
    "local_ack_timeout_err",
    "packet_seq_err",
    "implied_nak_seq_err",
    "rnr_nak_retry_err",
    "completer_retry_err",
    "rcvd_rnr_err",
];

impl Counters {
    pub(crate) fn qp_created(&self) {
        self.qps.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn qp_destroyed(&self) {
        self.qps.fetch_sub(1, Ordering::Relaxed);
    }

    /// Adds completions that a queue has counted, whatever their status.
    pub(crate) fn completed(&self, count: u64) {
        if count > 0 {
            self.completions.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// Notes that a completion has failed.
    #[cold]
    pub(crate) fn failed(&self, status: WcStatus) {
        self.failed[status as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Notes a registration that began at this [`timestamp`].
    pub(crate) fn registered(&self, bytes: usize, began: u64) {
        let ns = NativeCpu::ticks_to_ns(timestamp().saturating_sub(began));
        self.registration_ns.fetch_add(ns, Ordering::Relaxed);
        self.registered_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn deregistered(&self, bytes: usize) {
        self.registered_bytes.fetch_sub(bytes as u64, Ordering::Relaxed);
    }

    /// Notes an opening of the device, whose events are to be taken.
    pub(crate) fn opened(&self, opened: &Arc<Opened>) {
        let mut all = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|opened| opened.strong_count() > 0);
        all.push(Arc::downgrade(opened));
    }

    /// Takes the events of all openings, and logs them.
    pub(crate) fn take_events(&self, choice: &Choice) {
        let all = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        for opened in all.iter().filter_map(Weak::upgrade) {
            while let Some(kind) = opened.take_event() {
                self.async_events.fetch_add(1, Ordering::Relaxed);
                if kind == ffi::EVENT_CQ_ERR {
                    self.cq_overruns.fetch_add(1, Ordering::Relaxed);
                }
                log(choice, kind);
            }
        }
    }

    pub(crate) fn snapshot(&self, choice: &Choice) -> DeviceCounters {
        self.take_events(choice);
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let mut completions = self.failed.each_ref().map(of);
        let failed: u64 = completions.iter().sum();
        completions[WcStatus::Success as usize] = of(&self.completions).saturating_sub(failed);
        DeviceCounters {
            qps: of(&self.qps),
            completions,
            retries: retries(&choice.device, choice.port),
            registered_bytes: of(&self.registered_bytes),
            registration_time: Ns(of(&self.registration_ns)),
            cq_overruns: of(&self.cq_overruns),
            async_events: of(&self.async_events),
        }
    }
}

/// What the kernel says of a port.
fn retries(device: &str, port: u8) -> Option<u64> {
    let folder = format!("/sys/class/infiniband/{device}/ports/{port}/hw_counters");
    let read = |name: &&str| {
        let text = std::fs::read_to_string(format!("{folder}/{name}")).ok()?;
        text.trim().parse::<u64>().ok()
    };
    RETRIES.iter().filter_map(read).reduce(u64::saturating_add)
}

fn log(choice: &Choice, kind: i32) {
    let place = format!("{} port {}", choice.device, choice.port);
    let what = match kind {
        ffi::EVENT_CQ_ERR => "a completion queue was overrun: its queue pairs have failed",
        ffi::EVENT_QP_FATAL | ffi::EVENT_QP_REQ_ERR | ffi::EVENT_QP_ACCESS_ERR => "a queue pair has failed",
        ffi::EVENT_DEVICE_FATAL => "the device has failed",
        ffi::EVENT_PORT_ACTIVE => return tracing::info!("{place}: the port is active"),
        ffi::EVENT_PORT_ERR => "the port is down",
        _ => return tracing::info!("{place}: event {kind} of the device"),
    };
    tracing::warn!("{place}: {what}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_statuses_is_that_of_the_numbers() {
        for (index, status) in WcStatus::ALL.into_iter().enumerate() {
            assert_eq!(status as usize, index, "{status:?}");
        }
    }

    #[test]
    fn a_device_that_says_nothing_of_retries_has_none() {
        assert_eq!(retries("no-such-device", 1), None);
    }
}
