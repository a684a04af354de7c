//! Writers and readers of the model: each access to shared memory is an event.

use super::history::{History, Op};
use super::*;
use crate::race::candidates::is_split_into;
use crate::race::{Fit, Settled, SlotId, SlotKind, settle};

/// What a client does next.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Phase {
    /// READ the bucket; if words of a READ are seen at different times, its header.
    Find,
    /// Such a READ sees the slots.
    FindSlots(Header),
    /// READ the bucket again, in which nothing was found.
    LookAgain(Header),
    LookAgainAtSlots,
    /// READ the directory.
    Refresh,
    /// READ the bucket of the old subtable: the new one was pending.
    FindOld,
    /// READ the new bucket again: the old one had no match.
    FindAgain,
    /// CAS the entry.
    Change(u8, Slot),
    /// CAS an empty slot.
    Insert(u8),
    /// READ the bucket behind that CAS.
    Recheck(u8),
    /// CAS another client's tentative entry away.
    Remove {
        own: u8,
        slot: u8,
        word: Slot,
    },
    Confirm(u8),
    /// CAS one's own entry away; then end without success, or begin anew.
    Withdraw {
        own: u8,
        exists: bool,
    },
}

/// A client that executes some operations.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Client {
    id: u8,
    ops: &'static [Op],
    next: usize,
    phase: Phase,
    is_running: bool,
    /// Whether its directory has the new subtable.
    is_new: bool,
    /// Whether its READs see the header before the slots.
    is_torn: bool,
}

impl Client {
    pub(super) fn new(id: u8, ops: &'static [Op], is_torn: bool) -> Client {
        Client {
            id,
            ops,
            next: 0,
            phase: Phase::Find,
            is_running: false,
            is_new: false,
            is_torn,
        }
    }

    pub(super) fn is_finished(&self) -> bool {
        self.next == self.ops.len()
    }

    /// Executes the next access. A client that waits changes nothing.
    pub(super) fn step(&mut self, world: &mut World, history: &mut History, flaw: Flaw) {
        let op = self.ops[self.next];
        if !self.is_running {
            history.begin(self.id, op);
            self.is_running = true;
        }
        let result = match self.phase {
            Phase::Refresh => {
                self.is_new = world.directory().entry(1).subtable == NEW;
                self.go(Phase::Find)
            }
            Phase::Find if self.is_torn => {
                let header = world.bucket(self.in_new(op)).header;
                self.go(Phase::FindSlots(header))
            }
            Phase::Find => self.find(op, *world.bucket(self.in_new(op)), flaw),
            Phase::FindSlots(header) => {
                let slots = world.bucket(self.in_new(op)).slots;
                self.find(op, Bucket { header, slots }, flaw)
            }
            Phase::LookAgain(header) => {
                let is_same = world.bucket(self.in_new(op)).header == header;
                self.go(if is_same {
                    Phase::LookAgainAtSlots
                } else {
                    Phase::Find
                })
            }
            Phase::LookAgainAtSlots => match find(world.bucket(self.in_new(op)), op.key()) {
                None => Some(0),
                Some(_) => self.go(Phase::Find),
            },
            Phase::FindOld => self.find_old(op, world, flaw),
            Phase::FindAgain => self.find_again(op, world),
            Phase::Change(slot, word) => self.change(op, world, slot, word),
            Phase::Insert(slot) => self.insert(op, world, slot, flaw),
            Phase::Recheck(own) => self.recheck(op, world, own, flaw),
            Phase::Remove { own, slot, word } => {
                world.cas(self.in_new(op), slot, word, Slot::EMPTY);
                self.go(Phase::Recheck(own))
            }
            Phase::Confirm(own) => {
                let entry = self.entry(op);
                match world.cas(self.in_new(op), own, entry.tentative(), entry) == entry.tentative() {
                    true => Some(1),
                    false => self.go(Phase::Find),
                }
            }
            Phase::Withdraw { own, exists } => {
                let entry = self.entry(op);
                world.cas(self.in_new(op), own, entry.tentative(), Slot::EMPTY);
                self.go(Phase::Find).or(exists.then_some(0))
            }
        };
        if let Some(result) = result {
            history.end(self.id, result);
            self.next += 1;
            self.is_running = false;
            self.phase = Phase::Find;
        }
    }

    fn go(&mut self, phase: Phase) -> Option<u8> {
        self.phase = phase;
        None
    }

    /// Whether the operation's key is looked for in the new subtable.
    fn in_new(&self, op: Op) -> bool {
        self.is_new && op.key() == MOVES
    }

    fn entry(&self, op: Op) -> Slot {
        entry(op.key(), op.value())
    }

    fn find(&mut self, op: Op, bucket: Bucket, flaw: Flaw) -> Option<u8> {
        self.phase = Phase::Find;
        let found = find(&bucket, op.key());
        let is_get = matches!(op, Op::Get(_));
        let must_look = flaw != Flaw::HeaderAfterMiss || !is_get || found.is_none();
        match bucket.header.fit(bits(op.key()), 1) {
            Fit::Elsewhere if must_look => return self.go(Phase::Refresh),
            Fit::Pending if flaw == Flaw::PendingTrusted => {}
            Fit::Pending if matches!(op, Op::Get(_)) => return self.go(Phase::FindOld),
            // Writers wait.
            Fit::Pending => return None,
            _ => {}
        }
        let is_over = found.is_none() && matches!(op, Op::Get(_) | Op::Delete(_));
        if is_over && self.is_torn && flaw != Flaw::MissBelieved {
            return self.go(Phase::LookAgain(bucket.header));
        }
        self.decide(op, &bucket, found)
    }

