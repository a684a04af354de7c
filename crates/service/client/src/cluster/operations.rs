//! [`Operations`]: what the client has accepted and not completed, with copies to be sent again.
//!
//! Operations are found by key in chains: one for each class of key hashes, the newest operation first. So what an operation may have to wait
//! for stands behind it in its chain. With the usual windows a chain has one operation or none.

use drover_base::{KeyHash, Ns};
use drover_cluster::{Attempts, Epoch, ShardId};
use drover_kv::{Op, OwnedOp, Token};

/// Most operations under way. *(our choice)*
const OPERATIONS_MAX: usize = 4096;
/// Number of chains: so few that the first-level cache holds them. *(our choice)*
const CLASS_COUNT: usize = 1024;
/// No operation: the end of a chain.
const NONE: u32 = u32::MAX;

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
    /// Index of the operation before it in its chain.
    earlier: u32,
    is_listed: bool,
}

impl Operation {
    fn unused() -> Operation {
        Operation {
            token: 0,
            op: OwnedOp::new(&Op::Get { key: b"" }),
            hash: KeyHash { low: 0, high: 0 },
            shard: ShardId(0),
            submitted: Ns::ZERO,
            state: State::Free,
            attempts: Attempts::default(),
            sent_under: Epoch::NONE,
            earlier: NONE,
            is_listed: false,
        }
    }

    fn is_write(&self) -> bool {
        self.op.kind().is_update()
    }

    /// Whether one on a key with this hash must wait for it: it is on the same key, and not both read.
    fn holds_back(&self, hash: KeyHash, is_write: bool) -> bool {
        self.hash == hash && (is_write || self.is_write())
    }
}

/// All operations, by index. Copies reuse the memory of earlier ones.
pub(super) struct Operations {
    all: Vec<Operation>,
    free: Vec<usize>,
    /// Index of the newest operation of each chain.
    newest: Box<[u32; CLASS_COUNT]>,
    /// Those that are to be sent later, in the order in which they were submitted, or sent before.
    unsent: Vec<usize>,
}

fn class_of(hash: KeyHash) -> usize {
    (hash.low >> 48) as usize % CLASS_COUNT
}

impl Operations {
    pub(super) fn new() -> Operations {
        Operations {
            all: Vec::new(),
            free: Vec::new(),
            newest: Box::new([NONE; CLASS_COUNT]),
            unsent: Vec::new(),
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

    /// Adds an operation, which is due now or behind others. Returns its index and whether it is due; if so, the caller has it
    /// [sent](Operations::sent), [sent later](Operations::is_due_at) or [ended](Operations::end).
    pub(super) fn add(
        &mut self,
        op: &Op<'_>,
        token: Token,
        (hash, shard): (KeyHash, ShardId),
        now: Ns,
    ) -> (usize, bool) {
        let class = class_of(hash);
        let is_behind = self.is_held_back(self.newest[class], hash, op.kind().is_update());
        let index = self.free.pop().unwrap_or_else(|| {
            self.all.push(Operation::unused());
            self.all.len() - 1
        });
        let added = &mut self.all[index];
        added.op.replace(op);
        (added.token, added.hash, added.shard, added.submitted) = (token, hash, shard, now);
        (added.attempts, added.sent_under) = (Attempts::default(), Epoch::NONE);
        added.state = match is_behind {
            true => State::Behind,
            false => State::Due(now),
        };
        added.earlier = std::mem::replace(&mut self.newest[class], index as u32);
        if is_behind {
            self.list(index);
        }
        (index, !is_behind)
    }

    /// Notes that an operation was sent.
    pub(super) fn sent(&mut self, index: usize, place: usize, under: Epoch) {
        self.unlist(index);
        let operation = &mut self.all[index];
        (operation.state, operation.sent_under) = (State::Sent(place), under);
    }

    /// Has an operation sent, or sent again, at `at`.
    pub(super) fn is_due_at(&mut self, index: usize, at: Ns) {
        self.list(index);
        self.all[index].state = State::Due(at);
    }

    fn list(&mut self, index: usize) {
        if !std::mem::replace(&mut self.all[index].is_listed, true) {
            self.unsent.push(index);
        }
    }

    fn unlist(&mut self, index: usize) {
        if std::mem::take(&mut self.all[index].is_listed) {
            self.unsent.retain(|other| *other != index);
        }
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
        self.unlist(index);
        self.all[index].state = State::Free;
        self.free.push(index);
        let (hash, earlier) = (self.all[index].hash, self.all[index].earlier);
        *self.link_to(index) = earlier;
        if !self.unsent.is_empty() {
            self.let_go(hash, now);
        }
    }

    /// The place in its chain that names an operation.
    fn link_to(&mut self, index: usize) -> &mut u32 {
        let class = class_of(self.all[index].hash);
        let mut at = self.newest[class] as usize;
        if at == index {
            return &mut self.newest[class];
        }
        while self.all[at].earlier as usize != index {
            at = self.all[at].earlier as usize;
        }
        &mut self.all[at].earlier
    }

    /// Makes those operations on a key due that no earlier one holds back any more.
    fn let_go(&mut self, hash: KeyHash, now: Ns) {
        let mut at = self.newest[class_of(hash)];
        while let Some(behind) = self.all.get(at as usize) {
            let earlier = behind.earlier;
            if behind.state == State::Behind
                && behind.hash == hash
                && !self.is_held_back(earlier, hash, behind.is_write())
            {
                self.all[at as usize].state = State::Due(now);
            }
            at = earlier;
        }
    }

    /// Whether an operation in the chain from `from` on holds back one on a key with this hash.
    fn is_held_back(&self, mut from: u32, hash: KeyHash, is_write: bool) -> bool {
        while let Some(it) = self.all.get(from as usize) {
            if it.holds_back(hash, is_write) {
                return true;
            }
            from = it.earlier;
        }
        false
    }

    /// Operations that are to be sent later.
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
        operations.is_due_at(0, Ns(9));
        operations.sent(1, 0, Epoch(1));
        assert_eq!(operations.next_due(), Ns(9));
        operations.hurry(Ns(2));
        assert_eq!(operations.next_due(), Ns(2));
    }

    #[test]
    fn any_of_a_chain_may_end_first() {
        let key = |high| (KeyHash { low: 1, high }, ShardId(0));
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let mut operations = Operations::new();
            let put = Op::put(b"k", b"v");
            for high in 0..3 {
                assert!(operations.add(&put, 7, key(high), Ns(1)).1);
                operations.sent(high as usize, 0, Epoch(1));
            }
            for ended in order {
                let again = operations.add(&put, 7, key(ended as u64), Ns(2));
                assert!(!again.1, "it is behind the first on its key");
                operations.end(ended, Ns(3));
                assert_eq!(state(&mut operations, again.0), State::Due(Ns(3)));
                operations.end(again.0, Ns(4));
            }
            assert!(operations.is_empty() && operations.unsent().is_empty());
        }
    }
}
