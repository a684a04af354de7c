//! Handles the server's replies to updates and to GET requests.

use super::{Operations, Reader};
use crate::layout::{Reply, Status};
use drover_kv::{OpKind, Outcome, Refusal};
use drover_one_sided::Sink;
use drover_verbs::Provider;

impl Reader {
    /// Handles the reply in `scratch`.
    pub(super) fn reply_came<P: Provider>(&mut self, ops: &mut Operations<P>, shard: usize, sink: Sink<'_>) {
        let scratch = std::mem::take(&mut self.scratch);
        if let Some((reply, value)) = Reply::decode(&scratch) {
            self.take_reply(ops, shard, &reply, value, sink);
        }
        self.scratch = scratch;
    }

    fn take_reply<P: Provider>(
        &mut self,
        ops: &mut Operations<P>,
        shard: usize,
        reply: &Reply,
        value: &[u8],
        sink: Sink<'_>,
    ) {
        let at = usize::from(reply.slot);
        if !ops.is_awaited(shard, at, reply.sequence) {
            return;
        }
        let kind = ops.kind(at);
        match (reply.status, reply.status.outcome(kind)) {
            (status, Some(outcome)) => {
                self.stats.misses += u64::from(status == Status::NotFound && kind == OpKind::Get);
                ops.finish(at, outcome, sink);
            }
            (Status::Value, None) => {
                self.stats.hits += 1;
                self.stats.false_misses += 1;
                ops.finish_answered(at, value, sink);
            }
            (Status::Location, None) => self.notified(ops, at, &reply.record),
            _ => ops.finish(at, Outcome::Refused(Refusal::BadRequest), sink),
        }
    }
}
