//! [`SimDomain`]: the threads of a process that share registrations, imports and doorbell registers.

use crate::handles::{SimSharedMr, SimSharedQueue};
use crate::{Sim, SimContext, SimCq, SimDevice, SimQp, world};
use drover_mem::Region;
use drover_sim::VirtualCpu;
use drover_verbs::provide::check_registration;
use drover_verbs::{
    Access, CreateError, Domain, DomainOptions, DoorbellReport, Export, ImportError, OpenError,
    RegisterError, RemoteRegion,
};

/// A domain of a [`SimDevice`]. It may move to other threads, but works only on the world's.
#[derive(Clone, Debug)]
pub struct SimDomain {
    /// The device, with the registers of this domain.
    device: SimDevice,
    id: u32,
}

impl SimDomain {
    pub(crate) fn open(device: &SimDevice, options: &DomainOptions) -> Result<SimDomain, OpenError> {
        let (id, registers) =
            world::find(device.world)?.with(|net, _| (net.new_domain(), net.new_registers(options)));
        let device = SimDevice {
            registers,
            ..device.clone()
        };
        Ok(SimDomain { device, id })
    }

    /// As [`SimDevice::context_on`], in this domain.
    ///
    /// # Errors
    /// [`OpenError::Unavailable`] if the world lives on another thread or has ended.
    ///
    /// # Panics
    /// If `cpu` belongs to another machine.
    pub fn context_on(&self, cpu: &VirtualCpu) -> Result<SimContext, OpenError> {
        self.device.context_in(Some(self.id), cpu)
    }
}

impl Domain<Sim> for SimDomain {
    fn context(&self) -> Result<SimContext, OpenError> {
        let cpu = self.device.add_core(&world::find(self.device.world)?);
        self.context_on(&cpu)
    }

    fn register(&self, region: &Region, access: Access) -> Result<SimSharedMr, RegisterError> {
        check_registration(region, access)?;
        let sim = world::find(self.device.world).map_err(|error| RegisterError::System {
            bytes: region.len(),
            source: std::io::Error::other(error),
        })?;
        Ok(SimSharedMr::new(&sim, &self.device, self.id, region, access))
    }

    fn import_region(&self, export: &Export) -> Result<RemoteRegion, ImportError> {
        let sim = world::find(self.device.world).map_err(|error| ImportError::System {
            what: "import",
            source: std::io::Error::other(error),
        })?;
        sim.with(|net, _| net.import(self.id, export))
    }

    fn forget_region(&self, region: &RemoteRegion) {
        if let Ok(sim) = world::find(self.device.world) {
            sim.with(|net, _| net.keys.forget(self.id, region.rkey));
        }
    }

    /// Exact; without users if the world has ended.
    fn doorbells(&self) -> DoorbellReport {
        match world::find(self.device.world) {
            Ok(sim) => sim.with(|net, _| net.registers.at(self.device.registers).report()),
            Err(_) => DoorbellReport::none(),
        }
    }

    fn share(&self, _: SimContext, qp: SimQp, cq: SimCq) -> Result<SimSharedQueue, CreateError> {
        Ok(SimSharedQueue::new(self.device.world, qp, cq))
    }
}
