//! GETs: what a lookup says is done here, and what comes of it is said to it.

use super::session::SHORT_OBJECT_BYTES;
use super::{Operations, Reader, State, Wait};
use crate::logic::{Lookup, Step, TableShape};
use drover_base::{Cpu, Ns};
use drover_index::hopscotch::ObjectRef;
use drover_kv::Outcome;
use drover_one_sided::{Reader as _, Sink};
use drover_verbs::{Context, Provider};

/// What the lookup in place `at` says, if its session is still there.
fn with_lookup<P: Provider>(
    ops: &mut Operations<P>,
    at: usize,
    say: impl FnOnce(&mut Lookup, &TableShape) -> Step,
) -> Option<Step> {
    let shape = ops.session(at)?.shape;
    Some(say(ops.list[at].own.lookup(), &shape))
}

fn began<P: Provider>(ops: &mut Operations<P>, at: usize, wait: Wait) {
    let now = ops.ctx.cpu().now();
    let place = &mut ops.list[at];
    (place.state, place.own.read_at) = (State::Reading(wait), now);
}

/// How long the READ that has just completed took, at most.
fn took<P: Provider>(ops: &Operations<P>, at: usize) -> Ns {
    ops.ctx.cpu().now().since(ops.list[at].own.read_at)
}

impl Reader {
    /// From the neighbourhood on.
    pub(super) fn look_up<P: Provider>(&mut self, ops: &mut Operations<P>, at: usize) {
        if let Some(step) = with_lookup(ops, at, |lookup, shape| lookup.begin(shape)) {
            self.go(ops, at, step, &mut |_| unreachable!("it only reads"));
        }
    }

    /// Does what [`Lookup`] says.
    fn go<P: Provider>(&mut self, ops: &mut Operations<P>, at: usize, step: Step, sink: Sink<'_>) {
        match step {
            Step::Slots { first, count } => self.read_slots(ops, at, first, count),
            Step::Again => self.look_at_slots(ops, at, sink),
            Step::Object(object) => self.read_object(ops, at, &object),
            Step::Moves => self.read_moves(ops, at),
            Step::Retry => {
                self.stats.retries += 1;
                ops.rest(at);
            }
            Step::Ask => self.ask(ops, at, false),
            Step::Miss => {
                self.stats.confirmed_misses += 1;
                ops.finish(at, Outcome::NotFound, sink);
            }
            Step::Inline => {
                self.stats.hits += 1;
                let lookup = *ops.list[at].own.lookup();
                ops.finish(at, Outcome::Value(lookup.inline()), sink);
            }
            Step::Found => {
                self.stats.hits += 1;
                ops.finish(at, Outcome::Value(self.object.value()), sink);
            }
        }
    }

    fn read_slots<P: Provider>(&mut self, ops: &mut Operations<P>, at: usize, first: usize, count: usize) {
        ops.release_large(at);
        let Some(session) = ops.session(at) else {
            return;
        };
        session.read_slots(at, first, count);
        match ops.list[at].own.lookup().is_in_overflow() {
            true => self.stats.overflow_reads += 1,
            false => self.stats.neighbourhood_reads += 1,
        }
        began(ops, at, Wait::Slots);
    }

    fn read_moves<P: Provider>(&mut self, ops: &mut Operations<P>, at: usize) {
        ops.release_large(at);
        let Some(session) = ops.session(at) else {
            return;
        };
        session.read_moves(at);
        self.stats.moves_reads += 1;
        began(ops, at, Wait::Moves);
    }

    fn read_object<P: Provider>(&mut self, ops: &mut Operations<P>, at: usize, object: &ObjectRef) {
        ops.release_large(at);
        let Some(session) = ops.session(at) else {
            return;
        };
        let large = match object.len as usize > SHORT_OBJECT_BYTES {
            false => None,
            true => match session.basis.values.lend(at) {
                Some(large) => Some(large),
                None => {
                    ops.list[at].state = State::WaitBuffer(Wait::Object);
                    return;
                }
            },
        };
        session.read_object(at, object, large);
        ops.list[at].large = large;
        self.stats.object_reads += 1;
        began(ops, at, Wait::Object);
    }

    /// Reads the object for which there was no buffer. Whatever has become of it meanwhile, it says itself.
    pub(super) fn read_object_now<P: Provider>(&mut self, ops: &mut Operations<P>, at: usize) {
        let object = *ops.list[at].own.lookup().object();
        self.read_object(ops, at, &object);
    }

    pub(super) fn slots_came<P: Provider>(&mut self, ops: &mut Operations<P>, at: usize, sink: Sink<'_>) {
        if ops.list[at].state != State::Reading(Wait::Slots) {
            return;
        }
        let took = took(ops, at);
        match with_lookup(ops, at, |lookup, _| lookup.late(took, 0).unwrap_or(Step::Again)) {
            Some(step) => self.go(ops, at, step, sink),
            None => ops.list[at].state = State::Waiting,
        }
    }

    fn look_at_slots<P: Provider>(&mut self, ops: &mut Operations<P>, at: usize, sink: Sink<'_>) {
        if let Some(session) = ops.session(at) {
            session.slots(at, &mut self.scratch);
        }
        let scratch = &self.scratch;
        if let Some(step) = with_lookup(ops, at, |lookup, shape| lookup.slots(scratch, shape)) {
            self.go(ops, at, step, sink);
        }
    }

    pub(super) fn moves_came<P: Provider>(&mut self, ops: &mut Operations<P>, at: usize, sink: Sink<'_>) {
        if ops.list[at].state != State::Reading(Wait::Moves) {
            return;
        }
        let Some(count) = ops.session(at).map(|session| session.moves(at)) else {
            return;
        };
        if let Some(step) = with_lookup(ops, at, |lookup, shape| lookup.moves(count, shape)) {
            self.go(ops, at, step, sink);
        }
    }

    pub(super) fn object_came<P: Provider>(&mut self, ops: &mut Operations<P>, at: usize, sink: Sink<'_>) {
        if ops.list[at].state != State::Reading(Wait::Object) {
            return;
        }
        let (now, took) = (ops.ctx.cpu().now(), took(ops, at));
        let place = &mut ops.list[at];
        let lookup = place.own.lookup();
        let Some(session) = ops.links[place.shard].session() else {
            return;
        };
        session.object(at, lookup.object().len as usize, place.large, &mut self.scratch);
        let now_s = session.basis.agreed.now_s(now);
        let step = lookup
            .late(took, lookup.object().len as usize)
            .unwrap_or_else(|| lookup.read(&self.scratch, &mut self.object, &place.key, now_s));
        self.go(ops, at, step, sink);
    }
}
