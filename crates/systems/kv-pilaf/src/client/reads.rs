//! GETs by READs: does what [`Lookup`](crate::logic::Lookup) says.

use super::session::SHORT_RECORD_BYTES;
use super::{Operations, Reader, State, Wait};
use crate::layout::record_bytes;
use crate::logic::{Step, is_within};
use drover_base::Cpu;
use drover_index::cuckoo::RecordRef;
use drover_kv::Outcome;
use drover_one_sided::{Reader as _, Sink};
use drover_verbs::{Context, Provider};

impl Reader {
    pub(super) fn look_up<P: Provider>(&mut self, ops: &mut Operations<P>, at: usize) {
        let place = &mut ops.list[at];
        let Some(session) = ops.links[place.shard].session() else {
            return;
        };
        let step = place.own.lookup().begin(&session.shape);
        self.go(ops, at, step, &mut |_| unreachable!("it only reads"));
    }

    /// Does what the lookup says.
    fn go<P: Provider>(&mut self, ops: &mut Operations<P>, at: usize, step: Step, sink: Sink<'_>) {
        match step {
            Step::Entry(index) => {
                ops.release_large(at);
                self.stats.entry_reads += 1;
                if let Some(session) = ops.session(at) {
                    session.read_entry(at, index);
                }
                ops.list[at].state = State::Reading(Wait::Entry);
            }
            Step::Record(record) => self.read_record(ops, at, &record, false),
            Step::Retry => {
                self.stats.torn += 1;
                if let Some(session) = ops.session(at) {
                    session.is_curious = true;
                }
                ops.rest(at);
            }
            Step::Ask => self.ask(ops, at, false),
            Step::Miss => ops.finish(at, Outcome::NotFound, sink),
            Step::Found => {
                self.stats.hits += 1;
                let value = record_bytes(ops.list[at].key.len(), 0)..;
                ops.finish(at, Outcome::Value(&self.scratch[value]), sink);
            }
        }
    }

    fn read_record<P: Provider>(
        &mut self,
        ops: &mut Operations<P>,
        at: usize,
        record: &RecordRef,
        told: bool,
    ) {
        let Some(session) = ops.session(at) else {
            return;
        };
        let large = match record.len as usize > SHORT_RECORD_BYTES {
            false => None,
            true => match session.basis.values.lend(at) {
                Some(large) => Some(large),
                None => {
                    ops.list[at].state = State::WaitBuffer(Wait::Record { told });
                    return;
                }
            },
        };
        self.stats.record_reads += 1;
        session.read_record(at, record, large);
        let place = &mut ops.list[at];
        (place.state, place.large) = (State::Reading(Wait::Record { told }), large);
    }

    /// Reads the record for which there was no buffer. Whatever has become of it meanwhile, its sum tells.
    pub(super) fn read_record_now<P: Provider>(&mut self, ops: &mut Operations<P>, at: usize, told: bool) {
        let record = *ops.list[at].own.lookup().record();
        self.read_record(ops, at, &record, told);
    }

    pub(super) fn entry_came<P: Provider>(&mut self, ops: &mut Operations<P>, at: usize, sink: Sink<'_>) {
        let place = &mut ops.list[at];
        let (State::Reading(Wait::Entry), Some(session)) = (place.state, ops.links[place.shard].session())
        else {
            return;
        };
        let step = place.own.lookup().entry(&session.entry(at), &session.shape);
        self.go(ops, at, step, sink);
    }

    pub(super) fn record_came<P: Provider>(&mut self, ops: &mut Operations<P>, at: usize, sink: Sink<'_>) {
        let now = ops.ctx.cpu().now();
        let place = &mut ops.list[at];
        let State::Reading(Wait::Record { told }) = place.state else {
            return;
        };
        let Some(session) = ops.links[place.shard].session() else {
            return;
        };
        let lookup = place.own.lookup();
        session.record(at, lookup.record().len as usize, place.large, &mut self.scratch);
        let now_s = match told {
            // The server has just said that it is alive.
            true => 0,
            false => session.basis.agreed.now_s(now),
        };
        let step = match lookup.read(&self.scratch, &place.key, now_s, &session.shape) {
            // The server said where it is, and it has changed since: what counts is what the server says now.
            Step::Retry | Step::Entry(_) if told => Step::Ask,
            step => step,
        };
        self.go(ops, at, step, sink);
    }

    /// The server says where the record is.
    pub(super) fn notified<P: Provider>(&mut self, ops: &mut Operations<P>, at: usize, record: &RecordRef) {
        let place = &mut ops.list[at];
        let Some(session) = ops.links[place.shard].session() else {
            return;
        };
        if !is_within(record, &session.shape) {
            session.basis.agreed.broken = true;
            return;
        }
        place.own.lookup().notified(*record);
        self.read_record(ops, at, record, true);
    }
}
