//! [`Host`]: a member's process: an [`Agent`], and items in a plain map.

use super::Flaw;
use super::scenario::SHARD_COUNT;
use drover_base::Ns;
use drover_cluster::{
    Action, Agent, Ask, Change, Decision, Epoch, HandoverReply, HandoverRequest, MemberId, Routed, ShardId,
    SimulatedClient,
};
use std::collections::{BTreeMap, BTreeSet};

/// Items of a page of a hand-over: few, so that there are several pages.
const PAGE_ITEMS: usize = 1;

pub fn shard_of(key: u32) -> ShardId {
    ShardId((key as usize % SHARD_COUNT) as u16)
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    Get,
    Put(u64),
    Delete,
}

/// A client's request.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    pub client: usize,
    /// Number of the request at its client.
    pub number: u64,
    pub key: u32,
    pub op: Op,
    pub routed: Routed,
    /// How often it was forwarded.
    pub hops: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    Value(Option<u64>),
    Stored,
    Deleted(bool),
    Elsewhere(Epoch),
}

/// Keys with the values that they have, or that they have none.
pub type Copied = Vec<(u32, Option<u64>)>;

/// Between members.
#[derive(Clone, Debug)]
pub enum Message {
    Request(Request),
    Ask {
        from: MemberId,
        request: HandoverRequest,
    },
    Items {
        reply: HandoverReply,
        items: Copied,
    },
}

/// What a host sends.
pub enum Outgoing {
    Member(MemberId, Message),
    Client(Request, Answer),
}

type Items = BTreeMap<u32, u64>;

pub struct Host {
    pub agent: Agent,
    pub registry: SimulatedClient,
    flaw: Option<Flaw>,
    items: BTreeMap<ShardId, Items>,
    /// Per shard that is being handed over: to which tenure, and the keys that have changed since.
    changed: BTreeMap<ShardId, (Epoch, BTreeSet<u32>)>,
    received: BTreeMap<ShardId, Items>,
    /// Replies that were not sent because the permit did not hold any more.
    pub suppressed: u64,
}

impl Host {
    pub fn new(agent: Agent, registry: SimulatedClient, flaw: Option<Flaw>) -> Host {
        Host {
            agent,
            registry,
            flaw,
            items: BTreeMap::new(),
            changed: BTreeMap::new(),
            received: BTreeMap::new(),
            suppressed: 0,
        }
    }

    pub fn step(&mut self, now: Ns, out: &mut Vec<Outgoing>) {
        let mut actions = Vec::new();
        self.agent.step(now, &mut self.registry, &mut actions);
        for action in actions {
            match action {
                Action::Change(change) => self.change(change),
                Action::Forget(shard) => drop(self.received.remove(&shard)),
                Action::Ask { to, request } => {
                    let from = self
                        .agent
                        .id()
                        .expect("only members have shards handed over")
                        .clone();
                    out.push(Outgoing::Member(to, Message::Ask { from, request }));
                }
            }
        }
    }

    fn change(&mut self, change: Change) {
        let keeps = |flaw: Flaw| self.flaw == Some(flaw);
        match change {
            Change::Begin(shard) if keeps(Flaw::KeepsOldItems) => drop(self.items.entry(shard).or_default()),
            Change::Begin(shard) => drop(self.items.insert(shard, Items::new())),
            Change::Adopt(shard) => {
                let received = self.received.remove(&shard).unwrap_or_default();
                self.items.insert(shard, received);
            }
            Change::Resume(shard) => drop(self.changed.remove(&shard)),
            Change::Discard(_) if keeps(Flaw::KeepsOldItems) || keeps(Flaw::NoEpochCheck) => {}
            Change::Discard(shard) => {
                self.items.remove(&shard);
                self.changed.remove(&shard);
            }
        }
    }

