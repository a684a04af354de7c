//! [`Lanes`]: the lanes of one completion queue, arranged so that checking idle ones is cheap.

use crate::inbox::Inbox;
use crate::qp::Queue;
use drover_base::Ns;
use drover_verbs::Qpn;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Observed lanes, and those of queue pairs that have no RECV posted and need no observation.
pub(crate) struct Lanes {
    /// The data needed to check each of `inboxes`.
    looks: Vec<Look>,
    inboxes: Vec<Inbox>,
    dormant: Vec<Inbox>,
    /// Start of the next sweep, so that a busy lane does not delay the others.
    next: usize,
    /// The lane whose sender is probed next.
    probe: usize,
    care: Care,
}

/// Schedule of checks for lanes of departed peers, for times when no lane is added.
struct Care {
    /// Number of the context's departures that have been handled.
    departures: u32,
    /// Lanes still to be checked in this round.
    left: usize,
    /// Time of the next check.
    at: Ns,
    /// Time from this round to the next one.
    wait: Ns,
}

/// Most lanes of one queue pair that wait for a sender while their tickets are held. Beyond that the oldest are
/// revoked. A client's queue pair has one such lane per partition of a server until all are connected.
const UNCLAIMED_MAX: usize = 256;
/// Senders probed per new lane: more than one, so that the number of dead ones falls.
const PROBES: usize = 8;
/// After a departure there are rounds at once and after 1, 10, 100 and 1000 ms more: a killed process closes its
/// descriptors one after the other, and a sleeping context polls once a second. *(our choice)*
const CARE_FIRST: Ns = Ns::from_ms(1);
const CARE_LAST: Ns = Ns::from_s(1);

/// The word of a lane's next message and the lap it will carry: 16 bytes, so that a sweep over idle lanes touches few
/// other bytes.
struct Look {
    word: *const AtomicU64,
    lap: u32,
}

impl Look {
    fn at(inbox: &Inbox) -> Look {
        let (word, lap) = inbox.next_word();
        Look { word, lap }
    }

    #[inline(always)]
    fn is_new(&self) -> bool {
        // SAFETY: the word lies in the memory of the inbox of the same index in `Lanes`, which keeps it mapped; both
        // are replaced together.
        let word = unsafe { &*self.word };
        word.load(Ordering::Relaxed) as u32 == self.lap
    }
}

impl Lanes {
    pub(crate) fn new() -> Lanes {
        Lanes {
            looks: Vec::new(),
            inboxes: Vec::new(),
            dormant: Vec::new(),
            next: 0,
            probe: 0,
            care: Care {
                departures: 0,
                left: 0,
                at: Ns::MAX,
                wait: CARE_FIRST,
            },
        }
    }

    pub(crate) fn add(&mut self, inbox: Inbox) {
        self.looks.push(Look::at(&inbox));
        self.inboxes.push(inbox);
    }

    /// Adds a lane that is not checked until [`wake`](Lanes::wake).
    pub(crate) fn add_dormant(&mut self, inbox: Inbox) {
        self.dormant.push(inbox);
    }

