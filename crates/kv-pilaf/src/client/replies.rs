//! What the server says: of updates, and of keys that it was asked for.

use super::{Front, Reader, State};
use crate::layout::{Reply, Status};
use drover_kv::{OpKind, Outcome, Refusal};
use drover_one_sided::Sink;
use drover_verbs::Provider;

impl Reader {
    /// A reply, in `scratch`.
    pub(super) fn reply_came<P: Provider>(&mut self, front: &mut Front<P>, shard: usize, sink: Sink<'_>) {
        let scratch = std::mem::take(&mut self.scratch);
        if let Some((reply, value)) = Reply::decode(&scratch) {
            self.take_reply(front, shard, &reply, value, sink);
        }
        self.scratch = scratch;
    }

    fn take_reply<P: Provider>(
        &mut self,
        front: &mut Front<P>,
        shard: usize,
        reply: &Reply,
        value: &[u8],
        sink: Sink<'_>,
    ) {
        let at = usize::from(reply.slot);
        let Some(place) = front.places.get_mut(at) else {
            return;
        };
        let is_awaited = place.state == State::Reply && place.sequence == reply.sequence;
        if !is_awaited || place.shard != shard {
            return;
        }
        let outcome = match (reply.status, place.kind) {
            (Status::Stored, Some(OpKind::Put)) => Outcome::Stored,
            (Status::Deleted, Some(OpKind::Delete)) => Outcome::Deleted,
            (Status::NotFound, Some(OpKind::Get | OpKind::Delete)) => Outcome::NotFound,
            (Status::Value, Some(OpKind::Get)) => {
                self.stats.hits += 1;
                self.stats.false_misses += 1;
                Outcome::Value(value)
            }
            (Status::Location, Some(OpKind::Get)) => return self.told(front, at, &reply.record),
            (Status::Full, _) => Outcome::Refused(Refusal::Full),
            (Status::TooLarge, _) => Outcome::Refused(Refusal::TooLarge),
            _ => Outcome::Refused(Refusal::BadRequest),
        };
        front.finish(at, outcome, sink);
    }
}
