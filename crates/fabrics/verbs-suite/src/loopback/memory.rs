//! Registered memory: handles, keys and the checks on them.

use super::Flaw;
use super::device::Shared;
use super::fabric::Fabric;
use drover_mem::{AllocError, Region};
use drover_verbs::provide::{Name, Want, check_registration, sge_within};
use drover_verbs::{
    Access, Export, ImportError, MemoryRegion, RegisterError, RemoteAddr, RemoteRegion, Sge, Watch,
};
use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

/// A registration, by local key.
#[derive(Debug)]
pub(super) struct Mr {
    pub(super) domain: u32,
    pub(super) region: Region,
    /// Length that peers may use.
    pub(super) bytes: usize,
    /// Whether it is memory on the card.
    pub(super) on_card: bool,
    pub(super) access: Access,
}

/// A peer's region as one domain imported it.
#[derive(Debug)]
pub(super) struct Import {
    pub(super) mr: u32,
    /// Watched offsets, each with the context to ring.
    pub(super) watches: Vec<(Range<u64>, u32)>,
    /// Context that used it first, for a flaw.
    used_by: Cell<Option<u32>>,
}

impl Import {
    /// Whether no other context than `ctx` has used it.
    fn first_user(&self, ctx: u32) -> bool {
        let user = self.used_by.get().unwrap_or(ctx);
        self.used_by.set(Some(user));
        user == ctx
    }
}

/// Checks that `region` can be registered with `access`.
pub(super) fn check_access(flaw: Option<Flaw>, region: &Region, access: Access) -> Result<(), RegisterError> {
    match check_registration(region, access) {
        Err(RegisterError::InconsistentAccess) if flaw == Some(Flaw::AnyAccess) => Ok(()),
        checked => checked,
    }
}

/// The flaw of not checking the right for `want`.
fn ignored_by(want: Want) -> Flaw {
    match want {
        Want::Read => Flaw::IgnoresReadRight,
        Want::Write => Flaw::IgnoresWriteRight,
        Want::Atomic => Flaw::IgnoresAtomicRight,
    }
}

impl Fabric {
    /// The region and byte range of `sge`, if the domain of `ctx` registered it and has the right.
    pub(super) fn local(&self, ctx: u32, sge: &Sge, write: bool) -> Option<(Region, usize, usize)> {
        let domain = self.domain_of(ctx);
        let Some(mr) = self.mrs.get(&sge.lkey).filter(|mr| mr.domain == domain) else {
            let any = self
                .mrs
                .values()
                .next()
                .filter(|_| self.has(Flaw::IgnoresLocalKeys))?;
            return Some((any.region.clone(), 0, sge.len as usize));
        };
        let (offset, len) = (usize::try_from(sge.offset).ok()?, sge.len as usize);
        if self.has(Flaw::IgnoresLocalBounds) && !mr.region.contains(offset, len) {
            return Some((mr.region.clone(), 0, len));
        }
        (mr.region.contains(offset, len)
            && (mr.access.local_write || !write || self.has(Flaw::IgnoresLocalWrite)))
        .then(|| (mr.region.clone(), offset, len))
    }

    /// The region behind a remote key, if `ctx` may access it so through a queue pair to `peer_ctx`.
    pub(super) fn remote(
        &self,
        ctx: u32,
        peer_ctx: u32,
        addr: RemoteAddr,
        len: usize,
        want: Want,
    ) -> Option<(Region, usize)> {
        let import = self.find_import(ctx, addr.rkey)?;
        let domain = self.domain_of(peer_ctx);
        let is_there = |mr: &&Mr| mr.domain == domain || self.has(Flaw::IgnoresDomains);
        let mr = self.mrs.get(&import.mr).filter(is_there)?;
        let offset = usize::try_from(addr.offset).ok()?;
        if !want.allowed(mr.access) && !self.has(ignored_by(want)) {
            return None;
        }
        let short = usize::from(self.has(Flaw::BoundsOneShort));
        let is_inside = offset <= mr.bytes && len + short <= mr.bytes - offset;
        is_inside.then(|| (mr.region.clone(), offset))
    }

