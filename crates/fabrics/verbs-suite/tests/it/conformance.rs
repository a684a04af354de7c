//! The reference provider follows every rule, with its ends in one thread and in two.
#![allow(missing_docs, reason = "tests are named after the rules")]

use drover_base::Ns;
use drover_verbs::{Atomics, OpenError};
use drover_verbs_suite::conformance::{TestBed, Together, assert_rule, rules, run_rule};
use drover_verbs_suite::loopback::{Loopback, LoopbackDevice, LoopbackOptions, ParkMode};

/// One device, two contexts. In one thread a turn is a millisecond, so that waiting without result is quick.
struct Bed(Together);

impl TestBed for Bed {
    type Provider = Loopback;

    fn ends(&self) -> Result<[LoopbackDevice; 2], OpenError> {
        let (tick, park) = match self.0 {
            Together::OneThread => (Ns::from_ms(1), ParkMode::AdvanceClock),
            Together::TwoThreads => (Ns(100), ParkMode::Block),
        };
        let device = LoopbackDevice::with_options(LoopbackOptions {
            tick,
            park,
            ..LoopbackOptions::default()
        });
        Ok([device.clone(), device])
    }

    fn together(&self) -> Together {
        self.0
    }
}

mod one_thread {
    use super::*;
    drover_verbs_suite::conformance_tests!(|rule| assert_rule(&Bed(Together::OneThread), rule));
}

mod two_threads {
    use super::*;
    drover_verbs_suite::conformance_tests!(|rule| assert_rule(&Bed(Together::TwoThreads), rule));
}

/// A provider with minimal capabilities.
struct PoorBed;

impl TestBed for PoorBed {
    type Provider = Loopback;

    fn ends(&self) -> Result<[LoopbackDevice; 2], OpenError> {
        let mut options = LoopbackOptions {
            tick: Ns::from_ms(1),
            ..LoopbackOptions::default()
        };
        let caps = &mut options.caps;
        (caps.supports.uc, caps.supports.ud, caps.supports.srq) = (false, false, false);
        (caps.supports.atomics, caps.reads.see_earlier) = (Atomics::None, false);
        caps.supports.masked_atomics = false;
        caps.supports.device_memory_bytes = 0;
        (caps.writes.ordered, caps.wakes.on_memory, caps.wakes.on_fd) = (false, false, false);
        (caps.inline_bytes_max, caps.sge_max) = (0, 1);
        let device = LoopbackDevice::with_options(options);
        Ok([device.clone(), device])
    }
}

#[test]
fn what_a_provider_lacks_is_skipped_by_name() {
    let mut skipped = Vec::new();
    for rule in rules::<Loopback>() {
        let lines = run_rule(&PoorBed, rule.name).expect("a rule that asks for too much");
        skipped.extend(lines);
    }
    for line in [
        "cas_semantics over Rc: Atomics not offered",
        "device_memory_semantics over Rc: DeviceMemory not offered",
        "masked_cas_semantics over Rc: MaskedAtomics not offered",
        "host_atomics_add_up_with_the_cpu over Rc: HostAtomics not offered",
        "read_sees_earlier_write over Rc: ReadsSeeEarlier not offered",
        "srq_takes_recvs_alone over Rc: Srq not offered",
        "write_last_word_last over Rc: OrderedWrites not offered",
        "arm_then_write_not_lost over Rc: MemoryWait not offered",
        "descriptor_ends_park over Rc: FdWait not offered",
        "inline_too_long_refused over Rc: Inline not offered",
        "gather_and_scatter over Rc: Gather not offered",
        "write_lands over Uc: Uc queue pairs not offered",
        "ud_gap_of_40 over Ud: Ud queue pairs not offered",
    ] {
        assert!(
            skipped.iter().any(|said| said == line),
            "{line:?} is not among {skipped:#?}"
        );
    }
    assert!(!skipped.iter().any(|line| line.starts_with("write_lands over Rc")));
}