    /// The decision about a request, as of `now`.
    pub fn decide(&self, request: &Request, now: Ns) -> Decision {
        let (shard, mut routed, mut time) = (shard_of(request.key), request.routed, now);
        match self.flaw {
            Some(Flaw::LeaseNotHonoured) => time = Ns::ZERO,
            Some(Flaw::ForwardsTwice) => routed.is_final = false,
            Some(Flaw::NoEpochCheck) if self.items.contains_key(&shard) => {
                // The permit of any shard of its own says how long its lease lasts.
                let own = |shard: &ShardId| self.agent.decide(*shard, Routed::direct(Epoch::NONE), now);
                let mut permits = self.items.keys().map(own);
                if let Some(permit) = permits.find(|it| matches!(it, Decision::Serve(_))) {
                    return permit;
                }
            }
            _ => {}
        }
        self.agent.decide(shard, routed, time)
    }

    /// Does what was decided. `now` may be much later than the decision, if the process was stopped in between.
    pub fn execute(&mut self, mut request: Request, decision: Decision, now: Ns, out: &mut Vec<Outgoing>) {
        match decision {
            Decision::Elsewhere(epoch) => out.push(Outgoing::Client(request, Answer::Elsewhere(epoch))),
            Decision::Forward(to) => {
                let map = self.agent.map();
                let Some(listed) = map.members().get(usize::from(to)) else {
                    return;
                };
                let is_final = self.flaw != Some(Flaw::ForwardsTwice);
                request.routed = Routed {
                    epoch: map.epoch(),
                    is_final,
                };
                request.hops += 1;
                out.push(Outgoing::Member(listed.member.id(), Message::Request(request)));
            }
            Decision::Serve(permit) => {
                let answer = self.apply(request.key, request.op);
                if permit.holds(now) || self.flaw == Some(Flaw::LeaseNotHonoured) {
                    out.push(Outgoing::Client(request, answer));
                } else {
                    self.suppressed += 1;
                }
            }
        }
    }

    fn apply(&mut self, key: u32, op: Op) -> Answer {
        let shard = shard_of(key);
        if let (true, Some((_, changed))) = (op != Op::Get, self.changed.get_mut(&shard)) {
            changed.insert(key);
        }
        let items = self.items.entry(shard).or_default();
        match op {
            Op::Get => Answer::Value(items.get(&key).copied()),
            Op::Put(value) => {
                items.insert(key, value);
                Answer::Stored
            }
            Op::Delete => Answer::Deleted(items.remove(&key).is_some()),
        }
    }

    pub fn receive(&mut self, message: Message, now: Ns, out: &mut Vec<Outgoing>) {
        match message {
            Message::Request(request) => {
                let decision = self.decide(&request, now);
                self.execute(request, decision, now, out);
            }
            Message::Ask { from, request } => {
                if let Some((reply, items)) = self.hand_over(request) {
                    out.push(Outgoing::Member(from, Message::Items { reply, items }));
                }
            }
            Message::Items { reply, items } => {
                if !self.agent.receive(&reply, now) {
                    return;
                }
                let received = self.received.entry(reply.to.shard).or_default();
                for (key, value) in items {
                    match value {
                        Some(value) => drop(received.insert(key, value)),
                        None => drop(received.remove(&key)),
                    }
                }
            }
        }
    }

    /// What the owner of a shard answers its next owner.
    fn hand_over(&mut self, request: HandoverRequest) -> Option<(HandoverReply, Copied)> {
        let HandoverRequest { shard, tenure, ask } = request;
        let mut permitted = request;
        if self.flaw == Some(Flaw::NoBarrier) {
            permitted.ask = Ask::Page { cursor: 0 };
        }
        if !self.agent.answer(&permitted) {
            return None;
        }
        let items = self.items.get(&shard)?;
        if self.changed.get(&shard).is_none_or(|(of, _)| *of != tenure) {
            self.changed.insert(shard, (tenure, BTreeSet::new()));
        }
        let (items, next) = match ask {
            Ask::Page { cursor } => {
                let page = items.range(cursor as u32..).take(PAGE_ITEMS);
                let page: Vec<_> = page.map(|(key, value)| (*key, Some(*value))).collect();
                let next = page.last().map(|(key, _)| u64::from(*key) + 1);
                (page, next)
            }
            Ask::Barrier => {
                let (_, changed) = &self.changed[&shard];
                let now = |key: &u32| (*key, items.get(key).copied());
                (changed.iter().map(now).collect(), None)
            }
        };
        Some((HandoverReply { to: request, next }, items))
    }
}
