//! GETs by READs: carries out the steps of [`Lookup`](crate::logic::Lookup).

use super::session::SHORT_RECORD_BYTES;
use super::{Operations, Reader, Wait};
use crate::layout::{RecordHeader, record_bytes};
use crate::logic::{Step, is_within};
use drover_index::cuckoo::RecordRef;
use drover_kv::{ItemInfo, Outcome};
use drover_one_sided::{Reader as _, Sink};
use drover_verbs::Provider;

/// Why an operation's session must exist: it has just delivered a completion.
const ITS_SESSION: &str = "the session whose queue pair was polled";

impl Reader {
    /// Begins with the first entry, if the session still works.
    pub(super) fn look_up<P: Provider>(&mut self, ops: &mut Operations<P>, at: usize) {
        let Some(get) = ops.view(at) else {
            return;
        };
        match get.own.lookup().begin(&get.session.shape) {
            Step::Entry(index) => self.read_entry(ops, at, index),
            other => unreachable!("operation {at} begins with {other:?}"),
        }
    }

    /// Carries out the lookup's next step, after an entry or a record has arrived.
    fn go<P: Provider>(&mut self, ops: &mut Operations<P>, at: usize, step: Step, sink: Sink<'_>) {
        match step {
            Step::Entry(index) => self.read_entry(ops, at, index),
            Step::Record(record) => self.read_record(ops, at, &record, false),
            Step::Retry => {
                self.stats.torn += 1;
                if let Some(session) = ops.session(at) {
                    session.expects_frame = true;
                }
                ops.rest(at);
            }
            Step::Ask => self.ask(ops, at, false),
            Step::Miss => {
                self.stats.misses += 1;
                ops.finish(at, Outcome::NotFound, sink);
            }
            Step::Found => {
                self.stats.hits += 1;
                let key_bytes = ops.view(at).expect(ITS_SESSION).key.len();
                let value = record_bytes(key_bytes, 0)..;
                // Whole, as the lookup has found.
                let header = self.scratch.first_chunk().map(RecordHeader::decode);
                let info = header.map_or(ItemInfo::default(), |header| header.info());
                ops.finish_found(at, &self.scratch[value], info, sink);
            }
        }
    }

    fn read_entry<P: Provider>(&mut self, ops: &mut Operations<P>, at: usize, index: u64) {
        ops.release_large(at);
        let get = ops.view(at).expect(ITS_SESSION);
        get.session.read_entry(at, index);
        self.stats.entry_reads += 1;
        get.reading(Wait::Entry, None);
    }

    fn read_record<P: Provider>(
        &mut self,
        ops: &mut Operations<P>,
        at: usize,
        record: &RecordRef,
        told: bool,
    ) {
        if ops.session(at).is_none() {
            return;
        }
        let mut large = None;
        if record.len as usize > SHORT_RECORD_BYTES {
            large = ops.lend_for(at, Wait::Record { told });
            if large.is_none() {
                return;
            }
        }
        self.stats.record_reads += 1;
        let get = ops.view(at).expect("a session that works, as above");
        get.session.read_record(at, record, large);
        get.reading(Wait::Record { told }, large);
    }

    /// READs the record for which no buffer was free before. If the record has changed meanwhile, its checksum shows
    /// it.
    pub(super) fn read_record_now<P: Provider>(&mut self, ops: &mut Operations<P>, at: usize, told: bool) {
        let record = *ops.own(at).lookup().record();
        self.read_record(ops, at, &record, told);
    }

    pub(super) fn entry_came<P: Provider>(&mut self, ops: &mut Operations<P>, at: usize, sink: Sink<'_>) {
        let get = ops.view(at).expect(ITS_SESSION);
        assert_eq!(get.read_ended(), Wait::Entry, "operation {at} has READ an entry");
        let step = get.own.lookup().entry(&get.session.entry(at), &get.session.shape);
        self.go(ops, at, step, sink);
    }

    pub(super) fn record_came<P: Provider>(&mut self, ops: &mut Operations<P>, at: usize, sink: Sink<'_>) {
        let now = ops.now();
        let get = ops.view(at).expect(ITS_SESSION);
        let Wait::Record { told } = get.read_ended() else {
            panic!("operation {at} has READ a record, and waits for an entry");
        };
        let large = get.large();
        let lookup = get.own.lookup();
        let len = lookup.record().len as usize;
        get.session.record(at, len, large, &mut self.scratch);
        let now_s = match told {
            // The server has just answered that the item is alive.
            true => 0,
            false => get.session.resources.agreed.now_s(now),
        };
        let step = match lookup.read(&self.scratch, get.key, now_s, &get.session.shape) {
            // The record has changed since the server named it: ask again, because only the server's answer is
            // authoritative here.
            Step::Retry | Step::Entry(_) if told => Step::Ask,
            step => step,
        };
        self.go(ops, at, step, sink);
    }

    /// Handles a reply that says where the record is.
    pub(super) fn notified<P: Provider>(&mut self, ops: &mut Operations<P>, at: usize, record: &RecordRef) {
        let get = ops.view(at).expect(ITS_SESSION);
        if !is_within(record, &get.session.shape) {
            get.session.resources.agreed.broken = true;
            return;
        }
        get.own.lookup().notified(*record);
        self.read_record(ops, at, record, true);
    }
}
