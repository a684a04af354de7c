//! What the control thread tells the cores, for all shards at once.

use super::copies::ShardCopies;
use super::{COPIED, GATED, HELD, NOTED, PEER, Peer, SERVED, SentCopy, ServedShards, lock};
use crate::{Map, Ownership, ShardId};
use drover_base::sync::Ordering;

/// How far a copy of a shard has come, as far as the owner's cores are concerned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CopyStage {
    /// Nothing is sent to a keeper.
    None,
    /// What changes is sent, and nothing waits for it.
    Filling,
    /// Replies wait until the keeper has what has changed.
    Gated,
}

/// What an [`Ownership`] does not say of shards, but the process knows.
pub struct Published<'p> {
    /// Whether changes of a shard are noted for its next owner.
    pub noted: &'p dyn Fn(ShardId) -> bool,
    /// Whether a shard is not served, though it is the member's: void items of an earlier tenure may still be on its cores.
    pub held_back: &'p dyn Fn(ShardId) -> bool,
    /// How far the copy is that another member keeps.
    pub copied: &'p dyn Fn(ShardId) -> CopyStage,
    /// Whether the copy that this member keeps may be stored: no void items are in the way.
    pub keeps: &'p dyn Fn(ShardId) -> bool,
}

/// Shards are served; none moves, and there are no copies.
impl Default for Published<'_> {
    fn default() -> Self {
        Published {
            noted: &|_| false,
            held_back: &|_| false,
            copied: &|_| CopyStage::None,
            keeps: &|_| false,
        }
    }
}

impl ServedShards {
    /// Tells the cores what `ownership` and `published` say.
    pub fn publish_all(&self, ownership: &Ownership, published: &Published<'_>) {
        let map = ownership.map();
        let numbers = self.number_peers(map);
        let number = |index: u16| numbers.get(usize::from(index)).copied().unwrap_or(0);
        for ((word, copies), shard) in self.words.iter().zip(&self.copies).zip(map.shards()) {
            let holds = ownership.holds(shard) && !(published.held_back)(shard);
            let sent = ownership.copy(shard).filter(|_| holds).and_then(|copy| {
                let stage = (published.copied)(shard);
                // The keeper has a number: it is in the map.
                let peer = number(copy.keeper).checked_sub(1)? as u16;
                let is_gated = stage == CopyStage::Gated;
                let tenure = copy.tenure;
                (stage != CopyStage::None).then_some(SentCopy {
                    peer,
                    tenure,
                    is_gated,
                })
            });
            let kept = ownership.kept(shard).filter(|_| (published.keeps)(shard));
            let flag = |is_set: bool, bit: u32| if is_set { bit } else { 0 };
            let peer = match map.tenure(shard).owner {
                Some(owner) if !ownership.is_own(owner) => number(owner),
                _ => 0,
            };
            let new = match holds {
                false => peer,
                true => {
                    HELD | flag(ownership.serves(shard), SERVED)
                        | flag((published.noted)(shard), NOTED)
                        | flag(sent.is_some(), COPIED)
                        | flag(sent.is_some_and(|sent| sent.is_gated), GATED)
                }
            };
            // A copy that is not kept any more goes before the shard can be served: what its former owner sends late must not be
            // stored then.
            let old = *lock(copies);
            if old.kept != kept {
                lock(copies).kept = None;
            }
            if sent.is_some() {
                self.has_copies.store(1, Ordering::Relaxed);
            }
            if word.load(Ordering::Relaxed) != new {
                // SeqCst: see `begin_round`.
                word.store(new, Ordering::SeqCst);
            }
            // After the word: a core that finds no copy any more must see, too, if the shard is lost.
            if old != (ShardCopies { sent, kept }) {
                *lock(copies) = ShardCopies { sent, kept };
            }
        }
        self.epoch.store(map.epoch().0, Ordering::Relaxed);
    }

    /// Numbers of the map's members, plus 1, by index.
    fn number_peers(&self, map: &Map) -> Vec<u32> {
        let mut peers = self.peers();
        let number = |it: &crate::MapMember| {
            let (id, addresses) = (it.member.id(), it.member.advert.addresses().to_vec());
            let known = peers.iter().position(|peer| peer.id == id);
            let number = known.unwrap_or_else(|| {
                peers.push(Peer {
                    id,
                    addresses,
                    has_ended: false,
                });
                peers.len() - 1
            });
            // After 65,535 lives of members the others' requests have nowhere to go; a restart of this member helps.
            u32::try_from(number + 1).map_or(0, |number| if number <= PEER { number } else { 0 })
        };
        let numbers = map.members().iter().map(number).collect();
        for peer in peers.iter_mut().filter(|peer| !peer.has_ended) {
            peer.has_ended = map.index_of(&peer.id).is_none();
        }
        let ended = peers.iter().filter(|peer| peer.has_ended).count();
        self.ended.store(ended as u64, Ordering::Relaxed);
        numbers
    }
}
