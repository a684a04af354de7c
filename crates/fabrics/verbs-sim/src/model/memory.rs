//! Registered memory: registration, gathering, scattering, and notification of watchers.

use super::Net;
use super::keys::Mr;
use drover_sim::Queue;
use drover_verbs::provide::Name;
use drover_verbs::{Export, ImportError, RemoteAddr, RemoteRegion};
use std::ops::Range;

/// The addresses of a region in the host that peers may write.
fn written_by_peers(mr: &Mr) -> Option<Range<usize>> {
    let start = mr.region.addr();
    let is_of_host = mr.access.remote_write && !mr.on_card;
    is_of_host.then(|| start..start + mr.region.len())
}

impl Net {
    /// Registers memory.
    pub(crate) fn add_mr(&mut self, mr: Mr) -> u32 {
        if let Some(bytes) = written_by_peers(&mr) {
            self.nics[usize::from(mr.machine)].last_level.hold(bytes);
        }
        if mr.on_card {
            self.nic(mr.machine).device_memory_taken += mr.bytes;
        }
        self.keys.add_mr(mr)
    }

    /// Removes a registration.
    pub(crate) fn remove_mr(&mut self, lkey: u32) {
        let Some(mr) = self.keys.remove_mr(lkey) else {
            return;
        };
        if let Some(bytes) = written_by_peers(&mr) {
            self.nics[usize::from(mr.machine)].last_level.release(&bytes);
        }
        if mr.on_card {
            self.nic(mr.machine).device_memory_taken -= mr.bytes;
        }
    }

    /// Makes the region in `export` usable in `domain`.
    pub(crate) fn import(&mut self, domain: u32, export: &Export) -> Result<RemoteRegion, ImportError> {
        let Name::Region { mr, watches } = self.fabric.names.decode(export)? else {
            let reason = "not a region";
            return Err(ImportError::Malformed { reason });
        };
        self.keys.import(domain, mr, watches).ok_or(ImportError::PeerGone)
    }

    /// Notifies the watchers of a range whose bytes have become visible.
    pub(crate) fn tell_watchers(&mut self, remote: RemoteAddr, len: usize, queue: &mut Queue) {
        for ctx in self.keys.watchers(remote, len) {
            ring(&mut self.ctxs, ctx, queue);
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
        let Some(domain) = self.qps.get(qp).map(|qp| qp.card.domain) else {
            return true; // it is gone, and its message will be dropped
        };
        let mut data = std::mem::take(&mut self.ops[op].data);
        data.clear();
        let mut whole = true;
        for sge in &self.ops[op].pieces {
            let Some((region, offset, len)) = self.keys.local(domain, sge, false) else {
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
        let Some(domain) = self.qps.get(self.ops[op].qp).map(|qp| qp.card.domain) else {
            return true;
        };
        let mut at = 0;
        for sge in &self.ops[op].pieces {
            let Some((region, offset, len)) = self.keys.local(domain, sge, true) else {
                return false;
            };
            region.copy_in(offset, &self.ops[op].data[at..at + len]);
            at += len;
        }
        true
    }
}

pub(super) fn ring(ctxs: &mut super::Table<super::Ctx>, ctx: u32, queue: &mut Queue) {
    if let Some(ctx) = ctxs.get_mut(ctx) {
        ctx.rung = true;
        ctx.cpu.notify(queue);
    }
}
