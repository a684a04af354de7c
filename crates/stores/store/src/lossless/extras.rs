//! Items with extras in store mode.

use super::{Found, Lossless};
use crate::extras::{EXTRAS_BYTES, ExtraOutcome, ExtraPut, Extras, Mark, NewCas, WithExtras};
use crate::item::{Body, ItemRef, Key, Meta};
use crate::partition::next_version;
use crate::sharing::Sharing;
use drover_base::Cpu;
use std::mem::take;

impl<S: Sharing> Lossless<S> {
    /// Offset of the key's live item, for callers other than GET.
    pub(crate) fn find_offset<C: Cpu>(&mut self, cpu: &C, key: Key<'_>, now_s: u32) -> Option<u64> {
        self.find_live(cpu, key, now_s).map(|(_, offset)| offset)
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
        let mark = decide(ItemRef::new(self.heap.place(at)));
        let next = next_version(self.version);
        if mark.cas != NewCas::Keep {
            self.version = next;
        }
        let item = ItemRef::new(self.heap.place(at));
        if item.has_extras() || !mark.needs_extras() {
            let index = self.table.bucket_index(key.hash);
            item.mark(&mark, index, now_s, next, &self.sharing);
            return ItemRef::new(self.heap.place(at));
        }
        let extras = item.extras().marked(&mark, now_s, next);
        let meta = item.marked_meta(&mark, next);
        let at = self.give_extras(cpu, key, at, extras, meta);
        ItemRef::new(self.heap.place(at))
    }

    /// Stores the value of the item at `at` again, with extras, if there is space.
    #[cold]
    fn give_extras<C: Cpu>(&mut self, cpu: &C, key: Key<'_>, at: u64, extras: Extras, meta: Meta) -> u64 {
        let mut value = take(&mut self.scratch);
        ItemRef::new(self.heap.place(at)).read_value(&mut value);
        let body = WithExtras::new(extras, &value);
        let fits = self.limits.allow(key, value.len(), EXTRAS_BYTES);
        let at = if fits {
            let found = self.find(cpu, key);
            self.place_item(cpu, key, &body, meta, found).unwrap_or(at)
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
        let found = self.find(cpu, key);
        let next = next_version(self.version);
        let plan = match put.plan(self.live_item(found, now_s), now_s, next, old) {
            Ok(plan) => plan,
            Err(refusal) => return refusal,
        };
        let body = put.body(plan.extras, old);
        if !self.limits.allow(key, body.value_len(), EXTRAS_BYTES) {
            self.counters.too_large += 1;
            return ExtraOutcome::TooLarge;
        }
        let meta = Meta::new(plan.expire_s, next as u32);
        if self.place_item(cpu, key, &body, meta, found).is_none() {
            self.counters.full += 1;
            return ExtraOutcome::Full;
        }
        self.version = next;
        ExtraOutcome::Stored { cas: plan.extras.cas }
    }

    fn live_item(&self, found: Found, now_s: u32) -> Option<ItemRef<'_>> {
        let (_, at) = found?;
        let item = ItemRef::new(self.heap.place(at));
        (!item.is_expired(now_s)).then_some(item)
    }
}
