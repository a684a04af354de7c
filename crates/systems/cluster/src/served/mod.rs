//! [`ServedShards`]: what the cores of a member ask about each request, and what its control thread tells them.
//!
//! ```text
//! control thread: Agent -- publish, set_stop_at --> one word per shard, one time --> cores: verdict(hash, now)
//!                       -- barrier --------------> waits until each core has begun another round
//!                       <------------- take_noted - keys of moving shards that may have changed <-- note
//!                                                   keys of copied shards that have changed -----> take_changed
//! ```

mod copies;
mod core_state;
mod publish;

use crate::{Epoch, MemberId, ShardId};
use copies::ShardCopies;
use core_state::CoreState;
use drover_base::sync::{AtomicU32, AtomicU64, Mutex, MutexGuard, Ordering};
use drover_base::{KeyHash, Ns};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, PoisonError};

pub use copies::SentCopy;
pub use core_state::{NotedKey, WakeCore};
pub use publish::{CopyStage, Published};

/// The member serves the shard.
const SERVED: u32 = 1 << 31;
/// The shard is on its way to its next owner: what changes is noted.
const NOTED: u32 = 1 << 30;
/// Another member keeps a copy of the shard, or is to: it is told what changes.
const COPIED: u32 = 1 << 29;
/// A core is held until the keeper has what changes.
const GATED: u32 = 1 << 28;
/// The shard is this member's with all its items, served or frozen.
const HELD: u32 = 1 << 27;
/// Number of the peer that owns the shard, plus 1; 0: nobody, or this member, which does not serve it now.
const PEER: u32 = 0xffff;

/// What a core does with a request about a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It executes it.
    Serve,
    /// It executes it and, if the request may change an item, [notes](ServedShards::note) the key first: the shard moves, or is copied.
    ServeNoted(ShardId),
    /// The shard belongs to the peer with this [number](ServedShards::peer).
    Peer(u16),
    /// Nobody serves the shard, as far as this member knows: it may change hands, or the lease may have run out.
    Nowhere,
}

/// Which shards the cores of a member may serve, and which peers own the others. Written by one control thread, read by every core.
///
/// A core reads its clock for each batch of requests *after* they have arrived and passes that time to
/// [`verdict`](ServedShards::verdict): a process that was stopped in between must not answer requests that came while it stood still.
pub struct ServedShards {
    words: Box<[AtomicU32]>,
    /// On the clock of the cores.
    stop_at: AtomicU64,
    epoch: AtomicU64,
    cores: Box<[CoreState]>,
    copies: Box<[Mutex<ShardCopies>]>,
    /// 1: the member has had a copy of a shard kept, at some time.
    has_copies: AtomicU32,
    /// Peers by number. A number keeps its meaning: each life of a member has one of its own.
    peers: Mutex<Vec<Peer>>,
    /// Number of peers whose life has ended.
    ended: AtomicU64,
}

impl fmt::Debug for ServedShards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServedShards")
            .field("epoch", &self.epoch())
            .finish_non_exhaustive()
    }
}

/// Another member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Peer {
    /// The life of the member that is meant.
    pub id: MemberId,
    /// Where it is reached.
    pub addresses: Vec<String>,
    /// The map has it no more: it answers for nothing, and never will.
    pub has_ended: bool,
}

impl ServedShards {
    /// The shards of a member that serves none yet.
    ///
    /// # Panics
    /// If the number of shards is not 1 to [`SHARD_COUNT`](crate::SHARD_COUNT).
    pub fn new(shard_count: usize, core_count: usize) -> Arc<ServedShards> {
        assert!(
            (1..=crate::SHARD_COUNT).contains(&shard_count),
            "{shard_count} shards"
        );
        Arc::new(ServedShards {
            words: (0..shard_count).map(|_| AtomicU32::new(0)).collect(),
            stop_at: AtomicU64::new(0),
            epoch: AtomicU64::new(0),
            cores: (0..core_count).map(|_| CoreState::default()).collect(),
            copies: (0..shard_count).map(|_| Mutex::default()).collect(),
            has_copies: AtomicU32::new(0),
            peers: Mutex::default(),
            ended: AtomicU64::new(0),
        })
    }

