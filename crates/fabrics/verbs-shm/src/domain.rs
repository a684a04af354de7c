//! [`ShmDomain`]: imports that the contexts of one process share. Each region and each bell is mapped once.

use crate::Shm;
use crate::bell::BellPage;
use crate::context::ShmContext;
use crate::device::ShmOptions;
use crate::mr::{ShmSharedMr, check_shared};
use crate::wire;
use drover_mem::{NativeCpu, Region};
use drover_verbs::provide::Keys;
use drover_verbs::{
    Access, Caps, Domain, DoorbellReport, Export, ImportError, OpenError, RegisterError, RemoteRegion,
};
use rustix::fd::{AsFd as _, OwnedFd};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

/// What threads of one process share. Only the control path takes its lock: a context copies what it needs to tables of
/// its own.
#[derive(Clone)]
pub struct ShmDomain {
    inner: Arc<Inner>,
}

struct Inner {
    options: ShmOptions,
    caps: Caps,
    /// Number of contexts that the device opened so far.
    opened: Arc<AtomicU64>,
    shared: Mutex<Shared>,
}

#[derive(Default)]
struct Shared {
    imports: Keys<Import>,
    bells: Vec<Weak<BellPage>>,
}

/// Device and inode of a file in memory.
pub(crate) type Identity = (u64, u64);

/// An imported region of a peer.
#[derive(Clone)]
pub(crate) struct Import {
    pub(crate) region: Region,
    identity: Identity,
    pub(crate) len: u64,
    pub(crate) access: Access,
    pub(crate) watches: Vec<ImportedWatch>,
}

#[derive(Clone)]
pub(crate) struct ImportedWatch {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) bell: Arc<BellPage>,
}

/// Identity of the file behind `fd`.
pub(crate) fn identity(fd: &OwnedFd) -> Result<Identity, ImportError> {
    let stat = rustix::fs::fstat(fd).map_err(|error| ImportError::System {
        what: "fstat",
        source: error.into(),
    })?;
    Ok((stat.st_dev as u64, stat.st_ino as u64))
}

/// Maps `len` bytes of the file behind `fd`, which nobody can shorten.
pub(crate) fn map(fd: &OwnedFd, len: usize, writable: bool) -> Result<Region, ImportError> {
    Ok(Region::from_fd(copy(fd)?, len, writable)?)
}

fn copy(fd: &OwnedFd) -> Result<OwnedFd, ImportError> {
    let copy = fd.try_clone();
    copy.map_err(|source| ImportError::System { what: "dup", source })
}

fn is_writable(access: Access) -> bool {
    access.remote_write || access.remote_atomic
}