    /// Observes the lane of `queue` from now on.
    pub(crate) fn wake(&mut self, queue: &Queue) {
        if let Some(index) = self.dormant.iter().position(|inbox| inbox.is_of(queue)) {
            let inbox = self.dormant.swap_remove(index);
            self.add(inbox);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.inboxes.len()
    }

    #[inline(always)]
    pub(crate) fn inbox(&mut self, index: usize) -> &mut Inbox {
        &mut self.inboxes[index]
    }

    /// Updates the observed word of lane `index` after messages were taken from it.
    #[inline(always)]
    pub(crate) fn refresh(&mut self, index: usize) {
        self.looks[index] = Look::at(&self.inboxes[index]);
    }

    pub(crate) fn remove(&mut self, index: usize) -> Inbox {
        self.looks.swap_remove(index);
        self.inboxes.swap_remove(index)
    }

    /// Stops observing lane `index`.
    pub(crate) fn sleep(&mut self, index: usize) {
        let inbox = self.remove(index);
        self.dormant.push(inbox);
    }

    /// Drops lanes whose senders are gone, a few at a time, and surplus unclaimed lanes of `queue`. Called for every
    /// added lane, so there are never many more lanes than living senders.
    pub(crate) fn reap(&mut self, queue: &Queue) {
        self.probe(PROBES);
        let waiting = |inbox: &Inbox| inbox.is_of(queue) && inbox.is_unclaimed();
        let unclaimed = self
            .inboxes
            .iter()
            .enumerate()
            .filter(|(_, inbox)| waiting(inbox));
        if unclaimed.clone().count() <= UNCLAIMED_MAX {
            return;
        }
        let oldest = unclaimed
            .min_by_key(|(_, inbox)| inbox.serial())
            .map(|(index, _)| index);
        if let Some(index) = oldest
            && self.inboxes[index].revoke()
        {
            self.remove(index);
        }
    }

    /// Probes up to `count` senders.
    fn probe(&mut self, count: usize) {
        for _ in 0..count.min(self.inboxes.len()) {
            self.probe = (self.probe + 1) % self.inboxes.len().max(1);
            if self.inboxes.get(self.probe).is_some_and(Inbox::is_abandoned) {
                self.remove(self.probe);
            }
        }
    }

    /// Whether [`take_care`](Lanes::take_care) is due; called when no message has arrived.
    #[inline(always)]
    pub(crate) fn is_care_due(&self, departures: u32, now: Ns) -> bool {
        departures != self.care.departures || now >= self.care.at
    }

    /// Drops lanes of departed peers, a few at a time, after all their messages were taken. `departures` is the number
    /// so far.
    #[cold]
    pub(crate) fn take_care(&mut self, departures: u32, now: Ns) {
        let care = &mut self.care;
        if departures != care.departures {
            (care.departures, care.wait, care.left) = (departures, CARE_FIRST, self.inboxes.len());
        } else if care.left == 0 {
            (care.wait, care.left) = (care.wait * 10, self.inboxes.len());
        }
        let count = PROBES.min(care.left);
        care.left -= count;
        care.at = match care.left {
            0 if care.wait > CARE_LAST => Ns::MAX,
            0 => now + care.wait,
            _ => now,
        };
        self.probe(count);
    }

    pub(crate) fn remove_all_of(&mut self, queue: &Queue) {
        self.dormant.retain(|inbox| !inbox.is_of(queue));
        for index in (0..self.inboxes.len()).rev() {
            if self.inboxes[index].is_of(queue) {
                self.remove(index);
            }
        }
    }

    pub(crate) fn remove_sender(&mut self, queue: &Queue, sender: Qpn) {
        let is_it = |inbox: &Inbox| inbox.is_of(queue) && inbox.sender_name() == Some(sender);
        if let Some(index) = self.inboxes.iter().position(is_it) {
            self.remove(index);
        }
    }

    /// Index of a lane with a message, searched from the one after the last found. About 1.5 ns per idle lane.
    #[inline(always)]
    pub(crate) fn find_news(&mut self) -> Option<usize> {
        let start = self.next.min(self.looks.len());
        let (before, after) = self.looks.split_at(start);
        let index = match after.iter().position(Look::is_new) {
            Some(index) => start + index,
            None => before.iter().position(Look::is_new)?,
        };
        self.next = index + 1;
        Some(index)
    }

    /// Whether there are at most `count` messages in all lanes together for certain: none, or no lane has more than an
    /// equal share.
    #[inline(always)]
    pub(crate) fn hold_at_most(&self, count: u32) -> bool {
        if !self.looks.iter().any(Look::is_new) {
            return true;
        }
        let share = u64::from(count) / self.inboxes.len() as u64;
        self.inboxes.iter().all(|inbox| inbox.holds_at_most(share))
    }

    /// The lanes into queue pairs that use `recvs`.
    pub(crate) fn of_recvs(
        &self,
        index: usize,
        queue: &Rc<std::cell::RefCell<crate::recv::RecvQueue>>,
    ) -> bool {
        Rc::ptr_eq(self.inboxes[index].queue().recvs(), queue)
    }
}
