//! [`IbvMr`]: registered regions, and advice for registrations that the system refuses.

use crate::counters::Counters;
use crate::domain::IbvDomain;
use crate::ffi;
use crate::memlock::{Memlock, Shortage};
use crate::raw::Memory;
use crate::wire::{self, RegionName};
use drover_mem::{AllocError, Region, timestamp};
use drover_verbs::provide::{check_registration, sge_within};
use drover_verbs::{Access, Export, MemoryRegion, RegisterError, Sge, Watch};
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

/// A region registered for all contexts of a domain. Dropping the last clone, and the last handle made from one,
/// deregisters it.
#[derive(Clone)]
pub struct IbvSharedMr {
    pub(crate) domain: IbvDomain,
    pub(crate) registration: Arc<Registration>,
}

/// A registration.
pub(crate) struct Registration {
    memory: Memory,
    access: Access,
    counters: Arc<Counters>,
}

impl Registration {
    pub(crate) fn new(
        domain: &IbvDomain,
        region: &Region,
        access: Access,
    ) -> Result<Registration, RegisterError> {
        check_registration(region, access)?;
        let (bytes, opening) = (region.len(), domain.opening());
        let failed = |source| RegisterError::System { bytes, source };
        if bytes as u64 > opening.limits.registration_bytes() {
            let most = opening.limits.registration_bytes();
            let why = io::Error::other(format!("the device registers at most {most} bytes at once"));
            return Err(failed(opening.explain(&why, "use smaller regions")));
        }
        let memlock = Memlock::read();
        memlock
            .check(bytes)
            .map_err(|why| failed(opening.explain(&why, why.advice())))?;
        let began = timestamp();
        let memory = Memory::register(domain.base(), region, flags(access))
            .map_err(|why| failed(opening.explain(&why, &advice(&why, memlock.check_limit(bytes)))))?;
        opening.counters.registered(bytes, began);
        let counters = opening.counters.clone();
        Ok(Registration {
            memory,
            access,
            counters,
        })
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.counters.deregistered(self.memory.region().len());
    }
}

/// A registered region. Dropping it deregisters it, unless the registration is shared; its keys are then invalid.
pub struct IbvMr {
    registration: Arc<Registration>,
    lkey: u32,
    rkey: u32,
    _one_thread: PhantomData<Rc<()>>,
}

impl IbvMr {
    pub(crate) fn of(shared: &IbvSharedMr) -> IbvMr {
        let registration = shared.registration.clone();
        let (lkey, rkey) = registration.memory.keys();
        IbvMr {
            registration,
            lkey,
            rkey,
            _one_thread: PhantomData,
        }
    }
}

/// Probable cause of a failed registration, and what to do.
fn advice(why: &io::Error, within_limit: Result<(), Shortage>) -> String {
    match (why.raw_os_error(), within_limit) {
        (Some(libc::ENOMEM | libc::EPERM | libc::EAGAIN), Err(shortage)) => {
            format!("{shortage}: {}", shortage.advice())
        }
        (Some(libc::ENOMEM), _) => {
            "the device or the machine is out of memory for registrations: register less".into()
        }
        (Some(libc::EOPNOTSUPP), _) => "this device cannot give these rights".into(),
        _ => "the device's driver refused it: see the kernel's log".into(),
    }
}

pub(crate) fn flags(access: Access) -> i32 {
    let flag = |wanted, flag| if wanted { flag } else { 0 };
    flag(access.local_write, ffi::ACCESS_LOCAL_WRITE)
        | flag(access.remote_read, ffi::ACCESS_REMOTE_READ)
        | flag(access.remote_write, ffi::ACCESS_REMOTE_WRITE)
        | flag(access.remote_atomic, ffi::ACCESS_REMOTE_ATOMIC)
}

impl MemoryRegion for IbvMr {
    fn region(&self) -> &Region {
        self.registration.memory.region()
    }

    #[inline]
    fn sge(&self, offset: usize, len: usize) -> Sge {
        sge_within(self.registration.memory.region(), self.lkey, offset, len)
    }

    /// Never fails. Ignores `watches`: a WRITE into memory raises no notification, and the capabilities say so.
    ///
    /// # Panics
    /// In debug builds, if a watch has the bell of another provider.
    fn export(&self, watches: &[Watch]) -> Result<Export, AllocError> {
        debug_assert!(watches.iter().all(|watch| wire::is_bell(&watch.bell.0)));
        Ok(wire::encode_region(&RegionName {
            rkey: self.rkey,
            len: self.registration.memory.region().len() as u64,
            access: self.registration.access,
        }))
    }
}

impl fmt::Debug for IbvMr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IbvMr({:?}, {:?})", self.region(), self.registration.access)
    }
}
