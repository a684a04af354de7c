//! `mg`, `ms`, `md`, `ma`.

use super::number::{Next, next_text};
use super::store::{Joined, Put};
use super::{Action, Step, Ttl, Turn, unchanged};
use drover_base::{Condition, crc64};
use drover_kv::{Op, Outcome};
use drover_memcached::decide::{
    ItemFacts, MetaGet, MetaSet, MetaSum, NON_NUMERIC, NumberText, sum_line, unknown_flag_line,
};
use drover_memcached::request::{Expiry, Meta, MetaKind};
use drover_store::ExtraOutcome;

/// What a GET says of an item. What it does not say is refused before it is asked for.
struct Remote {
    value_len: usize,
    flags: u32,
    version: u64,
}

impl ItemFacts for Remote {
    fn value_len(&self) -> usize {
        self.value_len
    }

    fn flags(&self) -> u32 {
        self.flags
    }

    fn cas(&self) -> u64 {
        self.version
    }

    fn expire_s(&self) -> u32 {
        0
    }

    fn accessed_s(&self) -> u32 {
        0
    }

    fn is_fetched(&self) -> bool {
        false
    }

    fn is_won(&self) -> bool {
        false
    }

    fn is_stale(&self) -> bool {
        false
    }
}

/// Whether `ma` adds.
fn is_up(meta: &Meta<'_>) -> bool {
    !matches!(meta.mode, b'D' | b'-')
}

