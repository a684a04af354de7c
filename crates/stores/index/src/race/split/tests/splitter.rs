//! The splitter of the model: each request that others can notice is an event of its own.

use super::*;
use std::collections::VecDeque;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Access {
    Depth(GlobalDepth),
    Entry(u32, Entry),
    Request(MoveRequest),
}

/// A client that splits.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Splitter {
    split: Split,
    bucket: Option<BucketMove>,
    queue: VecDeque<Access>,
    pub(super) outcome: Option<Outcome>,
}

impl Splitter {
    pub(super) fn new(split: Split, world: &mut World, flaw: Flaw) -> Splitter {
        let mut splitter = Splitter {
            split,
            bucket: None,
            queue: VecDeque::new(),
            outcome: None,
        };
        splitter.fill(world, flaw);
        splitter
    }

    /// Executes the next request.
    pub(super) fn step(&mut self, world: &mut World, flaw: Flaw) {
        let access = self.queue.pop_front().expect("not finished");
        self.execute(access, world, flaw);
        if !self.queue.is_empty() {
            return;
        }
        match &mut self.bucket {
            Some(bucket) => {
                bucket.advance();
                if bucket.is_done() {
                    self.bucket = None;
                    self.split.done();
                }
            }
            None => self.split.done(),
        }
        self.fill(world, flaw);
    }

    /// Does what no client notices, and queues the requests of the next step that some may.
    fn fill(&mut self, world: &mut World, flaw: Flaw) {
        while self.queue.is_empty() && self.outcome.is_none() {
            if let Some(bucket) = &self.bucket {
                bucket.requests(|request| self.queue.push_back(Access::Request(request)));
                self.reorder(flaw);
                self.read_blocks();
                continue;
            }
            match self.split.step() {
                // There is one splitter at a time, and a dead one's locks pass to its successor.
                Step::Acquire(_) | Step::Release(_) => self.split.done(),
                Step::ReadDirectory => self.split.directory_read(&world.directory()),
                Step::Allocate => self.split.allocated(Some(NEW)),
                Step::Prepare { header, .. } => {
                    world.new = Bucket {
                        header,
                        slots: [Slot::EMPTY; SLOTS],
                    };
                    self.split.done();
                }
                Step::WriteDepth(global) => self.queue.push_back(Access::Depth(global)),
                Step::WriteEntries(entries) => {
                    let all = entries.iter().map(|(index, entry)| Access::Entry(*index, *entry));
                    self.queue.extend(all);
                    if entries.is_empty() {
                        self.split.done();
                    }
                }
                Step::MoveBuckets { old, new } => {
                    assert_eq!((old, new), (OLD, NEW));
                    let division = self.split.division().expect("known");
                    self.bucket = Some(Splitter::begin(division, flaw));
                }
                Step::ClearBuckets { .. } => {
                    let division = self.split.division().expect("known");
                    self.bucket = Some(BucketMove::clearing(division));
                }
                Step::Finished(outcome) => self.outcome = Some(outcome),
            }
        }
    }

    fn reorder(&mut self, flaw: Flaw) {
        if flaw == Flaw::ClearedFirst {
            let is_clear = |access: &Access| matches!(access, Access::Request(MoveRequest::ClearSlot { .. }));
            self.queue
                .make_contiguous()
                .sort_by_key(|access| !is_clear(access));
        }
    }

    /// A splitter with this flaw clears everything while it moves.
    fn begin(division: Division, flaw: Flaw) -> BucketMove {
        match flaw {
            Flaw::ClearedFirst => BucketMove::clearing(division),
            _ => BucketMove::new(division),
        }
    }

    /// READs of blocks need no event: blocks never change.
    fn read_blocks(&mut self) {
        let bucket = self.bucket.as_mut().expect("its requests");
        let division = self.split.division().expect("known");
        self.queue.retain(|access| match access {
            Access::Request(MoveRequest::ReadBlock { slot, entry }) => {
                let (key, _) = content(*entry).expect("an entry");
                bucket.block_read(*slot, division.moves(bits(key)));
                false
            }
            _ => true,
        });
        if self.queue.is_empty() {
            bucket.advance();
        }
    }

    fn execute(&mut self, access: Access, world: &mut World, flaw: Flaw) {
        let request = match access {
            Access::Depth(global) => {
                world.global = global;
                return;
            }
            Access::Entry(index, entry) => {
                world.entries[index as usize] = entry.word();
                return;
            }
            Access::Request(request) => request,
        };
        let bucket = self.bucket.as_mut().expect("its request");
        match request {
            MoveRequest::CasHeader { expect, set } => {
                if world.old.header == expect {
                    world.old.header = set;
                }
            }
            MoveRequest::ReadBuckets => {
                let mut new = world.new;
                if flaw == Flaw::CopiedAgain {
                    new.header.pending = true;
                }
                bucket
                    .buckets_read(&new.to_bytes(), &world.old.to_bytes())
                    .expect("buckets of this split");
            }
            MoveRequest::ReadBlock { .. } => unreachable!("done already"),
            MoveRequest::CasSlot { slot, expect, .. } if flaw == Flaw::NoFreezing => {
                bucket.slot_was(slot, expect);
            }
            MoveRequest::CasSlot { slot, expect, set } => {
                let was = world.cas(false, slot, expect, set);
                bucket.slot_was(slot, was);
            }
            MoveRequest::WriteSlots(slots) => world.new.slots = slots,
            MoveRequest::WriteHeader(header) => world.new.header = header,
            MoveRequest::ClearSlot { slot } => world.old.slots[usize::from(slot)] = Slot::EMPTY,
        }
    }
}
