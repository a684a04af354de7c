//! Registered memory: checks, gathering, scattering, and notification of watchers.

use super::Net;
use super::objects::{Import, Mr};
use drover_mem::Region;
use drover_sim::Queue;
use drover_verbs::provide::{Name, Want};
use drover_verbs::{Export, ImportError, RemoteAddr, RemoteRegion, Sge};
use std::ops::Range;

/// The addresses of a region that peers may write.
fn written_by_peers(mr: &Mr) -> Option<Range<usize>> {
    let start = mr.region.addr();
    mr.access.remote_write.then(|| start..start + mr.region.len())
}

impl Net {
    /// Registers memory.
    pub(crate) fn add_mr(&mut self, mr: Mr) -> u32 {
        if let (Some(bytes), Some(ctx)) = (written_by_peers(&mr), self.ctxs.get(mr.ctx)) {
            self.nics[usize::from(ctx.machine)].last_level.hold(bytes);
        }
        self.mrs.add(mr)
    }

    /// Removes a registration.
    pub(crate) fn remove_mr(&mut self, lkey: u32) {
        let Some(mr) = self.mrs.remove(lkey) else { return };
        if let (Some(bytes), Some(ctx)) = (written_by_peers(&mr), self.ctxs.get(mr.ctx)) {
            self.nics[usize::from(ctx.machine)].last_level.release(&bytes);
        }
    }

    /// The region and range of `sge`, if `ctx` registered it and has the right.
    pub(crate) fn local(&self, ctx: u32, sge: &Sge, write: bool) -> Option<(&Region, usize, usize)> {
        let mr = self.mrs.get(sge.lkey).filter(|mr| mr.ctx == ctx)?;
        let (offset, len) = (usize::try_from(sge.offset).ok()?, sge.len as usize);
        (mr.region.contains(offset, len) && (mr.access.local_write || !write))
            .then_some((&mr.region, offset, len))
    }

    /// The region behind a remote key, if `ctx` may access it so through a queue pair to `peer_ctx`.
    pub(crate) fn remote(
        &self,
        ctx: u32,
        peer_ctx: u32,
        addr: RemoteAddr,
        len: usize,
        want: Want,
    ) -> Option<(&Region, usize)> {
        let import = self.imports.get(addr.rkey).filter(|import| import.ctx == ctx)?;
        let mr = self.mrs.get(import.mr).filter(|mr| mr.ctx == peer_ctx)?;
        let offset = usize::try_from(addr.offset).ok()?;
        (want.allowed(mr.access) && mr.region.contains(offset, len)).then_some((&mr.region, offset))
    }

    /// Makes the region in `export` usable by `ctx`.
    pub(crate) fn import(&mut self, ctx: u32, export: &Export) -> Result<RemoteRegion, ImportError> {
        let Name::Region { mr, watches } = self.names.decode(export)? else {
            let reason = "not a region";
            return Err(ImportError::Malformed { reason });
        };
        let found = self.mrs.get(mr).ok_or(ImportError::PeerGone)?;
        let (len, access) = (found.region.len() as u64, found.access);
        let rkey = self.imports.add(Import { ctx, mr, watches });
        Ok(RemoteRegion { rkey, len, access })
    }

    /// Notifies the watchers of a range whose bytes have become visible.
    pub(crate) fn tell_watchers(&mut self, remote: RemoteAddr, len: usize, queue: &mut Queue) {
        let Some(import) = self.imports.get(remote.rkey) else {
            return;
        };
        let end = remote.offset + len as u64;
        for (range, ctx) in &import.watches {
            if range.start < end && remote.offset < range.end {
                ring(&mut self.ctxs, *ctx, queue);
            }
        }
    }

    /// Notifies `ctx` that something has arrived.
    pub(crate) fn ring(&mut self, ctx: u32, queue: &mut Queue) {
        ring(&mut self.ctxs, ctx, queue);
    }

    /// Copies the local bytes of an op into it, as the card does when it reads them. False if they are no longer
    /// registered.
    pub(crate) fn gather(&mut self, op: u32) -> bool {
        let qp = self.ops[op].qp;
        let Some(ctx) = self.qps.get(qp).map(|qp| qp.ctx) else {
            return true; // it is gone, and its message will be dropped
        };
        let mut data = std::mem::take(&mut self.ops[op].data);
        data.clear();
        let mut whole = true;
        for sge in &self.ops[op].pieces {
            let Some((region, offset, len)) = self.local(ctx, sge, false) else {
                whole = false;
                break;
            };
            let at = data.len();
            data.resize(at + len, 0);
            region.copy_out(offset, &mut data[at..]);
        }
        self.ops[op].data = data;
        whole
    }

    /// Copies fetched bytes to the op's local memory. False if it is no longer registered.
    pub(crate) fn scatter(&mut self, op: u32) -> bool {
        let Some(ctx) = self.qps.get(self.ops[op].qp).map(|qp| qp.ctx) else {
            return true;
        };
        let mut at = 0;
        for sge in &self.ops[op].pieces {
            let Some((region, offset, len)) = self.local(ctx, sge, true) else {
                return false;
            };
            region.copy_in(offset, &self.ops[op].data[at..at + len]);
            at += len;
        }
        true
    }
}

fn ring(ctxs: &mut super::Table<super::Ctx>, ctx: u32, queue: &mut Queue) {
    if let Some(ctx) = ctxs.get_mut(ctx) {
        ctx.rung = true;
        ctx.cpu.notify(queue);
    }
}
