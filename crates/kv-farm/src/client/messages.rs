//! What is asked of the server: updates, and GETs that READs could not answer.

use super::operation::State;
use super::{FarmClient, Sink};
use crate::layout::{Reply, Request, RequestKind, Status};
use crate::logic::Lookup;
use drover_kv::{OpKind, Outcome, Refusal};
use drover_verbs::{MemoryRegion, Provider};

impl<P: Provider> FarmClient<P> {
    /// Sends an update for the only time; without room it goes on waiting.
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
        let (mut large, mut value) = (None, &place.value[..]);
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
        match session.send(at, &request, &place.key, value) {
            Some(tail) => self.sending(at, tail, large),
            None => session.free_large.extend(large),
        }
    }

    fn sending(&mut self, at: usize, tail: u64, large: Option<u8>) {
        let place = &mut self.places[at];
        (place.sending, place.tail) = (true, tail);
        place.state = State::Reply { large };
        self.asked.push(at as u32);
        self.stats.messages += 1;
    }

    /// Its record is in the server's memory.
    pub(super) fn sent(&mut self, at: usize) {
        let place = &mut self.places[at];
        place.sending = false;
        let (tail, state) = (place.tail, place.state);
        if state == State::Sending {
            self.vacate(at);
        }
        let mut is_blocked = false;
        if let Some(session) = self.session_of(at) {
            session.sender.landed(tail);
            is_blocked = session.is_blocked;
        }
        self.stirred |= is_blocked || matches!(state, State::Asking { .. });
    }

    /// Asks the server what the key has.
    pub(super) fn ask(&mut self, at: usize) {
        self.release_large(at);
        self.try_to_ask(at, false);
    }

    /// The same, with a place for the value if it `is_long`.
    pub(super) fn try_to_ask(&mut self, at: usize, is_long: bool) {
        self.places[at].state = State::Asking { is_long };
        // The record of its last question is still being written.
        if self.places[at].sending {
            return;
        }
        let place = &mut self.places[at];
        let Some(session) = self.links[place.shard].session() else {
            return;
        };
        let large = match is_long {
            false => None,
            true => match session.free_large.pop() {
                Some(large) => Some(large),
                None => return,
            },
        };
        self.orders += 1;
        // A question of this place may have been answered before.
        place.sequence = self.orders;
        let request = Request {
            kind: RequestKind::Get,
            slot: at as u16,
            key_bytes: place.key.len(),
            value_bytes: large.map_or(0, |_| session.large_bytes()),
            ttl_s: 0,
            sequence: place.sequence,
            value_offset: large.map_or(0, |large| session.large_offset(large) as u64),
        };
        match session.send(at, &request, &place.key, &[]) {
            Some(tail) => self.sending(at, tail, large),
            None => session.free_large.extend(large),
        }
    }

    /// Looks for replies.
    pub(super) fn take_replies(&mut self, sink: Sink<'_>) {
        let mut index = 0;
        while index < self.asked.len() {
            let at = self.asked[index] as usize;
            let State::Reply { large } = self.places[at].state else {
                self.asked.swap_remove(index);
                continue;
            };
            let mut value = std::mem::take(&mut self.scratch);
            let place = &self.places[at];
            let session = self.links[place.shard].session();
            let reply = session.and_then(|session| session.reply(at, place.sequence, large, &mut value));
            if let Some(reply) = reply {
                self.asked.swap_remove(index);
                self.take_reply(at, &reply, &value, sink);
            } else {
                index += 1;
            }
            self.scratch = value;
        }
    }

    /// Nobody waits for a reply of a session that is over.
    pub(super) fn forget_answered(&mut self) {
        let places = &self.places;
        self.asked
            .retain(|at| matches!(places[*at as usize].state, State::Reply { .. }));
    }

    fn take_reply(&mut self, at: usize, reply: &Reply, value: &[u8], sink: Sink<'_>) {
        let place = &self.places[at];
        // A reader that gave up because of torn bytes had not missed anything yet.
        let is_miss = !place.lookup.as_ref().is_some_and(Lookup::has_given_up);
        let outcome = match (reply.status, place.kind) {
            (Status::Stored, Some(OpKind::Put)) => Outcome::Stored,
            (Status::Deleted, Some(OpKind::Delete)) => Outcome::Deleted,
            (Status::NotFound, Some(OpKind::Delete)) => Outcome::NotFound,
            (Status::NotFound, Some(OpKind::Get)) => {
                self.stats.confirmed_misses += u64::from(is_miss);
                Outcome::NotFound
            }
            (Status::Value | Status::Written, Some(OpKind::Get)) => {
                self.stats.hits += 1;
                self.stats.false_misses += u64::from(is_miss);
                Outcome::Value(value)
            }
            (Status::Long, Some(OpKind::Get)) => {
                self.release_large(at);
                return self.try_to_ask(at, true);
            }
            (Status::Full, _) => Outcome::Refused(Refusal::Full),
            (Status::TooLarge, _) => Outcome::Refused(Refusal::TooLarge),
            _ => Outcome::Refused(Refusal::BadRequest),
        };
        self.finish(at, outcome, sink);
    }
}
