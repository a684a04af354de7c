//! [`Intake`]: requests copied out of slots, waiting for execution.

use super::clients::Client;
use super::stats::Counters;
use super::variant::{Mistake, Variant};
use crate::layout::{Commit, SlotOp, Status};
use drover_base::Ns;
use drover_slots::server::{About, Act, Found, Parsed, Requests, Share, Verdict};
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
    /// A request whose checksum or commit word is wrong, because not all of it has landed: look again.
    Torn,
}

/// Requests that wait for execution, and space for more.
pub(super) struct Intake<V: Variant> {
    pub(super) requests: Requests<Hint>,
    pub(super) share: Share,
    variant: V,
}

impl<V: Variant> Intake<V> {
    pub(super) fn new(limit: usize, share: Share, variant: V) -> Intake<V> {
        Intake {
            requests: Requests::new(limit, Hint::NONE),
            share,
            variant,
        }
    }

    /// Takes the request that was found in a slot of `client`. There must be space.
    #[inline]
    pub(super) fn take(&mut self, client: &mut Client, found: Found<'_>, counters: &mut Counters) -> Taken {
        let (whose, at) = (client.plain(), found.slots.place(found.commit_at));
        let (state, seq) = (&mut client.states[found.slot as usize], found.commit.seq());
        let place = &mut self.requests.free()[0];
        if place.copy_plain(self.share, whose, seq, state, at, found) {
            self.requests.add(1);
            return Taken::New;
        }
        // Where clients post several operations on one key without waiting, one in a hundred has a condition and is
        // plain otherwise.
        let unconditional = Found {
            commit: found.commit.with_condition(false),
            ..found
        };
        if found.commit.is_conditional() && place.copy_plain(self.share, whose, seq, state, at, unconditional)
        {
            state.note(found.commit);
            place.about.make_conditional();
            self.requests.add(1);
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
            // Some of its bytes may still be those of the slot's previous request, which had a checksum, too.
            if commit.has_crc() && client.may_tear_words() {
                counters.irregular.crc_mismatches += 1;
                return Taken::Torn;
            }
            return self.refuse(client, slot, commit, again, Status::BadRequest, counters);
        };
        let place = &mut self.requests.free()[0];
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
        let lens = (parsed.key_len, parsed.value_len);
        self.requests
            .push(About::new(client.id, slot as u8, commit.seq(), lens, act));
        if again { Taken::Again } else { Taken::New }
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
        let act = match again {
            true => Act::SayAgain(status),
            false => Act::Say(status),
        };
        self.requests
            .push(About::new(client.id, slot as u8, commit.seq(), (0, 0), act));
        if again { Taken::Again } else { Taken::New }
    }
}
