//! [`execute`]: executes one request of a connected queue pair immediately, on the initiator's core.
//!
//! One-sided requests are loads, stores and atomics on the peer's mapped memory. The peer's export granted the rights,
//! which are checked here; in addition, memory exported without write access is mapped read-only.

use crate::bell::Ringing;
use crate::core::{Remote, Source, Tables};
use crate::lane::POSTED;
use crate::qp::{Queue, RemoteEnd};
use crate::ring::{Head, Memory};
use crate::stats::count;
use drover_base::sync::Ordering;
use drover_verbs::{Access, Imm, MaskedOperands, MaskedSwap, QpKind, RemoteAddr, SendOp, Sge, WcStatus};

/// Result of an attempt.
pub(crate) enum Attempt {
    /// Done; with the number of bytes read.
    Done(u32),
    /// Not yet: the peer has no RECV for it, or its ring is full.
    Wait { for_recv: bool },
    /// Nothing was done: the domain knows this key, the context's tables do not yet.
    Unknown { rkey: u32 },
    /// Nothing was done: a masked CAS of this word needs its operands, for [`execute_masked`].
    Masked {
        remote: RemoteAddr,
        operands: MaskedOperands,
    },
    /// The request failed, and with it the queue pair.
    Failed(WcStatus),
}

/// Attempts one request whose local side has been checked.
pub(crate) fn execute<'t>(
    queue: &Queue,
    peer: &'t RemoteEnd,
    op: &SendOp,
    source: &Source<'_>,
    tables: &'t Tables,
    ringing: &mut Ringing<'t>,
) -> Attempt {
    if peer.is_gone() {
        return failed(queue, WcStatus::RetryExceeded);
    }
    let outcome = match *op {
        SendOp::Send { imm, .. } => return send(queue, peer, source, imm, tables, ringing),
        SendOp::Write { remote, imm: None } => write(remote, source, tables, ringing),
        SendOp::Write { imm, .. } => {
            return write_imm(queue, peer, op, source, imm, tables, ringing);
        }
        SendOp::Read { remote } => read(remote, source, tables),
        SendOp::CompareSwap {
            remote,
            compare,
            swap,
        } => atomic(remote, source, tables, ringing, |region, at| {
            region.compare_swap_u64(at, compare, swap)
        }),
        SendOp::FetchAdd { remote, add } => atomic(remote, source, tables, ringing, |region, at| {
            region.fetch_add_u64(at, add)
        }),
        SendOp::MaskedCompareSwap { remote, operands } => return Attempt::Masked { remote, operands },
    };
    match outcome {
        Ok(len) => Attempt::Done(len),
        Err(status) => refused(queue, op, status, tables),
    }
}

/// Attempts a masked CAS, by the processor's CAS; the peer is there.
#[cold]
pub(crate) fn execute_masked<'t>(
    queue: &Queue,
    op: &SendOp,
    remote: RemoteAddr,
    swap: &MaskedSwap,
    into: &Source<'_>,
    tables: &'t Tables,
    ringing: &mut Ringing<'t>,
) -> Attempt {
    match atomic(remote, into, tables, ringing, |region, at| {
        swap.execute(region, at)
    }) {
        Ok(len) => Attempt::Done(len),
        Err(status) => refused(queue, op, status, tables),
    }
}

/// Fails a request that has had no effect, unless its key is one that the context has yet to learn.
#[cold]
fn refused(queue: &Queue, op: &SendOp, status: WcStatus, tables: &Tables) -> Attempt {
    match op.remote() {
        Some(RemoteAddr { rkey, .. })
            if tables.remote.find(rkey).is_none() && queue.core().domain.find(rkey).is_some() =>
        {
            Attempt::Unknown { rkey }
        }
        _ => failed(queue, status),
    }
}

/// Fails the request: RC reports it, UC loses the request silently.
#[cold]
fn failed(queue: &Queue, status: WcStatus) -> Attempt {
    if queue.kind() == QpKind::Rc {
        return Attempt::Failed(status);
    }
    count(&queue.core().counters.no_access);
    Attempt::Done(0)
}

/// The peer's memory, if the right was granted and the range is inside.
#[inline(always)]
fn target(
    tables: &Tables,
    remote: RemoteAddr,
    len: usize,
    right: impl Fn(&Access) -> bool,
) -> Result<(&Remote, usize), WcStatus> {
    let region = tables.remote.find(remote.rkey).ok_or(WcStatus::RemoteAccess)?;
    match region.inside(remote.offset, len) {
        Some(offset) if right(&region.access) => Ok((region, offset)),
        _ => Err(WcStatus::RemoteAccess),
    }
}

/// Stores the last word last, with Release: `WriteCaps::ordered`.
#[inline(always)]
fn write<'t>(
    remote: RemoteAddr,
    source: &Source<'_>,
    tables: &'t Tables,
    ringing: &mut Ringing<'t>,
) -> Result<u32, WcStatus> {
    let len = source.len();
    let (to, offset) = target(tables, remote, len, |access| access.remote_write)?;
    match source {
        Source::Inline(bytes) => to.region.copy_in_release(offset, bytes),
        Source::Pieces(sges) => write_pieces(to, offset, sges, tables),
    }
    to.ring(remote.offset, len, ringing);
    Ok(len as u32)
}

