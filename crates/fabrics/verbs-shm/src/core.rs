//! [`Core`]: state shared by all objects of a context, and the tables behind its keys.

use crate::bell::{OwnBell, RemoteBell, RemoteBells, Ringing};
use crate::device::ShmOptions;
use crate::domain::ShmDomain;
use crate::lane::{CLOSED, LaneProducer};
use crate::ring::{Head, Memory};
use crate::stats::Counters;
use drover_base::sync::Ordering;
use drover_mem::{NativeCpu, Region};
use drover_verbs::provide::{Keys, KnownKeys};
use drover_verbs::{Access, Caps, Payload, PostErrorKind, SendList, Sge};
use rustix::fd::OwnedFd;
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Shared state of a context. One thread: no lock, and no `RefCell` stays borrowed across a call out.
pub(crate) struct Core {
    pub(crate) domain: ShmDomain,
    pub(crate) cpu: NativeCpu,
    pub(crate) caps: Caps,
    pub(crate) options: ShmOptions,
    pub(crate) tables: RefCell<Tables>,
    pub(crate) bell: OwnBell,
    pub(crate) bells: RefCell<RemoteBells>,
    pub(crate) counters: Counters,
    /// Number of address handles destroyed: each may mean that a peer is gone.
    pub(crate) departures: Cell<u32>,
}

/// Lookup tables for the keys in requests. Borrowed once per post or poll.
pub(crate) struct Tables {
    pub(crate) local: Keys<Local>,
    /// Regions of peers, under the domain's keys: those that this context imported, or has used.
    pub(crate) remote: KnownKeys<Remote>,
    pub(crate) senders: Keys<Sender>,
    /// Seal of lists of RECVs that were found good in these tables: another one after each deregistration, and no two
    /// contexts of the process have the same.
    pub(crate) seal: u64,
}

impl Core {
    /// Copies what the domain knows of `rkey` to this context's tables.
    #[cold]
    pub(crate) fn learn(&self, rkey: u32) {
        let Some(import) = self.domain.find(rkey) else {
            return;
        };
        let mut bells = self.bells.borrow_mut();
        let watches = import.watches.iter().map(|watch| RemoteWatch {
            start: watch.start,
            end: watch.end,
            bell: bells.adopt(&watch.bell),
        });
        let watches: Vec<RemoteWatch> = watches.collect();
        let remote = Remote {
            region: import.region,
            len: import.len,
            access: import.access,
            watches_disjoint: watches.is_sorted_by(|a, b| a.end <= b.start),
            watches,
        };
        self.tables.borrow_mut().remote.put(rkey, remote);
    }
}

/// A number that no caller had before.
fn next_seal() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Tables {
    pub(crate) fn new() -> Tables {
        Tables {
            local: Keys::new(),
            remote: KnownKeys::new(),
            senders: Keys::new(),
            seal: next_seal(),
        }
    }

    /// Deregisters a region.
    pub(crate) fn remove_local(&mut self, lkey: u32) {
        self.local.remove(lkey);
        self.seal = next_seal();
    }

    /// The memory of `sge`, if it is registered, inside, and has the right.
    #[inline(always)]
    pub(crate) fn local(&self, sge: Sge, write: bool) -> Result<&Region, PostErrorKind> {
        match self.local.find(sge.lkey) {
            Some(local)
                if (local.writable || !write)
                    && sge.offset <= local.region.len() as u64
                    && u64::from(sge.len) <= local.region.len() as u64 - sge.offset =>
            {
                Ok(&local.region)
            }
            _ => Err(PostErrorKind::LocalProtection),
        }
    }
}

/// The registered region used last: consecutive RECVs are mostly in the same one.
pub(crate) struct LastLocal<'t> {
    lkey: u32,
    region: Option<&'t Region>,
    /// Length of the region in bytes.
    len: u64,
}

impl<'t> LastLocal<'t> {
    pub(crate) fn new() -> LastLocal<'t> {
        LastLocal {
            lkey: 0,
            region: None,
            len: 0,
        }
    }

    /// The memory of `sge` for writing, checked as in [`Tables::local`].
    #[inline(always)]
    pub(crate) fn find(&mut self, sge: Sge, tables: &'t Tables) -> Option<&'t Region> {
        if sge.lkey != self.lkey {
            self.look_up(sge.lkey, tables);
        }
        let space = self.len.checked_sub(u64::from(sge.len))?;
        self.region.filter(|_| sge.offset <= space)
    }

    #[inline(never)]
    fn look_up(&mut self, lkey: u32, tables: &'t Tables) {
        let local = tables.local.find(lkey).filter(|local| local.writable);
        self.region = local.map(|local| &local.region);
        self.len = self.region.map_or(0, |region| region.len() as u64);
        self.lkey = lkey;
    }
}

