//! The fabrics that every system's tests run on: in one process, over shared memory, and behind a wrapper that does worse.

use crate::ground::{Ground, faults, pass_really};
use drover_base::Ns;
use drover_testkit::kv_conformance::BedOptions;
use drover_verbs_shm::{Shm, ShmDevice};
use drover_verbs_suite::faulty::{Faulty, FaultyDevice};
use drover_verbs_suite::loopback::{Loopback, LoopbackDevice, LoopbackOptions};

impl Ground for Loopback {
    fn open(options: &BedOptions) -> LoopbackDevice {
        LoopbackDevice::with_options(LoopbackOptions {
            seed: options.seed,
            tick: Ns::from_us(1),
            ..LoopbackOptions::default()
        })
    }

    fn pass(device: &LoopbackDevice, by: Ns) {
        device.advance(by);
    }
}

impl Ground for Shm {
    fn open(_: &BedOptions) -> ShmDevice {
        ShmDevice::default()
    }

    fn pass(_: &ShmDevice, by: Ns) {
        pass_really(by);
    }
}

impl<P: Ground> Ground for Faulty<P> {
    fn open(options: &BedOptions) -> FaultyDevice<P> {
        FaultyDevice::new(P::open(options), faults(options))
    }

    fn pass(device: &FaultyDevice<P>, by: Ns) {
        P::pass(device.inner(), by);
    }
}
