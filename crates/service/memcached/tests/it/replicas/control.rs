//! The control threads of all members, and the registry that they share: which copies there are, and how each is filled.

use super::SHARDS;
use crate::bed::maps;
use drover_base::{Ns, Rng};
use drover_cluster::{Change, CopyStage, Draft, Epoch, Map, Ownership, Published, ServedShards, ShardId};
use drover_memcached::handover::ShardSet;
use std::sync::Arc;

/// A core that has waited so long for a keeper has its copies begin again.
const COPY_TIMEOUT: Ns = Ns::from_ms(50);

/// How far an owner has filled copies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fill {
    Idle,
    /// Cores are to pass a round with changes being sent.
    Sending,
    /// Cores are asked to send what they have, the one with this index from a cursor on.
    Scanning {
        core: usize,
        cursor: u64,
    },
    /// Cores are to pass a round with replies being held.
    Gating,
    /// Cores are asked, by this mark, whether everything has been taken.
    Draining {
        core: usize,
        mark: u64,
    },
}

pub struct Thread {
    pub ownership: Ownership,
    pub shards: Arc<ServedShards>,
    /// Stage of the copy with this tenure.
    stages: Vec<(Epoch, CopyStage)>,
    keeps: Vec<bool>,
    pub fill: Fill,
    /// Shards that are being filled, with the tenures of their copies.
    set: Vec<(ShardId, Epoch)>,
    rounds: Vec<u64>,
}

impl Thread {
    pub fn publish(&self) {
        let stage = |shard: ShardId| {
            let tenure = self.ownership.copy(shard).map(|copy| copy.tenure);
            match self.stages[shard.index()] {
                (filled, stage) if tenure == Some(filled) => stage,
                _ => CopyStage::None,
            }
        };
        let published = Published {
            copied: &stage,
            keeps: &|shard| self.keeps[shard.index()],
            ..Published::default()
        };
        self.shards.publish_all(&self.ownership, &published);
    }

    /// The shards that are being filled.
    pub fn set(&self) -> ShardSet {
        let mut set = ShardSet::new(SHARDS);
        self.set.iter().for_each(|(shard, _)| set.insert(*shard));
        set
    }

    fn set_stage(&mut self, stage: CopyStage) {
        for (shard, tenure) in &self.set {
            self.stages[shard.index()] = (*tenure, stage);
        }
        self.publish();
        self.rounds = self.shards.rounds();
    }

    /// Cores have been scanned to the end.
    pub fn scanned(&mut self) {
        self.set_stage(CopyStage::Gated);
        self.fill = Fill::Gating;
    }

    pub fn has_passed(&self) -> bool {
        self.shards.has_passed(&self.rounds)
    }

    /// Begins to fill the copies that have not begun.
    pub fn begin_fill(&mut self) {
        let copies = self.ownership.map().shards().filter_map(|shard| {
            let copy = self.ownership.copy(shard)?;
            let is_new = self.stages[shard.index()].0 != copy.tenure;
            (is_new && !copy.is_complete).then_some((shard, copy.tenure))
        });
        self.set = copies.collect();
        if !self.set.is_empty() {
            self.set_stage(CopyStage::Filling);
            self.fill = Fill::Sending;
        }
    }
}

pub struct Control {
    rng: Rng,
    pub map: Arc<Map>,
    pub threads: Vec<Thread>,
    marks: u64,
    pub completed: u64,
    pub restarted: u64,
}

impl Control {
    pub fn new(seed: u64, shards: &[Arc<ServedShards>]) -> Control {
        let map = maps::shared_out(shards.len(), SHARDS);
        let thread = |(index, shards): (usize, &Arc<ServedShards>)| {
            let thread = Thread {
                ownership: maps::ownership(index, &map),
                shards: shards.clone(),
                stages: vec![(Epoch::NONE, CopyStage::None); SHARDS],
                keeps: vec![false; SHARDS],
                fill: Fill::Idle,
                set: Vec::new(),
                rounds: Vec::new(),
            };
            thread.publish();
            shards.set_stop_at(Ns::MAX);
            thread
        };
        Control {
            rng: Rng::new(seed, 1, 0x4158),
            threads: shards.iter().enumerate().map(thread).collect(),
            map,
            marks: 0,
            completed: 0,
            restarted: 0,
        }
    }

