//! The control threads of all members, and the registry that they share: who owns which shard, and hand-overs, one at a time.
//!
//! What needs no items happens at any moment, also while a core is in the midst of a step; what moves or drops items is a [`Work`], done
//! between steps, as the messages of hand-overs are.

use super::SHARDS;
use crate::bed::maps;
use drover_base::{Ns, Rng};
use drover_cluster::{Change, Draft, Epoch, Map, Ownership, Published, ServedShards, ShardId};
use std::sync::Arc;

/// What is to be done with the items of a shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// To copy them.
    Copy { shard: ShardId, from: usize, to: usize },
    /// To copy those that were noted.
    CopyNoted { shard: ShardId, from: usize, to: usize },
    /// To drop them.
    Drop { shard: ShardId, of: usize },
}

/// A hand-over under way.
#[derive(Clone, Copy)]
struct Handover {
    shard: ShardId,
    from: usize,
    to: usize,
    tenure: Epoch,
    step: Step,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Planned,
    Noting,
    ToCopy,
    Copied,
    Frozen,
    ToCopyNoted,
    Received,
}

struct Thread {
    ownership: Ownership,
    shards: Arc<ServedShards>,
    /// Shard whose changes are noted.
    noted: Option<ShardId>,
    /// Shards with items that must be dropped first.
    void: Vec<ShardId>,
    /// Rounds that the cores must pass.
    rounds: Vec<u64>,
}

impl Thread {
    fn publish(&self) {
        let (noted, void) = (self.noted, &self.void);
        let published = Published {
            noted: &|shard| noted == Some(shard),
            held_back: &|shard| void.contains(&shard),
            ..Published::default()
        };
        self.shards.publish_all(&self.ownership, &published);
    }
}

pub struct Control {
    rng: Rng,
    map: Arc<Map>,
    threads: Vec<Thread>,
    handover: Option<Handover>,
    /// Whether hand-overs begin, and leases run out.
    pub is_restless: bool,
    /// Hand-overs that have succeeded.
    pub moved: u64,
}

impl Control {
    /// Members that know a map in which each has its share.
    pub fn new(seed: u64, shards: &[Arc<ServedShards>]) -> Control {
        let map = maps::shared_out(shards.len(), SHARDS);
        let threads = shards.iter().enumerate().map(|(index, shards)| {
            let thread = Thread {
                ownership: maps::ownership(index, &map),
                shards: shards.clone(),
                noted: None,
                void: Vec::new(),
                rounds: Vec::new(),
            };
            thread.publish();
            shards.set_stop_at(Ns::MAX);
            thread
        });
        Control {
            rng: Rng::new(seed, 2, 0x4157),
            threads: threads.collect(),
            map,
            handover: None,
            is_restless: true,
            moved: 0,
        }
    }

    /// Whether all know the newest map, and nothing is under way.
    pub fn is_settled(&self) -> bool {
        let knows = |thread: &Thread| {
            thread.ownership.map().epoch() == self.map.epoch()
                && thread.void.is_empty()
                && thread.noted.is_none()
        };
        self.handover.is_none() && self.threads.iter().all(knows)
    }

    /// Something happens that needs no items.
    pub fn step(&mut self, now: Ns) {
        let index = self.rng.below(self.threads.len() as u64) as usize;
        match self.rng.below(8) {
            0 | 1 => self.learn(index),
            2 if self.is_restless && self.rng.chance(0.05) => {
                // The lease is nearly over, and renewed a moment later.
                self.threads[index]
                    .shards
                    .set_stop_at(now + Ns(self.rng.below(200_000)));
            }
            3 => self.threads[index].shards.set_stop_at(Ns::MAX),
            _ => self.step_handover(),
        }
    }

