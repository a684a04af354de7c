//! GETs by READs: carries out the steps of [`Lookup`](crate::logic::Lookup) and passes the results to it.

use super::session::SHORT_OBJECT_BYTES;
use super::{Operations, Reader, View, Wait};
use crate::logic::Step;
use drover_base::Ns;
use drover_index::hopscotch::{ObjectHead, ObjectRef};
use drover_kv::{ItemInfo, Outcome};
use drover_one_sided::{Reader as _, Sink};
use drover_verbs::Provider;

/// Why an operation's session must exist: it has just delivered a completion.
const ITS_SESSION: &str = "the session whose queue pair was polled";

/// Passes the slots that were READ to the lookup; returns its next step.
#[inline]
fn look_at_slots<P: Provider>(get: View<'_, P>) -> Step {
    let slots = get.session.slots(get.at);
    get.own.lookup().slots(&slots, &get.session.shape)
}

impl Reader {
    /// Begins with the neighbourhood.
    #[inline(always)]
    pub(super) fn look_up<P: Provider>(&mut self, get: View<'_, P>, now: Ns) {
        match get.own.lookup().begin(&get.session.shape) {
            Step::Slots { first, count } => self.read_slots(get, first, count, now),
            other => unreachable!("operation {} begins with {other:?}", get.at),
        }
    }

    /// Carries out the lookup's next step, after slots, an object or the count of moves have arrived.
    #[inline(never)]
    fn go<P: Provider>(&mut self, ops: &mut Operations<P>, at: usize, step: Step, sink: Sink<'_>) {
        match step {
            Step::Inline => self.found_inline(ops, at, sink),
            Step::Found => {
                self.stats.hits += 1;
                let ObjectHead { version, flags, .. } = self.object.head();
                ops.finish_found(at, self.object.value(), ItemInfo { version, flags }, sink);
            }
            Step::Object(object) => self.read_object(ops, at, &object),
            Step::Slots { first, count } => {
                ops.release_large(at);
                let now = ops.now();
                self.read_slots(ops.view(at).expect(ITS_SESSION), first, count, now);
            }
            Step::Again => self.look_again(ops, at, sink),
            Step::Moves => self.read_moves(ops, at),
            Step::Retry => {
                self.stats.retries += 1;
                ops.rest(at);
            }
            Step::Ask => self.ask(ops, at, false),
            Step::Miss => {
                self.stats.misses += 1;
                self.stats.confirmed_misses += 1;
                ops.finish(at, Outcome::NotFound, sink);
            }
        }
    }

    #[inline(always)]
    fn found_inline<P: Provider>(&mut self, ops: &mut Operations<P>, at: usize, sink: Sink<'_>) {
        if ops.is_detailed(at) {
            // Values inside the table have neither version nor flags: the server gives them some.
            return self.ask(ops, at, false);
        }
        self.stats.hits += 1;
        let value = ops.own(at).lookup().inline();
        ops.finish(at, Outcome::Value(&value), sink);
    }

    #[inline(always)]
    fn read_slots<P: Provider>(&mut self, get: View<'_, P>, first: usize, count: usize, now: Ns) {
        get.session.read_slots(get.at, first, count);
        get.own.read_at = now;
        match get.own.lookup().is_in_overflow() {
            true => self.stats.overflow_reads += 1,
            false => self.stats.neighbourhood_reads += 1,
        }
        get.reading(Wait::Slots, None);
    }

    fn read_moves<P: Provider>(&mut self, ops: &mut Operations<P>, at: usize) {
        ops.release_large(at);
        let get = ops.view(at).expect(ITS_SESSION);
        get.session.read_moves(at);
        self.stats.moves_reads += 1;
        get.reading(Wait::Moves, None);
    }

    fn read_object<P: Provider>(&mut self, ops: &mut Operations<P>, at: usize, object: &ObjectRef) {
        ops.release_large(at);
        let now = ops.now();
        if ops.session(at).is_none() {
            return;
        }
        let mut large = None;
        if object.len as usize > SHORT_OBJECT_BYTES {
            large = ops.lend_for(at, Wait::Object);
            if large.is_none() {
                return;
            }
        }
        let get = ops.view(at).expect("a session that works, as above");
        get.session.read_object(at, object, large);
        get.own.read_at = now;
        self.stats.object_reads += 1;
        get.reading(Wait::Object, large);
    }

    /// READs the object for which no buffer was free before. If the object has changed meanwhile, its versions show it.
    pub(super) fn read_object_now<P: Provider>(&mut self, ops: &mut Operations<P>, at: usize) {
        let object = *ops.own(at).lookup().object();
        self.read_object(ops, at, &object);
    }

    #[inline]
    pub(super) fn slots_came<P: Provider>(&mut self, ops: &mut Operations<P>, at: usize, sink: Sink<'_>) {
        let now = ops.now();
        let get = ops.view(at).expect(ITS_SESSION);
        assert_eq!(get.read_ended(), Wait::Slots, "operation {at} has READ slots");
        let took = now.since(get.own.read_at);
        let step = match get.own.lookup().late(took, 0) {
            Some(step) => step,
            None => look_at_slots(get),
        };
        match step {
            // The usual case.
            Step::Inline => self.found_inline(ops, at, sink),
            step => self.go(ops, at, step, sink),
        }
    }

    /// The object belongs to another key: continues with the slots that were READ.
    #[cold]
    #[inline(never)]
    fn look_again<P: Provider>(&mut self, ops: &mut Operations<P>, at: usize, sink: Sink<'_>) {
        let step = look_at_slots(ops.view(at).expect(ITS_SESSION));
        self.go(ops, at, step, sink);
    }

    pub(super) fn moves_came<P: Provider>(&mut self, ops: &mut Operations<P>, at: usize, sink: Sink<'_>) {
        let get = ops.view(at).expect(ITS_SESSION);
        assert_eq!(get.read_ended(), Wait::Moves, "operation {at} has READ the count");
        let count = get.session.moves(at);
        let step = get.own.lookup().moves(count, &get.session.shape);
        self.go(ops, at, step, sink);
    }

    pub(super) fn object_came<P: Provider>(&mut self, ops: &mut Operations<P>, at: usize, sink: Sink<'_>) {
        let now = ops.now();
        let get = ops.view(at).expect(ITS_SESSION);
        assert_eq!(
            get.read_ended(),
            Wait::Object,
            "operation {at} has READ an object"
        );
        let took = now.since(get.own.read_at);
        let large = get.large();
        let lookup = get.own.lookup();
        let len = lookup.object().len as usize;
        get.session.object(at, len, large, &mut self.scratch);
        let now_s = get.session.resources.agreed.now_s(now);
        let late = lookup.late(took, len);
        let step = late.unwrap_or_else(|| lookup.read(&self.scratch, &mut self.object, get.key, now_s));
        self.go(ops, at, step, sink);
    }
}
