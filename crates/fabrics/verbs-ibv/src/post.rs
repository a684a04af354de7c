//! Builds chains from lists: converts each request, and refuses bad ones before the library sees them.
//!
//! This code is the whole cost of a post besides the library's own, so each function runs once per request, there is no
//! borrow count, and bytes are copied only once.

use crate::chain::{CHAIN_MAX, Chains, Pieces, index_of};
use crate::ffi;
use crate::raw::NOT_READY;
use crate::tables::Tables;
use drover_verbs::{
    Imm, Payload, PostError, PostErrorKind, QpKind, RecvList, RecvWr, RemoteAddr, SendList, SendOp, SendWr,
    Sge, UdDest,
};
use std::ptr::null_mut;

/// Remote address and key of a request, as the device knows them.
type Target = (u64, u32);

/// Target of requests whose remote key is unknown to the domain: no device issues key 0, and no region reaches this
/// address, so the responder refuses it like any wrong key.
const NOWHERE: Target = (!7, 0);

/// Limits of a queue pair.
#[derive(Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) kind: QpKind,
    pub(crate) atomics: bool,
    /// Not more than the longest message.
    pub(crate) inline_bytes: usize,
    pub(crate) message_bytes: usize,
    pub(crate) sge_max: usize,
}

/// Length of a chain, and the reason why the next request of the list was refused, if it was.
pub(crate) struct Built {
    pub(crate) count: usize,
    /// Number of signaled requests among them.
    pub(crate) signaled: u32,
    pub(crate) refused: Option<PostErrorKind>,
}

/// Builds the chain of a list of one request in `chains.send`, unless it stops with [`Stop::Longer`].
#[inline(always)]
pub(crate) fn build_send(
    chains: &mut Chains,
    tables: &Tables,
    bounds: &Bounds,
    list: &SendList,
    wr: &SendWr,
) -> Result<(), Stop> {
    let (to, sge) = &mut chains.send;
    bounds.fill::<true>(to, sge, &mut chains.pieces, tables, list, wr, known)
}

/// Builds a chain of as many of `wrs` as fit.
#[inline(always)]
pub(crate) fn build_sends(
    chains: &mut Chains,
    tables: &Tables,
    bounds: &Bounds,
    list: &SendList,
    wrs: &[SendWr],
) -> Built {
    let Chains {
        sends, sges, pieces, ..
    } = chains;
    pieces.clear();
    let (mut count, mut signaled, mut refused) = (0, 0, None);
    let mut next = sends.as_mut_ptr();
    for ((wr, to), sge) in wrs.iter().zip(sends.iter_mut()).zip(sges.iter_mut()) {
        next = next.wrapping_add(1);
        to.next = next;
        match bounds.fill::<false>(to, sge, pieces, tables, list, wr, learned) {
            Ok(()) => {
                count += 1;
                signaled += u32::from(wr.signaled);
            }
            Err(Stop::Refused(kind)) => {
                refused = Some(kind);
                break;
            }
            Err(Stop::Full | Stop::Longer) => break,
        }
    }
    if count > 0 {
        sends[count - 1].next = null_mut();
    }
    Built {
        count,
        signaled,
        refused,
    }
}

/// Builds the chain of a list of one RECV in `chains.recv`.
#[inline(always)]
pub(crate) fn build_recv(chains: &mut Chains, wr: &RecvWr) {
    let (to, sge) = &mut chains.recv;
    receive(to, sge, wr);
}

/// Fills `to` from the RECV `wr`, with its element in `sge`.
#[inline(always)]
fn receive(to: &mut ffi::RecvWr, sge: &mut ffi::Sge, wr: &RecvWr) {
    *sge = element(&wr.sge);
    to.wr_id = wr.wr_id.0;
    to.sg_list = sge;
    // Some devices take a length of 0 for 2 GiB, so an empty buffer has no element.
    to.num_sge = i32::from(wr.sge.len > 0);
}