    /// The import under `rkey` in the domain of `ctx`.
    fn find_import(&self, ctx: u32, rkey: u32) -> Option<&Import> {
        let own = self.imports.get(&(self.domain_of(ctx), rkey));
        let own = own.filter(|import| !self.has(Flaw::KeysOfOneContext) || import.first_user(ctx));
        match self.flaw {
            Some(Flaw::GuessesKeys) => own.or(self.imports.values().next()),
            Some(Flaw::SharesKeys) => own.or(self.imports.iter().find(|(key, _)| key.1 == rkey).map(|f| f.1)),
            _ => own,
        }
    }

    /// Rings the bells of the watches that overlap the bytes just written.
    pub(super) fn ring_watchers(&mut self, ctx: u32, addr: RemoteAddr, len: usize) {
        if self.has(Flaw::DeafToWrites) {
            return;
        }
        let Some(import) = self.imports.get(&(self.domain_of(ctx), addr.rkey)) else {
            return;
        };
        let end = addr.offset + len as u64;
        let hit = |range: &Range<u64>| range.start < end && addr.offset < range.end;
        let bells: Vec<u32> = import
            .watches
            .iter()
            .filter(|(range, _)| hit(range))
            .map(|w| w.1)
            .collect();
        for bell in bells {
            self.ring(bell);
        }
    }

    /// Makes the region in `export` usable in `domain`.
    pub(super) fn import(&mut self, domain: u32, export: &Export) -> Result<RemoteRegion, ImportError> {
        let (mr, watches) = match self.names.decode(export)? {
            Name::Region { mr, watches } => (mr, watches),
            _ if self.has(Flaw::TakesAnyExport) => (*self.mrs.keys().next().unwrap_or(&0), Vec::new()),
            _ => {
                let reason = "not a region";
                return Err(ImportError::Malformed { reason });
            }
        };
        let Some(found) = self.mrs.get(&mr) else {
            return Err(ImportError::PeerGone);
        };
        let (len, access) = (found.bytes as u64, found.access);
        let rkey = self.fresh_id();
        let import = Import {
            mr,
            watches,
            used_by: Cell::default(),
        };
        self.imports.insert((domain, rkey), import);
        Ok(RemoteRegion { rkey, len, access })
    }
}

/// Writes `bytes` so that a reader that sees the last word sees all of them.
pub(super) fn land(region: &Region, offset: usize, bytes: &[u8]) {
    let last = bytes.len().saturating_sub(1) & !7;
    let (body, tail) = bytes.split_at(last);
    region.copy_in(offset, body);
    fence(Ordering::Release); // publishes the body to readers that load the tail with Acquire
    region.copy_in(offset + last, tail);
}

/// A region registered for all contexts of a domain.
#[derive(Clone, Debug)]
pub struct LoopbackSharedMr(Arc<Registration>);

/// A registration; dropping it removes it.
#[derive(Debug)]
struct Registration {
    shared: Shared,
    domain: u32,
    region: Region,
    lkey: u32,
}

impl LoopbackSharedMr {
    pub(super) fn new(shared: &Shared, domain: u32, region: &Region, access: Access) -> LoopbackSharedMr {
        let mut fabric = shared.lock();
        let lkey = fabric.fresh_id();
        let mr = Mr {
            domain,
            region: region.clone(),
            bytes: region.len(),
            on_card: false,
            access,
        };
        fabric.mrs.insert(lkey, mr);
        drop(fabric);
        LoopbackSharedMr(Arc::new(Registration {
            shared: shared.clone(),
            domain,
            region: region.clone(),
            lkey,
        }))
    }

    pub(super) fn domain(&self) -> u32 {
        self.0.domain
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.shared.lock().mrs.remove(&self.lkey);
    }
}

/// A registered region. Dropping it deregisters it and makes its keys unknown, unless the registration is shared.
#[derive(Debug)]
pub struct LoopbackMr {
    registration: Arc<Registration>,
    _one_thread: std::marker::PhantomData<Rc<()>>,
}

impl LoopbackMr {
    pub(super) fn of(shared: &LoopbackSharedMr) -> LoopbackMr {
        LoopbackMr {
            registration: shared.0.clone(),
            _one_thread: std::marker::PhantomData,
        }
    }
}

impl MemoryRegion for LoopbackMr {
    fn region(&self) -> &Region {
        &self.registration.region
    }

    fn sge(&self, offset: usize, len: usize) -> Sge {
        sge_within(&self.registration.region, self.registration.lkey, offset, len)
    }

    fn export(&self, watches: &[Watch]) -> Result<Export, AllocError> {
        let names = self.registration.shared.lock().names;
        Ok(names.region(self.registration.lkey, watches))
    }
}
