//! [`State`]: everything that the threads of a member share, behind one lock.

use crate::contents::{Adopted, Contents};
use crate::copies::{Copied, Copies};
use crate::outgoing::Outgoing;
use crate::requests::Moving;
use crate::status::{MemberStatus, RegistryHealth, ShardCounts, Tally};
use drover_base::Ns;
use drover_cluster::{
    Action, Agent, Ask, Change, Epoch, HandoverReply, HandoverRequest, Map, MemberId, Published, Registry,
    ServedShards, ShardId,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Time that a core waits for the keeper of a copy before the copies there begin again. *(our choice)*
const KEEPER_PATIENCE: Ns = Ns::from_s(1);

/// Decisions, and what the cores hold. No method waits.
pub(crate) struct State {
    pub(crate) agent: Agent,
    pub(crate) contents: Contents,
    pub(crate) copies: Copies,
    pub(crate) outgoing: Outgoing,
    shards: Arc<ServedShards>,
    /// Hand-overs that wait for their turn.
    queue: BTreeMap<ShardId, (MemberId, Epoch)>,
    /// Owners of which a set is being fetched: of each one at a time.
    owners: BTreeSet<MemberId>,
    attempts: Attempts,
    actions: Vec<Action>,
    /// Whether a hand-over waits until void items are deleted.
    void_wanted: bool,
    pub(crate) health: RegistryHealth,
    pub(crate) tally: Tally,
    changed_at: Option<Ns>,
    pub(crate) last_error: String,
    pub(crate) ends: Option<End>,
}

/// How a member ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// It ends its registration.
    Leave,
    /// It does nothing more, as if it had died.
    Vanish,
}

/// Numbers of hand-overs.
#[derive(Default)]
struct Attempts {
    last: u64,
    /// Those of which messages may still be under way, and which no core has been told to end yet.
    lost: Vec<u64>,
}

/// Void items that are to be deleted.
pub(crate) struct Sweep {
    pub(crate) shards: Vec<ShardId>,
    /// Hand-overs of which nothing must be stored any more.
    pub(crate) attempts: Vec<u64>,
}

/// Shards that one owner hands over together.
pub(crate) struct HandoverSet {
    pub(crate) attempt: u64,
    pub(crate) owner: MemberId,
    pub(crate) addresses: Vec<String>,
    pub(crate) moves: Vec<Moving>,
}

impl State {
    pub(crate) fn new(agent: Agent, shards: Arc<ServedShards>) -> State {
        State {
            agent,
            contents: Contents::new(shards.shard_count()),
            copies: Copies::default(),
            outgoing: Outgoing::default(),
            shards,
            queue: BTreeMap::new(),
            owners: BTreeSet::new(),
            attempts: Attempts::default(),
            actions: Vec::new(),
            void_wanted: false,
            health: RegistryHealth::default(),
            tally: Tally::default(),
            changed_at: None,
            last_error: String::new(),
            ends: None,
        }
    }

    /// Tells the cores what they may serve. The order matters: a later end of the lease must not count for what was served under
    /// an earlier one.
    pub(crate) fn publish(&self) {
        let (outgoing, contents, copies) = (&self.outgoing, &self.contents, &self.copies);
        let published = Published {
            noted: &|shard| outgoing.is_noted(shard),
            held_back: &|shard| !contents.is_held(shard),
            copied: &|shard| copies.stage(shard),
            keeps: &|shard| contents.is_kept(shard),
        };
        self.shards.publish_all(self.agent.ownership(), &published);
        self.shards.set_stop_at(self.agent.stop_at());
    }

    /// Has the agent do what is due. Returns whether other threads have something to do.
    pub(crate) fn step(&mut self, now: Ns, registry: &mut impl Registry) -> bool {
        let before = self.agent.map().clone();
        let was = self.agent.id().cloned();
        let mut actions = std::mem::take(&mut self.actions);
        self.agent.step(now, registry, &mut actions);
        let map = self.agent.map().clone();
        self.log_registration(was.as_ref());
        let is_new_map = map.epoch() != before.epoch();
        if is_new_map {
            self.changed_at = Some(now);
            self.log_map(&before, &map, &actions);
            self.outgoing.follow(&map, &self.shards);
        }
        let is_busy = is_new_map || !actions.is_empty();
        let promoted_before = self.tally.promoted_shards;
        for action in actions.drain(..) {
            self.act(action, now);
        }
        let shards = self.tally.promoted_shards - promoted_before;
        if shards > 0 {
            tracing::warn!(
                shards,
                "a member is gone: shards of it go on here, with the copies that this member kept"
            );
        }
        self.actions = actions;
        if is_busy {
            self.copies.follow(self.agent.ownership());
            self.publish();
        } else {
            self.shards.set_stop_at(self.agent.stop_at());
        }
        self.watch_keepers(now);
        is_busy
    }