    fn decide(&mut self, op: Op, bucket: &Bucket, found: Option<(u8, Slot)>) -> Option<u8> {
        match (op, found) {
            (Op::Get(_), _) => Some(value(found)),
            (_, Some((_, word))) if word.is_frozen() => None,
            (Op::Put(..) | Op::Delete(_), Some((slot, word))) => self.go(Phase::Change(slot, word)),
            (Op::Add(..), Some(_)) | (Op::Delete(_), None) => Some(0),
            (Op::Put(..) | Op::Add(..), None) => {
                match bucket.slots.iter().position(|slot| *slot == Slot::EMPTY) {
                    Some(slot) => self.go(Phase::Insert(slot as u8)),
                    // Full, or frozen: wait.
                    None => None,
                }
            }
        }
    }

    fn find_old(&mut self, op: Op, world: &mut World, flaw: Flaw) -> Option<u8> {
        if !is_split_into(world.old.header, world.new.header) {
            return self.go(Phase::Find);
        }
        match find(&world.old, op.key()) {
            None if flaw != Flaw::OldTrusted => self.go(Phase::FindAgain),
            found => Some(value(found)),
        }
    }

    fn find_again(&mut self, op: Op, world: &mut World) -> Option<u8> {
        match world.new.header.fit(bits(op.key()), 1) {
            // Nothing was published, so the old bucket was right.
            Fit::Pending => Some(0),
            _ => Some(value(find(&world.new, op.key()))),
        }
    }

    fn change(&mut self, op: Op, world: &mut World, slot: u8, word: Slot) -> Option<u8> {
        let set = match op {
            Op::Delete(_) => Slot::EMPTY,
            _ => word.replaced(self.entry(op).block().expect("an entry")),
        };
        match world.cas(self.in_new(op), slot, word, set) == word {
            true => Some(1),
            false => self.go(Phase::Find),
        }
    }

    fn insert(&mut self, op: Op, world: &mut World, slot: u8, flaw: Flaw) -> Option<u8> {
        let set = match flaw {
            Flaw::NotTentative => self.entry(op),
            _ => self.entry(op).tentative(),
        };
        match world.cas(self.in_new(op), slot, Slot::EMPTY, set) == Slot::EMPTY {
            true => self.go(Phase::Recheck(slot)),
            false => self.go(Phase::Find),
        }
    }

    fn recheck(&mut self, op: Op, world: &mut World, own: u8, flaw: Flaw) -> Option<u8> {
        let bucket = *world.bucket(self.in_new(op));
        let fit = bucket.header.fit(bits(op.key()), 1);
        let is_here = matches!(fit, Fit::Current | Fit::Older);
        if flaw == Flaw::NotTentative {
            return self.recheck_as_published(op, world, own, is_here);
        }
        if bucket.slots[usize::from(own)] != self.entry(op).tentative() {
            return self.go(Phase::Find);
        }
        if !is_here {
            let exists = false;
            return self.go(Phase::Withdraw { own, exists });
        }
        let id = |slot| SlotId { bucket: 0, slot };
        let rivals = (0..)
            .zip(bucket.slots)
            .filter(|(slot, word)| *slot != own && content(*word).is_some_and(|(key, _)| key == op.key()));
        match settle(id(own), rivals.map(|(slot, word)| (id(slot), word)), false) {
            Settled::Confirm => self.go(Phase::Confirm(own)),
            Settled::Remove(SlotId { slot, .. }, word) => self.go(Phase::Remove { own, slot, word }),
            Settled::GiveWay => self.go(Phase::Withdraw { own, exists: false }),
            Settled::Exists => {
                let exists = matches!(op, Op::Add(..));
                self.go(Phase::Withdraw { own, exists })
            }
        }
    }

    /// The published way: of entries with the same key the first survives. An entry whose bucket was split is inserted
    /// again.
    fn recheck_as_published(&mut self, op: Op, world: &mut World, own: u8, is_here: bool) -> Option<u8> {
        let entry = self.entry(op);
        let bucket = *world.bucket(self.in_new(op));
        if !is_here {
            let was = world.cas(self.in_new(op), own, entry, Slot::EMPTY);
            return match was == entry {
                true => self.go(Phase::Find),
                false => Some(1),
            };
        }
        let mut same = (0..).zip(bucket.slots).filter(|(_, word)| {
            word.kind() == SlotKind::Live && content(*word).is_some_and(|(key, _)| key == op.key())
        });
        let first = same.next().map(|(slot, _)| slot);
        if let Some((slot, word)) = same.next() {
            world.cas(self.in_new(op), slot, word, Slot::EMPTY);
        }
        Some(u8::from(matches!(op, Op::Put(..)) || first == Some(own)))
    }
}

/// The confirmed entry of `key`.
fn find(bucket: &Bucket, key: u8) -> Option<(u8, Slot)> {
    (0..).zip(bucket.slots).find(|(_, word)| {
        word.kind() == SlotKind::Live && content(*word).is_some_and(|(found, _)| found == key)
    })
}

fn value(found: Option<(u8, Slot)>) -> u8 {
    let content = found.and_then(|(_, word)| content(word));
    content.map_or(0, |(_, value)| value)
}

/// The value of `key` when nobody does anything.
pub(super) fn final_value(world: &World, key: u8) -> u8 {
    let directory = world.directory();
    let is_new = directory.entry(bits(key)).subtable == NEW;
    value(find(if is_new { &world.new } else { &world.old }, key))
}
