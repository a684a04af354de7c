//! [`LoopbackDomain`]: contexts that know the same keys.

use super::device::Shared;
use super::memory::{LoopbackSharedMr, check_access};
use super::{Flaw, Loopback, LoopbackContext, LoopbackCq, LoopbackDevice, LoopbackQp, LoopbackSharedQueue};
use drover_mem::Region;
use drover_verbs::{
    Access, CreateError, Domain, DoorbellReport, Export, ImportError, OpenError, RegisterError, RemoteRegion,
};

/// A domain of a [`LoopbackDevice`].
#[derive(Clone, Debug)]
pub struct LoopbackDomain {
    device: LoopbackDevice,
    id: u32,
}

impl LoopbackDomain {
    pub(super) fn new(device: &LoopbackDevice) -> LoopbackDomain {
        let id = device.shared.lock().fresh_id();
        let device = device.clone();
        LoopbackDomain { device, id }
    }

    fn shared(&self) -> &Shared {
        &self.device.shared
    }
}

impl Domain<Loopback> for LoopbackDomain {
    fn context(&self) -> Result<LoopbackContext, OpenError> {
        Ok(self.device.context_of(Some(self.id)))
    }

    fn register(&self, region: &Region, access: Access) -> Result<LoopbackSharedMr, RegisterError> {
        check_access(self.device.options.flaw, region, access)?;
        Ok(LoopbackSharedMr::new(self.shared(), self.id, region, access))
    }

    fn import_region(&self, export: &Export) -> Result<RemoteRegion, ImportError> {
        self.shared().lock().import(self.id, export)
    }

    fn forget_region(&self, region: &RemoteRegion) {
        let mut fabric = self.shared().lock();
        if !fabric.has(Flaw::RemembersKeys) {
            fabric.imports.remove(&(self.id, region.rkey));
        }
    }

    fn doorbells(&self) -> DoorbellReport {
        DoorbellReport::none()
    }

    fn share(
        &self,
        _: LoopbackContext,
        qp: LoopbackQp,
        cq: LoopbackCq,
    ) -> Result<LoopbackSharedQueue, CreateError> {
        Ok(LoopbackSharedQueue::new(qp, cq))
    }
}