/// Builds chains of all RECVs of a list and passes them to `post`, whose result is an error number.
#[inline(always)]
pub(crate) fn post_recvs(
    chains: &mut Chains,
    list: &RecvList,
    post: impl Fn(*mut ffi::RecvWr, &mut *mut ffi::RecvWr) -> i32,
) -> Result<(), PostError> {
    let mut accepted = 0;
    for wrs in list.wrs().chunks(CHAIN_MAX) {
        let (chain, mut bad) = (chains.recvs.as_mut_ptr(), null_mut());
        let mut next = chain;
        for ((wr, to), sge) in wrs
            .iter()
            .zip(chains.recvs.iter_mut())
            .zip(chains.sges.iter_mut())
        {
            next = next.wrapping_add(1);
            to.next = next;
            receive(to, sge, wr);
        }
        chains.recvs[wrs.len() - 1].next = null_mut();
        let errno = post(chain, &mut bad);
        if errno != 0 {
            let (accepted, kind) = (accepted + index_of(chain, bad, wrs.len()), refusal(errno));
            return Err(PostError { accepted, kind });
        }
        accepted += wrs.len();
    }
    Ok(())
}

/// Meaning of an error number of a post. The queue pair is known to be ready, so any other error means a request that
/// this device does not accept.
#[cold]
pub(crate) fn refusal(errno: i32) -> PostErrorKind {
    match errno.abs() {
        libc::ENOMEM => PostErrorKind::QueueFull,
        NOT_READY => PostErrorKind::NotReady,
        _ => PostErrorKind::NotSupported,
    }
}

/// The library's element for `sge`. Memory is registered at address 0, so an offset is an address.
#[inline(always)]
fn element(sge: &Sge) -> ffi::Sge {
    ffi::Sge {
        addr: sge.offset,
        length: sge.len,
        lkey: sge.lkey,
    }
}

/// Reason for ending a chain before its list.
pub(crate) enum Stop {
    Refused(PostErrorKind),
    /// No space for the pieces of the next request, which begins the next chain.
    Full,
    /// A request alone that only a longer chain can have: its payload has several pieces, or this context does not know
    /// its remote key, which another one may have imported. Both take calls, which would cost every post the registers
    /// that they may change.
    Longer,
}

impl From<PostErrorKind> for Stop {
    fn from(kind: PostErrorKind) -> Stop {
        Stop::Refused(kind)
    }
}

impl Bounds {
    /// Fills `to` from the request `wr`, with its element in `sge` or, if it has several, in `pieces`. `ALONE`: the
    /// request is a chain of its own. `find` looks its remote address up.
    #[expect(clippy::too_many_arguments, reason = "parts of one request and where they go")]
    #[inline(always)]
    fn fill<const ALONE: bool>(
        &self,
        to: &mut ffi::SendWr,
        sge: &mut ffi::Sge,
        pieces: &mut Pieces,
        tables: &Tables,
        list: &SendList,
        wr: &SendWr,
        find: impl Fn(&Tables, RemoteAddr) -> Result<Target, Stop>,
    ) -> Result<(), Stop> {
        to.wr_id = wr.wr_id.0;
        self.aim(to, tables, wr, find)?;
        let flags = (u32::from(wr.fence) * ffi::SEND_FENCE) | (u32::from(wr.signaled) * ffi::SEND_SIGNALED);
        to.sg_list = sge;
        match wr.payload {
            Payload::Inline { len: 0, .. } => {
                to.send_flags = flags;
                to.num_sge = 0;
            }
            Payload::Inline { start, len } => {
                if len as usize > self.inline_bytes {
                    return Err(PostErrorKind::InlineTooLong.into());
                }
                sge.addr = list.inline_bytes(start, len).as_ptr() as u64;
                sge.length = len;
                to.send_flags = flags | ffi::SEND_INLINE;
                to.num_sge = 1;
            }
            Payload::Region(piece) => {
                if piece.len as usize > self.message_bytes {
                    return Err(PostErrorKind::MessageTooLong.into());
                }
                *sge = element(&piece);
                to.send_flags = flags;
                // Some devices take a length of 0 for 2 GiB, so an empty payload has no element.
                to.num_sge = i32::from(piece.len > 0);
            }
            Payload::Gather { start, count } => {
                to.send_flags = flags;
                if ALONE {
                    return Err(Stop::Longer);
                }
                self.gather(to, pieces, list.sges(start, count))?;
            }
        }
        Ok(())
    }

