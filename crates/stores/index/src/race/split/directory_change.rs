//! [`Split`]: a split except for what happens to its buckets: locks, directory, doubling.

use super::Division;
use crate::race::{Directory, Entry, GlobalDepth, Header};

/// A lock in the shard that names its owner, so that others can tell whether the owner is dead.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Lock {
    /// The lock for the subtable of this suffix.
    Subtable(u32),
    /// The lock for the directory; held for a few round trips.
    Directory,
}

/// How a split ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Outcome {
    /// The subtable is split.
    Split,
    /// Another client has split it: READ the directory, and begin anew.
    AlreadySplit,
    /// The subtable is still the new one of another split: wait, and begin anew.
    Busy,
    /// No memory for another subtable.
    NoMemory,
    /// The dead client had not changed anything.
    Nothing,
}

/// What a [`Split`] needs next.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Step {
    /// Acquire the lock; then [`Split::done`].
    Acquire(Lock),
    /// READ the directory, and report it to [`Split::directory_read`].
    ReadDirectory,
    /// Allocate memory for a subtable, and report its address to [`Split::allocated`].
    Allocate,
    /// WRITE this header to all buckets of the subtable, and 0 to all slots; then [`Split::done`].
    Prepare {
        /// Address of the subtable.
        subtable: u64,
        /// The header.
        header: Header,
    },
    /// WRITE the directory's first word; then [`Split::done`].
    WriteDepth(GlobalDepth),
    /// WRITE these entries of the directory, in this order; then [`Split::done`].
    WriteEntries(Vec<(u32, Entry)>),
    /// Carry out a [`BucketMove`](super::BucketMove) for every bucket, any number at a time; then [`Split::done`].
    MoveBuckets {
        /// Address of the subtable that is split.
        old: u64,
        /// Address of the new one.
        new: u64,
    },
    /// Then carry out a [`BucketMove::clearing`](super::BucketMove::clearing) for every bucket; then [`Split::done`].
    ClearBuckets {
        /// Address of the subtable that is split.
        old: u64,
        /// Address of the new one.
        new: u64,
    },
    /// Release the lock; then [`Split::done`].
    Release(Lock),
    /// The end.
    Finished(Outcome),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Stage {
    Check,
    Allocate,
    Prepare,
    /// With the directory's lock, until `Unlock`.
    Enter,
    Look,
    BeginDoubling,
    CopyHalf,
    EndDoubling,
    Change,
    Leave,
    Move,
    Clear,
    /// With the directory's lock, until `LeaveLast`.
    EnterLast,
    LookLast,
    Unlock,
    LeaveLast,
    /// Ends with this outcome.
    Release(Outcome),
    Finished(Outcome),
}

/// Splits a subtable for the client that holds its lock, or finishes what a dead client began.
///
/// Execute [`step`](Split::step), report the result, and so on until [`Step::Finished`]. If a request fails and its
/// effect is unknown, the client's lock stays until the split is [resumed](Split::resume).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Split {
    /// Number of the lock that the caller holds.
    suffix: u32,
    /// Unknown when a split is resumed, until the directory was READ.
    division: Option<Division>,
    stage: Stage,
    old: u64,
    new: u64,
    global: GlobalDepth,
    /// Entries to write in this stage.
    entries: Vec<(u32, Entry)>,
}

impl Split {
    /// Begins a split. The caller holds the lock of [`Division::suffix`].
    pub fn new(division: Division) -> Split {
        Split::at(Stage::Check, division.suffix(), Some(division))
    }

    /// Resumes whatever the owner of the lock for the subtable of `suffix` was doing. That owner can write no more, and
    /// the caller acts in its place: acquiring a lock of the dead client's succeeds.
    pub fn resume(suffix: u32) -> Split {
        Split::at(Stage::Enter, suffix, None)
    }

    fn at(stage: Stage, suffix: u32, division: Option<Division>) -> Split {
        Split {
            suffix,
            division,
            stage,
            old: 0,
            new: 0,
            global: GlobalDepth::default(),
            entries: Vec::new(),
        }
    }

    /// The division, as soon as it is known.
    pub fn division(&self) -> Option<Division> {
        self.division
    }

    /// What to do next.
    pub fn step(&self) -> Step {
        match self.stage {
            Stage::Check | Stage::Look | Stage::LookLast => Step::ReadDirectory,
            Stage::Allocate => Step::Allocate,
            Stage::Prepare => Step::Prepare {
                subtable: self.new,
                header: self.known().moved().pending(),
            },
            Stage::Enter | Stage::EnterLast => Step::Acquire(Lock::Directory),
            Stage::BeginDoubling | Stage::EndDoubling => Step::WriteDepth(self.global),
            Stage::CopyHalf | Stage::Change | Stage::Unlock => Step::WriteEntries(self.entries.clone()),
            Stage::Leave | Stage::LeaveLast => Step::Release(Lock::Directory),
            Stage::Move => Step::MoveBuckets {
                old: self.old,
                new: self.new,
            },
            Stage::Clear => Step::ClearBuckets {
                old: self.old,
                new: self.new,
            },
            Stage::Release(_) => Step::Release(Lock::Subtable(self.suffix)),
            Stage::Finished(outcome) => Step::Finished(outcome),
        }
    }

