//! The fabrics: simulated, shared memory, and the reference.

use drover_base::Ns;
use drover_verbs::OpenError;
use drover_verbs_shm::{Shm, ShmDevice};
use drover_verbs_sim::profile::Profile;
use drover_verbs_sim::{RcOptions, Sim, SimDevice, World, WorldOptions};
use drover_verbs_suite::conformance::TestBed;
use drover_verbs_suite::loopback::{Flaw, Loopback, LoopbackDevice, LoopbackOptions};
use std::cell::RefCell;

pub struct SimBed(pub RefCell<Option<World>>);

impl TestBed for SimBed {
    type Provider = Sim;
    fn ends(&self) -> Result<[SimDevice; 2], OpenError> {
        let options = WorldOptions {
            rc: RcOptions {
                timeout: Ns::from_us(200),
                ..RcOptions::default()
            },
            ..WorldOptions::new(Profile::named("apt").expect("a profile"))
        };
        let world = World::with_options(options, 2, 1);
        let devices = [world.device(0), world.device(1)];
        self.0.replace(Some(world));
        Ok(devices)
    }
    fn progress(&self) {
        if let Some(world) = &*self.0.borrow() {
            world.run_for(Ns::from_us(100));
        }
    }
}

pub struct ShmBed;

impl TestBed for ShmBed {
    type Provider = Shm;
    fn ends(&self) -> Result<[ShmDevice; 2], OpenError> {
        Ok([ShmDevice::default(), ShmDevice::default()])
    }
}

pub struct LoopbackBed(pub Option<Flaw>);

impl TestBed for LoopbackBed {
    type Provider = Loopback;
    fn ends(&self) -> Result<[LoopbackDevice; 2], OpenError> {
        let device = LoopbackDevice::with_options(LoopbackOptions {
            flaw: self.0,
            ..LoopbackOptions::default()
        });
        Ok([device.clone(), device])
    }
}
