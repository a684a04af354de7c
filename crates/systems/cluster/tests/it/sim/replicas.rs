//! [`Replicator`]: the owner's side of copies, as a member's cores and control thread do it: state transfer by key, one message under way for each
//! keeper, and replies that are held until the keepers have what they say.

use super::Flaw;
use super::host::{Copied, Items, key_hash, shard_of};
use drover_base::Ns;
use drover_cluster::{Agent, CopyStage, Epoch, MemberId, ServedShards, ShardId};
use std::collections::{BTreeMap, BTreeSet};

/// A message without a reply is given up after this time: its keys are sent again, in another one.
const REPEAT_AFTER: Ns = Ns::from_ms(8);
/// A held core waits so long for a keeper; then its copies begin again.
const COPY_TIMEOUT: Ns = Ns::from_ms(60);
/// Most keys of a message: few, so that there are several.
const MESSAGE_KEYS: usize = 3;
/// Bytes of a name: kind, hash, length and a key of four bytes.
const NAME_BYTES: usize = 22;

/// State of keys, to the member that keeps copies of their shards.
#[derive(Clone, Debug)]
pub struct CopyMessage {
    pub from: MemberId,
    pub number: u64,
    pub shards: BTreeMap<ShardId, Epoch>,
    pub entries: Copied,
}

/// How far a copy of a shard has come.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Progress {
    tenure: Epoch,
    /// First key that is still to be scanned; `None`: all have been.
    cursor: Option<u32>,
    is_gated: bool,
}

#[derive(Default)]
struct Channel {
    /// Keys whose state is to be sent.
    waiting: BTreeSet<u32>,
    /// Number and keys of the message that has no reply yet, and when it was sent.
    under_way: Option<(u64, BTreeSet<u32>, Ns)>,
    /// Since when the keeper owes a reply.
    owes_since: Option<Ns>,
}

impl Channel {
    fn has_key_of(&self, shard: ShardId) -> bool {
        let under_way = self.under_way.iter().flat_map(|(_, keys, _)| keys);
        self.waiting
            .iter()
            .chain(under_way)
            .any(|key| shard_of(*key) == shard)
    }
}

#[derive(Default)]
pub struct Replicator {
    number: u64,
    channels: BTreeMap<MemberId, Channel>,
    copies: BTreeMap<ShardId, Progress>,
    /// Shards that the replies that are held are about.
    held_shards: BTreeSet<ShardId>,
    names: Vec<u8>,
}

/// What becomes of replies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Held {
    /// They go on waiting, if there are any.
    Waiting,
    /// They may leave.
    Released,
    /// They must never leave.
    Void,
}

impl Replicator {
    /// What the cores are to know of the copy of a shard.
    pub fn stage(&self, shard: ShardId) -> CopyStage {
        match self.copies.get(&shard) {
            None => CopyStage::None,
            Some(copy) if copy.is_gated => CopyStage::Gated,
            Some(_) => CopyStage::Filling,
        }
    }

    /// Follows the map: copies begin, begin again under another tenure, and end.
    pub fn follow(&mut self, agent: &Agent) {
        let ownership = agent.ownership();
        for shard in agent.map().shards() {
            match ownership.copy(shard) {
                None => drop(self.copies.remove(&shard)),
                Some(copy) if self.copies.get(&shard).is_none_or(|it| it.tenure != copy.tenure) => {
                    let progress = Progress {
                        tenure: copy.tenure,
                        cursor: Some(0),
                        is_gated: false,
                    };
                    self.copies.insert(shard, progress);
                }
                Some(_) => {}
            }
        }
    }

    /// Scans on, gates what is sent, and tells the agent what is complete and what has failed. Returns whether stages have changed, so that
    /// they are to be published.
    pub fn control(
        &mut self,
        agent: &mut Agent,
        items: &BTreeMap<ShardId, Items>,
        flaw: Option<Flaw>,
        now: Ns,
    ) -> bool {
        let mut has_changed = false;
        let (mut filled, mut failed) = (Vec::new(), Vec::new());
        for (shard, progress) in &mut self.copies {
            let Some(copy) = agent.ownership().copy(*shard) else {
                continue;
            };
            let keeper = agent.map().members()[usize::from(copy.keeper)].member.id();
            let channel = self.channels.entry(keeper).or_default();
            if flaw == Some(Flaw::CompletesUnfilled) {
                progress.cursor = None;
            }
            if let Some(cursor) = progress.cursor {
                let items = items.get(shard);
                let found = items.and_then(|items| items.range(cursor..).next());
                channel.waiting.extend(found.map(|(key, _)| *key));
                progress.cursor = found.map(|(key, _)| key + 1);
            } else if !progress.is_gated {
                if !channel.has_key_of(*shard) {
                    (progress.is_gated, has_changed) = (true, true);
                }
            } else if channel
                .owes_since
                .is_some_and(|since| now.since(since) >= COPY_TIMEOUT)
            {
                failed.push((*shard, progress.tenure));
            } else if !copy.is_complete && !channel.has_key_of(*shard) {
                filled.push((*shard, progress.tenure));
            }
        }
        agent.copies_filled(&filled);
        if flaw == Some(Flaw::ReleasesUncommitted) {
            for (shard, _) in failed {
                self.held_shards.remove(&shard);
            }
        } else {
            agent.copies_failed(&failed);
        }
        has_changed
    }

