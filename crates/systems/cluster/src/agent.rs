//! [`Agent`]: a member's part in its service, all of it but items and sockets.

use crate::copies::CopyNews;
use crate::{
    Advert, Change, Draft, Epoch, Handover, HandoverReply, HandoverRequest, HandoverTimes, LeaseRequest,
    LeaseTerms, Map, Member, MemberId, Ownership, Registration, Registry, RegistryEvent, RegistryReply,
    RegistryRequest, ShardId, Transaction, View, plan,
};
use drover_base::Ns;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What an [`Agent`] is made with.
#[derive(Clone, Debug)]
pub struct AgentOptions {
    /// What the member says of itself.
    pub advert: Advert,
    /// Times of its lease.
    pub terms: LeaseTerms,
    /// Times of hand-overs to it.
    pub handover: HandoverTimes,
    /// Most shards that are handed over to it at a time.
    pub handovers_max: usize,
    /// Number of shards of a service that has no map yet.
    pub shard_count: usize,
    /// A random number that no other process has.
    pub instance: u64,
    /// Members that are to have each item: see [`ServiceSettings::replicas`](crate::ServiceSettings::replicas).
    pub replicas: u8,
}

/// What the process must do with its items and its connections, in the order given.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// The items of a shard begin, go, or are served again.
    Change(Change),
    /// What was received of a shard's items is void.
    Forget(ShardId),
    /// A request to another member. Its reply goes to [`Agent::receive`].
    Ask {
        /// The owner of the shard.
        to: MemberId,
        /// The request.
        request: HandoverRequest,
    },
}

/// A request to the registry that has no reply yet.
enum Pending {
    Register { instance: u64 },
    Renew { id: MemberId, submitted_at: Ns },
    Commit { map: Arc<Map> },
    Look,
}

/// A member: keeps its registration, follows the map, takes part in planning it, and has shards handed over. Without I/O, but for the
/// [`Registry`] it is given; to be stepped every few milliseconds, and whenever the registry has events.
pub struct Agent {
    options: AgentOptions,
    registration: Registration,
    ownership: Ownership,
    handovers: BTreeMap<ShardId, Handover>,
    /// News of the copies of this member's shards that the map does not have yet.
    copies: CopyNews,
    registered: Arc<Vec<Member>>,
    /// Revision of the last view that was taken: older views are ignored.
    revision: u64,
    pending: BTreeMap<u64, Pending>,
    tickets: u64,
    look_at: Ns,
    /// Whether something has changed since the last plan.
    plan_due: bool,
    /// Whether the last transaction failed, so that a newer view is needed before the next.
    is_behind: bool,
    has_left: bool,
}

impl Agent {
    /// A member that is not registered yet.
    pub fn new(options: AgentOptions) -> Agent {
        Agent {
            registration: Registration::new(options.terms, options.instance),
            ownership: Ownership::new(options.shard_count),
            options,
            handovers: BTreeMap::new(),
            copies: CopyNews::default(),
            registered: Arc::default(),
            revision: 0,
            pending: BTreeMap::new(),
            tickets: 0,
            look_at: Ns::ZERO,
            plan_due: false,
            is_behind: false,
            has_left: false,
        }
    }

    /// The member's identity, if it is registered, as far as it knows.
    pub fn id(&self) -> Option<&MemberId> {
        self.registration.id()
    }

    /// The newest map that the member knows.
    pub fn map(&self) -> &Arc<Map> {
        self.ownership.map()
    }

    /// Which shards the member holds.
    pub fn ownership(&self) -> &Ownership {
        &self.ownership
    }

    /// From when on, on the clock of [`step`](Agent::step), the member serves nothing, unless its lease is renewed.
    pub fn stop_at(&self) -> Ns {
        match self.has_left {
            true => Ns::ZERO,
            false => self.registration.stop_at(),
        }
    }

    /// Whether to answer the owner-to-be of a shard, freezing the shard if that is asked for. The items of the reply are to be those of
    /// after this call. A refused request gets no reply: the other end repeats it, since this member may only be behind.
    pub fn answer(&mut self, request: &HandoverRequest) -> bool {
        match request.ask {
            crate::Ask::Page { .. } => self.ownership.may_copy(request.shard, request.tenure),
            crate::Ask::Barrier => self.ownership.freeze(request.shard, request.tenure),
        }
    }

    /// Takes a reply to [`Action::Ask`]. Returns whether the items in it are to be stored.
    pub fn receive(&mut self, reply: &HandoverReply, now: Ns) -> bool {
        let handover = self.handovers.get_mut(&reply.to.shard);
        handover.is_some_and(|handover| handover.receive(reply, now))
    }

