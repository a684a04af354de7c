//! `set`, `add`, `replace`, `append`, `prepend`, `cas`.

use super::answer;
use crate::Executor;
use crate::decide::{store_condition, store_join, store_reply};
use crate::detail::Seen;
use crate::parse::is_too_large;
use crate::request::{Store, StoreMode};
use crate::watch::kind;
use drover_base::{Condition, Cpu};
use drover_net::Output;
use drover_store::{ExtraOutcome, ExtraPut, Join, Key, Mark, Sharing};

impl<C: Cpu, S: Sharing> Executor<'_, C, S> {
    pub(super) fn store(&mut self, store: &Store<'_>, key: Key<'_>, output: &mut Output) {
        let mode = store.mode;
        self.server.detail.count(key.bytes, Seen::Set);
        let put = ExtraPut {
            value: &[store.value],
            join: store_join(mode),
            expire_s: self.expire_s(store.expiry),
            flags: store.flags,
            keep: matches!(mode, StoreMode::Append | StoreMode::Prepend),
            condition: store_condition(mode, store.cas),
            ..ExtraPut::default()
        };
        let outcome = self.put(key, &put, name(mode));
        if matches!(outcome, ExtraOutcome::TooLarge) && put.join == Join::Replace {
            self.drop_old(key, mode == StoreMode::Set);
        }
        answer(output, store.noreply, store_reply(mode, outcome));
    }

    /// Stores for the command `name`, and counts the outcome.
    pub(super) fn put(&mut self, key: Key<'_>, put: &ExtraPut<'_>, name: &str) -> ExtraOutcome {
        let mut put = *put;
        put.cas = self.server.new_cas(put.cas);
        if !self.server.settings.items.cas
            && matches!(put.condition, Condition::IfVersion(_))
            && !put.or_older
        {
            // As memcached: with CAS switched off, any CAS matches.
            put.condition = Condition::IfPresent;
        }
        if self.core.watched & kind::FETCHERS != 0 {
            self.tell_lookup(key);
        }
        let outcome = if put.join != Join::Replace && self.joins_too_much(key, &put) {
            ExtraOutcome::TooLarge
        } else {
            self.partition.put_extra(self.cpu, key, &put, self.now_s)
        };
        if self.core.watched & (kind::MUTATIONS | kind::EVICTIONS) != 0 {
            self.tell_stored(key, &put, name, outcome);
        }
        let counters = &mut self.core.counters;
        counters.cmd_set += 1;
        let compares = matches!(put.condition, Condition::IfVersion(_));
        match outcome {
            ExtraOutcome::Full => counters.store_no_memory += 1,
            ExtraOutcome::Stored { .. } if compares => counters.cas_hits += 1,
            ExtraOutcome::Present { .. } if compares => counters.cas_badval += 1,
            ExtraOutcome::Absent if compares => counters.cas_misses += 1,
            _ => {}
        }
        outcome
    }

    /// Whether `put` would make the value longer than memcached allows. The item keeps its own flags, which count
    /// towards its size. An unmet condition takes precedence.
    fn joins_too_much(&mut self, key: Key<'_>, put: &ExtraPut<'_>) -> bool {
        let more: usize = put.value.iter().map(|piece| piece.len()).sum();
        let bytes_max = self.server.settings.items.item_bytes_max;
        let mut too_much = false;
        self.partition.mark(self.cpu, key, self.now_s, |item| {
            let holds = match put.condition {
                Condition::IfVersion(cas) if !put.or_older => cas == item.cas(),
                _ => true,
            };
            let len = item.value_len() + more;
            too_much = holds && is_too_large(key.bytes.len(), item.flags(), len, bytes_max);
            Mark::default()
        });
        too_much
    }
}

/// Name of the command.
fn name(mode: StoreMode) -> &'static str {
    match mode {
        StoreMode::Set => "set",
        StoreMode::Add => "add",
        StoreMode::Replace => "replace",
        StoreMode::Append => "append",
        StoreMode::Prepend => "prepend",
        StoreMode::Cas => "cas",
    }
}
