//! From a list to a chain: what each request becomes, and what is refused before the library sees it.

use crate::core::Tables;
use crate::ffi;
use crate::scratch::{CHAIN_MAX, SGE_MAX, Scratch};
use drover_verbs::{
    Imm, Payload, PostErrorKind, QpKind, RecvWr, RemoteAddr, SendList, SendOp, SendWr, Sge, UdDest,
};
use std::ptr::null_mut;

/// Where requests go whose remote key is not of this context: no device has given out key 0, and no region reaches
/// this address, so the responder refuses, as it would a wrong key.
const NOWHERE: (u64, u32) = (!7, 0);

/// What a queue pair takes.
#[derive(Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) kind: QpKind,
    pub(crate) atomics: bool,
    pub(crate) inline_bytes: usize,
    pub(crate) message_bytes: usize,
}

/// A chain in the scratch arrays: so many requests, and why the next one of the list is not among them, if it was
/// refused.
pub(crate) struct Built {
    pub(crate) count: usize,
    pub(crate) refused: Option<PostErrorKind>,
}

/// Builds a chain of as many of `wrs` as there is room for.
#[inline]
pub(crate) fn build_sends(
    scratch: &mut Scratch,
    tables: &Tables,
    bounds: Bounds,
    list: &SendList,
    wrs: &[SendWr],
) -> Built {
    let first = scratch.sends.as_mut_ptr();
    let (mut count, mut used) = (0, 0);
    let mut refused = None;
    for (wr, to) in wrs.iter().zip(scratch.sends.iter_mut()) {
        let Some(sges) = scratch.sges.get_mut(used..used + SGE_MAX) else {
            break;
        };
        match bounds.fill(to, sges, tables, list, wr) {
            Ok(()) => {
                used += to.num_sge as usize;
                count += 1;
                to.next = first.wrapping_add(count);
            }
            Err(kind) => {
                refused = Some(kind);
                break;
            }
        }
    }
    if count > 0 {
        scratch.sends[count - 1].next = null_mut();
    }
    Built { count, refused }
}

/// Builds a chain of as many RECVs as there is room for; returns how many.
#[inline]
pub(crate) fn build_recvs(scratch: &mut Scratch, wrs: &[RecvWr]) -> usize {
    let first = scratch.recvs.as_mut_ptr();
    let count = wrs.len().min(CHAIN_MAX);
    for (n, wr) in wrs[..count].iter().enumerate() {
        let sge = &mut scratch.sges[n];
        *sge = element(&wr.sge);
        scratch.recvs[n] = ffi::RecvWr {
            wr_id: wr.wr_id.0,
            next: first.wrapping_add(n + 1),
            sg_list: sge,
            num_sge: 1,
        };
    }
    if count > 0 {
        scratch.recvs[count - 1].next = null_mut();
    }
    count
}

/// What an error number of a post means. Whether the queue pair is ready was looked at before, so what is left is a
/// request that this device does not take.
#[cold]
pub(crate) fn refusal(errno: i32) -> PostErrorKind {
    match errno.abs() {
        libc::ENOMEM => PostErrorKind::QueueFull,
        _ => PostErrorKind::NotSupported,
    }
}

/// Memory is registered at address 0: an offset is an address.
#[inline(always)]
fn element(sge: &Sge) -> ffi::Sge {
    ffi::Sge {
        addr: sge.offset,
        length: sge.len,
        lkey: sge.lkey,
    }
}

impl Bounds {
    /// Makes `to` the request `wr`, with its elements in `sges`.
    #[inline(always)]
    fn fill(
        &self,
        to: &mut ffi::SendWr,
        sges: &mut [ffi::Sge],
        tables: &Tables,
        list: &SendList,
        wr: &SendWr,
    ) -> Result<(), PostErrorKind> {
        let fetches = self.aim(to, tables, &wr.op)?;
        to.wr_id = wr.wr_id.0;
        let (fence, signaled) = (u32::from(wr.fence), u32::from(wr.signaled));
        to.send_flags = (fence * ffi::SEND_FENCE) | (signaled * ffi::SEND_SIGNALED);
        to.sg_list = sges.as_mut_ptr();
        let (count, bytes) = match wr.payload {
            Payload::Inline { len: 0, .. } => (0, 0),
            Payload::Inline { .. } if fetches => return Err(PostErrorKind::NotSupported),
            Payload::Inline { start, len } => {
                if len as usize > self.inline_bytes {
                    return Err(PostErrorKind::InlineTooLong);
                }
                to.send_flags |= ffi::SEND_INLINE;
                sges[0] = ffi::Sge {
                    addr: list.inline_bytes(start, len).as_ptr() as u64,
                    length: len,
                    lkey: 0,
                };
                (1, len as usize)
            }
            Payload::Region(sge) => {
                sges[0] = element(&sge);
                // Some devices take a length of 0 for 2 GiB: no bytes are no element.
                (u32::from(sge.len > 0), sge.len as usize)
            }
            Payload::Gather { start, count } => gather(sges, list.sges(start, count))?,
        };
        to.num_sge = count as i32;
        match bytes > self.message_bytes {
            true => Err(PostErrorKind::MessageTooLong),
            false => Ok(()),
        }
    }

