//! A wrapper that injects nothing follows every rule that its inner provider follows.
#![allow(missing_docs, reason = "tests are named after the rules")]

use drover_base::Ns;
use drover_verbs::OpenError;
use drover_verbs_suite::conformance::{TestBed, assert_rule};
use drover_verbs_suite::faulty::{FaultOptions, Faulty, FaultyDevice};
use drover_verbs_suite::loopback::{Loopback, LoopbackDevice, LoopbackOptions};
use drover_verbs_suite::traced::{Traced, TracedDevice};

fn device() -> LoopbackDevice {
    LoopbackDevice::with_options(options())
}

fn options() -> LoopbackOptions {
    LoopbackOptions {
        tick: Ns::from_ms(1),
        ..LoopbackOptions::default()
    }
}

struct QuietBed;

impl TestBed for QuietBed {
    type Provider = Faulty<Loopback>;

    fn ends(&self) -> Result<[FaultyDevice<Loopback>; 2], OpenError> {
        let device = FaultyDevice::new(device(), FaultOptions::quiet(1));
        Ok([device.clone(), device])
    }
}

/// All faults are possible but none is injected: the code for late messages runs.
struct ArmedBed;

impl TestBed for ArmedBed {
    type Provider = Faulty<Loopback>;

    fn ends(&self) -> Result<[FaultyDevice<Loopback>; 2], OpenError> {
        let device = FaultyDevice::new(device(), FaultOptions::all(1, 1e-300));
        Ok([device.clone(), device])
    }
}

/// All faults at probability 1, but only over RC, which must not suffer any.
struct ReliableBed;

impl TestBed for ReliableBed {
    type Provider = Faulty<Loopback>;

    fn ends(&self) -> Result<[FaultyDevice<Loopback>; 2], OpenError> {
        let mut options = options();
        (options.caps.supports.uc, options.caps.supports.ud) = (false, false);
        let device = FaultyDevice::new(LoopbackDevice::with_options(options), FaultOptions::all(1, 1.0));
        Ok([device.clone(), device])
    }
}

struct TracedBed;

impl TestBed for TracedBed {
    type Provider = Traced<Faulty<Loopback>>;

    fn ends(&self) -> Result<[TracedDevice<Faulty<Loopback>>; 2], OpenError> {
        let device = TracedDevice::new(FaultyDevice::new(device(), FaultOptions::quiet(1)), 64);
        Ok([device.clone(), device])
    }
}

mod faulty_quiet {
    use super::*;
    drover_verbs_suite::conformance_tests!(|rule| assert_rule(&QuietBed, rule));
}

/// If messages can be late, send queues are deeper than requested.
fn run_armed<B: TestBed>(bed: &B, rule: &str) {
    match rule {
        "queue_full" => println!("skipped {rule}: the queue is deeper"),
        _ => assert_rule(bed, rule),
    }
}

mod faulty_without_luck {
    use super::*;
    drover_verbs_suite::conformance_tests!(|rule| run_armed(&ArmedBed, rule));
}

mod faulty_but_reliable {
    use super::*;
    drover_verbs_suite::conformance_tests!(|rule| run_armed(&ReliableBed, rule));
}

mod traced_faulty_quiet {
    use super::*;
    drover_verbs_suite::conformance_tests!(|rule| assert_rule(&TracedBed, rule));
}
