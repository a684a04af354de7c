//! Items with optional fields in store and LRU mode.

use super::{Found, HeapIndex, Heaped};
use crate::extras::{ExtraOutcome, ExtraPut, Mark, NewCas};
use crate::item::{Body, Fields, ItemRef, Key, Value};
use crate::partition::next_version;
use crate::sharing::Sharing;
use drover_base::Cpu;
use std::mem::take;

impl<S: Sharing, T: HeapIndex> Heaped<S, T> {
    /// Offset of the key's live item, for callers other than GET.
    pub(crate) fn find_offset<C: Cpu>(&mut self, cpu: &C, key: Key<'_>, now_s: u32) -> Option<u64> {
        let (slot_place, offset) = self.find_live(cpu, key, now_s)?;
        self.note_use(key.hash, slot_place, |slot| slot);
        Some(offset)
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
        self.now_s = now_s;
        let mark = decide(ItemRef::new(self.heap.place(at)));
        let next = next_version(self.version);
        if mark.cas != NewCas::Keep {
            self.version = next;
        }
        let (fields, version) = ItemRef::new(self.heap.place(at)).marked(&mark, now_s, next);
        let at = self.change_fields(cpu, key, at, fields, version);
        ItemRef::new(self.heap.place(at))
    }

    /// Gives the item at `at` other fields and another version, if there is space for the fields; returns its offset.
    #[inline]
    pub(super) fn change_fields<C: Cpu>(
        &mut self,
        cpu: &C,
        key: Key<'_>,
        at: u64,
        fields: Fields,
        version: u32,
    ) -> u64 {
        let item = ItemRef::new(self.heap.place(at));
        if item.try_rewrite(fields, version, self.table.bucket_index(key.hash), &self.sharing) {
            return at;
        }
        self.store_again(cpu, key, at, fields, version)
    }

    /// Stores the value of the item at `at` again, with more fields, if there is space.
    #[cold]
    fn store_again<C: Cpu>(&mut self, cpu: &C, key: Key<'_>, at: u64, fields: Fields, version: u32) -> u64 {
        let mut value = take(&mut self.scratch);
        ItemRef::new(self.heap.place(at)).read_value(&mut value);
        let fits = self.limits.allow(key, value.len(), fields.kind());
        let at = if fits {
            let found = self.find(cpu, key);
            let body = Body {
                version,
                fields,
                value: &value[..],
            };
            self.place_item(cpu, key, &body, found).unwrap_or(at)
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
        let mut old = take(&mut self.scratch);
        let outcome = self.put_joined(cpu, key, put, now_s, &mut old);
        self.scratch = old;
        outcome
    }

    /// Executes the PUT; `old` holds the value to which this one is joined.
    fn put_joined<C: Cpu>(
        &mut self,
        cpu: &C,
        key: Key<'_>,
        put: &ExtraPut<'_>,
        now_s: u32,
        old: &mut Vec<u8>,
    ) -> ExtraOutcome {
        self.now_s = now_s;
        let found = self.find(cpu, key);
        let next = next_version(self.version);
        let mut plan = match put.plan(self.live_item(found, now_s), now_s, next, old) {
            Ok(plan) => plan,
            Err(refusal) => return refusal,
        };
        plan.fields = plan.fields.with_terms();
        let body = put.body(&plan, old);
        if !self.limits.allow(key, body.value.value_len(), plan.fields.kind()) {
            self.counters.too_large += 1;
            return ExtraOutcome::TooLarge;
        }
        if self.place_item(cpu, key, &body, found).is_none() {
            self.counters.full += 1;
            return ExtraOutcome::Full;
        }
        self.version = next;
        ExtraOutcome::Stored { cas: plan.cas() }
    }

    pub(super) fn live_item(&self, found: Found, now_s: u32) -> Option<ItemRef<'_>> {
        let (_, at) = found?;
        let item = ItemRef::new(self.heap.place(at));
        (!item.is_expired(now_s)).then_some(item)
    }
}
