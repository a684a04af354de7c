//! [`ServedShards`]: what the cores of a member ask about each request, and what its control thread tells them.
//!
//! ```text
//! control thread: Agent -- publish, set_stop_at --> one word per shard, one time --> cores: verdict(hash, now)
//!                       -- barrier --------------> waits until each core has begun another round
//!                       <------------- take_noted - keys of moving shards that may have changed <-- note
//! ```

use crate::{Epoch, MemberId, Ownership, ShardId};
use drover_base::sync::{AtomicU32, AtomicU64, Mutex, MutexGuard, Ordering};
use drover_base::{KeyHash, Ns};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, PoisonError};

/// The member serves the shard.
const SERVED: u32 = 1 << 31;
/// The shard is being copied to its next owner: what changes is noted.
const NOTED: u32 = 1 << 30;
/// Number of the peer that owns the shard, plus 1; 0: nobody, or this member, which does not serve it now.
const PEER: u32 = 0xffff;

/// What a core does with a request about a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It executes it.
    Serve,
    /// It executes it and, if the request may change an item, [notes](ServedShards::note) the key first.
    ServeNoted(ShardId),
    /// The shard belongs to the peer with this [number](ServedShards::peer).
    Peer(u16),
    /// Nobody serves the shard, as far as this member knows: it may change hands, or the lease may have run out.
    Nowhere,
}

/// Key of an item that may have changed while its shard is being copied.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum NotedKey {
    /// The key.
    Key(Box<[u8]>),
    /// The [bytes](KeyHash::to_bytes) of the hash that an item has instead of a key.
    Hash([u8; 16]),
}

/// Function that ends the sleep of a core.
pub type WakeCore = Box<dyn Fn() + Send + Sync>;

/// One core of the member.
#[derive(Default)]
struct Core {
    /// Number of rounds that the core has begun.
    rounds: AtomicU64,
    noted: Mutex<BTreeMap<ShardId, BTreeSet<NotedKey>>>,
    wake: Mutex<Option<WakeCore>>,
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
    cores: Box<[Core]>,
    /// Peers by number. A number keeps its meaning: each life of a member has one of its own.
    peers: Mutex<Vec<Peer>>,
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
            cores: (0..core_count).map(|_| Core::default()).collect(),
            peers: Mutex::default(),
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
        match word & NOTED {
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
        // Only this core writes it. SeqCst: ordered after `publish`, or `barrier` sees the number before.
        let next = rounds.load(Ordering::Relaxed) + 1;
        rounds.store(next, Ordering::SeqCst);
    }

    /// Notes, on its core, that a key of a moving shard may be about to change. For an item without a key:
    /// [`note_hash`](ServedShards::note_hash).
    #[cold]
    pub fn note(&self, core: usize, shard: ShardId, key: &[u8]) {
        debug_assert!(!key.is_empty(), "an item without a key is noted by its hash");
        self.note_key(core, shard, NotedKey::Key(key.into()));
    }

    /// As [`note`](ServedShards::note), for an item whose key is only its hash.
    #[cold]
    pub fn note_hash(&self, core: usize, shard: ShardId, hash: KeyHash) {
        self.note_key(core, shard, NotedKey::Hash(hash.to_bytes()));
    }

    fn note_key(&self, core: usize, shard: ShardId, key: NotedKey) {
        let mut noted = lock(&self.cores[core].noted);
        noted.entry(shard).or_default().insert(key);
    }