impl<'a> Turn<'a, '_> {
    pub(super) fn begin_meta(&mut self, meta: &Meta<'a>) -> Action<'a> {
        match meta.kind {
            MetaKind::Get => match (meta.has(b'T'), self.terms.ttl(meta.times.expiry)) {
                (true, Ttl::For(ttl_s)) => Action::Ask(Step::Touch, Op::Touch { key: self.key, ttl_s }),
                _ => self.read(),
            },
            MetaKind::Set => {
                let set = MetaSet::of(meta);
                let put = self.put_of(meta, &set);
                match (self.can_put(&put), set.joins()) {
                    (false, _) => self.refuse(false, unknown_flag_line(meta.kind)),
                    (true, true) => self.read(),
                    (true, false) => {
                        self.memo.written = if meta.has(b'c') { crc64(meta.value) } else { 0 };
                        self.put(&put)
                    }
                }
            }
            MetaKind::Delete => {
                let condition = match meta.has(b'C') {
                    true => Condition::IfVersion(meta.cas),
                    false => Condition::Always,
                };
                Action::Ask(Step::Delete, self.delete_if(condition))
            }
            MetaKind::Arithmetic if !self.terms.offers.versions || !self.terms.offers.conditions => {
                self.refuse(false, b"ERROR\r\n")
            }
            MetaKind::Arithmetic => self.read(),
            MetaKind::Debug => self.refuse(false, b"ERROR\r\n"),
        }
    }

    fn put_of(&self, meta: &Meta<'a>, set: &MetaSet) -> Put<'a> {
        Put {
            value: meta.value,
            expiry: meta.times.expiry,
            flags: meta.client_flags,
            condition: set.condition,
        }
    }

    pub(super) fn proceed_meta(
        &mut self,
        meta: &Meta<'a>,
        step: Step,
        outcome: &Outcome<'_>,
        value: &'a mut Vec<u8>,
    ) -> Action<'a> {
        match meta.kind {
            MetaKind::Get => self.proceed_meta_get(meta, step, outcome),
            MetaKind::Set => self.proceed_meta_set(meta, step, outcome, value),
            MetaKind::Delete => self.proceed_meta_delete(meta, outcome),
            MetaKind::Arithmetic => self.proceed_meta_number(meta, step, outcome, value),
            MetaKind::Debug => Action::Reply,
        }
    }

    fn proceed_meta_get(&mut self, meta: &Meta<'a>, step: Step, outcome: &Outcome<'_>) -> Action<'a> {
        match (step, outcome) {
            (Step::Touch, Outcome::Touched) => self.read(),
            (Step::Touch | Step::Read, Outcome::NotFound) => {
                self.counters.cmd_get += 1;
                self.counters.get_misses += 1;
                match meta.has(b'q') {
                    true => Action::Reply,
                    false => self.status(b"EN", meta, None),
                }
            }
            (
                Step::Read,
                &Outcome::Found {
                    value,
                    version,
                    flags,
                },
            ) => {
                let counters = &mut *self.counters;
                match meta.has(b'T') {
                    true => {
                        (counters.cmd_touch, counters.touch_hits) =
                            (counters.cmd_touch + 1, counters.touch_hits + 1)
                    }
                    false => {
                        (counters.cmd_get, counters.get_hits) = (counters.cmd_get + 1, counters.get_hits + 1)
                    }
                }
                self.write_hit(meta, value, version, flags);
                match (meta.has(b'T'), self.terms.ttl(meta.times.expiry)) {
                    (true, Ttl::Over) => Action::AskThenReply(Step::Drop, self.delete_if(unchanged(version))),
                    _ => Action::Reply,
                }
            }
            (_, outcome) => self.fail(false, outcome),
        }
    }

    fn write_hit(&mut self, meta: &Meta<'_>, value: &[u8], version: u64, flags: u32) {
        let view = MetaGet {
            meta,
            key: self.key,
            now_s: self.terms.now_s,
            expiry_s: 0,
            vivify_s: 0,
            recache_s: 0,
            created: false,
        };
        let item = Remote {
            value_len: value.len(),
            flags,
            version,
        };
        view.write(&item, &mut self.reply.line);
        let bytes = &mut self.reply.bytes;
        bytes.extend_from_slice(self.reply.line.bytes());
        if meta.has(b'v') {
            bytes.extend_from_slice(value);
            bytes.extend_from_slice(b"\r\n");
        }
    }

    fn proceed_meta_set(
        &mut self,
        meta: &Meta<'a>,
        step: Step,
        outcome: &Outcome<'_>,
        value: &'a mut Vec<u8>,
    ) -> Action<'a> {
        let set = MetaSet::of(meta);
        if step == Step::ReadBack {
            let cas = self.version_if_ours(outcome);
            return self.status(b"HD", meta, Some(cas));
        }
        let came = if set.joins() {
            match self.join((set.join, meta.value), set.condition, (step, outcome), value) {
                Joined::Ask(action) => return action,
                Joined::Came(came) => came,
            }
        } else {
            self.came_of_put(set.condition, step, outcome)
        };
        let Some(came) = came else {
            return self.fail(false, outcome);
        };
        self.count_stored(came, set.classic_name(meta) == "cas");
        match set.status(meta, came) {
            Err(line) => {
                self.reply.push(false, line);
                match came {
                    ExtraOutcome::TooLarge => Action::AskThenReply(Step::Drop, Op::delete(self.key)),
                    _ => Action::Reply,
                }
            }
            Ok(status) if matches!(came, ExtraOutcome::Stored { .. }) => {
                match (meta.has(b'q'), meta.has(b'c')) {
                    (true, _) => Action::Reply,
                    (false, true) if step == Step::Write => {
                        Action::Ask(Step::ReadBack, Op::GetItem { key: self.key })
                    }
                    (false, _) => self.status(status, meta, Some(0)),
                }
            }
            Ok(status) => self.status(status, meta, Some(0)),
        }
    }

    /// The version of an item that was put and read back; 0, which no item has, if another value is there by now.
    fn version_if_ours(&self, outcome: &Outcome<'_>) -> u64 {
        match outcome {
            Outcome::Found { value, version, .. } if crc64(value) == self.memo.written => *version,
            _ => 0,
        }
    }

    fn proceed_meta_delete(&mut self, meta: &Meta<'a>, outcome: &Outcome<'_>) -> Action<'a> {
        let status: &[u8] = match outcome {
            Outcome::Deleted => {
                self.counters.delete_hits += 1;
                if meta.has(b'q') {
                    return Action::Reply;
                }
                b"HD"
            }
            Outcome::NotFound => b"NF",
            Outcome::Exists => b"EX",
            _ => return self.fail(false, outcome),
        };
        if status != b"HD" {
            self.counters.delete_misses += 1;
        }
        self.status(status, meta, None)
    }

    fn proceed_meta_number(
        &mut self,
        meta: &Meta<'a>,
        step: Step,
        outcome: &Outcome<'_>,
        text: &'a mut Vec<u8>,
    ) -> Action<'a> {
        let up = is_up(meta);
        match (step, outcome) {
            (
                Step::Read,
                &Outcome::Found {
                    value,
                    version,
                    flags,
                },
            ) => {
                // In memcached's order.
                if value.is_empty() {
                    return self.refuse(false, NON_NUMERIC);
                }
                if meta.cas != 0 && meta.cas != version {
                    return self.status(b"EX", meta, None);
                }
                let Next::Number(number) = next_text(value, (meta.number.delta, up), text) else {
                    return self.refuse(false, NON_NUMERIC);
                };
                (self.memo.number, self.memo.creates) = (number, false);
                if !meta.has(b'T') {
                    return self.overwrite(text, version, None);
                }
                match self.terms.ttl(meta.times.expiry) {
                    Ttl::For(ttl_s) => self.overwrite(text, version, Some((ttl_s, flags))),
                    Ttl::Over => Action::Ask(Step::Delete, self.delete_if(unchanged(version))),
                }
            }
            (Step::Read, Outcome::NotFound) if meta.has(b'N') => {
                text.clear();
                text.extend_from_slice(NumberText::new(meta.number.initial).digits());
                (self.memo.number, self.memo.creates) = (meta.number.initial, true);
                self.memo.written = crc64(text);
                let expiry = self.created_expiry(meta);
                if self.terms.ttl(expiry) == Ttl::Over {
                    return self.reply_sum(meta, 0);
                }
                self.put(&Put {
                    value: text,
                    expiry,
                    flags: 0,
                    condition: Condition::IfAbsent,
                })
            }
            (Step::Read, Outcome::NotFound) => {
                self.count_number(up, false);
                self.status(b"NF", meta, None)
            }
            (Step::Write, Outcome::Stored) if meta.has(b'c') => {
                Action::Ask(Step::ReadBack, Op::GetItem { key: self.key })
            }
            (Step::ReadBack, outcome) => {
                let cas = self.version_if_ours(outcome);
                self.reply_sum(meta, cas)
            }
            (Step::Write, Outcome::Stored) | (Step::Delete, Outcome::Deleted) => self.reply_sum(meta, 0),
            (Step::Write | Step::Delete, Outcome::Exists | Outcome::NotFound) => Action::Again,
            (_, outcome) => self.fail_number(false, outcome),
        }
    }

    /// Expiry of a number that an `ma` creates: of flags `T` and `N` the later one in the command counts.
    fn created_expiry(&self, meta: &Meta<'_>) -> Expiry {
        let mut letters = meta
            .flags
            .split(|&byte| byte == b' ')
            .filter_map(|flag| flag.first());
        match letters.rfind(|letter| matches!(letter, b'N' | b'T')) {
            Some(b'T') => meta.times.expiry,
            _ => meta.times.vivify,
        }
    }

    fn reply_sum(&mut self, meta: &Meta<'_>, cas: u64) -> Action<'a> {
        let created = self.memo.creates;
        let sum = MetaSum {
            value: self.memo.number,
            cas,
            expire_s: 0,
            created,
        };
        if !created {
            self.count_number(is_up(meta), true);
        }
        // The reply reports a created number, whatever q says.
        if created || !meta.has(b'q') {
            sum_line(
                &mut self.reply.line,
                meta,
                self.key,
                &sum,
                (0, 0, self.terms.now_s),
            );
            self.reply.bytes.extend_from_slice(self.reply.line.bytes());
        }
        Action::Reply
    }
}