/// A registered region of this context.
pub(crate) struct Local {
    pub(crate) region: Region,
    pub(crate) writable: bool,
}

/// An imported region of a peer.
pub(crate) struct Remote {
    pub(crate) region: Region,
    pub(crate) len: u64,
    pub(crate) access: Access,
    pub(crate) watches: Vec<RemoteWatch>,
    /// Whether no byte is in two watches.
    pub(crate) watches_disjoint: bool,
}

pub(crate) struct RemoteWatch {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) bell: Rc<RemoteBell>,
}

impl Remote {
    /// `offset` as an offset of the mapping, if `len` bytes from it are inside.
    #[inline(always)]
    pub(crate) fn inside(&self, offset: u64, len: usize) -> Option<usize> {
        (offset <= self.len && len as u64 <= self.len - offset).then_some(offset as usize)
    }

    /// Rings the bells of the watches that overlap `[offset, offset + len)`. Returns the range for which the same bells
    /// are enough.
    #[inline(always)]
    pub(crate) fn ring<'t>(&'t self, offset: u64, len: usize, ringing: &mut Ringing<'t>) -> Range<u64> {
        let end = offset + len as u64;
        let mut same = 0..0;
        for watch in &self.watches {
            if offset < watch.end && watch.start < end {
                ringing.note(&watch.bell);
                if self.watches_disjoint && watch.start <= offset && end <= watch.end {
                    same = watch.start..watch.end;
                    break;
                }
            }
        }
        same
    }
}

/// The sending end of a lane into a UD queue pair; an address handle refers to one.
pub(crate) struct Sender {
    pub(crate) lane: LaneProducer,
    pub(crate) qpn: u32,
    pub(crate) bell: Rc<RemoteBell>,
    /// Lock on the lane's file, which shows the receiver that we live; the kernel releases it when the process ends.
    pub(crate) _ticket: Arc<OwnedFd>,
}

impl Drop for Sender {
    fn drop(&mut self) {
        // The word reaches a receiver whose ring is full; the CLOSE message reaches one that does not read the word.
        self.lane.memory().store(CLOSED, 1, Ordering::Release);
        self.lane.push(
            Head {
                flags: Head::CLOSE,
                ..Head::default()
            },
            &[],
        );
        self.bell.ring();
    }
}

/// Location of the bytes of a request.
#[derive(Clone, Copy)]
pub(crate) enum Source<'a> {
    Inline(&'a [u8]),
    Pieces(&'a [Sge]),
}

impl<'a> Source<'a> {
    #[inline(always)]
    pub(crate) fn of(payload: &'a Payload, list: &'a SendList) -> Source<'a> {
        match payload {
            Payload::Inline { start, len } => Source::Inline(list.inline_bytes(*start, *len)),
            Payload::Region(sge) => Source::Pieces(std::slice::from_ref(sge)),
            Payload::Gather { start, count } => Source::Pieces(list.sges(*start, *count)),
        }
    }

    /// Total number of bytes.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        match self {
            Source::Inline(bytes) => bytes.len(),
            Source::Pieces(sges) => sges.iter().map(|sge| sge.len as usize).sum(),
        }
    }

    /// Sends the bytes as one message; false if the ring has no space. The caller has checked the pieces.
    #[inline(always)]
    pub(crate) fn push(&self, lane: &LaneProducer, head: Head, tables: &Tables) -> bool {
        match self {
            Source::Inline(bytes) => lane.push(head, bytes),
            Source::Pieces(sges) => push_pieces(lane, head, sges, tables),
        }
    }
}

/// Gathers `sges` into one message.
fn push_pieces(lane: &LaneProducer, head: Head, sges: &[Sge], tables: &Tables) -> bool {
    // The pieces of lines come in ascending order, so one cursor over the sges is enough.
    let (mut index, mut used) = (0, 0);
    lane.push_with(head, |memory, mut to, _, mut n| {
        while n > 0 {
            let Some(sge) = sges.get(index) else { return };
            let step = n.min(sge.len as usize - used);
            if let Ok(region) = tables.local(*sge, false) {
                region.copy_to(sge.offset as usize + used, memory.region(), to, step);
            }
            (to, n, used) = (to + step, n - step, used + step);
            if used == sge.len as usize {
                (index, used) = (index + 1, 0);
            }
        }
    })
}
