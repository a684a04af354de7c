//! Registered memory: handles, keys and the checks on them.

use super::Flaw;
use super::device::Shared;
use super::fabric::Fabric;
use drover_mem::{AllocError, Region};
use drover_verbs::provide::{Name, Want, sge_within};
use drover_verbs::{Access, Export, ImportError, MemoryRegion, RemoteAddr, RemoteRegion, Sge, Watch};
use std::ops::Range;
use std::rc::Rc;
use std::sync::atomic::{Ordering, fence};

/// A registration, by local key.
#[derive(Debug)]
pub(super) struct Mr {
    pub(super) ctx: u32,
    pub(super) region: Region,
    pub(super) access: Access,
}

/// A peer's region as one context imported it.
#[derive(Debug)]
pub(super) struct Import {
    pub(super) mr: u32,
    /// Watched offsets, each with the context to ring.
    pub(super) watches: Vec<(Range<u64>, u32)>,
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
    /// The region and byte range of `sge`, if `ctx` registered it and has the right.
    pub(super) fn local(&self, ctx: u32, sge: &Sge, write: bool) -> Option<(Region, usize, usize)> {
        let Some(mr) = self.mrs.get(&sge.lkey).filter(|mr| mr.ctx == ctx) else {
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
        let mr = self.mrs.get(&import.mr).filter(|mr| mr.ctx == peer_ctx)?;
        let offset = usize::try_from(addr.offset).ok()?;
        if !want.allowed(mr.access) && !self.has(ignored_by(want)) {
            return None;
        }
        let short = usize::from(self.has(Flaw::BoundsOneShort));
        mr.region
            .contains(offset, len + short)
            .then(|| (mr.region.clone(), offset))
    }

    /// The import of `ctx` under `rkey`.
    fn find_import(&self, ctx: u32, rkey: u32) -> Option<&Import> {
        let own = self.imports.get(&(ctx, rkey));
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
        let Some(import) = self.imports.get(&(ctx, addr.rkey)) else {
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

    /// Makes the region in `export` usable by `ctx`.
    pub(super) fn import(&mut self, ctx: u32, export: &Export) -> Result<RemoteRegion, ImportError> {
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
        let (len, access) = (found.region.len() as u64, found.access);
        let rkey = self.fresh_id();
        self.imports.insert((ctx, rkey), Import { mr, watches });
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

/// A registered region. Dropping it deregisters it and makes its keys unknown.
#[derive(Debug)]
pub struct LoopbackMr {
    shared: Shared,
    region: Region,
    lkey: u32,
    _one_thread: std::marker::PhantomData<Rc<()>>,
}

impl LoopbackMr {
    pub(super) fn new(shared: Shared, ctx: u32, region: Region, access: Access) -> LoopbackMr {
        let mut fabric = shared.lock();
        let lkey = fabric.fresh_id();
        let mr = Mr {
            ctx,
            region: region.clone(),
            access,
        };
        fabric.mrs.insert(lkey, mr);
        drop(fabric);
        LoopbackMr {
            shared,
            region,
            lkey,
            _one_thread: std::marker::PhantomData,
        }
    }
}

impl MemoryRegion for LoopbackMr {
    fn region(&self) -> &Region {
        &self.region
    }

    fn sge(&self, offset: usize, len: usize) -> Sge {
        sge_within(&self.region, self.lkey, offset, len)
    }

    fn export(&self, watches: &[Watch]) -> Result<Export, AllocError> {
        Ok(self.shared.lock().names.region(self.lkey, watches))
    }
}

impl Drop for LoopbackMr {
    fn drop(&mut self) {
        self.shared.lock().mrs.remove(&self.lkey);
    }
}
