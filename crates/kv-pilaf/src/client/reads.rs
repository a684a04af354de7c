//! GETs by READs: does what [`Lookup`](crate::logic::Lookup) says.

use super::operation::State;
use super::session::SHORT_RECORD_BYTES;
use super::{PilafClient, Sink};
use crate::layout::record_bytes;
use crate::logic::{Step, is_within};
use drover_base::{Cpu, Ns};
use drover_index::cuckoo::RecordRef;
use drover_kv::Outcome;
use drover_verbs::{Context, Provider};

/// Shortest and longest rest after something torn; drawn, so that readers do not march in step. *(our choice)*
const REST_MIN: Ns = Ns::from_us(1);
const REST_MAX: Ns = Ns::from_us(8);

impl<P: Provider> PilafClient<P> {
    pub(super) fn look_up(&mut self, at: usize) {
        let place = &mut self.places[at];
        let Some(session) = self.links[place.shard].session() else {
            return;
        };
        let lookup = place.lookup.as_mut().expect("a GET that has begun");
        let step = lookup.begin(&session.shape);
        self.go(at, step, &mut |_| unreachable!("it only reads"));
    }

    /// Does what [`Lookup`] says.
    fn go(&mut self, at: usize, step: Step, sink: Sink<'_>) {
        let shard = self.places[at].shard;
        match step {
            Step::Entry(index) => {
                self.release_large(at);
                self.stats.entry_reads += 1;
                if let Some(session) = self.links[shard].session() {
                    session.read_entry(at, index);
                }
                self.places[at].state = State::Entry;
            }
            Step::Record(record) => self.read_record(at, &record, false),
            Step::Retry => {
                self.release_large(at);
                self.stats.torn += 1;
                if let Some(session) = self.links[shard].session() {
                    session.is_curious = true;
                }
                self.rest(at);
            }
            Step::Ask => self.ask(at),
            Step::Miss => self.finish(at, Outcome::NotFound, sink),
            Step::Found => self.found(at, sink),
        }
    }

    fn rest(&mut self, at: usize) {
        let cpu = self.ctx.cpu();
        let span = REST_MAX.0 - REST_MIN.0;
        let until = cpu.now() + REST_MIN + Ns(cpu.random() % span);
        self.places[at].state = State::Resting { until };
    }

    fn read_record(&mut self, at: usize, record: &RecordRef, told: bool) {
        let shard = self.places[at].shard;
        let Some(session) = self.links[shard].session() else {
            return;
        };
        let large = match record.len as usize > SHORT_RECORD_BYTES {
            false => None,
            true => match session.free_large.pop() {
                Some(large) => Some(large),
                // All are taken: from the beginning, later.
                None => return self.rest(at),
            },
        };
        self.stats.record_reads += 1;
        session.read_record(at, record, large);
        self.places[at].state = State::Record { large, told };
    }

    /// The record in `scratch` has the value.
    fn found(&mut self, at: usize, sink: Sink<'_>) {
        self.stats.hits += 1;
        let scratch = std::mem::take(&mut self.scratch);
        let key_bytes = self.places[at].key.len();
        self.finish(at, Outcome::Value(&scratch[record_bytes(key_bytes, 0)..]), sink);
        self.scratch = scratch;
    }

    /// A completion that is none of a SEND's or RECV's.
    pub(super) fn entry_came(&mut self, at: usize, sink: Sink<'_>) {
        let place = &mut self.places[at];
        let (State::Entry, Some(session)) = (place.state, self.links[place.shard].session()) else {
            return;
        };
        let entry = session.entry(at);
        let lookup = place.lookup.as_mut().expect("a GET that has begun");
        let step = lookup.entry(&entry, &session.shape);
        self.go(at, step, sink);
    }

    pub(super) fn record_came(&mut self, at: usize, sink: Sink<'_>) {
        let now = self.ctx.cpu().now();
        let place = &mut self.places[at];
        let State::Record { large, told } = place.state else {
            return;
        };
        let Some(session) = self.links[place.shard].session() else {
            return;
        };
        let lookup = place.lookup.as_mut().expect("a GET that has begun");
        session.record(at, lookup.record().len as usize, large, &mut self.scratch);
        let step = match lookup.read(&self.scratch, &place.key, session.now_s(now), &session.shape) {
            // The server said where it is, and it has changed since: what counts is what the server says now.
            Step::Retry | Step::Entry(_) if told => Step::Ask,
            step => step,
        };
        self.go(at, step, sink);
    }

    /// The server says where the record is.
    pub(super) fn told(&mut self, at: usize, record: &RecordRef) {
        let place = &mut self.places[at];
        let Some(session) = self.links[place.shard].session() else {
            return;
        };
        if !is_within(record, &session.shape) {
            session.broken = true;
            return;
        }
        let lookup = place.lookup.as_mut().expect("a GET that has begun");
        lookup.told(*record);
        self.read_record(at, record, true);
    }
}