    /// Fills in a payload of several pieces.
    #[inline(never)]
    fn gather(&self, to: &mut ffi::SendWr, space: &mut Pieces, pieces: &[Sge]) -> Result<(), Stop> {
        let (mut bytes, mut count) = (0, 0);
        let free = space.free();
        to.sg_list = free.as_mut_ptr();
        for piece in pieces.iter().filter(|piece| piece.len > 0) {
            if count == self.sge_max {
                return Err(PostErrorKind::MessageTooLong.into());
            }
            *free.get_mut(count).ok_or(Stop::Full)? = element(piece);
            bytes += piece.len as usize;
            count += 1;
        }
        if bytes > self.message_bytes {
            return Err(PostErrorKind::MessageTooLong.into());
        }
        to.num_sge = count as i32;
        space.take(count);
        Ok(())
    }

    /// Sets opcode, immediate data and target.
    #[inline(always)]
    fn aim(
        &self,
        to: &mut ffi::SendWr,
        tables: &Tables,
        wr: &SendWr,
        find: impl Fn(&Tables, RemoteAddr) -> Result<Target, Stop>,
    ) -> Result<(), Stop> {
        let connected = self.kind != QpKind::Ud;
        let reliable = self.kind == QpKind::Rc;
        match wr.op {
            SendOp::Send { dest, imm } => {
                to.opcode = with_imm(to, imm, ffi::WR_SEND, ffi::WR_SEND_WITH_IMM);
                match (connected, dest) {
                    (true, None) => {}
                    (true, Some(_)) => return Err(PostErrorKind::BadAddress.into()),
                    (false, dest) => to.wr.ud = datagram(tables, dest)?,
                }
            }
            SendOp::Write { remote, imm } if connected => {
                to.opcode = with_imm(to, imm, ffi::WR_RDMA_WRITE, ffi::WR_RDMA_WRITE_WITH_IMM);
                to.wr.rdma = rdma(find(tables, remote)?);
            }
            SendOp::Read { remote } if reliable => {
                has_no_bytes(&wr.payload)?;
                to.opcode = ffi::WR_RDMA_READ;
                to.wr.rdma = rdma(find(tables, remote)?);
            }
            SendOp::CompareSwap {
                remote,
                compare,
                swap,
            } if reliable && self.atomics => {
                has_no_bytes(&wr.payload)?;
                to.opcode = ffi::WR_ATOMIC_CMP_AND_SWP;
                to.wr.atomic = atomic(find(tables, remote)?, compare, swap);
            }
            SendOp::FetchAdd { remote, add } if reliable && self.atomics => {
                has_no_bytes(&wr.payload)?;
                to.opcode = ffi::WR_ATOMIC_FETCH_AND_ADD;
                to.wr.atomic = atomic(find(tables, remote)?, add, 0);
            }
            SendOp::MaskedCompareSwap { .. } => return Err(PostErrorKind::NoMaskedAtomics.into()),
            _ => return Err(PostErrorKind::NotSupported.into()),
        }
        Ok(())
    }
}

/// Refuses inline bytes with READs and atomics, which send none.
#[inline(always)]
fn has_no_bytes(payload: &Payload) -> Result<(), PostErrorKind> {
    match payload {
        Payload::Inline { len: 1.., .. } => Err(PostErrorKind::NotSupported),
        _ => Ok(()),
    }
}

/// Returns the opcode without or with immediate data, and stores the immediate data.
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

/// `remote` with the device's key, if this context knows it.
#[inline(always)]
fn known(tables: &Tables, remote: RemoteAddr) -> Result<Target, Stop> {
    let rkey = tables.remotes.find(remote.rkey).ok_or(Stop::Longer)?;
    Ok((remote.offset, rkey))
}

/// `remote` with the device's key, if the domain knows it.
#[inline(always)]
fn learned(tables: &Tables, remote: RemoteAddr) -> Result<Target, Stop> {
    Ok(match tables.remote(remote.rkey) {
        Some(rkey) => (remote.offset, rkey),
        None => NOWHERE,
    })
}

#[inline(always)]
fn rdma((remote_addr, rkey): Target) -> ffi::Rdma {
    ffi::Rdma { remote_addr, rkey }
}

#[inline(always)]
fn atomic((remote_addr, rkey): Target, compare_add: u64, swap: u64) -> ffi::Atomic {
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
    let ah = tables.handles.find(dest.ah).ok_or(PostErrorKind::BadAddress)?;
    Ok(ffi::Ud {
        ah,
        remote_qpn: dest.qpn.0,
        remote_qkey: dest.qkey,
    })
}
