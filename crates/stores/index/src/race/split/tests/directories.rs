//! Splits as the directory sees them, to any depth; buckets that no split can meet.

use super::*;
use crate::race::DEPTH_MAX;
use crate::race::split::Lock;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// A directory in memory, and the splits that have come to their end.
struct Shard {
    global: GlobalDepth,
    entries: Vec<u64>,
    divisions: Vec<Division>,
    allocated: u64,
}

/// Address of the first subtable.
const FIRST: u64 = 64;

impl Shard {
    fn new() -> Shard {
        let first = Entry {
            subtable: FIRST,
            depth: 0,
            locked: false,
        };
        Shard {
            global: GlobalDepth::default(),
            entries: vec![first.word(); 1],
            divisions: Vec::new(),
            allocated: FIRST,
        }
    }

    fn directory(&self) -> Directory {
        let mut bytes = vec![0; crate::race::ENTRIES_OFFSET];
        bytes[..8].copy_from_slice(&self.global.word().to_le_bytes());
        bytes.extend(self.entries.iter().flat_map(|word| word.to_le_bytes()));
        Directory::from_bytes(&bytes).expect("a directory at all times")
    }

    /// Carries out `split`; dies instead of the WRITE numbered `death`.
    fn run(&mut self, mut split: Split, death: Option<usize>) -> Option<Outcome> {
        let mut writes = 0;
        let mut held = Vec::new();
        let mut is_dead = || {
            writes += 1;
            death == Some(writes - 1)
        };
        loop {
            match split.step() {
                Step::Acquire(lock) => {
                    assert!(!held.contains(&lock));
                    held.push(lock);
                    split.done();
                }
                Step::Release(lock) => {
                    held.retain(|held| *held != lock);
                    split.done();
                }
                Step::ReadDirectory => split.directory_read(&self.directory()),
                Step::Allocate => {
                    self.allocated += 64;
                    split.allocated(Some(self.allocated));
                }
                Step::Prepare { subtable, header } => {
                    assert!(subtable == self.allocated && header.pending);
                    split.done();
                }
                Step::WriteDepth(global) => {
                    assert_eq!(held, [Lock::Directory]);
                    if is_dead() {
                        return None;
                    }
                    self.global = global;
                    split.done();
                }
                Step::WriteEntries(entries) => {
                    assert_eq!(held, [Lock::Directory]);
                    for (index, entry) in entries {
                        if is_dead() {
                            return None;
                        }
                        let index = index as usize;
                        self.entries.resize(self.entries.len().max(index + 1), 0);
                        self.entries[index] = entry.word();
                    }
                    split.done();
                }
                Step::MoveBuckets { old, new } => {
                    assert!(held.is_empty() && old != new && new != 0);
                    split.done();
                }
                Step::ClearBuckets { .. } => split.done(),
                Step::Finished(outcome) => {
                    if outcome == Outcome::Split {
                        self.divisions.push(split.division().expect("known"));
                    }
                    return Some(outcome);
                }
            }
        }
    }

    /// The subtables that the directory should lead to, by depth and suffix. Splits that were resumed late have ended after those of
    /// the subtables that they made.
    fn subtables(&self) -> BTreeMap<(u8, u32), u64> {
        let mut divisions = self.divisions.clone();
        divisions.sort_by_key(|division| division.depth);
        let mut subtables = BTreeMap::from([((0, 0), FIRST)]);
        for division in divisions {
            let Division { depth, suffix } = division;
            let old = subtables.remove(&(depth, suffix)).expect("split once");
            subtables.insert((depth + 1, suffix), old);
            let moved = division.moved().suffix;
            subtables.insert((depth + 1, moved), self.directory().entry(moved).subtable);
        }
        subtables
    }

    fn check(&self) {
        let (directory, subtables) = (self.directory(), self.subtables());
        assert!(!directory.global().doubling);
        for (index, entry) in (0u32..).zip(directory.entries()) {
            let low = index & ((1 << entry.depth) - 1);
            assert!(!entry.locked, "{index}: {entry:?}");
            assert_eq!(
                subtables.get(&(entry.depth, low)),
                Some(&entry.subtable),
                "{index}"
            );
        }
    }
}

fn division(shard: &Shard, bits: u32) -> Option<Division> {
    let entry = shard.directory().entry(bits);
    Division::new(bits, entry.depth).filter(|division| division.depth < 5)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 256 }))]

    /// Any subtables are split in any order, and any client may die and be replaced.
    #[test]
    fn directories_stay_right(splits in proptest::collection::vec((any::<u32>(), proptest::option::of(0usize..20)), 0..24)) {
        let mut shard = Shard::new();
        for (bits, death) in splits {
            let Some(division) = division(&shard, bits) else { continue };
            match shard.run(Split::new(division), death) {
                Some(outcome) => prop_assert_eq!(outcome, Outcome::Split),
                None => {
                    let outcome = shard.run(Split::resume(division.suffix()), None);
                    prop_assert!(matches!(outcome, Some(Outcome::Split | Outcome::Nothing)), "{:?}", outcome);
                }
            }
            shard.check();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 256 }))]

    /// Several clients may have died before any of them is replaced, in any order, and those that replace them may die, too. Others
    /// split meanwhile: the directory's lock is taken from the dead.
    #[test]
    fn dead_clients_are_replaced_in_any_order(
        splits in proptest::collection::vec((any::<u32>(), proptest::option::of(0usize..20), any::<bool>()), 0..40),
    ) {
        let (mut shard, mut dead) = (Shard::new(), Vec::new());
        for (bits, death, resumes) in splits {
            let (suffix, split) = match division(&shard, bits) {
                _ if resumes && !dead.is_empty() => {
                    let suffix: u32 = dead.swap_remove(bits as usize % dead.len());
                    (suffix, Split::resume(suffix))
                }
                Some(division) if !dead.contains(&division.suffix()) => (division.suffix(), Split::new(division)),
                _ => continue,
            };
            if shard.run(split, death).is_none() {
                dead.push(suffix);
            }
        }
        for suffix in dead {
            prop_assert!(shard.run(Split::resume(suffix), None).is_some());
        }
        shard.check();
    }
}

