//! [`Operations`]: what the client has accepted and not completed, with copies to be sent again.

use drover_base::{KeyHash, Ns};
use drover_cluster::{Attempts, Epoch, ShardId};
use drover_kv::{Op, OwnedOp, Token};
use drover_slots::client::Conflicts;

/// Most operations under way. *(our choice)*
const OPERATIONS_MAX: usize = 4096;

/// Where an operation is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// Nowhere: its memory is kept for another one.
    Free,
    /// Behind an earlier one on its key, of which at least one is an update.
    Behind,
    /// To be sent at this time.
    Due(Ns),
    /// At the client of the member in this place.
    Sent(usize),
}

/// An operation.
pub(super) struct Operation {
    pub(super) token: Token,
    pub(super) op: OwnedOp,
    pub(super) hash: KeyHash,
    pub(super) shard: ShardId,
    pub(super) submitted: Ns,
    pub(super) state: State,
    pub(super) attempts: Attempts,
    /// Epoch of the map under which it was sent last.
    pub(super) sent_under: Epoch,
    /// Grows with every operation.
    number: u64,
}

impl Operation {
    fn is_write(&self) -> bool {
        self.op.kind().is_update()
    }
}

/// All operations, by index. Copies reuse the memory of earlier ones.
pub(super) struct Operations {
    all: Vec<Operation>,
    free: Vec<usize>,
    /// Whether a key may have others that are not complete.
    conflicts: Conflicts,
    /// Those that are not sent, in the order in which they were submitted.
    unsent: Vec<usize>,
    count: u64,
}

