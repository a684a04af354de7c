//! Executing [extended](crate::layout) requests: with conditions and flags, and those that ask for versions and flags.

use super::execute::{imm_of, key_of, position_of};
use super::variant::Variant;
use super::worker::Worker;
use crate::layout::{ITEM_INFO_BYTES, ItemInfo, SlotOp, Status};
use drover_kv::Extension;
use drover_mem::Region;
use drover_store::{DeleteOutcome, ExtraOutcome, ExtraPut, ItemRef};
use drover_verbs::Provider;

/// Version and flags of an item.
pub(super) fn info_of(item: &ItemRef<'_>) -> ItemInfo {
    ItemInfo {
        version: item.cas(),
        flags: item.flags(),
    }
}

impl<P: Provider, V: Variant> Worker<P, V> {
    /// Executes request `k` of intake `at`, a GET that asks for version and flags.
    #[cold]
    pub(super) fn get_extended(&mut self, cpu: &P::Cpu, at: usize, k: usize) {
        self.counters.operations.gets += 1;
        let request = &self.intakes[at].requests.all()[k];
        let (about, now_s) = (request.about, self.clock.now_s());
        let Some(client) = self.clients.get_mut(about.client) else {
            return;
        };
        let Some(item) = self.partition.get(cpu, key_of(request), now_s) else {
            return self.answer(about, Status::NotFound, &[], true);
        };
        self.counters.operations.get_hits += 1;
        let (info, value) = (info_of(&item).to_bytes(), item.value());
        let len = ITEM_INFO_BYTES + value.len();
        let imm = imm_of(about, Status::Ok);
        let state = &mut client.states[usize::from(about.slot)];
        if len <= client.stripe.inline_bytes_max() {
            state.finish(Status::Ok);
            let (start, rest) = self
                .replies
                .push(&client.dest, imm, len)
                .split_at_mut(ITEM_INFO_BYTES);
            start.copy_from_slice(&info);
            return value.copy_out(rest);
        }
        let long = len > client.stripe.body_bytes_max();
        if !long {
            let fill = |region: &Region, at: usize| {
                region.copy_in(at, &info);
                value.copy_to(region, at + ITEM_INFO_BYTES);
            };
            if let Some(payload) = self.replies.long_payload(cpu, len, &mut self.counters, fill) {
                state.finish(Status::Ok);
                return self.replies.push_long(client.dest, imm, payload);
            }
        }
        // The client asks again, behind what it posted on this key meanwhile: that must not execute now.
        client.hold.note(position_of(about, client.stripe.window()));
        self.counters.operations.gets -= 1; // it counts then
        self.counters.operations.get_hits -= 1;
        let bytes = (value.len() as u32).to_le_bytes();
        match long {
            true => self.answer(about, Status::Bulk, &bytes, true),
            false => self.answer(about, Status::Retry, &[], true),
        }
    }

    /// Executes request `k` of intake `at`, a PUT with flags or a condition.
    #[cold]
    pub(super) fn put_extended(&mut self, cpu: &P::Cpu, at: usize, k: usize) {
        let request = &self.intakes[at].requests.all()[k];
        let (about, now_s) = (request.about, self.clock.now_s());
        let status = match request.extension(SlotOp::PutExt) {
            Some(extension) => {
                self.counters.operations.puts += 1;
                let expire_s = self.clock.expire_s(request.ttl_s());
                let value = [request.value()];
                let put = extra_put(&value, expire_s, extension);
                let outcome = self.partition.put_extra(cpu, key_of(request), &put, now_s);
                extra_status(outcome)
            }
            None => self.refuse_extension(),
        };
        self.answer(about, status, &[], true);
    }

    /// Executes request `k` of intake `at`, a DELETE with a condition.
    #[cold]
    pub(super) fn delete_extended(&mut self, cpu: &P::Cpu, at: usize, k: usize) {
        let request = &self.intakes[at].requests.all()[k];
        let (about, now_s) = (request.about, self.clock.now_s());
        let status = match request.extension(SlotOp::DeleteExt) {
            Some(Extension { condition, .. }) => {
                let deleted = self.partition.delete_if(cpu, key_of(request), now_s, condition);
                let operations = &mut self.counters.operations;
                operations.deletes += 1;
                operations.delete_hits += u64::from(deleted == DeleteOutcome::Deleted);
                match deleted {
                    DeleteOutcome::Deleted => Status::Ok,
                    DeleteOutcome::Absent => Status::NotFound,
                    DeleteOutcome::Present { .. } => Status::Exists,
                }
            }
            None => self.refuse_extension(),
        };
        self.answer(about, status, &[], true);
    }

    /// Executes request `k` of intake `at`, a touch; it counts as a PUT.
    #[cold]
    pub(super) fn touch(&mut self, cpu: &P::Cpu, at: usize, k: usize) {
        let request = &self.intakes[at].requests.all()[k];
        let (about, now_s) = (request.about, self.clock.now_s());
        let expire_s = self.clock.expire_s(request.ttl_s());
        let found = self.partition.set_expiry(cpu, key_of(request), expire_s, now_s);
        self.counters.operations.puts += 1;
        let status = if found { Status::Ok } else { Status::NotFound };
        self.answer(about, status, &[], true);
    }

    fn refuse_extension(&mut self) -> Status {
        self.counters.refused.bad_requests += 1;
        Status::BadRequest
    }
}

/// A PUT of `value` with flags and condition.
pub(super) fn extra_put<'a>(value: &'a [&'a [u8]], expire_s: u32, extension: Extension) -> ExtraPut<'a> {
    ExtraPut {
        value,
        expire_s,
        flags: extension.flags,
        condition: extension.condition,
        keep: extension.keep,
        ..ExtraPut::default()
    }
}

/// The status with which a PUT with flags or a condition of this outcome is answered.
pub(super) fn extra_status(outcome: ExtraOutcome) -> Status {
    match outcome {
        ExtraOutcome::Stored { .. } => Status::Ok,
        ExtraOutcome::Full => Status::Full,
        ExtraOutcome::TooLarge => Status::TooLarge,
        ExtraOutcome::Present { .. } => Status::Exists,
        ExtraOutcome::Absent => Status::NotFound,
    }
}
