//! The provider conformance suite over the binding, with a stub library instead of the machine's.

use drover_verbs::OpenError;
use drover_verbs_ibv::{Ibv, IbvDevice, IbvOptions};
use drover_verbs_ibv_stub as stub;
use drover_verbs_suite::conformance::{TestBed, Together, assert_rule};

struct Bed(Together);

impl TestBed for Bed {
    type Provider = Ibv;
    fn ends(&self) -> Result<[IbvDevice; 2], OpenError> {
        let mut options = IbvOptions::default();
        options.library = Some(stub::library());
        let device = IbvDevice::open(options)?;
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
