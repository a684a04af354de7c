//! GETs: what a lookup says is done here, and what comes of it is said to it.

use super::operation::State;
use super::session::SHORT_OBJECT_BYTES;
use super::{FarmClient, Sink};
use crate::logic::{Lookup, Step, TableShape};
use drover_base::{Cpu, Ns};
use drover_index::hopscotch::ObjectRef;
use drover_kv::Outcome;
use drover_verbs::{Context, Provider};

/// Shortest and longest rest after something torn; drawn, so that readers do not march in step. *(our choice)*
const REST_MIN: Ns = Ns::from_us(1);
const REST_MAX: Ns = Ns::from_us(8);

impl<P: Provider> FarmClient<P> {
    /// From the neighbourhood on.
    pub(super) fn look_up(&mut self, at: usize) {
        if let Some(step) = self.with_lookup(at, |lookup, shape| lookup.begin(shape)) {
            self.go(at, step, &mut |_| unreachable!("it only reads"));
        }
    }

    /// What the lookup in place `at` says, if its session is still there.
    fn with_lookup(&mut self, at: usize, say: impl FnOnce(&mut Lookup, &TableShape) -> Step) -> Option<Step> {
        let shape = self.session_of(at)?.shape;
        let lookup = self.places[at].lookup.as_mut();
        Some(say(lookup.expect("a GET that has begun"), &shape))
    }

    /// Does what [`Lookup`] says.
    fn go(&mut self, at: usize, step: Step, sink: Sink<'_>) {
        match step {
            Step::Slots { first, count } => self.read_slots(at, first, count),
            Step::Again => self.look_at_slots(at, sink),
            Step::Object(object) => self.read_object(at, &object),
            Step::Moves => self.read_moves(at),
            Step::Retry => {
                self.release_large(at);
                self.stats.retries += 1;
                self.rest(at);
            }
            Step::Ask => self.ask(at),
            Step::Miss => {
                self.stats.confirmed_misses += 1;
                self.finish(at, Outcome::NotFound, sink);
            }
            Step::Inline => {
                self.stats.hits += 1;
                let lookup = self.places[at].lookup.expect("a GET that has begun");
                self.finish(at, Outcome::Value(lookup.inline()), sink);
            }
            Step::Found => {
                self.stats.hits += 1;
                let object = std::mem::take(&mut self.object);
                self.finish(at, Outcome::Value(object.value()), sink);
                self.object = object;
            }
        }
    }

    pub(super) fn rest(&mut self, at: usize) {
        let cpu = self.ctx.cpu();
        let span = REST_MAX.0 - REST_MIN.0;
        let until = cpu.now() + REST_MIN + Ns(cpu.random() % span);
        self.places[at].state = State::Resting { until };
    }

    fn began(&mut self, at: usize, state: State) {
        let now = self.ctx.cpu().now();
        let place = &mut self.places[at];
        (place.state, place.read_at) = (state, now);
    }

    fn read_slots(&mut self, at: usize, first: usize, count: usize) {
        self.release_large(at);
        let Some(session) = self.session_of(at) else {
            return;
        };
        session.read_slots(at, first, count);
        let lookup = self.places[at].lookup.as_ref();
        match lookup.is_some_and(Lookup::is_in_overflow) {
            true => self.stats.overflow_reads += 1,
            false => self.stats.neighbourhood_reads += 1,
        }
        self.began(at, State::Slots);
    }

    fn read_moves(&mut self, at: usize) {
        self.release_large(at);
        let Some(session) = self.session_of(at) else {
            return;
        };
        session.read_moves(at);
        self.stats.moves_reads += 1;
        self.began(at, State::Moves);
    }

    fn read_object(&mut self, at: usize, object: &ObjectRef) {
        self.release_large(at);
        let Some(session) = self.session_of(at) else {
            return;
        };
        let large = match object.len as usize > SHORT_OBJECT_BYTES {
            false => None,
            true => match session.free_large.pop() {
                Some(large) => Some(large),
                // All are taken: from the beginning, later.
                None => return self.rest(at),
            },
        };
        session.read_object(at, object, large);
        self.stats.object_reads += 1;
        self.began(at, State::Object { large });
    }

    /// How long the READ that has just completed took, at most.
    fn took(&self, at: usize) -> Ns {
        self.ctx.cpu().now().since(self.places[at].read_at)
    }

    pub(super) fn slots_came(&mut self, at: usize, sink: Sink<'_>) {
        if self.places[at].state != State::Slots {
            return;
        }
        let took = self.took(at);
        match self.with_lookup(at, |lookup, _| lookup.late(took, 0).unwrap_or(Step::Again)) {
            Some(step) => self.go(at, step, sink),
            None => self.places[at].state = State::Waiting,
        }
    }

    fn look_at_slots(&mut self, at: usize, sink: Sink<'_>) {
        let mut scratch = std::mem::take(&mut self.scratch);
        if let Some(session) = self.session_of(at) {
            session.slots(at, &mut scratch);
        }
        let step = self.with_lookup(at, |lookup, shape| lookup.slots(&scratch, shape));
        self.scratch = scratch;
        if let Some(step) = step {
            self.go(at, step, sink);
        }
    }

    pub(super) fn moves_came(&mut self, at: usize, sink: Sink<'_>) {
        let State::Moves = self.places[at].state else {
            return;
        };
        let Some(count) = self.session_of(at).map(|session| session.moves(at)) else {
            return;
        };
        if let Some(step) = self.with_lookup(at, |lookup, shape| lookup.moves(count, shape)) {
            self.go(at, step, sink);
        }
    }

    pub(super) fn object_came(&mut self, at: usize, sink: Sink<'_>) {
        let State::Object { large } = self.places[at].state else {
            return;
        };
        let (now, took) = (self.ctx.cpu().now(), self.took(at));
        let mut scratch = std::mem::take(&mut self.scratch);
        let place = &mut self.places[at];
        let lookup = place.lookup.as_mut().expect("a GET that has begun");
        let step = self.links[place.shard].session().map(|session| {
            session.object(at, lookup.object().len as usize, large, &mut scratch);
            let now_s = session.now_s(now);
            lookup
                .late(took, lookup.object().len as usize)
                .unwrap_or_else(|| lookup.read(&scratch, &mut self.object, &place.key, now_s))
        });
        self.scratch = scratch;
        if let Some(step) = step {
            self.go(at, step, sink);
        }
    }
}