    /// Takes what the core has changed, and sends what can be sent. `from` is the member.
    pub fn pump(
        &mut self,
        served: &ServedShards,
        items: &BTreeMap<ShardId, Items>,
        from: &MemberId,
        now: Ns,
    ) -> Vec<(MemberId, CopyMessage)> {
        let mut names = std::mem::take(&mut self.names);
        served.take_changed(0, &mut names);
        for name in names.chunks_exact(NAME_BYTES) {
            let key = u32::from_le_bytes(name[18..].try_into().expect("keys are four bytes"));
            let shard = shard_of(key);
            self.held_shards.insert(shard);
            if let Some(peer) = served.sent_copy(shard).and_then(|sent| served.peer(sent.peer)) {
                self.channels.entry(peer.id).or_default().waiting.insert(key);
            }
        }
        self.names = names;
        let mut messages = Vec::new();
        for (to, channel) in &mut self.channels {
            if let Some((_, keys, _)) = channel
                .under_way
                .take_if(|(_, _, sent_at)| now.since(*sent_at) >= REPEAT_AFTER)
            {
                channel.waiting.extend(keys);
            }
            // What is not sent to this keeper any more is another one's to be filled with.
            let sent = |key: &u32| {
                let sent = served.sent_copy(shard_of(*key))?;
                let is_meant = served.peer(sent.peer).is_some_and(|peer| peer.id == *to);
                is_meant.then_some((shard_of(*key), sent.tenure))
            };
            channel.waiting.retain(|key| sent(key).is_some());
            if channel.under_way.is_some() {
                continue;
            }
            let keys: BTreeSet<u32> = channel.waiting.iter().take(MESSAGE_KEYS).copied().collect();
            if keys.is_empty() {
                channel.owes_since = None;
                continue;
            }
            channel.waiting.retain(|key| !keys.contains(key));
            self.number += 1;
            let value = |key: &u32| items.get(&shard_of(*key))?.get(key).copied();
            let message = CopyMessage {
                from: from.clone(),
                number: self.number,
                shards: keys.iter().filter_map(sent).collect(),
                entries: keys.iter().map(|key| (*key, value(key))).collect(),
            };
            channel.owes_since.get_or_insert(now);
            channel.under_way = Some((self.number, keys, now));
            messages.push((to.clone(), message));
        }
        messages
    }

    /// A keeper has taken a message, or refused it.
    pub fn replied(&mut self, keeper: &MemberId, number: u64, is_taken: bool, now: Ns) {
        let Some(channel) = self.channels.get_mut(keeper) else {
            return;
        };
        if channel.under_way.as_ref().is_none_or(|it| it.0 != number) {
            return;
        }
        // A refused message stays under way until it is repeated: the keeper may know an older map.
        if is_taken {
            channel.under_way = None;
            channel.owes_since = Some(now);
        }
    }

    /// What becomes of the replies that are held, as the cores see it.
    pub fn held(&mut self, served: &ServedShards) -> Held {
        if self.held_shards.iter().any(|shard| !served.holds(*shard)) {
            self.held_shards.clear();
            return Held::Void;
        }
        let channels = &self.channels;
        self.held_shards.retain(|shard| {
            let is_gated = served.sent_copy(*shard).is_some_and(|sent| sent.is_gated);
            is_gated && channels.values().any(|channel| channel.has_key_of(*shard))
        });
        match self.held_shards.is_empty() {
            true => Held::Released,
            false => Held::Waiting,
        }
    }

    /// Items of a shard are void: a core that holds replies about it finds that out before they are deleted.
    pub fn is_about(&self, shard: ShardId) -> bool {
        self.held_shards.contains(&shard)
    }

    /// The names of a key, as cores note it.
    pub fn note(served: &ServedShards, key: u32) {
        served.note(0, shard_of(key), key_hash(key), &key.to_le_bytes());
    }
}
