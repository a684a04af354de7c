//! Copies of shards, as cores see them: what is to be sent to keepers, what is kept for others, and which cores are held.
//!
//! A core that changes an item of a shard whose copy is *gated* is **held**: until the keepers have acknowledged its changes it executes nothing
//! and lets no reply leave. [`note`](ServedShards::note) holds it, its co-actor releases it.

use super::{COPIED, GATED, HELD, NOTED, NotedKey, ServedShards, WakeCore, lock};
use crate::{Epoch, ShardId};
use drover_base::sync::Ordering;
use drover_base::{KeyHash, Ns};
use std::collections::BTreeSet;

/// A copy of a shard of this member's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SentCopy {
    /// [Number](ServedShards::peer) of the keeper.
    pub peer: u16,
    /// Tenure of the copy.
    pub tenure: Epoch,
    /// Whether replies wait until the keeper has what has changed.
    pub is_gated: bool,
}

/// Copies of one shard that concern this member.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ShardCopies {
    /// The shard is this member's, and this one is kept elsewhere.
    pub(super) sent: Option<SentCopy>,
    /// Tenure of the copy that this member keeps.
    pub(super) kept: Option<Epoch>,
}

impl ServedShards {
    /// Called, on its core, before an item of a shard changes about which the verdict was [`ServeNoted`](super::Verdict::ServeNoted). An item
    /// without a key has only its hash. Cost: for a copied shard an uncontended lock and a copy of the key.
    #[cold]
    pub fn note(&self, core: usize, shard: ShardId, hash: KeyHash, key: &[u8]) {
        let state = &self.cores[core];
        // Acquire: pairs with the Release of `publish_all`, which said before whether there are copies at all.
        let word = self.words[shard.index()].load(Ordering::Acquire);
        // The process was stopped since the verdict: this reply must never leave, and the co-actor sees to that.
        let is_void = word & HELD == 0 && self.has_copies.load(Ordering::Relaxed) == 1;
        if is_void || word & COPIED != 0 {
            state.push_changed(hash, key);
        }
        if is_void || word & GATED != 0 {
            self.hold(core);
        }
        if word & (COPIED | NOTED) != COPIED {
            state.note(shard, hash, key);
        }
    }

    /// Takes the keys of a shard that a core has noted, in the order of keys.
    pub fn take_noted(&self, core: usize, shard: ShardId) -> BTreeSet<NotedKey> {
        self.cores[core].take_noted(shard)
    }

    /// Takes the names of the keys of copied shards that a core has changed, in the place of what `into` had. A name is the byte 2, the 16
    /// [bytes](KeyHash::to_bytes) of the key's hash, the length of the key in a byte, and the key. The memory of `into` is used again.
    pub fn take_changed(&self, core: usize, into: &mut Vec<u8>) {
        self.cores[core].take_changed(into);
    }

    /// The copy of a shard of this member's that is to be told what changes. `None`: there is none, or the shard is not this member's any
    /// more, as [`holds`](ServedShards::holds) says if it is asked after this.
    pub fn sent_copy(&self, shard: ShardId) -> Option<SentCopy> {
        lock(&self.copies[shard.index()]).sent
    }

    /// Tenure of the copy of a shard that this member keeps. A core asks on its own partition's behalf before it stores what the owner sends.
    pub fn kept_copy(&self, shard: ShardId) -> Option<Epoch> {
        lock(&self.copies[shard.index()]).kept
    }

    /// Whether the shard is this member's with all its items, served or frozen. If it is not, nothing that a held core changed in it counts.
    /// A shard that was lost and is this member's again has to be cleared by every core first, which a held core does not do; so the
    /// core has seen the loss before this says yes again.
    pub fn holds(&self, shard: ShardId) -> bool {
        self.words[shard.index()].load(Ordering::Acquire) & HELD != 0
    }

    /// Whether a core is held. Cost: a load.
    #[inline]
    pub fn is_held(&self, core: usize) -> bool {
        self.cores[core].is_held.load(Ordering::SeqCst) == 1
    }

    /// Holds a core, on it.
    pub fn hold(&self, core: usize) {
        // SeqCst: a control thread that sees the core's next round sees this.
        self.cores[core].is_held.store(1, Ordering::SeqCst);
    }

    /// Releases a core, on it: keepers have everything that its replies say.
    pub fn release(&self, core: usize) {
        self.cores[core].is_held.store(0, Ordering::SeqCst);
    }

    /// Releases a core, on it, none of whose held replies may ever leave: it has changed items of a shard that is not this member's any
    /// more. A protocol that keeps replies of the core sees that [`voids`](ServedShards::voids) has grown since, and drops them.
    pub fn release_void(&self, core: usize) {
        // Relaxed: read on the same core.
        self.cores[core].voids.fetch_add(1, Ordering::Relaxed);
        self.release(core);
    }

    /// How often a core was [released without its replies](ServedShards::release_void). To be asked on it.
    pub fn voids(&self, core: usize) -> u64 {
        self.cores[core].voids.load(Ordering::Relaxed)
    }

    /// A core says which peer it has awaited for longest, and since when on its clock.
    pub fn set_waiting(&self, core: usize, waiting: Option<(u16, Ns)>) {
        *lock(&self.cores[core].waiting) = waiting;
    }

    /// What a core has said last with [`set_waiting`](ServedShards::set_waiting).
    pub fn waiting(&self, core: usize) -> Option<(u16, Ns)> {
        *lock(&self.cores[core].waiting)
    }

    /// Gives the core a way to be woken.
    pub fn set_waker(&self, core: usize, wake: WakeCore) {
        *lock(&self.cores[core].waker) = Some(wake);
    }
}
