//! [`ShmMr`]: registered regions, and their exports.

use crate::bell::too_many_descriptors;
use crate::core::{Core, Local};
use crate::domain::ShmDomain;
use crate::wire::{self, RegionExport, WatchExport};
use drover_mem::{AllocError, Region};
use drover_verbs::provide::{Keys, check_domain, check_registration, sge_within};
use drover_verbs::{Access, Export, MemoryRegion, RegisterError, Sge, Watch};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

/// A registered region. Dropping it makes its local key stale: later requests with that key fail, and a RECV posted
/// with it fails its queue pair when a message takes it. Peers keep their mappings and access, so memory given to a
/// peer must never be reused for another.
pub struct ShmMr {
    core: Rc<Core>,
    region: Region,
    access: Access,
    lkey: u32,
}

/// A region registered in a [`ShmDomain`]. It costs nothing: what a context needs to know of it is in the context.
#[derive(Clone, Debug)]
pub struct ShmSharedMr {
    pub(crate) domain: ShmDomain,
    pub(crate) region: Region,
    pub(crate) access: Access,
}

/// Checks that `region` can be registered with `access`.
pub(crate) fn check_shared(region: &Region, access: Access) -> Result<(), RegisterError> {
    check_registration(region, access)?;
    let remote = access.remote_read || access.remote_write || access.remote_atomic;
    if remote && !region.is_shared() {
        return Err(RegisterError::Unsuitable {
            reason: "peers can only reach memory from Context::alloc",
        });
    }
    Ok(())
}

impl ShmMr {
    pub(crate) fn adopt(core: &Rc<Core>, shared: &ShmSharedMr) -> Result<ShmMr, RegisterError> {
        check_domain(core.domain.is(&shared.domain))?;
        let (region, access) = (shared.region.clone(), shared.access);
        let local = Local {
            region: region.clone(),
            writable: access.local_write,
        };
        let lkey = core.tables.borrow_mut().local.insert(local);
        let limit = Keys::<Local>::LIMIT;
        let lkey = lkey.ok_or(RegisterError::TooMany { limit })?;
        Ok(ShmMr {
            core: core.clone(),
            region,
            access,
            lkey,
        })
    }
}

impl MemoryRegion for ShmMr {
    fn region(&self) -> &Region {
        &self.region
    }

    #[inline]
    fn sge(&self, offset: usize, len: usize) -> Sge {
        sge_within(&self.region, self.lkey, offset, len)
    }

    fn export(&self, watches: &[Watch]) -> Result<Export, AllocError> {
        let writable = self.access.remote_write || self.access.remote_atomic;
        let fd = self.region.share(writable)?.ok_or_else(|| AllocError::Memfd {
            source: std::io::Error::other("private memory cannot be passed on"),
        })?;
        let mut fds = vec![Arc::new(fd)];
        let mut encoded = Vec::new();
        for watch in watches {
            let ([bell], Ok(())) = (
                watch.bell.0.fds.as_slice(),
                wire::decode_bell(&watch.bell.0.bytes),
            ) else {
                return Err(AllocError::Memfd {
                    source: std::io::Error::other("not a bell of this provider"),
                });
            };
            let bell_fd = match fds.iter().position(|fd| Arc::ptr_eq(fd, bell)) {
                Some(index) => index,
                None => {
                    fds.push(bell.clone());
                    fds.len() - 1
                }
            };
            encoded.push(WatchExport {
                start: watch.range.start.min(self.region.len()) as u64,
                end: watch.range.end.min(self.region.len()) as u64,
                bell_fd: bell_fd as u8,
            });
        }
        let region = RegionExport {
            len: self.region.len() as u64,
            access: self.access,
            watches: encoded,
        };
        let bytes = wire::encode_region(&region);
        if fds.len() > Export::FDS_MAX || bytes.len() > Export::BYTES_MAX {
            return Err(too_many_descriptors());
        }
        Ok(Export { bytes, fds })
    }
}

impl Drop for ShmMr {
    fn drop(&mut self) {
        self.core.tables.borrow_mut().remove_local(self.lkey);
    }
}

impl fmt::Debug for ShmMr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ShmMr({:?}, {:?})", self.region, self.access)
    }
}