/// Public code rewrites entries while another client doubles the directory. Here the lock of the directory protects
/// both, and a split looks at the directory again when it has that lock.
#[test]
fn race_defect_doubling_races_with_entries() {
    let mut shard = Shard::new();
    let first = division(&shard, 0).expect("depth 0");
    shard.run(Split::new(first), None);
    let [zero, one] = [0, 1].map(|bits| division(&shard, bits).expect("depth 1"));
    // Both want to double the directory; the second one is at its lock when the first one has done so.
    let mut waits = Split::new(one);
    waits.directory_read(&shard.directory());
    shard.allocated += 64;
    waits.allocated(Some(shard.allocated));
    waits.done();
    assert_eq!(waits.step(), Step::Acquire(Lock::Directory));
    assert_eq!(shard.run(Split::new(zero), None), Some(Outcome::Split));
    assert_eq!(shard.run(waits, None), Some(Outcome::Split));
    shard.check();
    assert_eq!((shard.global.depth, shard.subtables().len()), (2, 4));
}

#[test]
fn splits_that_cannot_be() {
    let mut shard = Shard::new();
    let first = division(&shard, 0).expect("depth 0");
    let mut split = Split::new(first);
    split.directory_read(&shard.directory());
    split.allocated(None);
    assert_eq!(shard.run(split, None), Some(Outcome::NoMemory));
    // The client dies when the entries are locked: the new subtable must not be split yet.
    assert_eq!(shard.run(Split::new(first), Some(5)), None);
    let new = Division::new(1, 1).expect("depth 1");
    assert_eq!(shard.run(Split::new(new), None), Some(Outcome::Busy));
    assert_eq!(shard.run(Split::resume(0), None), Some(Outcome::Split));
    assert_eq!(shard.run(Split::new(first), None), Some(Outcome::AlreadySplit));
    assert_eq!(shard.run(Split::resume(0), None), Some(Outcome::Nothing));
    assert_eq!(Division::new(7, DEPTH_MAX), None);
    shard.check();
}

#[test]
fn buckets_that_no_split_meets_are_refused() {
    let division = Division::new(0, 0).expect("depth 0");
    let bucket = |header| {
        let slots = [Slot::EMPTY; SLOTS];
        Bucket { header, slots }.to_bytes()
    };
    let (new, old) = (bucket(division.moved().pending()), bucket(division.stays()));
    let read = |new: &[u8; 64], old: &[u8; 64]| BucketMove::new(division).buckets_read(new, old).is_ok();
    assert!(read(&new, &old) && read(&bucket(division.moved()), &old));
    for header in [division.before(), Header::new(2, 0), Header::new(1, 1)] {
        assert!(!read(&new, &bucket(header)), "{header:?}");
    }
    for header in [division.stays(), Header::new(2, 1).pending()] {
        assert!(!read(&bucket(header), &old), "{header:?}");
    }
    assert!(!read(&[0xff; 64], &old) && !read(&new, &[0xff; 64]));
}

/// A bucket full of words that no client writes: they stay.
#[test]
fn bad_slots_are_left_alone() {
    let division = Division::new(0, 0).expect("depth 0");
    let mut bucket = Bucket {
        header: division.stays(),
        slots: [Slot::from_word(4); SLOTS],
    };
    let new = Bucket {
        header: division.moved().pending(),
        slots: [Slot::EMPTY; SLOTS],
    };
    bucket.slots[3] = entry(MOVES, 1).tentative();
    let mut moved = BucketMove::new(division);
    moved
        .buckets_read(&new.to_bytes(), &bucket.to_bytes())
        .expect("headers of this split");
    moved.advance();
    let mut requests = Vec::new();
    moved.requests(|request| requests.push(request));
    let (slot, entry) = (3, bucket.slots[3]);
    assert_eq!(requests, [MoveRequest::ReadBlock { slot, entry }]);
    moved.block_read(slot, true);
    moved.advance();
    moved.slot_was(slot, entry);
    moved.advance();
    requests.clear();
    moved.requests(|request| requests.push(request));
    let slots = [Slot::EMPTY; SLOTS];
    let header = division.moved();
    assert_eq!(
        requests,
        [
            MoveRequest::WriteSlots(slots),
            MoveRequest::WriteHeader(header),
            MoveRequest::ClearSlot { slot }
        ],
        "a tentative entry that would move is removed"
    );
}
