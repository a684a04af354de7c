//! Metrics of the RDMA device. Over shared memory there are none: nobody has a card.

use super::exposition::{Exposition, Kind};
use drover_verbs::{DeviceCounters, WcStatus};

/// Adds what the process has done with a device.
pub fn add(out: &mut Exposition, device: &DeviceCounters) {
    let mut add = |name, kind, help, value: u64| out.family(name, kind, help).count(&[], value);
    add(
        "drover_rdma_qps",
        Kind::Gauge,
        "Queue pairs that exist.",
        device.qps,
    );
    add(
        "drover_rdma_registered_bytes",
        Kind::Gauge,
        "Bytes of memory registered with the device.",
        device.registered_bytes,
    );
    add(
        "drover_rdma_async_events_total",
        Kind::Counter,
        "Asynchronous events of the device, overruns included.",
        device.async_events,
    );
    add(
        "drover_rdma_cq_overruns_total",
        Kind::Counter,
        "Completion queues that were overrun.",
        device.cq_overruns,
    );
    let mut retries = out.family(
        "drover_rdma_retries_total",
        Kind::Counter,
        "Packets that the device's port sent again, for all processes, if its driver counts them.",
    );
    if let Some(count) = device.retries {
        retries.count(&[], count);
    }
    out.family(
        "drover_rdma_registration_seconds",
        Kind::Gauge,
        "Time that registrations of memory took.",
    )
    .add(&[], device.registration_time.to_duration().as_secs_f64());
    let mut completions = out.family(
        "drover_rdma_work_completions_total",
        Kind::Counter,
        "Completions polled, by status.",
    );
    for (status, count) in WcStatus::ALL.into_iter().zip(device.completions) {
        completions.count(&[("status", status.name())], count);
    }
}