    fn known(&self) -> Division {
        self.division.expect("known before anything is changed")
    }

    /// Reports the address of memory for the new subtable.
    pub fn allocated(&mut self, subtable: Option<u64>) {
        self.stage = match subtable {
            Some(subtable) => {
                self.new = subtable;
                Stage::Prepare
            }
            None => Stage::Release(Outcome::NoMemory),
        };
    }

    /// Reports the directory.
    pub fn directory_read(&mut self, directory: &Directory) {
        self.global = directory.global();
        match self.stage {
            Stage::Check => self.check(directory),
            Stage::Look => self.look(directory),
            _ => self.unlock(directory),
        }
    }

    fn check(&mut self, directory: &Directory) {
        let division = self.known();
        let entry = directory.entry(division.suffix);
        let is_locked = |(index, entry): (u32, &Entry)| division.has(index) && entry.locked;
        self.old = entry.subtable;
        self.stage = match entry.depth == division.depth {
            false => Stage::Release(Outcome::AlreadySplit),
            true if (0..).zip(directory.entries()).any(is_locked) => Stage::Release(Outcome::Busy),
            true => Stage::Allocate,
        };
    }

    /// The directory, while nobody else changes it.
    fn look(&mut self, directory: &Directory) {
        if self.division.is_none() {
            self.recognise(directory);
        }
        let depth = self.division.map_or(0, |division| division.depth);
        // A dead client may have begun to double the directory.
        let must_grow = directory.global().depth == depth && self.new != 0;
        if directory.global().doubling || must_grow {
            self.double(directory);
        } else {
            self.change(directory);
        }
    }

    /// Finds out what a dead client was doing.
    fn recognise(&mut self, directory: &Directory) {
        let locked = (0..).zip(directory.entries()).filter_map(|(index, entry)| {
            let division = Division::of_locked(index, *entry)?;
            (division.suffix == self.suffix).then_some((index, entry.subtable, division))
        });
        for (index, subtable, division) in locked {
            self.division = Some(division);
            self.old = directory.entry(division.suffix).subtable;
            if division.moves(index) {
                self.new = subtable;
            }
        }
    }

    fn double(&mut self, directory: &Directory) {
        let entries = directory.entries();
        let upper = (entries.len() as u32..).zip(entries.iter().copied());
        self.entries = upper.collect();
        self.global.doubling = true;
        self.stage = Stage::BeginDoubling;
    }

    /// Plans the entries of both subtables.
    fn change(&mut self, directory: &Directory) {
        let Some(division) = self.division else {
            self.entries.clear();
            self.stage = Stage::Leave;
            return;
        };
        if self.new == 0 {
            // All entries of the new subtable are unlocked: only the others are left.
            self.unlock(directory);
            return;
        }
        let depth = division.depth_after();
        let is_ours = |index: &u32| division.has(*index);
        let planned = (0..directory.entries().len() as u32)
            .filter(is_ours)
            .map(|index| {
                let subtable = if division.moves(index) { self.new } else { self.old };
                let locked = true;
                (
                    index,
                    Entry {
                        subtable,
                        depth,
                        locked,
                    },
                )
            });
        self.entries = new_first(division, planned);
        self.stage = Stage::Change;
    }

    /// Plans the unlocking of both subtables' entries.
    fn unlock(&mut self, directory: &Directory) {
        let division = self.known();
        let ours = (0..).zip(directory.entries()).filter_map(|(index, entry)| {
            let is_ours = Division::of_locked(index, *entry) == Some(division);
            is_ours.then_some((
                index,
                Entry {
                    locked: false,
                    ..*entry
                },
            ))
        });
        self.entries = new_first(division, ours);
        self.stage = Stage::Unlock;
    }

    /// Reports that the step was executed. Not for those that have a report of their own.
    pub fn done(&mut self) {
        self.stage = match self.stage {
            Stage::Prepare => Stage::Enter,
            Stage::Enter => Stage::Look,
            Stage::BeginDoubling => Stage::CopyHalf,
            Stage::CopyHalf => {
                self.global = GlobalDepth {
                    depth: self.global.depth + 1,
                    doubling: false,
                };
                Stage::EndDoubling
            }
            // The entries that were copied are among those to change.
            Stage::EndDoubling => Stage::Look,
            Stage::Change => Stage::Leave,
            Stage::Leave if self.new != 0 => Stage::Move,
            Stage::Leave => Stage::Release(Outcome::Nothing),
            Stage::Move => Stage::Clear,
            Stage::Clear => Stage::EnterLast,
            Stage::EnterLast => Stage::LookLast,
            Stage::Unlock => Stage::LeaveLast,
            Stage::LeaveLast => Stage::Release(Outcome::Split),
            Stage::Release(outcome) => Stage::Finished(outcome),
            stage => panic!("{stage:?} has a report of its own"),
        };
    }
}

/// Those of the new subtable first: as long as one of them is locked, or none is changed, a client that resumes the
/// split knows the new subtable, or knows that it does not need it.
fn new_first(division: Division, entries: impl Iterator<Item = (u32, Entry)>) -> Vec<(u32, Entry)> {
    let (mut new, old): (Vec<_>, Vec<_>) = entries.partition(|(index, _)| division.moves(*index));
    new.extend(old);
    new
}
