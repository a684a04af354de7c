//! [`Requests`]: the requests of all tasks, from staging to the delivery of their results.
//!
//! ```text
//!   stage -> Staged -> (sync) Queued -> (post) Posted -> (completion) Done -> (taken or dropped) free
//! ```
//! The requests of a sync form a list in the order of staging; its first request, the *head*, also holds the state of
//! the sync. A slot whose result is no longer needed is *abandoned*: it is freed as soon as the device has finished
//! with its buffer.

use super::PeerId;
use super::error::{Failure, WcError};
use drover_base::Ns;
use drover_mem::Buffer;
use drover_verbs::{MaskedSwap, Payload, SendWr, WrId};

/// End of a list; head of requests that no sync waits for.
pub(super) const NONE: u32 = u32::MAX;
/// Ids of RECVs have this bit, ids of requests do not.
pub(super) const RECV_BIT: u64 = 1 << 63;
/// Bits of a generation that fit in an id.
const GENERATION: u32 = u32::MAX >> 1;

/// Identifies a request from staging until the results of its sync are dropped.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Ticket {
    pub(super) slot: u32,
    pub(super) generation: u32,
}

impl Ticket {
    /// Id of the request for its completion.
    #[inline(always)]
    pub(super) fn wr_id(self) -> WrId {
        WrId(u64::from(self.generation & GENERATION) << 32 | u64::from(self.slot))
    }
}

/// Progress of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    Free,
    Staged,
    Queued,
    Posted,
    Done(Result<(), Failure>),
}

impl Stage {
    /// For log lines.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Stage::Free => "free",
            Stage::Staged => "staged",
            Stage::Queued => "queued",
            Stage::Posted => "posted",
            Stage::Done(Ok(())) => "done",
            Stage::Done(Err(_)) => "failed",
        }
    }
}

/// Local memory of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Local {
    /// Its buffer.
    Buffer,
    /// Its `inline` bytes, which its list copies.
    Inline,
    /// A word that belongs to the pool.
    Word,
    /// As `Word`; the operation is a CAS with the masks in `swap`, which its list copies.
    MaskedWord,
}

#[derive(Debug)]
pub(super) struct Request {
    generation: u32,
    pub(super) stage: Stage,
    pub(super) owner: Owner,
    pub(super) peer: PeerId,
    /// As it is posted, but for what its list copies.
    pub(super) wr: SendWr,
    pub(super) local: Local,
    /// Owned here while the device may access it.
    pub(super) buffer: Option<Buffer>,
    /// Has the capacity for every inline payload.
    pub(super) inline: Vec<u8>,
    /// Operands of a masked CAS.
    pub(super) swap: MaskedSwap,
    /// Whether its result is no longer needed.
    pub(super) is_abandoned: bool,
    /// First request of the same sync; [`NONE`] for a detached request.
    pub(super) head: u32,
    /// Next request of the same sync.
    pub(super) next: u32,
    /// State of the sync. Its first request has it; a detached request has its own, in which `pending` is not used.
    pub(super) sync: SyncState,
}

/// The task that staged a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Owner {
    pub(super) task: u32,
    /// Its place may have another task since: this counts them.
    pub(super) life: u32,
}

/// State of a sync.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SyncState {
    /// Number of its requests that have not ended.
    pub(super) pending: u32,
    /// Whether one of them failed.
    pub(super) failed: bool,
    /// Whether it was given up because it took too long.
    pub(super) timed_out: bool,
    /// Start of the step in which it was submitted.
    pub(super) since: Ns,
}

/// A list of one task's requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct List {
    pub(super) first: u32,
    pub(super) last: u32,
}

impl List {
    pub(super) const EMPTY: List = List {
        first: NONE,
        last: NONE,
    };
}

/// All requests, by slot. Allocates only when more requests are staged than ever before.
#[derive(Debug)]
pub(super) struct Requests {
    slots: Vec<Request>,
    free: Vec<u32>,
    /// Longest inline payload.
    inline_bytes: usize,
    /// Number of abandoned requests that are still queued.
    pub(super) abandoned_queued: u32,
}

impl Requests {
    /// Creates `count` free slots, for requests with up to `inline_bytes` bytes of inline payload.
    pub(super) fn new(count: usize, inline_bytes: usize) -> Requests {
        let mut requests = Requests {
            slots: Vec::with_capacity(count),
            free: Vec::with_capacity(count),
            inline_bytes,
            abandoned_queued: 0,
        };
        for _ in 0..count {
            let slot = requests.grow();
            requests.free.push(slot);
        }
        requests
    }