    /// Items of a shard are arriving for `tenure`, though no reply is complete yet.
    pub fn goes_on(&mut self, shard: ShardId, tenure: Epoch, now: Ns) {
        if let Some(handover) = self.handover(shard, tenure) {
            handover.goes_on(now);
        }
    }

    /// The hand-over of a shard cannot succeed any more: has the move cancelled.
    pub fn give_up(&mut self, shard: ShardId, tenure: Epoch) {
        if let Some(handover) = self.handover(shard, tenure) {
            handover.give_up();
        }
    }

    /// These copies of the member's shards, each with its tenure, have everything: has them completed, so that they may be promoted.
    pub fn copies_filled(&mut self, copies: &[(ShardId, Epoch)]) {
        self.copies.filled(copies);
        self.copies.follow(self.ownership.map());
    }

    /// These copies of the member's shards lack something, or may: has them begun again. Updates that the keeper has not acknowledged may be
    /// acknowledged to clients only after a map says that the copy has another tenure, or that there is none.
    pub fn copies_failed(&mut self, copies: &[(ShardId, Epoch)]) {
        self.copies.failed(copies);
        self.copies.follow(self.ownership.map());
    }

    fn handover(&mut self, shard: ShardId, tenure: Epoch) -> Option<&mut Handover> {
        let handover = self.handovers.get_mut(&shard);
        handover.filter(|it| it.tenure() == tenure)
    }

    /// Does what is due at `now`, and appends what the process has to do to `actions`.
    pub fn step(&mut self, now: Ns, registry: &mut impl Registry, actions: &mut Vec<Action>) {
        while let Some(event) = registry.poll(now) {
            // A renewal that was under way must not make a member serve that has left.
            if !self.has_left {
                self.heard(event, now, actions);
            }
        }
        if self.has_left {
            return;
        }
        match self.registration.next(now) {
            Some(LeaseRequest::Register(instance)) => {
                let (advert, ttl) = (self.options.advert.clone(), self.options.terms.ttl);
                let request = RegistryRequest::Register {
                    advert,
                    instance,
                    ttl,
                };
                self.submit(now, registry, request, Pending::Register { instance });
            }
            Some(LeaseRequest::Renew(id)) => {
                let submitted_at = now;
                let pending = Pending::Renew {
                    id: id.clone(),
                    submitted_at,
                };
                self.submit(now, registry, RegistryRequest::Renew(id), pending);
            }
            None => {}
        }
        if now >= self.look_at {
            // Views may be lost, so the member also asks.
            self.look_at = now + self.options.terms.renew_every;
            self.submit(now, registry, RegistryRequest::Look, Pending::Look);
        }
        self.propose(now, registry);
        for (shard, handover) in &mut self.handovers {
            let request = handover.next(now, &self.options.handover);
            let owner = self.ownership.map().owner(*shard);
            if let (Some(request), Some(owner)) = (request, owner) {
                let to = owner.id();
                actions.push(Action::Ask { to, request });
            }
        }
    }

    /// Serves nothing from now on, and ends the registration; steps do nothing any more. Shards that were not handed over before
    /// are lost. If the request does not arrive, the registration ends with its lease.
    pub fn leave(&mut self, now: Ns, registry: &mut impl Registry) {
        self.has_left = true;
        if let Some(id) = self.registration.id().cloned() {
            self.submit(now, registry, RegistryRequest::Leave(id), Pending::Look);
        }
    }

    fn submit(&mut self, now: Ns, registry: &mut impl Registry, request: RegistryRequest, pending: Pending) {
        self.tickets += 1;
        self.pending.insert(self.tickets, pending);
        registry.submit(now, self.tickets, request);
    }

    fn heard(&mut self, event: RegistryEvent, now: Ns, actions: &mut Vec<Action>) {
        let (ticket, reply) = match event {
            RegistryEvent::Changed(view) => return self.saw(view, now, actions),
            RegistryEvent::Failed { ticket } => (ticket, None),
            RegistryEvent::Reply { ticket, reply } => (ticket, Some(reply)),
        };
        // The reply to a request that was given up is of no use: its effect shows in the next view.
        let Some(pending) = self.pending.remove(&ticket) else {
            return;
        };
        match (pending, reply) {
            (Pending::Register { instance }, Some(RegistryReply::Registered(id))) => {
                let is_news = self.registration.registered(instance, id.clone());
                if is_news {
                    self.became(Some(id), now, actions);
                }
            }
            (Pending::Renew { id, submitted_at }, Some(RegistryReply::Renewed)) => {
                self.registration.renewed(&id, submitted_at);
            }
            (Pending::Renew { id, .. }, Some(RegistryReply::LeaseLost)) => {
                let was_ours = self.registration.lost(&id);
                if was_ours {
                    self.became(None, now, actions);
                }
            }
            (Pending::Commit { map }, Some(RegistryReply::Committed)) => self.learn(&map, now, actions),
            (Pending::Commit { .. }, _) => {
                (self.is_behind, self.plan_due, self.look_at) = (true, true, now);
            }
            (Pending::Look, Some(RegistryReply::View(view))) => {
                self.is_behind = false;
                self.saw(view, now, actions);
            }
            _ => {}
        }
    }

