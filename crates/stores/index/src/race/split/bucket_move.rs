//! [`BucketMove`]: what happens to one bucket in a split. Four round trips without conflict, and later two for clearing.

use super::Division;
use crate::race::{BUCKET_BYTES, Bucket, Header, SLOTS, Slot, SlotKind};

/// A request of a [`BucketMove`]. Those of one step are executed in order, as one list of one queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum MoveRequest {
    /// CAS the header of the old bucket. Its result does not matter: the READ behind it shows the header.
    CasHeader {
        /// The header before the split.
        expect: Header,
        /// The header after it.
        set: Header,
    },
    /// READ the new bucket, then the old one; report both to [`BucketMove::buckets_read`].
    ReadBuckets,
    /// READ the block of `entry`, and report to [`BucketMove::block_read`] whether its key moves.
    ReadBlock {
        /// Index of the slot.
        slot: u8,
        /// The entry.
        entry: Slot,
    },
    /// CAS a slot of the old bucket, and report the word that it had to [`BucketMove::slot_was`].
    CasSlot {
        /// Index of the slot.
        slot: u8,
        /// The expected word.
        expect: Slot,
        /// The frozen word.
        set: Slot,
    },
    /// WRITE all slots of the new bucket.
    WriteSlots([Slot; SLOTS]),
    /// WRITE the header of the new bucket, which then belongs to everybody.
    WriteHeader(Header),
    /// WRITE 0 to a slot of the old bucket. It is frozen, so nobody CASes it.
    ClearSlot {
        /// Index of the slot.
        slot: u8,
    },
}

/// A bucket is not what a split can meet: the structure is corrupt, or another client split without the lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a bucket of a subtable that is being split has header {word:#x}")]
pub struct BadBucket {
    /// The word in place of the header.
    pub word: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Stage {
    /// The old header is changed, and both buckets are READ.
    Claim {
        /// Whether the new bucket is pending, once it was READ.
        is_pending: Option<bool>,
    },
    /// Slots are frozen.
    Freeze,
    /// Entries are written to the new bucket, unless that was done before, and frozen slots cleared.
    Publish {
        is_pending: bool,
    },
    Done,
}

/// What is known about a slot of the old bucket.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Plan {
    /// Its entry's key is unknown.
    Ask(Slot),
    Freeze {
        expect: Slot,
        set: Slot,
    },
    Frozen(Slot),
    Stays,
}

impl Plan {
    fn new(slot: Slot) -> Plan {
        match slot.kind() {
            _ if slot.is_frozen() => Plan::Frozen(slot),
            SlotKind::Live | SlotKind::Tentative => Plan::Ask(slot),
            SlotKind::Empty => Plan::Freeze {
                expect: slot,
                set: Slot::FROZEN_EMPTY,
            },
            SlotKind::Bad | SlotKind::FrozenEmpty => Plan::Stays,
        }
    }
}

/// Moves what must move from a bucket to the one at the same place in the new subtable.
///
/// Call [`requests`](BucketMove::requests), execute them, report what they found, then call
/// [`advance`](BucketMove::advance). If a request fails, begin with a new `BucketMove`: all of it can be repeated.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct BucketMove {
    division: Division,
    /// Whether the slots of entries that were moved are cleared, too.
    clears: bool,
    stage: Stage,
    plans: [Plan; SLOTS],
}

impl BucketMove {
    /// Begins, or resumes what a dead client left. The old slots of entries that were moved stay frozen.
    pub fn new(division: Division) -> BucketMove {
        BucketMove {
            division,
            clears: false,
            stage: Stage::Claim { is_pending: None },
            plans: [Plan::Stays; SLOTS],
        }
    }

    /// As [`new`](BucketMove::new), for when all buckets of the subtable have moved: clears those slots, too.
    pub fn clearing(division: Division) -> BucketMove {
        BucketMove {
            clears: true,
            ..BucketMove::new(division)
        }
    }

    /// Whether nothing is left to do.
    pub fn is_done(&self) -> bool {
        self.stage == Stage::Done
    }

