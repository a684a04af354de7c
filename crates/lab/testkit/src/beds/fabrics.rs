//! The fabrics that the tests of every system run on: loopback, shared memory, and either behind a wrapper with faults.

use super::ground::{Ground, faults, pass_really};
use crate::kv_conformance::BedOptions;
use drover_base::Ns;
use drover_verbs_shm::{Shm, ShmDevice};
use drover_verbs_suite::faulty::{Faulty, FaultyDevice};
use drover_verbs_suite::loopback::{Loopback, LoopbackDevice, LoopbackOptions};
use std::marker::PhantomData;

impl Ground for Loopback {
    type P = Loopback;

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
    type P = Shm;

    fn open(_: &BedOptions) -> ShmDevice {
        ShmDevice::default()
    }

    fn pass(_: &ShmDevice, by: Ns) {
        pass_really(by);
    }
}

/// A [`Ground`] (fabric for tests): `G` behind a wrapper that adds the faults that a rule asks for. Clients use the
/// server's device.
#[derive(Debug)]
pub struct WithFaults<G>(PhantomData<G>);

impl<G: Ground> Ground for WithFaults<G> {
    type P = Faulty<G::P>;

    fn open(options: &BedOptions) -> FaultyDevice<G::P> {
        FaultyDevice::new(G::open(options), faults(options)).with_forger(options.forger.clone())
    }

    fn pass(device: &FaultyDevice<G::P>, by: Ns) {
        G::pass(device.inner(), by);
    }
}