    /// Gives the core a way to be woken.
    pub fn set_waker(&self, core: usize, wake: WakeCore) {
        *lock(&self.cores[core].wake) = Some(wake);
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
    /// [published](ServedShards::publish) before.
    pub fn set_stop_at(&self, stop_at: Ns) {
        // Release: see `verdict`.
        self.stop_at.store(stop_at.0, Ordering::Release);
    }

    /// Tells the cores what `ownership` says. Shards that `noted` names are being copied.
    pub fn publish(&self, ownership: &Ownership, noted: impl Fn(ShardId) -> bool) {
        self.publish_except(ownership, noted, |_| false);
    }

    /// As [`publish`](ServedShards::publish), but shards that `held_back` names are not served, though they are the member's: void items
    /// of an earlier tenure may still be on its cores.
    pub fn publish_except(
        &self,
        ownership: &Ownership,
        noted: impl Fn(ShardId) -> bool,
        held_back: impl Fn(ShardId) -> bool,
    ) {
        let map = ownership.map();
        let mut peers = self.peers();
        let numbers: Vec<u32> = map
            .members()
            .iter()
            .map(|it| {
                let (id, addresses) = (it.member.id(), it.member.advert.addresses().to_vec());
                let known = peers.iter().position(|peer| peer.id == id);
                let number = known.unwrap_or_else(|| {
                    peers.push(Peer { id, addresses });
                    peers.len() - 1
                });
                // After 65,535 lives of members the others' requests have nowhere to go; a restart of this member helps.
                u32::try_from(number + 1).map_or(0, |number| if number <= PEER { number } else { 0 })
            })
            .collect();
        for (word, shard) in self.words.iter().zip(map.shards()) {
            let owner = map.tenure(shard).owner;
            let new = match owner {
                _ if ownership.serves(shard) && held_back(shard) => 0,
                _ if ownership.serves(shard) => SERVED | if noted(shard) { NOTED } else { 0 },
                Some(owner) if !ownership.is_own(owner) => {
                    numbers.get(usize::from(owner)).copied().unwrap_or(0)
                }
                _ => 0,
            };
            if word.load(Ordering::Relaxed) != new {
                // SeqCst: see `begin_round`.
                word.store(new, Ordering::SeqCst);
            }
        }
        self.epoch.store(map.epoch().0, Ordering::Relaxed);
    }

    /// Whether every core has begun a round since `publish` was called before; to be asked again until it has, with the rounds of
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
            if let Some(wake) = &*lock(&core.wake) {
                wake();
            }
        }
        rounds
    }

    /// Takes the keys of a shard that a core has noted, in the order of keys.
    pub fn take_noted(&self, core: usize, shard: ShardId) -> BTreeSet<NotedKey> {
        lock(&self.cores[core].noted).remove(&shard).unwrap_or_default()
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
mod tests {
    use super::*;
    use crate::{Advert, Draft, Map, Member, Standing};

    fn member(name: &str) -> Member {
        let addresses = vec![format!("tcp://{name}:1")];
        let advert = Advert::new(name, 1, addresses).expect("a sound advert");
        Member {
            advert,
            incarnation: 7,
        }
    }

    /// The map of two members, of which `a` owns shard 0 and `b` shard 1 of three.
    fn map() -> Arc<Map> {
        let mut draft = Draft::after(&Map::none(3));
        for (index, name) in ["a", "b"].into_iter().enumerate() {
            draft.add(member(name), Standing::Joining);
            draft.assign(ShardId(index as u16), index as u16);
        }
        Arc::new(draft.finish().expect("a change"))
    }

    /// Any hash of the shard.
    fn hash(shard: u16) -> KeyHash {
        let mut hashes = (0..1 << 14).map(|step| KeyHash {
            low: 0,
            high: step << 50,
        });
        let hash = hashes.find(|hash| ShardId::of(*hash, 3) == ShardId(shard));
        hash.expect("every shard has hashes")
    }

    #[test]
    fn cores_do_as_the_ownership_says_while_the_lease_lives() {
        let mut ownership = Ownership::new(3);
        ownership.set_id(Some(member("a").id()));
        ownership.learn(&map(), |_| None);
        let served = ServedShards::new(3, 2);
        served.publish(&ownership, |_| false);
        served.set_stop_at(Ns(100));
        assert_eq!(served.verdict(hash(0), Ns(99)), Verdict::Serve);
        assert_eq!(served.verdict(hash(0), Ns(100)), Verdict::Nowhere);
        assert_eq!(served.verdict(hash(2), Ns(99)), Verdict::Nowhere);
        let Verdict::Peer(number) = served.verdict(hash(1), Ns(99)) else {
            panic!("shard 1 is the peer's")
        };
        assert_eq!(served.peer(number).map(|peer| peer.id), Some(member("b").id()));
        assert_eq!(served.epoch(), Epoch(1));
    }

    #[test]
    fn changes_of_moving_shards_are_noted_once() {
        let mut ownership = Ownership::new(3);
        ownership.set_id(Some(member("a").id()));
        ownership.learn(&map(), |_| None);
        let served = ServedShards::new(3, 2);
        served.set_stop_at(Ns(100));
        served.publish(&ownership, |shard| shard == ShardId(0));
        assert_eq!(served.verdict(hash(0), Ns(0)), Verdict::ServeNoted(ShardId(0)));
        for key in [&b"b"[..], b"a", b"b"] {
            served.note(1, ShardId(0), key);
        }
        assert!(served.take_noted(0, ShardId(0)).is_empty());
        let keys: Vec<NotedKey> = served.take_noted(1, ShardId(0)).into_iter().collect();
        let key = |bytes: &[u8]| NotedKey::Key(bytes.into());
        assert_eq!(keys, [key(b"a"), key(b"b")]);
        assert!(served.take_noted(1, ShardId(0)).is_empty());
    }

    #[test]
    fn a_barrier_waits_for_every_core() {
        let served = ServedShards::new(3, 2);
        let rounds = served.rounds();
        served.begin_round(0);
        assert!(!served.has_passed(&rounds));
        served.begin_round(1);
        assert!(served.has_passed(&rounds));
    }
}