    /// Begins copies again whose keeper has let a core wait for too long.
    fn watch_keepers(&mut self, now: Ns) {
        for core in 0..self.shards.core_count() {
            let waiting = self.shards.waiting(core);
            let Some((peer, _)) = waiting.filter(|(_, since)| now.since(*since) >= KEEPER_PATIENCE) else {
                continue;
            };
            let Some(id) = self.shards.peer(peer).map(|peer| peer.id) else {
                continue;
            };
            let ownership = self.agent.ownership();
            let index = ownership.map().index_of(&id);
            let set = index.map_or(Vec::new(), |index| self.copies.gated_at(ownership, index));
            if !set.is_empty() {
                let shards = set.len();
                tracing::warn!(member = %id, shards, "a member does not take copies in time: they begin again, and these shards have one copy until then");
                self.restart_copies(&set);
            }
        }
    }

    /// Takes the copies that one member is to keep and that are to be filled now. What changes in them is sent there from the next round of
    /// each core on.
    pub(crate) fn take_copies(&mut self) -> Vec<Copied> {
        let (ownership, contents) = (self.agent.ownership(), &self.contents);
        let moves = |shard| ownership.map().moving(shard).is_some();
        let set = self
            .copies
            .take_set(ownership, |shard| contents.is_held(shard) && !moves(shard));
        if !set.is_empty() {
            self.publish();
        }
        set
    }

    /// These copies, which are current, lack something, or may: has the map begin them again.
    pub(crate) fn restart_copies(&mut self, set: &[Copied]) {
        self.copies.fail(set);
        self.agent.copies_failed(set);
        self.tally.restarted_copies += set.len() as u64;
    }

    fn act(&mut self, action: Action, now: Ns) {
        match action {
            Action::Change(Change::Begin(shard)) => self.contents.begin(shard),
            Action::Change(Change::Adopt(shard)) => match self.contents.adopt(shard) {
                Adopted::Received => self.tally.received_shards += 1,
                Adopted::Promoted => self.tally.promoted_shards += 1,
            },
            Action::Change(Change::Keep(shard)) => self.contents.keep(shard),
            Action::Change(Change::Discard(shard)) => self.contents.discard(shard),
            // The map that ends a move ends the copy, too.
            Action::Change(Change::Resume(_)) => {}
            Action::Forget(shard) => {
                self.queue.remove(&shard);
                self.contents.forget(shard);
            }
            Action::Ask { to, request } => self.asked(to, request, now),
        }
    }

    /// The agent wants items of a shard. It asks again until a whole set of shards, this one among them, has been received.
    fn asked(&mut self, owner: MemberId, HandoverRequest { shard, tenure, .. }: HandoverRequest, now: Ns) {
        if self.contents.is_arriving(shard) {
            // Whether it goes on is for the mover to say.
            return;
        }
        let waits = !self.contents.is_clean(shard) || self.queue.contains_key(&shard);
        self.void_wanted |= !self.contents.is_clean(shard);
        if self.contents.is_clean(shard) {
            self.queue.insert(shard, (owner, tenure));
        }
        if waits {
            self.agent.goes_on(shard, tenure, now);
        }
    }

    /// Takes the shards whose void items are to be deleted now. While shards leave the member, those that have left wait for the others, unless
    /// one of them is needed again: a deletion scans all items of the member.
    pub(crate) fn take_void(&mut self) -> Option<Sweep> {
        let is_due = self.outgoing.is_empty() || self.void_wanted || self.contents.has_waiting();
        if !is_due {
            return None;
        }
        self.void_wanted = false;
        let shards = self.contents.take_void();
        (!shards.is_empty()).then(|| Sweep {
            shards,
            attempts: std::mem::take(&mut self.attempts.lost),
        })
    }

    /// Void items are deleted, or not, if a core did not answer.
    pub(crate) fn swept(&mut self, sweep: Sweep, is_done: bool) {
        self.contents.swept(&sweep.shards, is_done);
        if !is_done {
            self.attempts.lost.extend(sweep.attempts);
        }
    }

    /// Takes all waiting hand-overs of an owner that is not busy with earlier ones; their items may be stored from now on, until
    /// [`end_set`](State::end_set).
    pub(crate) fn take_set(&mut self) -> Option<HandoverSet> {
        let mut waiting = self.queue.values();
        let (owner, _) = waiting.find(|(owner, _)| !self.owners.contains(owner))?.clone();
        self.owners.insert(owner.clone());
        let mut moves = Vec::new();
        self.queue.retain(|shard, (from, tenure)| {
            let is_taken = *from == owner;
            if is_taken {
                moves.push((*shard, *tenure));
            }
            !is_taken
        });
        for (shard, _) in &moves {
            self.contents.start(*shard);
        }
        let map = self.agent.map();
        let listed = map.members().iter().find(|it| it.member.is(&owner));
        let addresses = listed.map(|it| it.member.advert.addresses().to_vec());
        self.attempts.last += 1;
        Some(HandoverSet {
            attempt: self.attempts.last,
            owner,
            addresses: addresses.unwrap_or_default(),
            moves,
        })
    }

