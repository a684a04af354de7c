//! [`Intake`]: requests copied out of slots, waiting for execution.

use super::clients::Client;
use super::stats::Counters;
use super::variant::{Mistake, Variant};
use crate::layout::{Commit, SlotOp, Status};
use drover_base::{KeyHash, Ns};
use drover_slots::server::{About, Act, Found, Parsed, Share, Verdict};
use drover_store::Hint;

/// How long a request's checksum may be wrong before the worker gives that attempt up.
pub(super) const TORN_NS_MAX: Ns = Ns::from_ms(1);

/// A request. Its hint says where in the bucket its key was seen, once the bucket was looked at.
pub(super) type Request = drover_slots::server::Request<Hint>;

/// Result of looking at a commit word that was not seen before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Taken {
    /// A new request, now in the intake, to be executed or refused.
    New,
    /// A retransmission of the slot's last request, now in the intake.
    Again,
    /// A word to be ignored, which counts as seen from now on.
    Noted,
    /// A request whose checksum is wrong, because not all of it has landed: look again.
    Torn,
}

/// Requests that wait for execution, and space for more.
pub(super) struct Intake<V: Variant> {
    places: Box<[Request]>,
    len: usize,
    pub(super) share: Share,
    variant: V,
}

impl<V: Variant> Intake<V> {
    pub(super) fn new(limit: usize, share: Share, variant: V) -> Intake<V> {
        Intake {
            places: (0..limit).map(|_| Request::new(Hint::NONE)).collect(),
            len: 0,
            share,
            variant,
        }
    }

    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline(always)]
    pub(super) fn is_full(&self) -> bool {
        self.len >= self.places.len()
    }

    /// Number of further requests for which there is space.
    #[inline(always)]
    pub(super) fn space(&self) -> usize {
        self.places.len() - self.len
    }

    /// Removes all requests.
    #[inline(always)]
    pub(super) fn clear(&mut self) {
        self.len = 0;
    }

    #[inline(always)]
    pub(super) fn requests(&self) -> &[Request] {
        &self.places[..self.len]
    }

    #[inline(always)]
    pub(super) fn requests_mut(&mut self) -> &mut [Request] {
        &mut self.places[..self.len]
    }

    /// The key hash of the request added last. There must be one.
    pub(super) fn last_hash(&self) -> KeyHash {
        self.places[self.len - 1].hash()
    }

    /// Space for further requests: fill it from the start, then call [`add`](Intake::add) with the number filled.
    #[inline(always)]
    pub(super) fn free(&mut self) -> &mut [Request] {
        &mut self.places[self.len..]
    }

    /// Adds the first `count` requests of the [free](Intake::free) space, which were filled in.
    #[inline(always)]
    pub(super) fn add(&mut self, count: usize) {
        self.len = (self.len + count).min(self.places.len());
    }

    /// Takes the request that was found in a slot of `client`. There must be space.
    #[inline]
    pub(super) fn take(&mut self, client: &mut Client, found: Found<'_>, counters: &mut Counters) -> Taken {
        let (whose, at) = (client.plain(), found.slots.place(found.commit_at));
        let state = &mut client.states[found.slot as usize];
        let place = &mut self.places[self.len];
        if place.copy_plain(self.share, whose, state, at, found) {
            self.len += 1;
            return Taken::New;
        }
        // Where clients post several operations on one key without waiting, one in a hundred has a condition and is
        // plain otherwise.
        let unconditional = Found {
            commit: found.commit.with_condition(false),
            ..found
        };
        if found.commit.is_conditional() && place.copy_plain(self.share, whose, state, at, unconditional) {
            state.note(found.commit);
            place.about.act = place.about.act.conditional();
            self.len += 1;
            return Taken::New;
        }
        self.take_checked(client, found, counters)
    }

    /// As [`take`](Intake::take), for any request: checks the word field by field.
    #[cold]
    #[inline(never)]
    fn take_checked(&mut self, client: &mut Client, found: Found<'_>, counters: &mut Counters) -> Taken {
        let Found {
            slots,
            slot,
            commit_at,
            commit,
        } = found;
        let verdict = client.states[slot as usize].judge(commit);
        if verdict == Verdict::Ignore && !self.executes_ruled_out(commit) {
            client.states[slot as usize].note(commit);
            counters.irregular.ignored += 1;
            return Taken::Noted;
        }
        let again = verdict == Verdict::Again;
        let Ok(parsed) = Parsed::new(commit, client.params.rule, client.stripe.body_bytes_max()) else {
            return self.refuse(client, slot, commit, again, Status::BadRequest, counters);
        };
        let place = &mut self.places[self.len];
        let (hash, is_intact) = place.copy_checked(slots, commit_at, commit, &parsed);
        if !is_intact && !self.variant.makes(Mistake::IgnoresCrc) {
            counters.irregular.crc_mismatches += 1;
            return Taken::Torn;
        }
        if !self.share.has(hash) && parsed.op != SlotOp::Nop {
            return self.refuse(client, slot, commit, again, Status::WrongPartition, counters);
        }
        let act = if again {
            self.note_again(client, slot, commit, parsed.op, counters)
        } else {
            client.states[slot as usize].take(commit);
            match commit.is_conditional() {
                true => Act::DoIf(parsed.op),
                false => Act::Do(parsed.op),
            }
        };
        self.push(About {
            client: client.id,
            seq: commit.seq(),
            value_len: parsed.value_len as u16,
            key_len: parsed.key_len as u8,
            slot: slot as u8,
            act,
        });
        if again { Taken::Again } else { Taken::New }
    }

    /// Adds a request whose bytes are in the free space already.
    fn push(&mut self, about: About) {
        self.places[self.len].about = about;
        self.len += 1;
    }

    fn note_again(
        &self,
        client: &mut Client,
        slot: u32,
        commit: Commit,
        op: SlotOp,
        counters: &mut Counters,
    ) -> Act {
        client.states[slot as usize].note(commit);
        counters.irregular.retransmits += 1;
        match self.variant.makes(Mistake::ExecutesTwice) {
            true => Act::Do(op),
            false => Act::Again(op),
        }
    }

    fn executes_ruled_out(&self, commit: Commit) -> bool {
        self.variant.makes(Mistake::ForgetsResync) && commit.is_valid()
    }

    /// Adds a request that is answered with `status` without being executed. Its turn is over all the same.
    fn refuse(
        &mut self,
        client: &mut Client,
        slot: u32,
        commit: Commit,
        again: bool,
        status: Status,
        counters: &mut Counters,
    ) -> Taken {
        counters.refused.note(status);
        let state = &mut client.states[slot as usize];
        if again {
            state.note(commit);
        } else {
            state.take(commit);
        }
        self.push(About {
            client: client.id,
            seq: commit.seq(),
            value_len: 0,
            key_len: 0,
            slot: slot as u8,
            act: if again {
                Act::SayAgain(status)
            } else {
                Act::Say(status)
            },
        });
        if again { Taken::Again } else { Taken::New }
    }
}
