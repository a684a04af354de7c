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
    use std::collections::BTreeSet;

    fn put(slot: u16, sequence: u64) -> Request {
        Request {
            kind: RequestKind::Put,
            slot,
            key_bytes: 1,
            value_bytes: 0,
            ttl_s: 0,
            sequence,
            value_offset: 0,
            is_detailed: false,
            extension: None,
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

    /// A client with two slots and three updates, sessions that break, and their server.
    #[derive(Clone, Debug, Default)]
    struct Model {
        /// Number of the update that each slot has, and whether it was sent in this session.
        slots: [Option<(u64, bool)>; 2],
        begun: u64,
        answered: u64,
        breaks: u32,
        /// Requests under way.
        requests: Vec<(u16, u64)>,
        /// Slots whose answers are under way.
        answers: Vec<u16>,
        /// How often each update was executed.
        executed: [u32; UPDATES as usize],
        /// Number of each slot's last update that the server knows, plus 1; 0: none.
        known: [u64; 2],
    }

    const UPDATES: u64 = 3;

    impl Model {
        /// What may happen next. `guarded`: the server asks its record.
        fn next(&self, guarded: bool) -> Vec<Model> {
            let mut all = Vec::new();
            let mut add = |change: &dyn Fn(&mut Model)| {
                let mut next = self.clone();
                change(&mut next);
                all.push(next);
            };
            for slot in 0..2u16 {
                match self.slots[usize::from(slot)] {
                    None if self.begun < UPDATES => add(&|model| {
                        model.slots[usize::from(slot)] = Some((model.begun, false));
                        model.begun += 1;
                    }),
                    Some((number, false)) => add(&|model| {
                        model.slots[usize::from(slot)] = Some((number, true));
                        model.requests.push((slot, number));
                    }),
                    _ => {}
                }
            }
            if !self.requests.is_empty() {
                add(&|model| {
                    let (slot, number) = model.requests.remove(0);
                    model.execute(slot, number, guarded);
                    model.answers.push(slot);
                });
            }
            if !self.answers.is_empty() {
                add(&|model| {
                    let slot = model.answers.remove(0);
                    model.slots[usize::from(slot)] = None;
                    model.answered += 1;
                });
            }
            if self.breaks < 2 {
                add(&|model| {
                    model.breaks += 1;
                    model.requests.clear();
                    model.answers.clear();
                    for slot in model.slots.iter_mut().flatten() {
                        slot.1 = false;
                    }
                });
            }
            all
        }

        /// A session ends with each request and the next one goes on from it, which must make no difference.
        fn execute(&mut self, slot: u16, number: u64, guarded: bool) {
            let mut updates = LastUpdates::new(2);
            for (slot, known) in (0..).zip(self.known).filter(|(_, known)| *known != 0) {
                updates.note(&put(slot, known - 1), Status::Stored);
            }
            let mut kept = Kept::default();
            kept.keep(ticket(1), updates, Ns(0));
            let mut updates = kept.take(ticket(1)).expect("it was kept");
            let request = put(slot, number);
            if guarded && let Some(status) = updates.answer(&request) {
                assert_eq!(status, Status::Stored);
                return;
            }
            updates.note(&request, Status::Stored);
            assert_eq!(updates.answer(&request), Some(Status::Stored));
            self.known[usize::from(slot)] = number + 1;
            self.executed[number as usize] += 1;
        }
    }

    /// Runs through every order of events; the most times that an update was executed.
    fn most_executed(guarded: bool) -> u32 {
        let (mut most, mut ends) = (0, 0);
        let mut seen = BTreeSet::new();
        let mut open = vec![Model::default()];
        while let Some(model) = open.pop() {
            if !seen.insert(format!("{model:?}")) {
                continue;
            }
            most = most.max(*model.executed.iter().max().expect("updates"));
            if model.answered == UPDATES {
                assert!(model.executed.iter().all(|count| *count >= 1), "{model:?}");
                ends += 1;
            }
            open.extend(model.next(guarded));
        }
        assert!(ends > 0 && seen.len() > 500, "{} states", seen.len());
        most
    }

    #[test]
    fn rfp_updates_survive_sessions_in_every_order_of_events_and_are_executed_once() {
        assert_eq!(most_executed(true), 1);
        assert_eq!(most_executed(false), 3, "the canary: once for each session");
    }
}
