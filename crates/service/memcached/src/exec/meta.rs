//! `mg`, `ms`, `md`, `ma`, `me`. Returned flags are in the order of the request's flags.

use super::arithmetic::{Delta, Sum};
use super::notify;
use crate::decide::{self, MetaGet, MetaSet, MetaSum, NON_NUMERIC, NumberText};
use crate::line::LineBuffer;
use crate::parse::base64::{self, TEXT_BYTES_MAX};
use crate::request::{Meta, MetaKind};
use crate::watch::kind;
use crate::{Core, Executor};
use drover_base::{Condition, Cpu};
use drover_net::Output;
use drover_store::{ExtraOutcome, ExtraPut, Hint, ItemRef, Key, Mark, NewCas, ReadOutcome, Sharing};

impl<C: Cpu, S: Sharing> Executor<'_, C, S> {
    pub(super) fn meta(&mut self, meta: &Meta<'_>, key: Key<'_>, hint: Hint, output: &mut Output) {
        match meta.kind {
            MetaKind::Get => self.meta_get(meta, key, hint, output),
            MetaKind::Set => self.meta_set(meta, key, output),
            MetaKind::Delete => self.meta_delete(meta, key, output),
            MetaKind::Arithmetic => self.meta_arithmetic(meta, key, output),
            MetaKind::Debug => self.meta_debug(meta, key, output),
        }
    }

    fn meta_get(&mut self, meta: &Meta<'_>, key: Key<'_>, hint: Hint, output: &mut Output) {
        let mut view = self.view(meta, key.bytes);
        let line = &mut self.core.line;
        let expired = self.partition.expired();
        let mut found = self
            .partition
            .get_and_mark(self.cpu, key, self.now_s, hint, |item| mark_of(&view, item, line));
        let touched = meta.has(b'T');
        let mut is_there = found.is_some();
        if !is_there && meta.has(b'N') {
            let put = ExtraPut {
                condition: Condition::IfAbsent,
                cas: self.server.new_cas(meta.has(b'E').then_some(meta.new_cas)),
                track_access: true,
                ..ExtraPut::default()
            };
            view.created = true;
            self.partition.put_extra(self.cpu, key, &put, self.now_s);
            found = self
                .partition
                .mark(self.cpu, key, self.now_s, |item| mark_of(&view, item, line));
            is_there = found.is_some();
        }
        if self.core.watched & kind::FETCHERS != 0 {
            let bytes = found.as_ref().map(ItemRef::value_len);
            notify::fetched(self.server, self.core.connection, key.bytes, bytes);
        }
        if let Some(item) = found {
            write_hit(line, meta.has(b'v').then_some(item), output);
        }
        let counters = &mut self.core.counters;
        match (touched, is_there) {
            (true, true) => {
                (counters.cmd_touch, counters.touch_hits) = (counters.cmd_touch + 1, counters.touch_hits + 1)
            }
            (false, true) => {
                (counters.cmd_get, counters.get_hits) = (counters.cmd_get + 1, counters.get_hits + 1)
            }
            (_, false) => {
                (counters.cmd_get, counters.get_misses) = (counters.cmd_get + 1, counters.get_misses + 1);
                counters.get_expired += self.partition.expired() - expired;
            }
        }
        if !is_there && !meta.has(b'q') {
            self.meta_status(b"EN", meta, key.bytes, output);
        }
    }

    fn view<'a>(&self, meta: &'a Meta<'a>, key: &'a [u8]) -> MetaGet<'a> {
        MetaGet {
            meta,
            key,
            now_s: self.now_s,
            expiry_s: self.expire_s(meta.times.expiry),
            vivify_s: self.expire_s(meta.times.vivify),
            recache_s: self.expire_s(meta.times.recache),
            created: false,
        }
    }

    /// As [`meta_get`](Executor::meta_get), of a key of `core`, whose partition is read in place. Returns whether that was
    /// possible; if not, nothing has changed.
    pub(crate) fn meta_get_in_place(
        &mut self,
        core: usize,
        meta: &Meta<'_>,
        key: Key<'_>,
        output: &mut Output,
    ) -> bool {
        if meta.has(b'T') {
            return false;
        }
        let view = self.view(meta, key.bytes);
        let (cpu, now_s) = (self.cpu, self.now_s);
        let Core {
            reads,
            counters,
            line,
            watched,
            connection,
            ..
        } = &mut *self.core;
        let Some((outcome, peer)) = reads.get(core, cpu, key, now_s) else {
            return false;
        };
        let found = match outcome {
            ReadOutcome::Hit(read) => {
                let mark = mark_of(&view, read.item, line);
                if read.item.would_change(&mark, now_s) {
                    return false;
                }
                Some(read)
            }
            ReadOutcome::Miss if !meta.has(b'N') => None,
            ReadOutcome::Miss | ReadOutcome::Unknown => return false,
        };
        peer.count(found.as_ref());
        counters.cmd_get += 1;
        if *watched & kind::FETCHERS != 0 {
            let bytes = found.as_ref().map(|read| read.item.value_len());
            notify::fetched(self.server, *connection, key.bytes, bytes);
        }
        match found {
            Some(read) => {
                counters.get_hits += 1;
                write_hit(line, meta.has(b'v').then_some(read.item), output);
            }
            None => {
                counters.get_misses += 1;
                if !meta.has(b'q') {
                    self.meta_status(b"EN", meta, key.bytes, output);
                }
            }
        }
        true
    }

    /// Appends a status and the flags to repeat: opaque and key.
    fn meta_status(&mut self, status: &[u8], meta: &Meta<'_>, key: &[u8], output: &mut Output) {
        let line = &mut self.core.line;
        decide::meta_status(line, status, meta, key, None);
        output.push(line.bytes());
    }

    fn meta_set(&mut self, meta: &Meta<'_>, key: Key<'_>, output: &mut Output) {
        let set = MetaSet::of(meta);
        let put = ExtraPut {
            value: &[meta.value],
            join: set.join,
            expire_s: self.expire_s(meta.times.expiry),
            flags: meta.client_flags,
            keep: set.joins(),
            condition: set.condition,
            or_older: set.or_older,
            cas: meta.has(b'E').then_some(meta.new_cas),
            track_access: true,
            ..ExtraPut::default()
        };
        let outcome = self.put(key, &put, set.classic_name(meta));
        let status = match set.status(meta, outcome) {
            Ok(status) => status,
            Err(line) => {
                if outcome == ExtraOutcome::TooLarge {
                    self.drop_old(key, true);
                }
                return output.push(line);
            }
        };
        let cas = match outcome {
            ExtraOutcome::Stored { .. } if meta.has(b'q') => return,
            ExtraOutcome::Stored { cas } => cas,
            _ => 0,
        };
        let line = &mut self.core.line;
        decide::meta_status(line, status, meta, key.bytes, Some(cas));
        output.push(line.bytes());
    }

    fn meta_delete(&mut self, meta: &Meta<'_>, key: Key<'_>, output: &mut Output) {
        let invalidates = meta.has(b'I');
        let new_cas = meta.has(b'E').then_some(meta.new_cas);
        let mark = Mark {
            expire_s: meta.has(b'T').then(|| self.expire_s(meta.times.expiry)),
            stale: Some(true),
            won: Some(false),
            cas: new_cas.map_or(NewCas::Next, NewCas::Exactly),
            ..Mark::default()
        };
        let empties = meta.has(b'x');
        let mut cas = None;
        self.partition.mark(self.cpu, key, self.now_s, |item| {
            cas = Some(item.cas());
            let is_it = !meta.has(b'C') || item.cas() == meta.cas;
            if invalidates && is_it && !empties {
                mark
            } else {
                Mark::default()
            }
        });
        let status: &[u8] = match cas {
            None => b"NF",
            Some(cas) if meta.has(b'C') && cas != meta.cas => b"EX",
            Some(_) => b"HD",
        };
        if status != b"HD" {
            self.core.counters.delete_misses += 1;
            return self.meta_status(status, meta, key.bytes, output);
        }
        if empties {
            let put = ExtraPut {
                expire_s: self.expire_s(meta.times.expiry),
                flags: meta.client_flags,
                cas: self.server.new_cas(new_cas.or(cas)),
                track_access: true,
                ..ExtraPut::default()
            };
            self.partition.put_extra(self.cpu, key, &put, self.now_s);
            if invalidates {
                self.partition.mark(self.cpu, key, self.now_s, |_| mark);
            }
        } else if !invalidates {
            self.partition.delete(self.cpu, key, self.now_s);
            if self.core.watched & kind::DELETIONS != 0 {
                notify::deleted(&self.server.watchers, self.core.connection, key.bytes, "md");
            }
        }
        if !invalidates {
            self.core.counters.delete_hits += 1;
        }
        if !meta.has(b'q') {
            self.meta_status(status, meta, key.bytes, output);
        }
    }

    fn meta_arithmetic(&mut self, meta: &Meta<'_>, key: Key<'_>, output: &mut Output) {
        let delta = Delta {
            by: meta.number.delta,
            up: !matches!(meta.mode, b'D' | b'-'),
            if_cas: meta.cas,
            new_cas: meta.has(b'E').then_some(meta.new_cas),
            track_access: true,
        };
        match self.add(key, &delta) {
            Sum::Done { value, cas, expire_s } => {
                let created = false;
                let sum = MetaSum {
                    value,
                    cas,
                    expire_s,
                    created,
                };
                self.meta_sum(meta, key, &sum, output)
            }
            Sum::Absent if meta.has(b'N') => self.meta_vivify_number(meta, key, &delta, output),
            Sum::Absent => {
                self.count_absent(delta.up);
                self.meta_status(b"NF", meta, key.bytes, output);
            }
            Sum::Exists => self.meta_status(b"EX", meta, key.bytes, output),
            Sum::NonNumeric => output.push(NON_NUMERIC),
            Sum::NoMemory => output.push(decide::NO_MEMORY_FOR_NUMBER),
        }
    }

    /// Stores the initial value of a number that does not exist.
    fn meta_vivify_number(&mut self, meta: &Meta<'_>, key: Key<'_>, delta: &Delta, output: &mut Output) {
        let value = meta.number.initial;
        let text = NumberText::new(value);
        let put = ExtraPut {
            value: &[text.digits()],
            condition: Condition::IfAbsent,
            cas: self.server.new_cas(delta.new_cas),
            track_access: true,
            ..ExtraPut::default()
        };
        match self.partition.put_extra(self.cpu, key, &put, self.now_s) {
            ExtraOutcome::Stored { cas } => {
                let (expire_s, created) = (0, true);
                let sum = MetaSum {
                    value,
                    cas,
                    expire_s,
                    created,
                };
                self.meta_sum(meta, key, &sum, output)
            }
            _ => output.push(b"SERVER_ERROR Out of memory allocating new item\r\n"),
        }
    }

    /// Appends the reply to an `ma`; sets the requested expiry.
    fn meta_sum(&mut self, meta: &Meta<'_>, key: Key<'_>, sum: &MetaSum, output: &mut Output) {
        let (expiry_s, vivify_s) = (self.expire_s(meta.times.expiry), self.expire_s(meta.times.vivify));
        let line = &mut self.core.line;
        let expire_s = decide::sum_line(line, meta, key.bytes, sum, (expiry_s, vivify_s, self.now_s));
        // The reply reports a created number, whatever q says.
        if sum.created || !meta.has(b'q') {
            output.push(line.bytes());
        }
        if expire_s != sum.expire_s {
            self.partition.set_expiry(self.cpu, key, expire_s, self.now_s);
        }
    }

    /// `ME <key> exp= la= cas= fetch= cls= size=`; the class is always 1.
    fn meta_debug(&mut self, meta: &Meta<'_>, key: Key<'_>, output: &mut Output) {
        let (line, now_s) = (&mut self.core.line, self.now_s);
        line.start(b"ME ");
        let found = self.partition.mark(self.cpu, key, now_s, |item| {
            if meta.has(b'b') {
                let mut text = [0; TEXT_BYTES_MAX];
                let len = base64::encode(key.bytes, &mut text);
                line.push(&text[..len]);
            } else {
                line.push(key.bytes);
            }
            line.push(b" exp=");
            match item.expire_s() {
                0 => line.push(b"-1"),
                expire_s => line.number(u64::from(expire_s - now_s)),
            };
            line.push(b" la=")
                .number(u64::from(now_s.saturating_sub(item.accessed_s())));
            line.push(b" cas=").number(item.cas());
            line.push(if item.is_fetched() {
                b" fetch=yes"
            } else {
                b" fetch=no"
            });
            line.push(b" cls=1 size=")
                .number(item.bytes() as u64)
                .push(b"\r\n");
            Mark::default()
        });
        self.core.counters.cmd_meta += 1;
        match found {
            Some(_) => output.push(line.bytes()),
            None => output.push(b"EN\r\n"),
        }
    }
}

/// Writes the reply's line from `item` as it was before the request; returns the changes to make to it.
#[inline]
fn mark_of(view: &MetaGet<'_>, item: ItemRef<'_>, line: &mut LineBuffer) -> Mark {
    let change = view.write(&item, line);
    Mark {
        access: !view.meta.has(b'u'),
        expire_s: change.expire_s,
        won: change.wins.then_some(true),
        ..Mark::default()
    }
}

/// Appends the line, and the value if one is returned.
#[inline]
fn write_hit(line: &LineBuffer, item: Option<ItemRef<'_>>, output: &mut Output) {
    let line = line.bytes();
    let Some(item) = item else {
        return output.push(line);
    };
    let value = item.value();
    let space = output.space(line.len() + value.len() + 2);
    let (head, rest) = space.split_at_mut(line.len());
    head.copy_from_slice(line);
    let (body, end) = rest.split_at_mut(value.len());
    value.copy_out(body);
    end.copy_from_slice(b"\r\n");
}
