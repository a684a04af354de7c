//! [`LastUpdates`]: what makes an update that comes again over another session happen once.
//!
//! A client numbers its operations, and sends an update again with the same number if its session was lost before the
//! answer came. A slot has one operation at a time, so the last update of each slot and its answer are all that a
//! server must know: a request with the number of the last update is that update. GETs may be executed again.

use crate::control::Ticket;
use crate::request::Request;
use crate::status::Status;
use drover_base::Ns;
use std::collections::VecDeque;

/// How long the last updates of a session that ended are kept: as long as operations last that were under way then,
/// unless a client asks for more.
const KEPT_FOR: Ns = Ns::from_s(5);

/// Most slots of sessions that ended, 16 bytes each; beyond that, the oldest are dropped. *(our choice)*
const KEPT_SLOTS_MAX: usize = 1 << 16;

/// A number that no request has.
const NONE: u64 = u64::MAX;

#[derive(Clone, Copy, Debug)]
struct Update {
    /// Number of the request; [`NONE`]: there was none.
    sequence: u64,
    status: Status,
}

/// The last update of each slot of a client, and its answer.
#[derive(Debug, Default)]
pub struct LastUpdates(Box<[Update]>);

impl LastUpdates {
    pub(super) fn new(slots: u16) -> LastUpdates {
        let none = Update {
            sequence: NONE,
            status: Status::BadRequest,
        };
        LastUpdates(vec![none; usize::from(slots)].into())
    }

    /// The answer to an update that was executed already, or whose slot the client does not have; `None`: execute it,
    /// then [`note`](LastUpdates::note) its answer.
    #[inline]
    pub fn answer(&self, request: &Request) -> Option<Status> {
        match self.0.get(usize::from(request.slot)) {
            Some(last) => (last.sequence == request.sequence).then_some(last.status),
            None => Some(Status::BadRequest),
        }
    }

    /// Notes that an update was executed or refused.
    #[inline]
    pub fn note(&mut self, request: &Request, status: Status) {
        if let Some(last) = self.0.get_mut(usize::from(request.slot)) {
            let sequence = request.sequence;
            *last = Update { sequence, status };
        }
    }
}

/// The last updates of sessions that have ended, oldest first.
#[derive(Default)]
pub(super) struct Kept {
    list: VecDeque<(Ticket, Ns, LastUpdates)>,
    slots: usize,
}

impl Kept {
    /// Keeps the updates of a session that has ended.
    pub(super) fn keep(&mut self, ticket: Ticket, updates: LastUpdates, now: Ns) {
        self.slots += updates.0.len();
        self.list.push_back((ticket, now + KEPT_FOR, updates));
        while self.slots > KEPT_SLOTS_MAX {
            self.drop_oldest();
        }
    }

    /// Whether there are updates for a client with this ticket and so many slots.
    pub(super) fn has(&self, ticket: Ticket, slots: u16) -> bool {
        let mut all = self.list.iter();
        all.any(|(own, _, updates)| *own == ticket && updates.0.len() == usize::from(slots))
    }

    /// Takes the updates that belong to `ticket`.
    pub(super) fn take(&mut self, ticket: Ticket) -> Option<LastUpdates> {
        let at = self.list.iter().position(|(own, ..)| *own == ticket)?;
        let (.., updates) = self.list.remove(at)?;
        self.slots -= updates.0.len();
        Some(updates)
    }

    /// Drops updates that were kept for long enough.
    pub(super) fn expire(&mut self, now: Ns) {
        while self.list.front().is_some_and(|(_, until, _)| now >= *until) {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        if let Some((.., updates)) = self.list.pop_front() {
            self.slots -= updates.0.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::RequestKind;

    fn put(slot: u16, sequence: u64) -> Request {
        Request {
            kind: RequestKind::Put,
            slot,
            key_bytes: 1,
            value_bytes: 0,
            ttl_s: 0,
            sequence,
            value_offset: 0,
        }
    }

    fn ticket(session: u64) -> Ticket {
        Ticket { session, secret: 7 }
    }

    #[test]
    fn an_update_is_executed_once() {
        let mut updates = LastUpdates::new(2);
        assert_eq!(updates.answer(&put(1, 5)), None);
        updates.note(&put(1, 5), Status::Stored);
        assert_eq!(updates.answer(&put(1, 5)), Some(Status::Stored));
        assert_eq!(updates.answer(&put(0, 5)), None, "another slot");
        assert_eq!(updates.answer(&put(1, 6)), None, "the next one");
        // What no correct client sends: a slot that it does not have, and the number of none.
        assert_eq!(updates.answer(&put(2, 5)), Some(Status::BadRequest));
        updates.note(&put(2, 5), Status::Stored);
        assert_eq!(updates.answer(&put(0, NONE)), Some(Status::BadRequest));
    }

    #[test]
    fn updates_are_kept_for_who_has_the_ticket_and_not_for_ever() {
        let mut kept = Kept::default();
        let mut updates = LastUpdates::new(2);
        updates.note(&put(1, 5), Status::Deleted);
        kept.keep(ticket(1), updates, Ns(0));
        let other = Ticket {
            secret: 8,
            ..ticket(1)
        };
        assert!(!kept.has(other, 2) && kept.take(other).is_none());
        assert!(!kept.has(ticket(1), 3), "a client keeps its number of slots");
        assert!(kept.has(ticket(1), 2));
        let taken = kept.take(ticket(1)).expect("it is there");
        assert_eq!(taken.answer(&put(1, 5)), Some(Status::Deleted));
        assert!(kept.take(ticket(1)).is_none());
        kept.keep(ticket(1), taken, Ns(9));
        kept.expire(Ns(9) + KEPT_FOR - Ns(1));
        assert!(kept.has(ticket(1), 2));
        kept.expire(Ns(9) + KEPT_FOR);
        assert!(!kept.has(ticket(1), 2));
        assert_eq!(kept.slots, 0);
    }

    #[test]
    fn so_many_sessions_that_end_cost_no_more_memory() {
        let mut kept = Kept::default();
        for session in 1..=1000 {
            kept.keep(ticket(session), LastUpdates::new(1024), Ns(session));
            assert!(kept.slots <= KEPT_SLOTS_MAX);
        }
        assert_eq!(kept.list.len(), KEPT_SLOTS_MAX / 1024);
        assert!(kept.has(ticket(1000), 1024) && !kept.has(ticket(1), 1024));
    }
}
