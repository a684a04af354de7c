//! What goes by messages: updates, and questions about keys.

use super::operation::State;
use super::{PilafClient, Sink};
use crate::layout::{Reply, Request, RequestKind, Status};
use drover_base::Ns;
use drover_kv::{OpKind, Outcome, Refusal};
use drover_verbs::{MemoryRegion, Provider};

impl<P: Provider> PilafClient<P> {
    pub(super) fn send_update(&mut self, at: usize) {
        let place = &mut self.places[at];
        let Some(session) = self.links[place.shard].session() else {
            return;
        };
        let mut request = Request {
            kind: RequestKind::Delete,
            slot: at as u16,
            key_bytes: place.key.len(),
            value_bytes: place.value.len(),
            ttl_s: place.ttl_s,
            sequence: place.sequence,
            value_offset: 0,
        };
        let mut large = None;
        let mut value = &place.value[..];
        if place.kind == Some(OpKind::Put) {
            request.kind = RequestKind::Put;
            if !session.fits_message(place.key.len(), value.len()) {
                let Some(buffer) = session.free_large.pop() else {
                    return;
                };
                let offset = session.large_offset(buffer);
                session.values.region().copy_in(offset, value);
                (request.kind, request.value_offset) = (RequestKind::PutLarge, offset as u64);
                (large, value) = (Some(buffer), &[]);
            }
        }
        session.send(at, &request, &place.key, value);
        place.sending = true;
        place.state = State::Reply { large };
    }

    /// Asks the server what the key has.
    pub(super) fn ask(&mut self, at: usize) {
        self.release_large(at);
        self.stats.asked += 1;
        self.orders += 1;
        let place = &mut self.places[at];
        // A question of this place may have been answered before.
        place.sequence = self.orders;
        let Some(session) = self.links[place.shard].session() else {
            return;
        };
        if place.sending {
            // The last question's buffer is still being sent from.
            place.state = State::Resting { until: Ns::ZERO };
            self.stirred = true;
            return;
        }
        let request = Request {
            kind: RequestKind::Get,
            slot: at as u16,
            key_bytes: place.key.len(),
            value_bytes: 0,
            ttl_s: 0,
            sequence: place.sequence,
            value_offset: 0,
        };
        session.send(at, &request, &place.key, &[]);
        place.sending = true;
        place.state = State::Reply { large: None };
    }

    /// A reply, in `scratch`.
    pub(super) fn reply_came(&mut self, shard: usize, sink: Sink<'_>) {
        let scratch = std::mem::take(&mut self.scratch);
        if let Some((reply, value)) = Reply::decode(&scratch) {
            self.take_reply(shard, &reply, value, sink);
        }
        self.scratch = scratch;
    }

    fn take_reply(&mut self, shard: usize, reply: &Reply, value: &[u8], sink: Sink<'_>) {
        let at = usize::from(reply.slot);
        let Some(place) = self.places.get_mut(at) else {
            return;
        };
        let is_awaited = matches!(place.state, State::Reply { .. }) && place.sequence == reply.sequence;
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
            (Status::Location, Some(OpKind::Get)) => return self.told(at, &reply.record),
            (Status::Full, _) => Outcome::Refused(Refusal::Full),
            (Status::TooLarge, _) => Outcome::Refused(Refusal::TooLarge),
            _ => Outcome::Refused(Refusal::BadRequest),
        };
        self.finish(at, outcome, sink);
    }
}