    #[inline(always)]
    pub(super) fn slot(&self, slot: u32) -> &Request {
        &self.slots[slot as usize]
    }

    #[inline(always)]
    pub(super) fn slot_mut(&mut self, slot: u32) -> &mut Request {
        &mut self.slots[slot as usize]
    }

    /// Number of slots ever used; they are numbered from 0.
    pub(super) fn slot_count(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Appends a request to `list`; the caller fills in what it is.
    #[inline(always)]
    pub(super) fn stage(&mut self, list: &mut List, owner: Owner) -> (Ticket, &mut Request) {
        let slot = self.free.pop().unwrap_or_else(|| self.grow());
        match list.last {
            NONE => list.first = slot,
            last => self.slots[last as usize].next = slot,
        }
        list.last = slot;
        let request = &mut self.slots[slot as usize];
        (request.stage, request.owner) = (Stage::Staged, owner);
        (request.is_abandoned, request.next) = (false, NONE);
        let generation = request.generation;
        (Ticket { slot, generation }, request)
    }

    #[cold]
    fn grow(&mut self) -> u32 {
        self.slots.push(Request {
            generation: 0,
            stage: Stage::Free,
            owner: Owner { task: 0, life: 0 },
            peer: PeerId(0),
            wr: SendWr::send(Payload::EMPTY),
            local: Local::Inline,
            buffer: None,
            inline: Vec::with_capacity(self.inline_bytes),
            swap: MaskedSwap::default(),
            is_abandoned: false,
            head: NONE,
            next: NONE,
            sync: SyncState::default(),
        });
        self.slots.len() as u32 - 1
    }

    /// Slot of the posted request that a completion refers to, if any.
    pub(super) fn posted(&self, wr_id: WrId) -> Option<u32> {
        let (slot, generation) = (wr_id.0 as u32, (wr_id.0 >> 32) as u32);
        let request = self.slots.get(slot as usize)?;
        (request.generation & GENERATION == generation && request.stage == Stage::Posted).then_some(slot)
    }

    /// The request of `ticket` if it is staged.
    pub(super) fn staged(&mut self, ticket: Ticket) -> Option<&mut Request> {
        let request = self.slots.get_mut(ticket.slot as usize)?;
        (request.generation == ticket.generation && request.stage == Stage::Staged).then_some(request)
    }

    /// The request of `ticket`.
    ///
    /// # Panics
    /// Unless the request has ended and its result has not been taken.
    pub(super) fn ended(&mut self, ticket: Ticket) -> &mut Request {
        let request = &mut self.slots[ticket.slot as usize];
        let live = request.generation == ticket.generation && matches!(request.stage, Stage::Done(_));
        assert!(live, "{ticket:?} is not of this sync");
        request
    }

    /// Ticket of the request in `slot`.
    pub(super) fn ticket(&self, slot: u32) -> Ticket {
        let generation = self.slot(slot).generation;
        Ticket { slot, generation }
    }

    /// The first failure in the list that starts at `first`; a request that has not ended counts as timed out.
    #[cold]
    pub(super) fn first_failure(&self, first: u32) -> Option<WcError> {
        self.iter(first).find_map(|slot| {
            let failure = match self.slot(slot).stage {
                Stage::Done(Ok(())) => return None,
                Stage::Done(Err(failure)) => failure,
                _ => Failure::TimedOut,
            };
            let ticket = self.ticket(slot);
            Some(WcError { ticket, failure })
        })
    }

    /// Releases the list that starts at `first`: requests that are done or were never submitted are freed, the others
    /// abandoned.
    pub(super) fn release(&mut self, first: u32) {
        let mut slot = first;
        while slot != NONE {
            let request = &mut self.slots[slot as usize];
            let next = request.next;
            match request.stage {
                Stage::Staged | Stage::Done(_) => self.free(slot),
                Stage::Queued => {
                    request.is_abandoned = true;
                    self.abandoned_queued += 1;
                }
                Stage::Posted => request.is_abandoned = true,
                Stage::Free => {}
            }
            slot = next;
        }
    }

    /// Frees a slot; its buffer returns to its pool.
    pub(super) fn free(&mut self, slot: u32) {
        let request = &mut self.slots[slot as usize];
        request.stage = Stage::Free;
        request.generation = request.generation.wrapping_add(1);
        request.buffer = None;
        request.inline.clear();
        self.free.push(slot);
    }

    /// The slots of the list that starts at `first`.
    pub(super) fn iter(&self, first: u32) -> impl Iterator<Item = u32> + '_ {
        let some = |slot: u32| (slot != NONE).then_some(slot);
        std::iter::successors(some(first), move |&slot| some(self.slot(slot).next))
    }
}
