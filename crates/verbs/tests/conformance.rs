//! The reference provider keeps every rule, its ends in one thread and in two.
#![allow(missing_docs, reason = "tests are named after the rules")]

use drover_base::Ns;
use drover_verbs::OpenError;
use drover_verbs::conformance::{TestBed, Together, assert_rule};
use drover_verbs::loopback::{Loopback, LoopbackDevice, LoopbackOptions, ParkMode};

/// One device, two contexts. In one thread a turn is a millisecond, so that waiting in vain is quick.
struct Bed(Together);

impl TestBed for Bed {
    type Provider = Loopback;

    fn ends(&self) -> Result<[LoopbackDevice; 2], OpenError> {
        let (tick, park) = match self.0 {
            Together::OneThread => (Ns::from_ms(1), ParkMode::Advance),
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
    drover_verbs::conformance_tests!(|rule| assert_rule(&Bed(Together::OneThread), rule));
}

mod two_threads {
    use super::*;
    drover_verbs::conformance_tests!(|rule| assert_rule(&Bed(Together::TwoThreads), rule));
}