impl Operations {
    pub(super) fn new() -> Operations {
        Operations {
            all: Vec::new(),
            free: Vec::new(),
            conflicts: Conflicts::new(OPERATIONS_MAX),
            unsent: Vec::new(),
            count: 0,
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.all.len() - self.free.len() >= OPERATIONS_MAX
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.len() == self.free.len()
    }

    pub(super) fn get_mut(&mut self, index: usize) -> Option<&mut Operation> {
        let found = self.all.get_mut(index);
        found.filter(|operation| operation.state != State::Free)
    }

    /// Whether an operation on a key of such a shard is at the client of the member in this place.
    pub(super) fn any_sent_to(&self, place: usize, is_such: impl Fn(ShardId) -> bool) -> bool {
        let mut all = self.all.iter();
        all.any(|it| it.state == State::Sent(place) && is_such(it.shard))
    }

    /// Adds an operation, which is due now or behind others. Returns its index and whether it is due.
    pub(super) fn add(
        &mut self,
        op: &Op<'_>,
        token: Token,
        (hash, shard): (KeyHash, ShardId),
        now: Ns,
    ) -> (usize, bool) {
        self.count += 1;
        let (number, is_write) = (self.count, op.kind().is_update());
        let may_conflict = self.conflicts.may_conflict(hash, is_write);
        let is_behind = may_conflict && self.is_held_back(hash, is_write, number);
        self.conflicts.add(hash, is_write);
        let state = match is_behind {
            true => State::Behind,
            false => State::Due(now),
        };
        let (attempts, sent_under) = (Attempts::default(), Epoch::NONE);
        let operation = |owned| Operation {
            token,
            op: owned,
            hash,
            shard,
            submitted: now,
            state,
            attempts,
            sent_under,
            number,
        };
        let index = match self.free.pop() {
            Some(index) => {
                let old = &mut self.all[index];
                let mut owned = std::mem::replace(&mut old.op, OwnedOp::new(&Op::Get { key: b"" }));
                owned.replace(op);
                *old = operation(owned);
                index
            }
            None => {
                self.all.push(operation(OwnedOp::new(op)));
                self.all.len() - 1
            }
        };
        self.unsent.push(index);
        (index, !is_behind)
    }

    /// Notes that an operation was sent.
    pub(super) fn sent(&mut self, index: usize, place: usize, under: Epoch) {
        self.unsent.retain(|other| *other != index);
        let operation = &mut self.all[index];
        (operation.state, operation.sent_under) = (State::Sent(place), under);
    }

    /// Has an operation sent, or sent again, at `at`.
    pub(super) fn is_due_at(&mut self, index: usize, at: Ns) {
        let operation = &mut self.all[index];
        if matches!(operation.state, State::Sent(_)) {
            self.unsent.push(index);
        }
        operation.state = State::Due(at);
    }

    /// Has everything that pauses sent now: there is a newer map.
    pub(super) fn hurry(&mut self, now: Ns) {
        for &index in &self.unsent {
            let state = &mut self.all[index].state;
            if matches!(state, State::Due(_)) {
                *state = State::Due(now);
            }
        }
    }

    /// Ends an operation; those behind it may become due.
    pub(super) fn end(&mut self, index: usize, now: Ns) {
        let operation = &mut self.all[index];
        let (hash, is_write) = (operation.hash, operation.is_write());
        if !matches!(operation.state, State::Sent(_)) {
            self.unsent.retain(|other| *other != index);
        }
        self.all[index].state = State::Free;
        self.free.push(index);
        self.conflicts.remove(hash, is_write);
        if !self.unsent.is_empty() {
            self.let_go(hash, now);
        }
    }

    /// Makes those operations on a key due that no earlier one holds back any more.
    fn let_go(&mut self, hash: KeyHash, now: Ns) {
        for at in 0..self.unsent.len() {
            let index = self.unsent[at];
            let behind = &self.all[index];
            if behind.state == State::Behind
                && behind.hash == hash
                && !self.is_held_back(hash, behind.is_write(), behind.number)
            {
                self.all[index].state = State::Due(now);
            }
        }
    }

    /// Whether an operation before the one with this number conflicts with it: it is on the same key, and not both read.
    fn is_held_back(&self, hash: KeyHash, is_write: bool, number: u64) -> bool {
        let holds = |it: &Operation| {
            it.state != State::Free && it.number < number && it.hash == hash && (it.is_write() || is_write)
        };
        self.all.iter().any(holds)
    }

    /// Operations that are not sent, the earliest first.
    pub(super) fn unsent(&self) -> &[usize] {
        &self.unsent
    }

    /// Time at which the next operation is to be sent; [`Ns::MAX`]: none is.
    pub(super) fn next_due(&self) -> Ns {
        let due = self.unsent.iter().map(|index| match self.all[*index].state {
            State::Due(at) => at,
            _ => Ns::MAX,
        });
        due.min().unwrap_or(Ns::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: (KeyHash, ShardId) = (KeyHash { low: 1, high: 2 }, ShardId(0));

    fn state(operations: &mut Operations, index: usize) -> State {
        operations.get_mut(index).expect("an operation").state
    }

    #[test]
    fn an_update_waits_for_everything_before_it_and_reads_for_updates() {
        let mut operations = Operations::new();
        let (get, put) = (Op::Get { key: b"k" }, Op::put(b"k", b"v"));
        let added = [&get, &get, &put, &get].map(|op| operations.add(op, 7, KEY, Ns(1)));
        assert_eq!(added, [(0, true), (1, true), (2, false), (3, false)]);
        operations.sent(0, 0, Epoch(1));
        operations.sent(1, 0, Epoch(1));
        operations.end(0, Ns(2));
        assert_eq!(state(&mut operations, 2), State::Behind);
        // It is to be sent again: the update still waits.
        operations.is_due_at(1, Ns(3));
        assert_eq!(state(&mut operations, 2), State::Behind);
        operations.end(1, Ns(4));
        assert_eq!(state(&mut operations, 2), State::Due(Ns(4)));
        assert_eq!(state(&mut operations, 3), State::Behind);
        operations.end(2, Ns(5));
        assert_eq!(state(&mut operations, 3), State::Due(Ns(5)));
        operations.end(3, Ns(6));
        assert!(operations.is_empty() && operations.unsent().is_empty());
        assert!(operations.add(&put, 7, KEY, Ns(7)).1);
    }

    #[test]
    fn operations_on_other_keys_do_not_wait() {
        let mut operations = Operations::new();
        let other = (KeyHash { low: 1, high: 3 }, ShardId(0));
        for key in [KEY, other] {
            assert!(operations.add(&Op::put(b"k", b"v"), 7, key, Ns(1)).1);
        }
        assert_eq!(operations.next_due(), Ns(1));
        operations.is_due_at(0, Ns(9));
        operations.sent(1, 0, Epoch(1));
        assert_eq!(operations.next_due(), Ns(9));
        operations.hurry(Ns(2));
        assert_eq!(operations.next_due(), Ns(2));
    }
}
