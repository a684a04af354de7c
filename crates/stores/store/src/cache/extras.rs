//! Items with optional fields in cache mode.

use super::{Cache, Found};
use crate::extras::{ExtraOutcome, ExtraPut, Mark, NewCas};
use crate::item::{Body, Fields, ItemRef, Key, Value};
use crate::partition::next_version;
use crate::sharing::Sharing;
use drover_base::Cpu;
use std::mem::take;

impl<S: Sharing> Cache<S> {
    /// Offset of the key's live item, for callers other than GET.
    pub(crate) fn find_offset<C: Cpu>(&mut self, cpu: &C, key: Key<'_>, now_s: u32) -> Option<u64> {
        cpu.touch(self.table.bucket(key.hash).line());
        self.find(cpu, key, now_s).map(|entry| entry.slot.offset())
    }

    /// Applies the change that `decide` returns to the key's item at `at`.
    pub(crate) fn mark<C: Cpu>(
        &mut self,
        cpu: &C,
        key: Key<'_>,
        at: u64,
        now_s: u32,
        decide: impl FnOnce(ItemRef<'_>) -> Mark,
    ) -> ItemRef<'_> {
        let mark = decide(ItemRef::new(self.memory.place(at)));
        let next = next_version(self.version);
        if mark.cas != NewCas::Keep {
            self.version = next;
        }
        let (fields, version) = ItemRef::new(self.memory.place(at)).marked(&mark, now_s, next);
        let at = self.change_fields(cpu, key, at, fields, version, now_s);
        ItemRef::new(self.memory.place(at))
    }

    /// Gives the item at `at` other fields and another version; returns its offset.
    #[inline]
    pub(super) fn change_fields<C: Cpu>(
        &mut self,
        cpu: &C,
        key: Key<'_>,
        at: u64,
        fields: Fields,
        version: u32,
        now_s: u32,
    ) -> u64 {
        let item = ItemRef::new(self.memory.place(at));
        if item.try_rewrite(fields, version, self.table.bucket_index(key.hash), &self.sharing) {
            self.note_expiry(cpu, key, at, fields.terms().expire_s);
            return at;
        }
        self.store_again(cpu, key, at, fields, version, now_s)
    }

    /// Notes that the item at `at` now expires at `expire_s`; 0: never.
    fn note_expiry<C: Cpu>(&mut self, cpu: &C, key: Key<'_>, at: u64, expire_s: u32) {
        self.expiry.note(expire_s);
        if expire_s > 0
            && let Some((index, i)) = self.slot_by_hash(cpu, key.hash, at)
        {
            let bucket = self.table.bucket_at(index);
            bucket.slot_ref(i).update(bucket.slot(i).with_expires(true));
        }
    }

    /// Stores the value of the item at `at` again, with more fields.
    #[cold]
    fn store_again<C: Cpu>(
        &mut self,
        cpu: &C,
        key: Key<'_>,
        at: u64,
        fields: Fields,
        version: u32,
        now_s: u32,
    ) -> u64 {
        let mut value = take(&mut self.scratch);
        ItemRef::new(self.memory.place(at)).read_value(&mut value);
        let fits = self.limits.allow(key, value.len(), fields.kind());
        let at = if fits {
            let found = self.find_any(cpu, key);
            let body = Body {
                version,
                fields,
                value: &value[..],
            };
            self.place_item(cpu, key, &body, found, now_s)
        } else {
            at
        };
        self.scratch = value;
        at
    }

    pub(crate) fn put_extra<C: Cpu>(
        &mut self,
        cpu: &C,
        key: Key<'_>,
        put: &ExtraPut<'_>,
        now_s: u32,
    ) -> ExtraOutcome {
        let key = self.verified(key);
        cpu.touch(self.table.bucket(key.hash).line());
        let mut old = take(&mut self.scratch);
        let outcome = self.put_joined(cpu, key, put, now_s, &mut old);
        self.scratch = old;
        outcome
    }

    /// Executes the PUT; `old` holds the value to which this one is joined. (The log may overwrite the old item.)
    fn put_joined<C: Cpu>(
        &mut self,
        cpu: &C,
        key: Key<'_>,
        put: &ExtraPut<'_>,
        now_s: u32,
        old: &mut Vec<u8>,
    ) -> ExtraOutcome {
        let found = self.find_any(cpu, key);
        let next = next_version(self.version);
        let plan = match put.plan(self.live_item(found, now_s), now_s, next, old) {
            Ok(plan) => plan,
            Err(refusal) => return refusal,
        };
        let body = put.body(&plan, old);
        if !self.limits.allow(key, body.value.value_len(), plan.fields.kind()) {
            self.counters.too_large += 1;
            return ExtraOutcome::TooLarge;
        }
        self.version = next;
        self.place_item(cpu, key, &body, found, now_s);
        ExtraOutcome::Stored { cas: plan.cas() }
    }

    pub(super) fn live_item(&self, found: Found, now_s: u32) -> Option<ItemRef<'_>> {
        let item = ItemRef::new(self.memory.place(found?.slot.offset()));
        (!item.is_expired(now_s)).then_some(item)
    }
}