    /// The member is registered, or has lost its registration.
    fn became(&mut self, id: Option<MemberId>, now: Ns, actions: &mut Vec<Action>) {
        let changes = self.ownership.set_id(id);
        actions.extend(changes.into_iter().map(Action::Change));
        self.copies = CopyNews::default();
        let handovers = std::mem::take(&mut self.handovers);
        actions.extend(handovers.into_keys().map(Action::Forget));
        self.plan_due = true;
        // The map may name the member already, if the reply to its registration was late.
        let changes = self.ownership.compare(|_| None);
        self.follow_moves(&changes, now, actions);
    }

    fn saw(&mut self, view: View, now: Ns, actions: &mut Vec<Action>) {
        if view.revision > self.revision {
            self.revision = view.revision;
            self.registered = view.members;
            self.plan_due = true;
        }
        if let Some(map) = view.map {
            self.learn(&map, now, actions);
        }
    }

    fn learn(&mut self, map: &Arc<Map>, now: Ns, actions: &mut Vec<Action>) {
        let handovers = &self.handovers;
        let received = |shard: ShardId| -> Option<Epoch> {
            let received = handovers.get(&shard).filter(|handover| handover.is_received());
            received.map(Handover::tenure)
        };
        if map.epoch() > self.map().epoch() {
            let changes = self.ownership.learn(map, received);
            self.copies.follow(map);
            self.plan_due = true;
            self.follow_moves(&changes, now, actions);
        }
    }

    /// Ends and begins hand-overs as the map says, after `changes`.
    fn follow_moves(&mut self, changes: &[Change], now: Ns, actions: &mut Vec<Action>) {
        actions.extend(changes.iter().copied().map(Action::Change));
        let map = self.ownership.map().clone();
        self.handovers.retain(|shard, handover| {
            let goes_on = map
                .moving(*shard)
                .is_some_and(|it| it.tenure == handover.tenure());
            if !goes_on && !changes.contains(&Change::Adopt(*shard)) {
                actions.push(Action::Forget(*shard));
            }
            goes_on
        });
        let own = self.registration.id().and_then(|id| map.index_of(id));
        for moving in map.moves().iter().filter(|moving| Some(moving.to) == own) {
            if self.handovers.len() < self.options.handovers_max {
                let begun = || Handover::new(moving.shard, moving.tenure, now);
                self.handovers.entry(moving.shard).or_insert_with(begun);
            }
        }
    }

    /// Submits the next map, if there is anything to change and no other transaction is under way.
    fn propose(&mut self, now: Ns, registry: &mut impl Registry) {
        let has_results = |it: &Handover| it.is_received() || it.is_stuck();
        let is_due = self.plan_due || self.handovers.values().any(has_results) || !self.copies.is_empty();
        let is_under_way = self
            .pending
            .values()
            .any(|it| matches!(it, Pending::Commit { .. }));
        let Some(id) = self.registration.id().cloned() else {
            return;
        };
        if !is_due || is_under_way || self.is_behind {
            return;
        }
        let mut draft = Draft::after(self.map());
        for (shard, handover) in &self.handovers {
            if handover.is_received() {
                draft.complete_move(*shard, handover.tenure());
            } else if handover.is_stuck() {
                draft.cancel_move(*shard);
            }
        }
        self.copies.apply(&mut draft);
        let mut gone = Vec::new();
        // All would plan alike; the first by name does, so that transactions seldom conflict.
        if self.registered.first().is_some_and(|first| first.is(&id)) {
            gone = plan(&mut draft, &self.registered, self.options.replicas);
        }
        self.plan_due = false;
        if let Some(map) = draft.finish() {
            let (map, alive) = (Arc::new(map), vec![id]);
            let pending = Pending::Commit { map: map.clone() };
            let transaction = Transaction { map, alive, gone };
            self.submit(now, registry, RegistryRequest::Commit(transaction), pending);
        }
    }
}