fn write_pieces(to: &Remote, mut offset: usize, sges: &[Sge], tables: &Tables) {
    for sge in sges {
        if let Ok(from) = tables.local(*sge, false) {
            from.copy_to_release(sge.offset as usize, &to.region, offset, sge.len as usize);
        }
        offset += sge.len as usize;
    }
}

fn read(remote: RemoteAddr, into: &Source<'_>, tables: &Tables) -> Result<u32, WcStatus> {
    let len = into.len();
    let (from, mut offset) = target(tables, remote, len, |access| access.remote_read)?;
    if let Source::Pieces(sges) = into {
        for sge in *sges {
            if let Ok(to) = tables.local(*sge, true) {
                from.region
                    .copy_to(offset, to, sge.offset as usize, sge.len as usize);
            }
            offset += sge.len as usize;
        }
    }
    // Acquire: later READs and loads see no data older than this READ saw.
    drover_base::sync::fence(Ordering::Acquire);
    Ok(len as u32)
}

fn atomic<'t>(
    remote: RemoteAddr,
    into: &Source<'_>,
    tables: &'t Tables,
    ringing: &mut Ringing<'t>,
    op: impl Fn(&drover_mem::Region, usize) -> u64,
) -> Result<u32, WcStatus> {
    if remote.offset & 7 != 0 {
        return Err(WcStatus::RemoteInvalidRequest);
    }
    let (on, offset) = target(tables, remote, 8, |access| access.remote_atomic)?;
    let old = op(&on.region, offset).to_ne_bytes();
    let mut done = 0;
    if let Source::Pieces(sges) = into {
        for sge in *sges {
            let n = (sge.len as usize).min(8 - done);
            if let Ok(to) = tables.local(*sge, true) {
                to.copy_in(sge.offset as usize, &old[done..done + n]);
            }
            done += n;
        }
    }
    on.ring(remote.offset, 8, ringing);
    Ok(8)
}

/// Length of the peer's RECV for the next message; `None` if it has none yet.
fn recv_for_next(peer: &RemoteEnd) -> Option<usize> {
    if peer.geometry.recv_slots() == 0 {
        return Some(usize::MAX);
    }
    let next = peer.sent.get();
    if next >= peer.posted_seen.get() {
        // Acquire: pairs with the Release in `publish_posted`; the lengths are visible.
        peer.posted_seen
            .set(peer.lane.memory().load(POSTED, Ordering::Acquire));
        if next >= peer.posted_seen.get() {
            return None;
        }
    }
    Some(peer.geometry.recv_length(peer.lane.memory(), next) as usize)
}

fn send<'t>(
    queue: &Queue,
    peer: &'t RemoteEnd,
    source: &Source<'_>,
    imm: Option<Imm>,
    tables: &'t Tables,
    ringing: &mut Ringing<'t>,
) -> Attempt {
    let len = source.len();
    let Some(space) = recv_for_next(peer) else {
        return Attempt::Wait { for_recv: true };
    };
    let too_long = len > space;
    let pushed = if too_long {
        peer.lane.push(
            Head {
                flags: Head::TOO_LONG,
                ..Head::default()
            },
            &[],
        )
    } else {
        source.push(&peer.lane, queue.head(len, imm), tables)
    };
    if !pushed {
        return no_space(queue);
    }
    ringing.note(&peer.bell);
    peer.sent.set(peer.sent.get() + 1);
    if too_long {
        Attempt::Failed(WcStatus::RemoteInvalidRequest)
    } else {
        Attempt::Done(0)
    }
}

fn write_imm<'t>(
    queue: &Queue,
    peer: &'t RemoteEnd,
    op: &SendOp,
    source: &Source<'_>,
    imm: Option<Imm>,
    tables: &'t Tables,
    ringing: &mut Ringing<'t>,
) -> Attempt {
    if recv_for_next(peer).is_none() {
        return Attempt::Wait { for_recv: true };
    }
    if !peer.lane.has_space(1) {
        return no_space(queue);
    }
    let remote = op.remote().expect("a WRITE has a target");
    let len = match write(remote, source, tables, ringing) {
        Ok(len) => len,
        Err(status) => return refused(queue, op, status, tables),
    };
    let head = Head {
        flags: Head::IMM | Head::WRITE,
        qkey: len,
        ..queue.head(0, imm)
    };
    let pushed = peer.lane.push(head, &[]);
    debug_assert!(pushed, "space was there");
    ringing.note(&peer.bell);
    peer.sent.set(peer.sent.get() + 1);
    Attempt::Done(len)
}

/// Without space RC waits; a UC message is lost, because its receiver takes none or is too slow.
#[cold]
fn no_space(queue: &Queue) -> Attempt {
    if queue.kind() == QpKind::Rc {
        return Attempt::Wait { for_recv: false };
    }
    count(&queue.core().counters.ring_full);
    Attempt::Done(0)
}