    pub fn commit(&mut self, change: impl FnOnce(&mut Draft)) {
        maps::commit(&mut self.map, change);
    }

    /// A member learns the newest map. Returns the shards whose items on its cores are void.
    pub fn learn(&mut self, index: usize) -> Vec<ShardId> {
        let map = self.map.clone();
        let thread = &mut self.threads[index];
        let mut void = Vec::new();
        for change in thread.ownership.learn(&map, |_| None) {
            match change {
                Change::Keep(shard) => {
                    void.push(shard);
                    thread.keeps[shard.index()] = true;
                }
                Change::Discard(shard) => {
                    void.push(shard);
                    thread.keeps[shard.index()] = false;
                }
                Change::Adopt(shard) => thread.keeps[shard.index()] = false,
                Change::Begin(_) | Change::Resume(_) => {}
            }
        }
        // What is being filled for another tenure begins again later.
        let ownership = &thread.ownership;
        thread
            .set
            .retain(|(shard, tenure)| ownership.copy(*shard).is_some_and(|copy| copy.tenure == *tenure));
        if thread.set.is_empty() {
            thread.fill = Fill::Idle;
        }
        // A shard that is discarded and kept again was lost first.
        for shard in &void {
            let kept = thread.ownership.kept(*shard).is_some();
            thread.keeps[shard.index()] = kept;
        }
        thread.publish();
        void
    }

    /// Begins copies, and begins some of them again.
    pub fn plan(&mut self) {
        let shard = ShardId(self.rng.below(SHARDS as u64) as u16);
        let members = self.map.members().len() as u64;
        let keeper = self.rng.below(members) as u16;
        match self.map.copy(shard) {
            None => self.commit(|draft| _ = draft.begin_copy(shard, keeper)),
            Some(copy) if self.rng.chance(0.01) => {
                self.restarted += 1;
                self.commit(|draft| draft.restart_copy(shard, copy.tenure));
            }
            // Elsewhere, in its place.
            Some(_) if self.rng.chance(0.01) => self.commit(|draft| _ = draft.begin_copy(shard, keeper)),
            Some(_) => {}
        }
    }

    /// Has copies begin again whose keeper lets a core of the member wait.
    pub fn watch(&mut self, index: usize, now: Ns) {
        let thread = &self.threads[index];
        let waiting = (0..thread.shards.core_count()).find_map(|core| thread.shards.waiting(core));
        let Some((peer, _)) = waiting.filter(|(_, since)| now.since(*since) >= COPY_TIMEOUT) else {
            return;
        };
        let at_peer = thread.ownership.map().shards().filter_map(|shard| {
            let sent = thread.shards.sent_copy(shard)?;
            (sent.is_gated && sent.peer == peer).then_some((shard, sent.tenure))
        });
        let failed: Vec<_> = at_peer.collect();
        self.restarted += failed.len() as u64;
        self.commit(|draft| {
            for (shard, tenure) in failed {
                draft.restart_copy(shard, tenure);
            }
        });
    }

    /// Whether all copies that there are have everything.
    pub fn is_complete(&self) -> bool {
        let mut copies = self.map.shards().filter_map(|shard| self.map.copy(shard));
        copies.all(|copy| copy.is_complete)
    }

    /// A mark that has not come before.
    pub fn new_mark(&mut self) -> u64 {
        self.marks += 1;
        self.marks
    }

    /// All copies of the member that were being filled are complete.
    pub fn filled(&mut self, index: usize) {
        let set = std::mem::take(&mut self.threads[index].set);
        self.threads[index].fill = Fill::Idle;
        self.completed += set.len() as u64;
        self.commit(|draft| {
            for (shard, tenure) in set {
                draft.complete_copy(shard, tenure);
            }
        });
    }
}