    /// Sets opcode, immediate data and target. Whether bytes come back.
    #[inline(always)]
    fn aim(&self, to: &mut ffi::SendWr, tables: &Tables, op: &SendOp) -> Result<bool, PostErrorKind> {
        let connected = self.kind != QpKind::Ud;
        let reliable = self.kind == QpKind::Rc;
        match *op {
            SendOp::Send { dest, imm } => {
                to.opcode = with_imm(to, imm, ffi::WR_SEND, ffi::WR_SEND_WITH_IMM);
                match (connected, dest) {
                    (true, None) => {}
                    (true, Some(_)) => return Err(PostErrorKind::NotSupported),
                    (false, dest) => to.wr.ud = datagram(tables, dest)?,
                }
                Ok(false)
            }
            SendOp::Write { remote, imm } if connected => {
                to.opcode = with_imm(to, imm, ffi::WR_RDMA_WRITE, ffi::WR_RDMA_WRITE_WITH_IMM);
                to.wr.rdma = rdma(tables, remote);
                Ok(false)
            }
            SendOp::Read { remote } if reliable => {
                to.opcode = ffi::WR_RDMA_READ;
                to.wr.rdma = rdma(tables, remote);
                Ok(true)
            }
            SendOp::CompareSwap {
                remote,
                compare,
                swap,
            } if reliable && self.atomics => {
                to.opcode = ffi::WR_ATOMIC_CMP_AND_SWP;
                to.wr.atomic = atomic(tables, remote, compare, swap);
                Ok(true)
            }
            SendOp::FetchAdd { remote, add } if reliable && self.atomics => {
                to.opcode = ffi::WR_ATOMIC_FETCH_AND_ADD;
                to.wr.atomic = atomic(tables, remote, add, 0);
                Ok(true)
            }
            _ => Err(PostErrorKind::NotSupported),
        }
    }
}

/// The opcode without or with immediate data, which is put in place.
#[inline(always)]
fn with_imm(to: &mut ffi::SendWr, imm: Option<Imm>, without: u32, with: u32) -> u32 {
    match imm {
        None => without,
        Some(imm) => {
            to.imm_data = imm.0.to_be();
            with
        }
    }
}

/// Several pieces: how many, and how many bytes.
fn gather(to: &mut [ffi::Sge], pieces: &[Sge]) -> Result<(u32, usize), PostErrorKind> {
    let mut bytes = 0;
    let mut count = 0;
    for piece in pieces.iter().filter(|piece| piece.len > 0) {
        let place = to.get_mut(count as usize).ok_or(PostErrorKind::MessageTooLong)?;
        *place = element(piece);
        bytes += piece.len as usize;
        count += 1;
    }
    Ok((count, bytes))
}

#[inline(always)]
fn translated(tables: &Tables, remote: RemoteAddr) -> (u64, u32) {
    match tables.remotes.find(remote.rkey) {
        Some(rkey) => (remote.offset, *rkey),
        None => NOWHERE,
    }
}

#[inline(always)]
fn rdma(tables: &Tables, remote: RemoteAddr) -> ffi::Rdma {
    let (remote_addr, rkey) = translated(tables, remote);
    ffi::Rdma { remote_addr, rkey }
}

#[inline(always)]
fn atomic(tables: &Tables, remote: RemoteAddr, compare_add: u64, swap: u64) -> ffi::Atomic {
    let (remote_addr, rkey) = translated(tables, remote);
    ffi::Atomic {
        remote_addr,
        compare_add,
        swap,
        rkey,
    }
}

#[inline(always)]
fn datagram(tables: &Tables, dest: Option<UdDest>) -> Result<ffi::Ud, PostErrorKind> {
    let dest = dest.ok_or(PostErrorKind::BadAddress)?;
    let handle = tables.handles.find(dest.ah).ok_or(PostErrorKind::BadAddress)?;
    Ok(ffi::Ud {
        ah: handle.ptr(),
        remote_qpn: dest.qpn.0,
        remote_qkey: dest.qkey,
    })
}