impl ShmDomain {
    pub(crate) fn new(options: &ShmOptions, caps: &Caps, opened: &Arc<AtomicU64>) -> ShmDomain {
        ShmDomain {
            inner: Arc::new(Inner {
                options: options.clone(),
                caps: caps.clone(),
                opened: opened.clone(),
                shared: Mutex::default(),
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        // A thread that panicked while it held the lock left at worst an import that nobody uses.
        self.inner
            .shared
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(crate) fn is(&self, other: &ShmDomain) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// What is imported under `rkey`.
    pub(crate) fn find(&self, rkey: u32) -> Option<Import> {
        self.lock().imports.find(rkey).cloned()
    }

    /// The bell behind `fd`, mapped now unless it already is.
    pub(crate) fn bell(&self, fd: &OwnedFd) -> Result<Arc<BellPage>, ImportError> {
        self.check_pages(fd)?;
        self.lock().bell(fd)
    }

    /// Refuses memory whose pages may vanish, where that matters.
    pub(crate) fn check_pages(&self, fd: &OwnedFd) -> Result<(), ImportError> {
        if !self.inner.options.huge_pages_of_peers && Region::is_of_huge_pages(fd.as_fd())? {
            return Err(ImportError::Malformed {
                reason: "memory of reserved huge pages, of which a peer can take one away: use ordinary pages",
            });
        }
        Ok(())
    }
}

impl Shared {
    fn bell(&mut self, fd: &OwnedFd) -> Result<Arc<BellPage>, ImportError> {
        let identity = identity(fd)?;
        self.bells.retain(|bell| bell.strong_count() > 0);
        let mut known = self.bells.iter().filter_map(Weak::upgrade);
        if let Some(bell) = known.find(|bell| bell.identity == identity) {
            return Ok(bell);
        }
        let bell = Arc::new(BellPage::map(fd, identity)?);
        self.bells.push(Arc::downgrade(&bell));
        Ok(bell)
    }

    /// The mapping of the region behind `fd`, made now unless there is one with the same rights.
    fn region(
        &self,
        fd: &OwnedFd,
        len: u64,
        access: Access,
        accepts_files: bool,
    ) -> Result<(Region, Identity), ImportError> {
        let identity = identity(fd)?;
        let same = |known: &&Import| {
            (known.identity, known.len) == (identity, len) && is_writable(known.access) == is_writable(access)
        };
        if let Some(known) = self.imports.values().find(same) {
            return Ok((known.region.clone(), identity));
        }
        let bytes = usize::try_from(len).map_err(|_| ImportError::Malformed {
            reason: "a region beyond the address space",
        })?;
        let region = match accepts_files {
            true => Region::from_trusted_fd(copy(fd)?, bytes, is_writable(access))?,
            false => map(fd, bytes, is_writable(access))?,
        };
        Ok((region, identity))
    }
}

impl Domain<Shm> for ShmDomain {
    fn context(&self) -> Result<ShmContext, OpenError> {
        let Inner {
            options,
            caps,
            opened,
            ..
        } = &*self.inner;
        // Relaxed: contexts need different numbers, in any order.
        let cpu = NativeCpu::nth(options.seed, opened.fetch_add(1, Ordering::Relaxed));
        ShmContext::open(self.clone(), options.clone(), caps.clone(), cpu)
    }

    fn register(&self, region: &Region, access: Access) -> Result<ShmSharedMr, RegisterError> {
        check_shared(region, access)?;
        Ok(ShmSharedMr {
            domain: self.clone(),
            region: region.clone(),
            access,
        })
    }

    fn import_region(&self, export: &Export) -> Result<RemoteRegion, ImportError> {
        let decoded = wire::decode_region(&export.bytes, export.fds.len())?;
        let missing = ImportError::Malformed {
            reason: "a region's export has its descriptor first",
        };
        let fd = export.fds.first().ok_or(missing)?;
        for fd in &export.fds {
            self.check_pages(fd)?;
        }
        let shared = &mut *self.lock();
        let (len, access) = (decoded.len, decoded.access);
        let (region, identity) = shared.region(fd, len, access, self.inner.options.accepts_files)?;
        let mut watches = Vec::new();
        for watch in &decoded.watches {
            let bell = shared.bell(&export.fds[usize::from(watch.bell_fd)])?;
            let (start, end) = (watch.start, watch.end);
            watches.push(ImportedWatch { start, end, bell });
        }
        let import = Import {
            region,
            identity,
            len,
            access,
            watches,
        };
        let rkey = shared.imports.insert(import).ok_or_else(table_full)?;
        Ok(RemoteRegion { rkey, len, access })
    }

    fn forget_region(&self, region: &RemoteRegion) {
        let import = self.lock().imports.remove(region.rkey);
        drop(import); // outside the lock: it may unmap
    }

    /// A post is a copy: there are no doorbells.
    fn doorbells(&self) -> DoorbellReport {
        DoorbellReport::none()
    }
}

impl fmt::Debug for ShmDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShmDomain").finish_non_exhaustive()
    }
}

pub(crate) fn table_full() -> ImportError {
    let source = std::io::Error::other("the table of imports is full");
    ImportError::System {
        what: "import",
        source,
    }
}
