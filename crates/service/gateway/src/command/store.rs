//! `set`, `add`, `replace`, `append`, `prepend`, `cas`.

use super::{Action, Step, Ttl, Turn, stored, unchanged};
use drover_base::Condition;
use drover_kv::{Op, Outcome};
use drover_memcached::decide::{is_too_large, store_condition, store_join, store_reply};
use drover_memcached::request::{Expiry, Store, StoreMode};
use drover_store::{ExtraOutcome, Join};

/// Whether the command joins its value with the old one.
pub(super) fn joins(mode: StoreMode) -> bool {
    store_join(mode) != Join::Replace
}

/// A PUT that a command asks for, without its key.
#[derive(Clone, Copy)]
pub(super) struct Put<'a> {
    pub(super) value: &'a [u8],
    pub(super) expiry: Expiry,
    pub(super) flags: u32,
    pub(super) condition: Condition,
}

impl<'a> Turn<'a, '_> {
    pub(super) fn begin_store(&mut self, store: &Store<'a>) -> Action<'a> {
        let condition = store_condition(store.mode, store.cas);
        let put = Put {
            value: store.value,
            expiry: store.expiry,
            flags: store.flags,
            condition,
        };
        let offers = &self.terms.offers;
        let has_versions = offers.versions || !(joins(store.mode) || store.mode == StoreMode::Cas);
        if !has_versions || !self.can_put(&put) {
            return self.refuse(store.noreply, b"ERROR\r\n");
        }
        match joins(store.mode) {
            true => self.read(),
            false => self.put(&put),
        }
    }

    /// Whether the system offers all that `put` says.
    pub(super) fn can_put(&self, put: &Put<'_>) -> bool {
        let offers = &self.terms.offers;
        (offers.conditions || put.condition == Condition::Always)
            && (offers.flags || put.flags == 0)
            && (offers.ttl || put.expiry == Expiry(0))
    }

    /// Asks for `put`. An item that would have expired already is one that does not exist.
    pub(super) fn put(&mut self, put: &Put<'a>) -> Action<'a> {
        let key = self.key;
        match (self.terms.ttl(put.expiry), put.condition) {
            (Ttl::For(ttl_s), condition) => Action::Ask(
                Step::Write,
                Op::Put {
                    key,
                    value: put.value,
                    ttl_s,
                    flags: put.flags,
                    condition,
                    keep: false,
                },
            ),
            (Ttl::Over, Condition::IfAbsent) => self.read(),
            (Ttl::Over, Condition::IfPresent) => Action::Ask(Step::Delete, Op::delete(key)),
            (Ttl::Over, condition) => Action::Ask(Step::Delete, self.delete_if(condition)),
        }
    }

    /// What came of [`put`](Turn::put); `None` if it failed for reasons that no store has.
    pub(super) fn came_of_put(
        &mut self,
        condition: Condition,
        step: Step,
        outcome: &Outcome<'_>,
    ) -> Option<ExtraOutcome> {
        let done = Some(ExtraOutcome::Stored { cas: 0 });
        match (step, outcome, condition) {
            (Step::Write, outcome, _) => stored(outcome),
            (Step::Delete, Outcome::Deleted, _) => done,
            (Step::Delete, Outcome::NotFound, Condition::Always) => done,
            (Step::Delete, outcome, _) => stored(outcome),
            (Step::Read, Outcome::NotFound, Condition::IfAbsent) => done,
            (Step::Read, Outcome::Found { .. }, Condition::IfAbsent) => {
                Some(ExtraOutcome::Present { cas: 0 })
            }
            _ => None,
        }
    }

    /// Counts what came of a storing command.
    pub(super) fn count_stored(&mut self, outcome: ExtraOutcome, compares: bool) {
        let counters = &mut *self.counters;
        match outcome {
            ExtraOutcome::TooLarge => return counters.store_too_large += 1,
            ExtraOutcome::Full => counters.store_no_memory += 1,
            ExtraOutcome::Stored { .. } if compares => counters.cas_hits += 1,
            ExtraOutcome::Present { .. } if compares => counters.cas_badval += 1,
            ExtraOutcome::Absent if compares => counters.cas_misses += 1,
            _ => {}
        }
        counters.cmd_set += 1;
    }

    pub(super) fn proceed_store(
        &mut self,
        store: &Store<'a>,
        step: Step,
        outcome: &Outcome<'_>,
        value: &'a mut Vec<u8>,
    ) -> Action<'a> {
        let condition = store_condition(store.mode, store.cas);
        let came = if joins(store.mode) {
            match self.join(
                (store_join(store.mode), store.value),
                Condition::Always,
                (step, outcome),
                value,
            ) {
                Joined::Ask(action) => return action,
                Joined::Came(came) => came,
            }
        } else {
            self.came_of_put(condition, step, outcome)
        };
        let Some(came) = came else {
            return self.fail(store.noreply, outcome);
        };
        self.count_stored(came, store.mode == StoreMode::Cas);
        self.reply.push(store.noreply, store_reply(store.mode, came));
        match came {
            // Clients must not mistake the old value for the new one.
            ExtraOutcome::TooLarge if store.mode == StoreMode::Set => {
                Action::AskThenReply(Step::Drop, Op::delete(self.key))
            }
            _ => Action::Reply,
        }
    }

    /// The next thing to do for a command that appends or prepends, under `condition` on the version of the item.
    pub(super) fn join(
        &mut self,
        (join, more): (Join, &[u8]),
        condition: Condition,
        (step, outcome): (Step, &Outcome<'_>),
        value: &'a mut Vec<u8>,
    ) -> Joined<'a> {
        match (step, outcome) {
            (
                Step::Read,
                &Outcome::Found {
                    value: old,
                    version,
                    flags,
                },
            ) => {
                if let Condition::IfVersion(wanted) = condition
                    && wanted != version
                {
                    return Joined::Came(Some(ExtraOutcome::Present { cas: version }));
                }
                let len = old.len() + more.len();
                if is_too_large(self.key.len(), flags, len, self.terms.item_bytes_max) {
                    return Joined::Came(Some(ExtraOutcome::TooLarge));
                }
                let (first, second) = match join {
                    Join::Prepend => (more, old),
                    _ => (old, more),
                };
                value.clear();
                value.extend_from_slice(first);
                value.extend_from_slice(second);
                Joined::Ask(self.overwrite(value, version, None))
            }
            (Step::Read, Outcome::NotFound) => Joined::Came(Some(ExtraOutcome::Absent)),
            (Step::Write, Outcome::Exists | Outcome::NotFound) => Joined::Ask(Action::Again),
            (_, outcome) => Joined::Came(stored(outcome)),
        }
    }

    /// Asks to put `value` over the item that was read with `version`. With an expiry and flags of its own, or those that the
    /// item has by then.
    pub(super) fn overwrite(&mut self, value: &'a [u8], version: u64, own: Option<(u32, u32)>) -> Action<'a> {
        let (ttl_s, flags) = own.unwrap_or_default();
        self.memo.written = drover_base::crc64(value);
        Action::Ask(
            Step::Write,
            Op::Put {
                key: self.key,
                value,
                ttl_s,
                flags,
                condition: unchanged(version),
                keep: own.is_none(),
            },
        )
    }
}

/// Progress of a command that appends or prepends.
pub(super) enum Joined<'a> {
    /// It goes on.
    Ask(Action<'a>),
    /// What came of it; `None` if it failed for reasons that no store has.
    Came(Option<ExtraOutcome>),
}
