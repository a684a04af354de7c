//! [`Requests`]: the requests of all tasks, from staging to the delivery of their results.
//!
//! ```text
//!   stage -> Staged -> (sync) Queued -> (post) Posted -> (completion) Done -> (taken or dropped) free
//! ```
//! The requests of a task form a list in the order of staging. A slot whose result is no longer needed is *abandoned*:
//! it is freed as soon as the device has finished with its buffer.

use super::PeerId;
use drover_mem::Buffer;
use drover_verbs::{PostErrorKind, SendOp, Sge, WcStatus, WrId};

/// End of a list.
pub(super) const NONE: u32 = u32::MAX;

/// Identifies a request from staging until the results of its sync are dropped.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Ticket {
    pub(super) slot: u32,
    pub(super) generation: u32,
}

/// Reason for the failure of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Failure {
    /// The request was posted and completed with this status. [`WcStatus::Flushed`] also if its queue pair was
    /// [replaced](super::TaskPool::replace_peer).
    Completed(WcStatus),
    /// The queue pair refused to post the request.
    Refused(PostErrorKind),
}

/// The first failed request of a task's sync, in the order of staging. The other requests have ended, too.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("request {} failed: {failure:?}", .ticket.slot)]
pub struct WcError {
    /// Ticket of the failed request.
    pub ticket: Ticket,
    /// Reason for the failure.
    pub failure: Failure,
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

/// Local memory of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Local {
    /// Its buffer.
    Buffer(Sge),
    /// Its `inline` bytes.
    Inline,
    /// A word that belongs to the pool.
    Word(Sge),
}

#[derive(Debug)]
pub(super) struct Request {
    pub(super) generation: u32,
    pub(super) stage: Stage,
    pub(super) task: u32,
    pub(super) peer: PeerId,
    pub(super) op: SendOp,
    pub(super) local: Local,
    /// Owned here while the device may access it.
    pub(super) buffer: Option<Buffer>,
    /// Keeps its capacity when the slot is reused.
    pub(super) inline: Vec<u8>,
    pub(super) signaled: bool,
    pub(super) abandoned: bool,
    /// Next request of the same task.
    pub(super) next: u32,
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
#[derive(Debug, Default)]
pub(super) struct Requests {
    slots: Vec<Request>,
    free: Vec<u32>,
}

impl Requests {
    pub(super) fn slot(&self, slot: u32) -> &Request {
        &self.slots[slot as usize]
    }

    pub(super) fn slot_mut(&mut self, slot: u32) -> &mut Request {
        &mut self.slots[slot as usize]
    }

    /// Appends a request to `list`.
    pub(super) fn stage(
        &mut self,
        list: &mut List,
        task: u32,
        peer: PeerId,
        op: SendOp,
        local: Local,
        buffer: Option<Buffer>,
    ) -> Ticket {
        let slot = self.free.pop().unwrap_or_else(|| self.grow());
        let request = &mut self.slots[slot as usize];
        request.stage = Stage::Staged;
        (request.task, request.peer, request.op, request.local) = (task, peer, op, local);
        (request.buffer, request.next) = (buffer, NONE);
        (request.signaled, request.abandoned) = (false, false);
        let generation = request.generation;
        match list.last {
            NONE => list.first = slot,
            last => self.slots[last as usize].next = slot,
        }
        list.last = slot;
        Ticket { slot, generation }
    }

    fn grow(&mut self) -> u32 {
        self.slots.push(Request {
            generation: 0,
            stage: Stage::Free,
            task: 0,
            peer: PeerId(0),
            op: SendOp::Send {
                dest: None,
                imm: None,
            },
            local: Local::Inline,
            buffer: None,
            inline: Vec::new(),
            signaled: false,
            abandoned: false,
            next: NONE,
        });
        self.slots.len() as u32 - 1
    }

    /// Slot of the posted request that a completion refers to, if any.
    pub(super) fn posted(&self, wr_id: WrId) -> Option<u32> {
        let (slot, generation) = (wr_id.0 as u32, (wr_id.0 >> 32) as u32);
        let request = self.slots.get(slot as usize)?;
        (request.generation == generation && request.stage == Stage::Posted).then_some(slot)
    }

    /// Id of the request in `slot` for its completion.
    pub(super) fn wr_id(&self, slot: u32) -> WrId {
        WrId(u64::from(self.slot(slot).generation) << 32 | u64::from(slot))
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

    /// The first failure in the list that starts at `first`.
    pub(super) fn first_failure(&self, first: u32) -> Option<WcError> {
        self.iter(first).find_map(|slot| {
            let request = self.slot(slot);
            let Stage::Done(Err(failure)) = request.stage else {
                return None;
            };
            let generation = request.generation;
            let ticket = Ticket { slot, generation };
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
                Stage::Queued | Stage::Posted => request.abandoned = true,
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