    /// The shard of the key with this hash.
    #[inline]
    pub fn shard_of(&self, hash: KeyHash) -> ShardId {
        ShardId::of(hash, self.words.len())
    }

    /// What to do with a request about a key at `now`, a time that was read after the request arrived. Cost: two loads.
    #[inline]
    pub fn verdict(&self, hash: KeyHash, now: Ns) -> Verdict {
        let shard = self.shard_of(hash);
        // First, and Acquire: pairs with the Release of `set_stop_at`. A core that sees a later end sees what was published before it, so
        // a new lease never counts for the shards of an old one.
        let stop_at = self.stop_at.load(Ordering::Acquire);
        // Acquire: a core that serves a shard again sees what was done to its items before.
        let word = self.words[shard.index()].load(Ordering::Acquire);
        if word & SERVED == 0 || now.0 >= stop_at {
            return match word & PEER {
                0 => Verdict::Nowhere,
                number => Verdict::Peer((number - 1) as u16),
            };
        }
        match word & (NOTED | COPIED) {
            0 => Verdict::Serve,
            _ => Verdict::ServeNoted(shard),
        }
    }

    /// Epoch of the newest map that the member knows.
    #[inline]
    pub fn epoch(&self) -> Epoch {
        Epoch(self.epoch.load(Ordering::Relaxed))
    }

    /// The peer with this number; `None` only for a number that no verdict had.
    pub fn peer(&self, number: u16) -> Option<Peer> {
        self.peers().get(usize::from(number)).cloned()
    }

    /// Number of peers whose life has ended, so far. Cost: a load.
    #[inline]
    pub fn ended_count(&self) -> u64 {
        self.ended.load(Ordering::Relaxed)
    }

    /// The numbers of the peers whose life has ended.
    pub fn ended_peers(&self) -> Vec<u16> {
        let peers = self.peers();
        let ended = peers.iter().zip(0..).filter(|(peer, _)| peer.has_ended);
        ended.map(|(_, number)| number).collect()
    }

    /// The numbers of the peers that own shards, as far as this member knows.
    pub fn owners(&self) -> BTreeSet<u16> {
        let words = self.words.iter().map(|word| word.load(Ordering::Acquire));
        let owners = words.filter(|word| word & SERVED == 0 && word & PEER != 0);
        owners.map(|word| ((word & PEER) - 1) as u16).collect()
    }

    /// Called by a core at the beginning of each round. Whatever it decided before is executed; what it decides from now on
    /// heeds what the control thread has published before.
    #[inline]
    pub fn begin_round(&self, core: usize) {
        let rounds = &self.cores[core].rounds;
        // Only this core writes it. SeqCst: ordered after `publish_all`, or `barrier` sees the number before.
        let next = rounds.load(Ordering::Relaxed) + 1;
        rounds.store(next, Ordering::SeqCst);
    }

    /// Number of shards of the service.
    pub fn shard_count(&self) -> usize {
        self.words.len()
    }

    /// Number of cores.
    pub fn core_count(&self) -> usize {
        self.cores.len()
    }

    /// From `stop_at` on the cores serve nothing, unless it is set again. If it becomes later, what it holds for must have been
    /// [published](ServedShards::publish_all) before.
    pub fn set_stop_at(&self, stop_at: Ns) {
        // Release: see `verdict`.
        self.stop_at.store(stop_at.0, Ordering::Release);
    }

    /// Whether every core has begun a round since something was published before; to be asked again until it has, with the rounds of
    /// [`rounds`](ServedShards::rounds) taken after that.
    pub fn has_passed(&self, rounds: &[u64]) -> bool {
        let mut cores = self.cores.iter().zip(rounds);
        cores.all(|(core, before)| core.rounds.load(Ordering::SeqCst) > *before)
    }

    /// The rounds that the cores have begun. Wakes the cores, so that they begin another.
    pub fn rounds(&self) -> Vec<u64> {
        let rounds = self.cores.iter().map(|core| core.rounds.load(Ordering::SeqCst));
        let rounds = rounds.collect();
        for core in &self.cores {
            core.wake();
        }
        rounds
    }

    fn peers(&self) -> MutexGuard<'_, Vec<Peer>> {
        lock(&self.peers)
    }
}

/// A panic of another thread leaves nothing half done here.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
