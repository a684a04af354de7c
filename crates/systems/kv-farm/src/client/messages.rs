//! Requests to the server and its replies: where they arrive, and what they mean.

use super::{Operations, Reader};
use crate::layout::Status;
use crate::logic::Lookup;
use drover_kv::{OpKind, Outcome, Refusal};
use drover_one_sided::{Reader as _, Sink};
use drover_rpc::ring::Reply;
use drover_verbs::Provider;

impl Reader {
    /// The WRITE of place `at`'s record has completed.
    pub(super) fn carried<P: Provider>(&mut self, ops: &mut Operations<P>, at: usize) {
        ops.carried(at);
        let Some(get) = ops.view(at) else {
            return;
        };
        get.session.ring.sent(get.own.tail);
        if get.session.is_blocked {
            ops.retry_all();
        }
    }

    /// Polls for the replies that operations wait for.
    pub(super) fn look_for_replies<P: Provider>(&mut self, ops: &mut Operations<P>, sink: Sink<'_>) {
        let mut index = 0;
        while index < self.asked.len() {
            let at = self.asked[index] as usize;
            let Some((sequence, large)) = ops.awaited_reply(at) else {
                self.asked.swap_remove(index);
                continue;
            };
            let mut value = std::mem::take(&mut self.scratch);
            let session = ops.session(at);
            match session.and_then(|session| session.reply(at, sequence, large, &mut value)) {
                Some(reply) => {
                    self.asked.swap_remove(index);
                    self.take_reply(ops, at, &reply, &value, sink);
                }
                None => index += 1,
            }
            self.scratch = value;
        }
    }

    fn take_reply<P: Provider>(
        &mut self,
        ops: &mut Operations<P>,
        at: usize,
        reply: &Reply,
        value: &[u8],
        sink: Sink<'_>,
    ) {
        let kind = ops.kind(at);
        // A GET that asked because of torn READs has not missed.
        let is_miss = !ops.own(at).lookup.as_ref().is_some_and(Lookup::has_given_up);
        let status = Status::decode(reply.code);
        match (status, status.and_then(|status| status.outcome(kind))) {
            (_, Some(outcome)) => {
                let is_confirmed = status == Some(Status::NotFound) && kind == OpKind::Get;
                self.stats.misses += u64::from(is_confirmed);
                self.stats.confirmed_misses += u64::from(is_confirmed && is_miss);
                ops.finish(at, outcome, sink);
            }
            (Some(Status::Value | Status::Written), None) => {
                self.stats.hits += 1;
                // One that asks for version and flags may have asked for them alone.
                self.stats.false_misses += u64::from(is_miss && !ops.is_detailed(at));
                ops.finish_answered(at, value, sink);
            }
            (Some(Status::Long), None) => self.ask(ops, at, true),
            _ => ops.finish(at, Outcome::Refused(Refusal::BadRequest), sink),
        }
    }
}
