//! [`Host`]: a member's process: an [`Agent`], items in a plain map, and one core, which asks [`ServedShards`] as real ones do.

use super::Flaw;
use super::replicas::{CopyMessage, Held, Replicator};
use super::scenario::SHARD_COUNT;
use drover_base::{KeyHash, Ns};
use drover_cluster::{
    Action, Agent, Ask, Change, Epoch, HandoverReply, HandoverRequest, MemberId, Published, Routed,
    ServedShards, ShardId, SimulatedClient, Verdict,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Items of a page of a hand-over: few, so that there are several pages.
const PAGE_ITEMS: usize = 1;

pub fn shard_of(key: u32) -> ShardId {
    ShardId((key as usize % SHARD_COUNT) as u16)
}

/// A hash of the key that lies in its shard.
pub fn key_hash(key: u32) -> KeyHash {
    let shard = u64::from(shard_of(key).0);
    KeyHash {
        low: key.into(),
        high: (shard * (1 << 16)).div_ceil(SHARD_COUNT as u64) << 48,
    }
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
    /// For a keeper of copies.
    Copy(CopyMessage),
    /// From a keeper of copies.
    Copied {
        from: MemberId,
        number: u64,
        is_taken: bool,
    },
}

/// What a host sends.
pub enum Outgoing {
    Member(MemberId, Message),
    Client(Request, Answer),
    /// Nothing is sent, but the request was executed: its reply is held.
    Executed(Request),
}

/// What is to be done with a request.
#[derive(Clone, Debug)]
pub enum Decision {
    /// It is executed; the reply leaves only before this time.
    Serve {
        until: Ns,
    },
    Forward(MemberId),
    Elsewhere,
}

pub type Items = BTreeMap<u32, u64>;

pub struct Host {
    pub agent: Agent,
    pub registry: SimulatedClient,
    flaw: Option<Flaw>,
    served: Arc<ServedShards>,
    items: BTreeMap<ShardId, Items>,
    /// Per shard that is being handed over: to which tenure, and the keys that have changed since.
    changed: BTreeMap<ShardId, (Epoch, BTreeSet<u32>)>,
    received: BTreeMap<ShardId, Items>,
    replicator: Replicator,
    /// Copies that are kept for other members.
    kept: BTreeMap<ShardId, Items>,
    /// The last message that was taken from each life of another member.
    numbers: BTreeMap<MemberId, u64>,
    /// Replies that wait for keepers.
    held: Vec<(Request, Answer)>,
    /// What has arrived while the core was held.
    queue: Vec<Message>,
    /// Replies that were not sent because the permit did not hold any more, or because what they say is void.
    pub suppressed: u64,
}

impl Host {
    pub fn new(agent: Agent, registry: SimulatedClient, flaw: Option<Flaw>) -> Host {
        Host {
            agent,
            registry,
            flaw,
            served: ServedShards::new(SHARD_COUNT, 1),
            items: BTreeMap::new(),
            changed: BTreeMap::new(),
            received: BTreeMap::new(),
            replicator: Replicator::default(),
            kept: BTreeMap::new(),
            numbers: BTreeMap::new(),
            held: Vec::new(),
            queue: Vec::new(),
            suppressed: 0,
        }
    }

    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    /// What the control thread does.
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
        self.replicator.follow(&self.agent);
        self.publish();
        let (agent, items) = (&mut self.agent, &self.items);
        if self.replicator.control(agent, items, self.flaw, now) {
            self.publish();
        }
        self.end_round(now, out);
    }

    pub fn publish(&self) {
        let published = Published {
            copied: &|shard| self.replicator.stage(shard),
            keeps: &|_| true,
            ..Published::default()
        };
        self.served.publish_all(self.agent.ownership(), &published);
        self.served.set_stop_at(self.agent.stop_at());
    }

    fn change(&mut self, change: Change) {
        match change {
            Change::Begin(shard) if self.has(Flaw::KeepsOldItems) => {
                self.items.entry(shard).or_default();
            }
            Change::Begin(shard) => drop(self.items.insert(shard, Items::new())),
            Change::Keep(shard) => drop(self.kept.insert(shard, Items::new())),
            Change::Adopt(shard) => {
                let kept = self.kept.remove(&shard);
                let received = kept.or_else(|| self.received.remove(&shard)).unwrap_or_default();
                self.items.insert(shard, received);
            }
            Change::Resume(shard) => drop(self.changed.remove(&shard)),
            Change::Discard(_) if self.has(Flaw::KeepsOldItems) || self.has(Flaw::NoEpochCheck) => {}
            Change::Discard(shard) => {
                // The core has to clear the shard before it can be served again, and finds out first that what it holds is void.
                if self.replicator.is_about(shard) {
                    self.drop_held();
                }
                self.items.remove(&shard);
                self.changed.remove(&shard);
                self.kept.remove(&shard);
            }
        }
    }

    /// The decision about a request, as of `now`.
    pub fn decide(&self, request: &Request, now: Ns) -> Decision {
        let (shard, until) = (shard_of(request.key), self.agent.stop_at());
        let (mut is_final, mut time) = (request.routed.is_final, now);
        match self.flaw {
            Some(Flaw::LeaseNotHonoured) => time = Ns::ZERO,
            Some(Flaw::ForwardsTwice) => is_final = false,
            Some(Flaw::NoEpochCheck) if self.items.contains_key(&shard) && now < until => {
                return Decision::Serve { until };
            }
            _ => {}
        }
        match self.served.verdict(key_hash(request.key), time) {
            Verdict::Serve | Verdict::ServeNoted(_) => Decision::Serve { until },
            Verdict::Peer(number) if !is_final => {
                Decision::Forward(self.served.peer(number).expect("a verdict had its number").id)
            }
            Verdict::Peer(_) | Verdict::Nowhere => Decision::Elsewhere,
        }
    }

    /// Does what was decided. `now` may be much later than the decision, if the process was stopped in between.
    pub fn execute(&mut self, mut request: Request, decision: Decision, now: Ns, out: &mut Vec<Outgoing>) {
        match decision {
            Decision::Elsewhere => {
                let epoch = self.served.epoch();
                out.push(Outgoing::Client(request, Answer::Elsewhere(epoch)));
            }
            Decision::Forward(to) => {
                request.routed = Routed {
                    epoch: self.served.epoch(),
                    is_final: !self.has(Flaw::ForwardsTwice),
                };
                request.hops += 1;
                out.push(Outgoing::Member(to, Message::Request(request)));
            }
            Decision::Serve { until } => {
                let answer = self.apply(request.key, request.op);
                out.push(Outgoing::Executed(request));
                if now < until || self.has(Flaw::LeaseNotHonoured) {
                    self.held.push((request, answer));
                } else {
                    self.suppressed += 1;
                }
            }
        }
    }

    fn apply(&mut self, key: u32, op: Op) -> Answer {
        let shard = shard_of(key);
        if op != Op::Get {
            if let Some((_, changed)) = self.changed.get_mut(&shard) {
                changed.insert(key);
            }
            // Whether the lease lives does not matter here: the request was admitted.
            if self.served.verdict(key_hash(key), Ns::ZERO) != Verdict::Serve {
                Replicator::note(&self.served, key);
            }
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

    pub fn is_held(&self) -> bool {
        self.served.is_held(0)
    }

    /// Ends a round of the core: sends what keepers are to have, and lets replies leave if they have it. What has waited is then
    /// executed as one batch.
    pub fn end_round(&mut self, now: Ns, out: &mut Vec<Outgoing>) {
        loop {
            if let Some(from) = self.agent.id().cloned() {
                let messages = self.replicator.pump(&self.served, &self.items, &from, now);
                let messages = messages
                    .into_iter()
                    .map(|(to, it)| Outgoing::Member(to, Message::Copy(it)));
                out.extend(messages);
            }
            match self.replicator.held(&self.served) {
                Held::Waiting if self.is_held() && !self.has(Flaw::RepliesEarly) => return,
                Held::Void if self.is_held() => self.drop_held(),
                _ => {}
            }
            self.served.release(0);
            let replies = self.held.drain(..);
            out.extend(replies.map(|(request, answer)| Outgoing::Client(request, answer)));
            if self.queue.is_empty() {
                return;
            }
            for message in std::mem::take(&mut self.queue) {
                self.serve(message, now, out);
            }
        }
    }

    /// What these replies say is void, or may be.
    fn drop_held(&mut self) {
        self.suppressed += self.held.len() as u64;
        self.held.clear();
    }

    /// Takes a message. A held core takes nothing but what copies are about.
    pub fn receive(&mut self, message: Message, now: Ns, out: &mut Vec<Outgoing>) {
        match message {
            Message::Copy(message) => {
                let (to, number) = (message.from.clone(), message.number);
                let is_taken = self.keep(message);
                if let Some(from) = self.agent.id().cloned() {
                    let reply = Message::Copied {
                        from,
                        number,
                        is_taken,
                    };
                    out.push(Outgoing::Member(to, reply));
                }
            }
            Message::Copied {
                from,
                number,
                is_taken,
            } => self.replicator.replied(&from, number, is_taken, now),
            message if self.is_held() => self.queue.push(message),
            message => self.serve(message, now, out),
        }
        self.end_round(now, out);
    }

    /// Takes the state of keys, if their shards' copies are kept here, and the message is not an old one.
    fn keep(&mut self, message: CopyMessage) -> bool {
        let last = self.numbers.entry(message.from).or_default();
        let mut shards = message.shards.iter();
        let is_kept = shards.all(|(shard, tenure)| self.served.kept_copy(*shard) == Some(*tenure));
        let is_new = message.number > *last;
        let is_taken = match self.flaw {
            Some(Flaw::TakesOldNumbers) => is_kept,
            Some(Flaw::TakesOldTenures) if !is_kept => {
                message.shards.keys().all(|it| self.kept.contains_key(it))
            }
            _ => is_kept && is_new,
        };
        if !is_taken {
            return false;
        }
        *last = message.number.max(*last);
        for (key, value) in message.entries {
            let kept = self.kept.entry(shard_of(key)).or_default();
            match value {
                Some(value) => drop(kept.insert(key, value)),
                None => drop(kept.remove(&key)),
            }
        }
        true
    }

    fn serve(&mut self, message: Message, now: Ns, out: &mut Vec<Outgoing>) {
        match message {
            Message::Request(request) => {
                let decision = self.decide(&request, now);
                self.execute(request, decision, now, out);
            }
            Message::Ask { from, request } => {
                let reply = self.hand_over(request);
                self.publish();
                // The barrier waits for replies that are held: the next owner must have what they say.
                if self.is_held() {
                    self.queue.push(Message::Ask { from, request });
                } else if let Some((reply, items)) = reply {
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
            Message::Copy(_) | Message::Copied { .. } => unreachable!("a held core takes them"),
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