    /// Ends a set, after its shards have been [received](State::received) or have [failed](State::failed).
    pub(crate) fn end_set(&mut self, owner: &MemberId) {
        self.owners.remove(owner);
    }

    /// Items of these shards are arriving. Takes those out whose moves have ended: nothing more of them must be stored.
    pub(crate) fn goes_on(&mut self, moves: &mut Vec<Moving>, now: Ns) -> Vec<ShardId> {
        let mut dropped = Vec::new();
        moves.retain(|(shard, tenure)| {
            let goes_on = self.contents.is_arriving(*shard);
            if goes_on {
                self.agent.goes_on(*shard, *tenure, now);
            } else {
                dropped.push(*shard);
            }
            goes_on
        });
        for shard in &dropped {
            self.contents.finished(*shard, true);
        }
        dropped
    }

    /// These shards are here whole, and their owner has frozen them.
    pub(crate) fn received(&mut self, moves: &[Moving], now: Ns) {
        for (shard, tenure) in moves {
            self.contents.finished(*shard, true);
            for ask in [Ask::Page { cursor: 0 }, Ask::Barrier] {
                let (shard, tenure) = (*shard, *tenure);
                let to = HandoverRequest { shard, tenure, ask };
                self.agent.receive(&HandoverReply { to, next: None }, now);
            }
        }
    }

    /// These hand-overs have failed. `stored`: whether any of their items may have been stored; if not, they are tried again.
    pub(crate) fn failed(&mut self, moves: &[Moving], stored: bool) {
        for (shard, tenure) in moves {
            self.contents.finished(*shard, stored);
            if stored {
                self.tally.failed_handovers += 1;
                self.agent.give_up(*shard, *tenure);
            }
        }
    }

    /// A core did not answer in a hand-over: it may still execute what it has been sent.
    pub(crate) fn lost_attempt(&mut self, attempt: u64) {
        self.attempts.lost.push(attempt);
    }

    /// The member at `now`.
    pub(crate) fn status(&self, now: Ns) -> MemberStatus {
        let map = self.agent.map();
        let own = self.agent.id().and_then(|id| map.index_of(id));
        let ours = |owner: Option<u16>| own.is_some() && owner == own;
        let served = map.shards().filter(|shard| self.contents.is_held(*shard));
        let void = map.shards().filter(|shard| self.contents.is_void(*shard));
        let moves = map.moves().iter();
        let ownership = self.agent.ownership();
        let kept = map.shards().filter(|shard| self.contents.is_kept(*shard));
        let copied = map
            .shards()
            .filter(|shard| ownership.copy(*shard).is_some_and(|copy| copy.is_complete));
        MemberStatus {
            id: self.agent.id().cloned(),
            epoch: map.epoch(),
            lease_left: match self.agent.stop_at() {
                Ns::MAX => Ns::MAX,
                stop_at => stop_at.since(now),
            },
            shards: ShardCounts {
                served: served.count(),
                arriving: moves.clone().filter(|it| ours(Some(it.to))).count(),
                leaving: moves.filter(|it| ours(map.tenure(it.shard).owner)).count(),
                void: void.count(),
                kept: kept.count(),
                copied: copied.count(),
            },
            tally: self.tally,
            registry: self.health,
            since_change: self.changed_at.map(|at| now.since(at)),
            last_error: self.last_error.clone(),
        }
    }

    fn log_registration(&self, was: Option<&MemberId>) {
        match (was, self.agent.id()) {
            (before, Some(id)) if before != Some(id) => tracing::info!(member = %id, "registered"),
            (Some(id), None) => {
                tracing::warn!(member = %id, "the lease is lost: serving nothing until registered again");
            }
            _ => {}
        }
    }

    /// Says what a new map means: members that come and go, and shards that begin without the items they had.
    fn log_map(&mut self, before: &Map, map: &Map, actions: &[Action]) {
        tracing::debug!(epoch = %map.epoch(), moves = map.moves().len(), "a new map");
        let mut lost: BTreeMap<MemberId, u64> = BTreeMap::new();
        for action in actions {
            let Action::Change(Change::Begin(shard)) = action else {
                continue;
            };
            let owner = before.owner(*shard).filter(|_| before.epoch() != Epoch::NONE);
            let owner = owner
                .map(|owner| owner.id())
                .filter(|id| map.index_of(id).is_none());
            if let Some(owner) = owner {
                *lost.entry(owner).or_default() += 1;
            }
        }
        for (owner, shards) in lost {
            self.tally.lost_shards += shards;
            tracing::warn!(member = %owner, shards, "a member is gone: shards of it begin empty here");
        }
        let ids =
            |map: &Map| -> BTreeSet<MemberId> { map.members().iter().map(|it| it.member.id()).collect() };
        let (old, new) = (ids(before), ids(map));
        for id in new.difference(&old) {
            tracing::info!(member = %id, "a member has joined");
        }
        for id in old.difference(&new) {
            tracing::info!(member = %id, "a member has left");
        }
    }
}
