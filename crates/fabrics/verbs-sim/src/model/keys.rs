//! [`Keys`]: what the keys in requests stand for: registrations, imports of them, address handles.

use super::table::Table;
use drover_mem::Region;
use drover_verbs::provide::Want;
use drover_verbs::{Access, RemoteAddr, RemoteRegion, Sge};
use std::ops::Range;

/// What the keys in requests stand for.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    mrs: Table<Mr>,
    imports: Table<Import>,
    ahs: Table<Ah>,
}

/// A registration, by local key.
#[derive(Debug)]
pub(crate) struct Mr {
    pub(crate) domain: u32,
    pub(crate) machine: u16,
    pub(crate) region: Region,
    /// Length that peers may use.
    pub(crate) bytes: usize,
    /// Whether it is memory of the card, which is not behind the bus.
    pub(crate) on_card: bool,
    pub(crate) access: Access,
}

/// A peer's region as one domain imported it, by remote key.
#[derive(Debug)]
struct Import {
    domain: u32,
    mr: u32,
    /// Watched offsets, each with the context to notify of writes.
    watches: Vec<(Range<u64>, u32)>,
}

/// An address handle.
#[derive(Clone, Copy, Debug)]
struct Ah {
    ctx: u32,
    /// Context and machine of the receiver.
    to: (u32, u16),
}

impl Keys {
    /// Adds a registration; returns its local key.
    pub(crate) fn add_mr(&mut self, mr: Mr) -> u32 {
        self.mrs.add(mr)
    }

    /// Removes a registration.
    pub(crate) fn remove_mr(&mut self, lkey: u32) -> Option<Mr> {
        self.mrs.remove(lkey)
    }

    /// Makes the registration `mr` usable in `domain`; `None` if there is none.
    pub(crate) fn import(
        &mut self,
        domain: u32,
        mr: u32,
        watches: Vec<(Range<u64>, u32)>,
    ) -> Option<RemoteRegion> {
        let found = self.mrs.get(mr)?;
        let (len, access) = (found.bytes as u64, found.access);
        let rkey = self.imports.add(Import { domain, mr, watches });
        Some(RemoteRegion { rkey, len, access })
    }

    /// Removes an import of `domain`.
    pub(crate) fn forget(&mut self, domain: u32, rkey: u32) {
        if self
            .imports
            .get(rkey)
            .is_some_and(|import| import.domain == domain)
        {
            self.imports.remove(rkey);
        }
    }

    /// Adds an address handle of `ctx` for a receiver, given by context and machine.
    pub(crate) fn add_ah(&mut self, ctx: u32, to: (u32, u16)) -> u32 {
        self.ahs.add(Ah { ctx, to })
    }

    /// Whether `ctx` made the address handle.
    #[inline]
    pub(crate) fn has_ah(&self, ctx: u32, ah: u32) -> bool {
        self.ahs.get(ah).is_some_and(|ah| ah.ctx == ctx)
    }

    /// Context and machine of an address handle's receiver.
    #[inline]
    pub(crate) fn receiver(&self, ah: u32) -> Option<(u32, u16)> {
        self.ahs.get(ah).map(|ah| ah.to)
    }

    /// Removes an address handle of `ctx`.
    pub(crate) fn remove_ah(&mut self, ctx: u32, ah: u32) {
        if self.has_ah(ctx, ah) {
            self.ahs.remove(ah);
        }
    }

    /// The region and range of `sge`, if `domain` registered it and has the right.
    #[inline]
    pub(crate) fn local(&self, domain: u32, sge: &Sge, write: bool) -> Option<(&Region, usize, usize)> {
        let mr = self.mrs.get(sge.lkey).filter(|mr| mr.domain == domain)?;
        let (offset, len) = (usize::try_from(sge.offset).ok()?, sge.len as usize);
        (mr.region.contains(offset, len) && (mr.access.local_write || !write))
            .then_some((&mr.region, offset, len))
    }

    /// The region behind a remote key, if `domain` may access it so through a queue pair to `peer`, a domain.
    #[inline]
    pub(crate) fn remote(
        &self,
        domain: u32,
        peer: u32,
        addr: RemoteAddr,
        len: usize,
        want: Want,
    ) -> Option<(&Region, usize)> {
        let import = self.imports.get(addr.rkey);
        let import = import.filter(|import| import.domain == domain)?;
        let mr = self.mrs.get(import.mr).filter(|mr| mr.domain == peer)?;
        let offset = usize::try_from(addr.offset).ok()?;
        let is_inside = offset <= mr.bytes && len <= mr.bytes - offset;
        (want.allowed(mr.access) && is_inside).then_some((&mr.region, offset))
    }

    /// Whether a remote key names memory on a card.
    #[inline]
    pub(crate) fn is_on_card(&self, rkey: u32) -> bool {
        let import = self.imports.get(rkey);
        import
            .and_then(|import| self.mrs.get(import.mr))
            .is_some_and(|mr| mr.on_card)
    }

    /// Contexts to notify of a write to this range.
    #[inline]
    pub(crate) fn watchers(&self, remote: RemoteAddr, len: usize) -> impl Iterator<Item = u32> {
        let import = self.imports.get(remote.rkey);
        let watches = import.map_or(&[][..], |import| &import.watches);
        let end = remote.offset + len as u64;
        let hit = move |range: &Range<u64>| range.start < end && remote.offset < range.end;
        watches
            .iter()
            .filter(move |(range, _)| hit(range))
            .map(|(_, ctx)| *ctx)
    }
}
