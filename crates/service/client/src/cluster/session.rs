//! [`ClusterSession`]: the clients of all members, as one session.

use super::MapSource;
use super::dispatch::Dispatch;
use super::members::{Fate, Members};
use super::operations::State;
use crate::Options;
use crate::core::Rest;
use crate::session::{Ready, Session};
use drover_base::{Cpu, KeyHasher, Ns};
use drover_cluster::{Map, ServiceSettings, ShardId};
use drover_kv::{Calls, Completion, KEY_BYTES_MAX, Op, Outcome, Refusal, SizeLimits, SubmitError, Token};
use drover_verbs::Waker;
use std::sync::Arc;

/// Time between two looks at what the registry has reported, and at members that do not answer.
const TEND_EVERY: Ns = Ns::from_ms(1);

/// A client of a service of several members.
pub(super) struct ClusterSession {
    dispatch: Dispatch,
    members: Members,
    hasher: KeyHasher,
    /// `None` only while the thread rests.
    rest: Option<Box<dyn Rest>>,
    tend_at: Ns,
}

impl ClusterSession {
    pub(super) fn new(
        registry: Box<dyn MapSource>,
        settings: ServiceSettings,
        map: Arc<Map>,
        members: Members,
        options: &Options,
    ) -> ClusterSession {
        ClusterSession {
            dispatch: Dispatch::new(registry, map, options.call_timeout),
            hasher: settings.hash_seed.hasher(),
            rest: Some(members.rest()),
            members,
            tend_at: Ns::ZERO,
        }
    }

    /// Sends an operation to the owner of its shard. If nobody can be asked, it waits for a newer map.
    ///
    /// # Errors
    /// The client of the member does not accept it.
    fn send(&mut self, index: usize) -> Result<(), SubmitError> {
        let Dispatch {
            redirects,
            operations,
            cpu,
            ..
        } = &mut self.dispatch;
        let Some(operation) = operations.get_mut(index) else {
            return Ok(());
        };
        let map = redirects.map();
        let place = self.members.owner(map, operation.shard, cpu.now());
        let Some((place, client)) = place.and_then(|place| Some((place, self.members.at(place)?))) else {
            let redirect = redirects.nowhere(&mut operation.attempts);
            self.dispatch.send_later(index, redirect);
            return Ok(());
        };
        client.submit(&operation.op.as_op(), index as Token)?;
        operations.sent(index, place, map.epoch());
        Ok(())
    }

    /// Sends what is due, and ends what has waited for too long.
    #[cold]
    fn send_due(&mut self, sink: &mut dyn FnMut(Completion<'_>)) -> usize {
        let (now, mut finished) = (self.dispatch.cpu.now(), 0);
        for index in self.dispatch.operations.unsent().to_vec() {
            let Some(operation) = self.dispatch.operations.get_mut(index) else {
                continue;
            };
            let refusal = match operation.state {
                _ if now.since(operation.submitted) >= self.dispatch.deadline => Some(Refusal::Unavailable),
                State::Due(at) if at <= now => match self.send(index) {
                    Ok(()) | Err(SubmitError::WindowFull | SubmitError::Closed) => None,
                    Err(SubmitError::TooLarge) => Some(Refusal::TooLarge),
                    Err(_) => Some(Refusal::BadRequest),
                },
                _ => None,
            };
            if let Some(refusal) = refusal {
                self.dispatch.complete(index, Outcome::Refused(refusal), sink);
                finished += 1;
            }
        }
        finished
    }

    /// Follows the map, and members that come, go or do not answer.
    #[cold]
    fn tend(&mut self, sink: &mut dyn FnMut(Completion<'_>)) -> usize {
        let now = self.dispatch.cpu.now();
        self.tend_at = now + TEND_EVERY;
        let is_newer = self.dispatch.follow_registry();
        let (map, mut finished) = (self.dispatch.redirects.map().clone(), 0);
        if is_newer {
            self.members.learn(&map);
        }
        for (place, fate) in self.members.fates(&map, now) {
            let (members, operations) = (&self.members, &self.dispatch.operations);
            let has_come_to_nothing = match fate {
                Fate::GoneWithSession => !operations.any_sent_to(place, |_| true),
                Fate::Gone | Fate::Silent => true,
                // What waits for a session with it is to be asked for elsewhere by now.
                Fate::WithoutSession => {
                    is_newer && operations.any_sent_to(place, |shard| !members.owns(place, &map, shard))
                }
            };
            if !has_come_to_nothing {
                continue;
            }
            let dispatch = &mut self.dispatch;
            self.members.give_up(place, fate, now, &mut |completion| {
                finished += usize::from(dispatch.take(completion, sink));
            });
            self.members.learn(&map);
        }
        finished
    }
}

impl Session for ClusterSession {
    fn submit(&mut self, op: &Op<'_>, token: Token) -> Result<(), SubmitError> {
        let key = op.key();
        if key.is_empty() || key.len() > KEY_BYTES_MAX {
            return Err(SubmitError::BadKey);
        }
        if self.dispatch.operations.is_full() {
            return Err(SubmitError::WindowFull);
        }
        let hash = self.hasher.hash(key);
        let shard = ShardId::of(hash, self.dispatch.redirects.map().shard_count());
        let now = self.dispatch.cpu.now();
        let (index, is_due) = self.dispatch.operations.add(op, token, (hash, shard), now);
        if is_due && let Err(error) = self.send(index) {
            self.dispatch.operations.end(index, now);
            return Err(error);
        }
        Ok(())
    }

    fn poll(&mut self, sink: &mut dyn FnMut(Completion<'_>)) -> usize {
        let (dispatch, mut finished) = (&mut self.dispatch, 0);
        for client in self.members.clients() {
            client.poll(&mut |completion| finished += usize::from(dispatch.take(completion, sink)));
        }
        if self.dispatch.cpu.now() >= self.tend_at {
            finished += self.tend(sink);
        }
        if !self.dispatch.operations.unsent().is_empty() {
            finished += self.send_due(sink);
        }
        finished
    }

    fn next_timer(&self) -> Ns {
        let clients = self.members.next_timer();
        let own = match self.dispatch.operations.is_empty() {
            true => Ns::MAX,
            false => self.dispatch.operations.next_due().min(self.tend_at),
        };
        match self.members.are_on_several_fabrics() {
            true => clients.min(own).min(self.dispatch.cpu.now() + TEND_EVERY),
            false => clients.min(own),
        }
    }

    fn refresh(&self) -> Ns {
        self.members.refresh();
        self.dispatch.cpu.refresh()
    }

    fn worked(&mut self) {
        self.refresh();
        if let Some(rest) = &mut self.rest {
            rest.worked();
        }
    }

    fn rest(&mut self, ready: &mut dyn FnMut() -> Ready, sink: &mut dyn FnMut(Completion<'_>)) -> usize {
        self.refresh();
        let mut rest = self.rest.take().expect("given back below");
        let mut poll = || {
            self.refresh();
            let finished = self.poll(sink);
            (finished, self.next_timer())
        };
        let finished = rest.rest(&mut poll, ready);
        self.rest = Some(rest);
        finished
    }

    fn waker(&self) -> Waker {
        self.rest.as_ref().expect("the thread does not rest").waker()
    }

    fn calls(&mut self) -> Option<Calls> {
        None
    }

    fn size_limits(&mut self, op: &Op<'_>) -> Option<SizeLimits> {
        self.members.clients().find_map(|client| client.size_limits(op))
    }
}
