//! [`Client`]: one operation at a time, each recorded with its times.

use super::host::{Answer, Op, Request, shard_of};
use super::scenario::{KEY_COUNT, SHARD_COUNT};
use drover_base::{Ns, Rng};
use drover_cluster::{
    Attempts, Epoch, Map, PAUSE_FIRST, Redirect, Redirects, Registry, RegistryEvent, RegistryReply,
    RegistryRequest, Routed, SimulatedClient,
};
use drover_testkit::history::{Call, Event, History};

/// A client that has no answer for so long gives the operation up: whether it took effect is unknown.
pub const TIMEOUT: Ns = Ns::from_ms(80);

/// What a client does next.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// Sends the request to this member.
    Send(usize, Request),
    /// Is to be woken after this time.
    Sleep(Ns),
}

struct UnderWay {
    key: u32,
    op: Op,
    called_at: Ns,
    attempts: Attempts,
    /// Epoch that the request said.
    sent: Epoch,
}

pub struct Client {
    index: usize,
    rng: Rng,
    redirects: Redirects,
    registry: SimulatedClient,
    /// Whether it asks any member, as memcached's clients do, and has no map.
    asks_anyone: bool,
    /// Whether it learns maps only when it asks, so that its map is often old.
    is_lazy: bool,
    number: u64,
    /// Whether an answer to the request of this number is awaited; otherwise the client pauses.
    is_waiting: bool,
    under_way: Option<UnderWay>,
    pub history: History,
    /// Operations without an answer, with key and number of the last request.
    unknown: Vec<(u32, u64, Event)>,
    pub elsewhere: u64,
    pub completed: u64,
}

impl Client {
    pub fn new(index: usize, mut rng: Rng, registry: SimulatedClient) -> Client {
        Client {
            asks_anyone: rng.chance(0.4),
            is_lazy: rng.chance(0.5),
            index,
            rng,
            redirects: Redirects::new(Map::none(SHARD_COUNT)),
            registry,
            number: 0,
            is_waiting: false,
            under_way: None,
            history: History::default(),
            unknown: Vec::new(),
            elsewhere: 0,
            completed: 0,
        }
    }

    /// Whether the client waits for the answer to its request of this number.
    pub fn waits_for(&self, number: u64) -> bool {
        self.is_waiting && self.number == number
    }

    pub fn is_idle(&self) -> bool {
        self.under_way.is_none()
    }

    /// Begins a drawn operation.
    pub fn begin(&mut self, now: Ns, member_count: usize) -> Step {
        let key = self.rng.below(u64::from(KEY_COUNT)) as u32;
        // Values say who put them, and differ.
        let value = (self.number << 8) | self.index as u64;
        let op = match self.rng.below(10) {
            0..5 => Op::Get,
            5..9 => Op::Put(value),
            _ => Op::Delete,
        };
        self.begin_with(key, op, now, member_count)
    }

    pub fn begin_with(&mut self, key: u32, op: Op, now: Ns, member_count: usize) -> Step {
        let attempts = Attempts::default();
        self.under_way = Some(UnderWay {
            key,
            op,
            called_at: now,
            attempts,
            sent: Epoch::NONE,
        });
        self.send(member_count)
    }

    /// Sends the operation under way, for the first time or again.
    pub fn send(&mut self, member_count: usize) -> Step {
        self.look();
        self.number += 1;
        let Some(under_way) = &mut self.under_way else {
            return Step::Sleep(PAUSE_FIRST);
        };
        let (to, routed) = if self.asks_anyone {
            let (epoch, is_final) = (Epoch::NONE, false);
            (
                self.rng.below(member_count as u64) as usize,
                Routed { epoch, is_final },
            )
        } else {
            match self.redirects.route(shard_of(under_way.key)) {
                Some((owner, routed)) => (super::world::index_of(owner.advert.name()), routed),
                None => return self.redirected(None),
            }
        };
        under_way.sent = routed.epoch;
        self.is_waiting = true;
        let request = Request {
            client: self.index,
            number: self.number,
            key: under_way.key,
            op: under_way.op,
            routed,
            hops: 0,
        };
        Step::Send(to, request)
    }

    /// Takes an answer; `None`: it is to an earlier request.
    pub fn receive(&mut self, request: &Request, answer: Answer, now: Ns) -> Option<Step> {
        if !self.waits_for(request.number) {
            return None;
        }
        self.is_waiting = false;
        self.look();
        let call = match (request.op, answer) {
            (_, Answer::Elsewhere(epoch)) => {
                self.elsewhere += 1;
                return Some(self.redirected(Some(epoch).filter(|_| !self.asks_anyone)));
            }
            (_, Answer::Value(value)) => Call::Get(value),
            (Op::Put(value), _) => Call::Put(value),
            (_, Answer::Deleted(found)) => Call::Delete(Some(found)),
            other => panic!("{other:?}"),
        };
        self.completed += 1;
        let event = self.finish(call, Some(now));
        self.history.push(&request.key.to_le_bytes(), event);
        Some(self.rest())
    }

    /// No answer came.
    pub fn give_up(&mut self) -> Step {
        if let Some(under_way) = &self.under_way {
            let (key, number) = (under_way.key, self.number);
            let call = match under_way.op {
                Op::Get => Call::Get(None),
                Op::Put(value) => Call::Put(value),
                Op::Delete => Call::Delete(None),
            };
            let event = self.finish(call, None);
            self.unknown.push((key, number, event));
        }
        self.is_waiting = false;
        self.ask_for_map();
        self.rest()
    }

    fn redirected(&mut self, theirs: Option<Epoch>) -> Step {
        let under_way = self.under_way.as_mut().expect("an operation under way");
        let attempts = &mut under_way.attempts;
        let redirect = match theirs {
            Some(theirs) => self.redirects.elsewhere(attempts, under_way.sent, theirs),
            None => self.redirects.nowhere(attempts),
        };
        match redirect {
            Redirect::Again => Step::Sleep(Ns(1)),
            Redirect::Pause(pause) => Step::Sleep(pause),
            Redirect::Refresh(pause) => {
                self.ask_for_map();
                Step::Sleep(pause)
            }
            Redirect::GiveUp => {
                // Nothing was executed: there is nothing to record.
                self.under_way = None;
                self.rest()
            }
        }
    }

    fn rest(&mut self) -> Step {
        Step::Sleep(Ns::from_us(200 + self.rng.below(4_000)))
    }

    fn finish(&mut self, call: Call, returned_at: Option<Ns>) -> Event {
        let under_way = self.under_way.take().expect("an operation under way");
        Event {
            client: self.index as u32,
            call,
            called_at: under_way.called_at.0,
            returned_at: returned_at.map(|at| at.0),
        }
    }

    /// Adds the operations without an answer to the history, if some member executed them: nothing else can have taken effect. To be
    /// called at the end.
    pub fn add_unknown(&mut self, was_executed: impl Fn(usize, u64) -> bool) {
        for (key, number, event) in std::mem::take(&mut self.unknown) {
            if was_executed(self.index, number) {
                self.history.push(&key.to_le_bytes(), event);
            }
        }
    }

    fn ask_for_map(&mut self) {
        self.registry.submit(Ns::ZERO, 0, RegistryRequest::Look);
    }

    fn look(&mut self) {
        while let Some(event) = self.registry.poll(Ns::ZERO) {
            let view = match event {
                RegistryEvent::Changed(view) if !self.is_lazy => view,
                RegistryEvent::Reply {
                    reply: RegistryReply::View(view),
                    ..
                } => view,
                _ => continue,
            };
            if let Some(map) = view.map {
                self.redirects.learn(&map);
            }
        }
    }
}
