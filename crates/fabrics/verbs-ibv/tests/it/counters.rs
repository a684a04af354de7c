//! What a device counts for operators: each number moves when it should, and goes back where it should.

use crate::watch::bed;
use drover_verbs::*;
use drover_verbs_ibv::ffi;
use drover_verbs_ibv_stub as stub;

fn of(counters: &DeviceCounters, status: WcStatus) -> u64 {
    counters.completions[status as usize]
}

#[test]
fn each_number_moves_when_it_should() {
    let mut bed = bed();
    let device = bed.device.clone();
    let counters = || device.counters().expect("a card");
    let begun = counters();
    assert_eq!((begun.qps, begun.registered_bytes), (2, 4096));
    assert!(begun.registration_time > drover_base::Ns::ZERO);
    assert_eq!(begun.completions, [0; 9]);
    bed.receive(3);
    bed.send(&[true, true, true]);
    assert_eq!(bed.poll(), 6);
    bed.from.to_error();
    bed.send(&[true]);
    assert_eq!(bed.poll(), 1);
    stub::raise(&[ffi::EVENT_CQ_ERR, ffi::EVENT_PORT_ACTIVE, 17]);
    let busy = counters();
    assert_eq!(of(&busy, WcStatus::Flushed), 1);
    assert_eq!((busy.cq_overruns, busy.async_events), (1, 3));
    assert_eq!(stub::unacknowledged(), 0);
    // A core that sleeps, or finds nothing for a while, tells how many it took; so does a queue that goes.
    drop(bed);
    let ended = counters();
    assert_eq!(of(&ended, WcStatus::Success), 6);
    assert_eq!((ended.qps, ended.registered_bytes), (0, 0));
    assert_eq!(ended.retries, None, "a stub has no ports in the kernel");
}

#[test]
fn a_core_that_waits_tells_what_it_polled() {
    for sleeps in [false, true] {
        let mut bed = bed();
        bed.receive(1);
        bed.send(&[true]);
        assert_eq!(bed.poll(), 2);
        match sleeps {
            true => bed.arm(),
            false => (0..1 << 16).for_each(|_| assert_eq!(bed.poll(), 0)),
        }
        let counters = bed.device.counters().expect("a card");
        assert_eq!(of(&counters, WcStatus::Success), 2, "sleeps: {sleeps}");
    }
}