    /// Calls `each` with the requests of this step.
    pub fn requests(&self, mut each: impl FnMut(MoveRequest)) {
        match self.stage {
            Stage::Claim { .. } => {
                each(MoveRequest::CasHeader {
                    expect: self.division.before(),
                    set: self.division.stays(),
                });
                each(MoveRequest::ReadBuckets);
            }
            Stage::Freeze => {
                for (slot, plan) in (0..).zip(self.plans) {
                    match plan {
                        Plan::Ask(entry) => each(MoveRequest::ReadBlock { slot, entry }),
                        Plan::Freeze { expect, set } => each(MoveRequest::CasSlot { slot, expect, set }),
                        Plan::Frozen(_) | Plan::Stays => {}
                    }
                }
            }
            Stage::Publish { is_pending } => {
                if is_pending {
                    each(MoveRequest::WriteSlots(self.moved()));
                    each(MoveRequest::WriteHeader(self.division.moved()));
                }
                for (slot, plan) in (0..).zip(self.plans) {
                    let clears = |frozen| self.clears || frozen == Slot::FROZEN_EMPTY;
                    if matches!(plan, Plan::Frozen(frozen) if clears(frozen)) {
                        each(MoveRequest::ClearSlot { slot });
                    }
                }
            }
            Stage::Done => {}
        }
    }

    /// The slots of the new bucket.
    fn moved(&self) -> [Slot; SLOTS] {
        self.plans.map(|plan| match plan {
            Plan::Frozen(slot) if slot.kind() == SlotKind::Live => slot.thawed(),
            // Tentative entries are not moved: their clients begin anew.
            _ => Slot::EMPTY,
        })
    }

    /// Reports both buckets.
    ///
    /// # Errors
    /// [`BadBucket`] if a header is not one of this split.
    pub fn buckets_read(
        &mut self,
        new: &[u8; BUCKET_BYTES],
        old: &[u8; BUCKET_BYTES],
    ) -> Result<(), BadBucket> {
        let decode = |bytes| Bucket::from_bytes(bytes).map_err(|bad| BadBucket { word: bad.word });
        let (new, old) = (decode(new)?, decode(old)?);
        let bad = |header: Header| BadBucket { word: header.word() };
        let is_pending = match new.header {
            header if header == self.division.moved().pending() => true,
            header if header == self.division.moved() => false,
            header => return Err(bad(header)),
        };
        if old.header != self.division.stays() {
            return Err(bad(old.header));
        }
        self.plans = old.slots.map(Plan::new);
        self.stage = Stage::Claim {
            is_pending: Some(is_pending),
        };
        Ok(())
    }

    /// Reports whether the key of the entry in `slot` moves, which [`Division::moves`] says.
    pub fn block_read(&mut self, slot: u8, moves: bool) {
        let plan = &mut self.plans[usize::from(slot)];
        if let Plan::Ask(entry) = *plan {
            let set = match entry.kind() {
                SlotKind::Tentative => Slot::FROZEN_EMPTY,
                _ => entry.frozen(),
            };
            *plan = match moves {
                true => Plan::Freeze { expect: entry, set },
                false => Plan::Stays,
            };
        }
    }

    /// Reports the word that `slot` had before the CAS. If a writer was first, the slot is looked at again.
    pub fn slot_was(&mut self, slot: u8, was: Slot) {
        let plan = &mut self.plans[usize::from(slot)];
        if let Plan::Freeze { expect, set } = *plan {
            *plan = if was == expect {
                Plan::Frozen(set)
            } else {
                Plan::new(was)
            };
        }
    }

    /// Ends the step, whose requests have been executed and reported.
    pub fn advance(&mut self) {
        self.stage = self.next();
        while !self.is_done() && !self.has_requests() {
            self.stage = self.next();
        }
    }

    fn next(&self) -> Stage {
        let is_open = |plan: &Plan| matches!(plan, Plan::Ask(_) | Plan::Freeze { .. });
        match self.stage {
            Stage::Claim {
                is_pending: Some(true),
            } => Stage::Freeze,
            // Only clearing is left. The other slots belong to those who stay.
            Stage::Claim {
                is_pending: Some(is_pending),
            } => Stage::Publish { is_pending },
            Stage::Freeze if !self.plans.iter().any(is_open) => Stage::Publish { is_pending: true },
            Stage::Publish { .. } | Stage::Done => Stage::Done,
            stage => stage,
        }
    }

    fn has_requests(&self) -> bool {
        let mut any = false;
        self.requests(|_| any = true);
        any
    }
}