    /// What is to be done with items now.
    pub fn work(&mut self) -> Option<Work> {
        for (of, thread) in self.threads.iter_mut().enumerate() {
            if let Some(shard) = thread.void.pop() {
                return Some(Work::Drop { shard, of });
            }
        }
        let Handover {
            shard,
            from,
            to,
            step,
            ..
        } = self.handover?;
        match step {
            Step::ToCopy => Some(Work::Copy { shard, from, to }),
            Step::ToCopyNoted => Some(Work::CopyNoted { shard, from, to }),
            _ => None,
        }
    }

    /// The work has been done.
    pub fn done(&mut self, work: Work) {
        match (work, &mut self.handover) {
            (Work::Copy { .. }, Some(handover)) => handover.step = Step::Copied,
            (Work::CopyNoted { .. }, Some(handover)) => handover.step = Step::Received,
            (Work::Drop { of, .. }, _) => self.threads[of].publish(),
            _ => {}
        }
    }

    fn learn(&mut self, index: usize) {
        let map = self.map.clone();
        let received = self
            .handover
            .filter(|it| it.to == index && it.step == Step::Received);
        let thread = &mut self.threads[index];
        let changes = thread.ownership.learn(&map, |shard| {
            received.filter(|it| it.shard == shard).map(|it| it.tenure)
        });
        for change in changes {
            if let Change::Discard(shard) = change {
                thread.void.push(shard);
            }
        }
        if thread.noted.is_some_and(|shard| map.moving(shard).is_none()) {
            thread.noted = None;
        }
        thread.publish();
        let knows = |thread: &Thread| thread.ownership.map().epoch() == map.epoch();
        // It is over when both know how it ended.
        if let Some(it) = self.handover
            && map.moving(it.shard).is_none()
            && knows(&self.threads[it.from])
            && knows(&self.threads[it.to])
        {
            self.handover = None;
        }
    }

    fn commit(&mut self, change: impl FnOnce(&mut Draft)) {
        maps::commit(&mut self.map, change);
    }

    fn step_handover(&mut self) {
        let Some(mut it) = self.handover else {
            return self.plan();
        };
        let is_moving = self.map.moving(it.shard).is_some();
        let owner = &mut self.threads[it.from];
        let has_passed = owner.shards.has_passed(&owner.rounds);
        match it.step {
            _ if !is_moving => return,
            Step::Planned if owner.ownership.may_copy(it.shard, it.tenure) => {
                owner.noted = Some(it.shard);
                owner.publish();
                owner.rounds = owner.shards.rounds();
                it.step = Step::Noting;
            }
            Step::Noting if has_passed => it.step = Step::ToCopy,
            Step::Copied | Step::Frozen if self.rng.chance(0.02) => {
                self.commit(|draft| draft.cancel_move(it.shard));
                self.threads[it.to].void.push(it.shard);
            }
            Step::Copied => {
                assert!(owner.ownership.freeze(it.shard, it.tenure));
                owner.publish();
                owner.rounds = owner.shards.rounds();
                it.step = Step::Frozen;
            }
            Step::Frozen if has_passed && self.rng.chance(0.3) => it.step = Step::ToCopyNoted,
            Step::Received => {
                self.moved += 1;
                self.commit(|draft| draft.complete_move(it.shard, it.tenure));
            }
            _ => {}
        }
        self.handover = Some(it);
    }

    fn plan(&mut self) {
        if !self.is_restless {
            return;
        }
        let shard = ShardId(self.rng.below(SHARDS as u64) as u16);
        let from = usize::from(self.map.tenure(shard).owner.expect("all have owners"));
        let to = self.rng.below(self.threads.len() as u64) as usize;
        let is_ready = |index: usize| {
            let thread: &Thread = &self.threads[index];
            thread.ownership.map().epoch() == self.map.epoch() && thread.void.is_empty()
        };
        if from == to || !is_ready(from) || !is_ready(to) {
            return;
        }
        self.commit(|draft| assert!(draft.begin_move(shard, to as u16)));
        self.handover = Some(Handover {
            shard,
            from,
            to,
            tenure: self.map.epoch(),
            step: Step::Planned,
        });
    }
}
