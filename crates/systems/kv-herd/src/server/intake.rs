//! [`Intake`]: requests copied out of slots, waiting for execution.
//!
//! A client may not touch a slot before its reply, but nothing makes a rogue one obey: so whatever is checked
//! is checked on our copy, the *image*:
//!
//! ```text
//! 0                          960                              1000      1016    1024
//! |  ... the rest, if it is longer | end of the body: [ttl] value key | key hash | commit word |
//! ```
//! It is right-aligned like the slot, so the key of whatever request ends at the same byte. Only as many lines
//! are copied as the request takes, whole ones: a GET with a key of up to 40 bytes is one.

use super::clients::Client;
use super::stats::Counters;
use super::variant::{Mistake, Variant};
use crate::layout::{Commit, SLOT_BYTES_MAX, SlotOp, Status, TRAILER_BYTES};
use drover_base::sync::{Ordering, fence};
use drover_base::{KeyHash, Ns};
use drover_mem::{LINE_BYTES, MaskedRef, MaskedRegion};
use drover_slots::server::{Parsed, Plain, SlotState, Verdict};
use drover_store::Hint;

/// How long a request's checksum may be wrong before we wait for a retransmission instead.
pub(super) const TORN_NS_MAX: Ns = Ns::from_ms(1);
/// Where the body ends in an image: key, value and ttl are right-aligned to it.
const BODY_END: usize = SLOT_BYTES_MAX - TRAILER_BYTES;
/// Bytes of body in the line of the commit word.
const LINE_BODY_BYTES: usize = LINE_BYTES - TRAILER_BYTES;

/// What a request wants done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Act {
    /// This.
    Do(SlotOp),
    /// This, unless the [`Hold`](drover_slots::server::Hold) is on it.
    DoIf(SlotOp),
    /// It is a retransmission.
    Again(SlotOp),
    /// Nothing: this is the answer.
    Say(Status),
    /// Nothing: this is the answer to a retransmission.
    SayAgain(Status),
}

impl Act {
    /// The same under the condition.
    fn conditional(self) -> Act {
        match self {
            Act::Do(op) => Act::DoIf(op),
            other => other,
        }
    }
}

/// A commit word that is news, and where it stands.
#[derive(Clone, Copy)]
pub(super) struct Found<'s> {
    pub(super) slots: &'s MaskedRegion,
    pub(super) slot: u32,
    pub(super) commit_at: u64,
    pub(super) commit: Commit,
}

/// What is told of a request besides its bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct About {
    pub(super) client: u32,
    pub(super) seq: u32,
    pub(super) value_len: u16,
    pub(super) key_len: u8,
    pub(super) slot: u8,
    pub(super) act: Act,
}

/// One request and its bytes.
#[repr(C, align(64))]
pub(super) struct Request {
    /// The end of the slot, as far as it has been copied.
    image: [u8; SLOT_BYTES_MAX],
    pub(super) about: About,
    /// Where the look at the bucket saw the key, if it was looked at.
    pub(super) hint: Hint,
}

impl Request {
    fn new() -> Request {
        Request {
            image: [0; SLOT_BYTES_MAX],
            about: About {
                client: 0,
                seq: 0,
                value_len: 0,
                key_len: 0,
                slot: 0,
                act: Act::Say(Status::BadRequest),
            },
            hint: Hint::NONE,
        }
    }

    fn word(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.image[at..at + 8].try_into().expect("8 bytes"))
    }

    #[inline(always)]
    pub(super) fn hash(&self) -> KeyHash {
        KeyHash {
            low: self.word(BODY_END),
            high: self.word(BODY_END + 8),
        }
    }

    #[inline(always)]
    pub(super) fn key(&self) -> &[u8] {
        &self.image[BODY_END - usize::from(self.about.key_len)..BODY_END]
    }

    #[inline(always)]
    pub(super) fn value(&self) -> &[u8] {
        let end = BODY_END - usize::from(self.about.key_len);
        &self.image[end - usize::from(self.about.value_len)..end]
    }

    pub(super) fn ttl_s(&self) -> u32 {
        let end = BODY_END - usize::from(self.about.key_len) - usize::from(self.about.value_len);
        u32::from_le_bytes(self.image[end - 4..end].try_into().expect("4 bytes"))
    }

    fn set_hash(&mut self, hash: KeyHash) {
        self.image[BODY_END..BODY_END + 16].copy_from_slice(&hash.to_bytes());
    }

    /// A request of the paper's format: `value_len` bytes of value that end at `value_end`, no key.
    pub(super) fn copy_paper(&mut self, slots: &MaskedRegion, value_end: u64, hash: KeyHash, about: About) {
        let len = usize::from(about.value_len);
        self.copy_body(slots, value_end, len, BODY_END);
        self.set_hash(hash);
        self.about = about;
    }

    /// Copies the `len` bytes of a slot that end at `from_end` to where they end at `to_end` of the image.
    #[inline(always)]
    fn copy_body(&mut self, slots: &MaskedRegion, from_end: u64, len: usize, to_end: usize) {
        let from = from_end - len as u64;
        let out = &mut self.image[to_end - len..to_end];
        slots.place(from).copy_out(from as usize & 7, out);
    }

    /// Copies the line of the commit word, which is at `commit_at` and `place`, and of the body of `len` bytes what
    /// is before it.
    #[inline(always)]
    fn copy_slot(&mut self, slots: &MaskedRegion, commit_at: u64, place: MaskedRef<'_>, len: usize) {
        let (rest, line) = self.image.split_last_chunk_mut().expect("longer than a line");
        place.copy_line_out(line);
        if len > LINE_BODY_BYTES {
            let (_, line) = rest.split_last_chunk_mut().expect("longer than two lines");
            slots.place(commit_at - LINE_BYTES as u64).copy_line_out(line);
            if len > LINE_BODY_BYTES + LINE_BYTES {
                self.copy_before(slots, commit_at, len - LINE_BODY_BYTES - LINE_BYTES);
            }
        }
    }

    /// Copies what a body has before the last two lines of its slot.
    #[inline(never)]
    fn copy_before(&mut self, slots: &MaskedRegion, commit_at: u64, len: usize) {
        let from_end = commit_at + 8 - 2 * LINE_BYTES as u64;
        self.copy_body(slots, from_end, len, SLOT_BYTES_MAX - 2 * LINE_BYTES);
    }

    /// Copies what nearly all requests are, in a straight line: new, a GET or PUT with a key and no checksum, ours.
    /// `place` is that of the commit word. False: it is something else, and nothing has happened but to the bytes of
    /// `self`.
    #[inline(always)]
    pub(super) fn copy_plain(
        &mut self,
        share: Share,
        client: PlainClient,
        state: &mut SlotState,
        place: MaskedRef<'_>,
        found: Found<'_>,
    ) -> bool {
        // Acquire: pairs with the Release of the commit word by the client that wrote the slot; what was written
        // before it is visible to the loads after this.
        fence(Ordering::Acquire);
        // Two branches and not one with two outcomes: then each knows what it has.
        if let Some(get) = Plain::get(found.commit, client.plain_bytes_max) {
            self.copy_as(get, share, client, state, place, found)
        } else if let Some(put) = Plain::put(found.commit, client.plain_bytes_max) {
            self.copy_as(put, share, client, state, place, found)
        } else {
            false
        }
    }

    #[inline(always)]
    fn copy_as(
        &mut self,
        plain: Plain,
        share: Share,
        client: PlainClient,
        state: &mut SlotState,
        place: MaskedRef<'_>,
        found: Found<'_>,
    ) -> bool {
        self.copy_slot(found.slots, found.commit_at, place, plain.body_len());
        if !state.is_newer(found.commit) || !share.has(self.hash()) {
            return false;
        }
        state.take(found.commit);
        self.about = About {
            client: client.id,
            seq: found.commit.seq(),
            value_len: plain.value_len as u16,
            key_len: plain.key_len as u8,
            slot: found.slot as u8,
            act: Act::Do(plain.op),
        };
        true
    }
}

/// What a plain request must know of its client.
#[derive(Clone, Copy)]
pub(super) struct PlainClient {
    pub(super) id: u32,
    /// Longest body without a checksum.
    pub(super) plain_bytes_max: usize,
}

/// Which keys are this worker's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    pub(super) partition_index: usize,
    pub(super) partition_count: usize,
}

impl Share {
    #[inline(always)]
    pub(super) fn has(self, hash: KeyHash) -> bool {
        hash.partition_index(self.partition_count) == self.partition_index
    }
}

/// What a look at a slot brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Taken {
    /// A new request, now in the intake.
    New,
    /// A retransmission of the slot's last request, now in the intake.
    Again,
    /// A word that is no news any more.
    Noted,
    /// A request of which not everything has landed: look again.
    Torn,
}

/// Space for requests, and the requests copied into it.
pub(super) struct Intake<V: Variant> {
    places: Box<[Request]>,
    len: usize,
    pub(super) share: Share,
    variant: V,
}

impl<V: Variant> Intake<V> {
    pub(super) fn new(limit: usize, share: Share, variant: V) -> Intake<V> {
        Intake {
            places: (0..limit).map(|_| Request::new()).collect(),
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

    /// How many more requests fit.
    #[inline(always)]
    pub(super) fn space(&self) -> usize {
        self.places.len() - self.len
    }

    /// Forgets everything.
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

    /// The hash of the request that came last.
    pub(super) fn last_hash(&self) -> KeyHash {
        self.places[self.len - 1].hash()
    }

    /// Free places: fill some from the first on, then say how many with [`add`](Intake::add).
    #[inline(always)]
    pub(super) fn free(&mut self) -> &mut [Request] {
        &mut self.places[self.len..]
    }

    /// The first `count` of the free places are filled.
    #[inline(always)]
    pub(super) fn add(&mut self, count: usize) {
        self.len = (self.len + count).min(self.places.len());
    }

    /// Takes what was found of `client`. There must be space.
    #[inline]
    pub(super) fn take(&mut self, client: &mut Client, found: Found<'_>, counters: &mut Counters) -> Taken {
        let (whose, at) = (client.plain(), found.slots.place(found.commit_at));
        let state = &mut client.states[found.slot as usize];
        let place = &mut self.places[self.len];
        if place.copy_plain(self.share, whose, state, at, found) {
            self.len += 1;
            return Taken::New;
        }
        // Where clients post operations on one key behind one another, one in a hundred has a condition, and is plain
        // but for that.
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

    /// As [`take`](Intake::take), for anything: checks the word field by field.
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
        let end = Client::body_end(commit_at);
        let hash = KeyHash {
            low: slots.load(end),
            high: slots.load(end + 8),
        };
        // A checksum would push the key from its place: it goes behind the body's end, where the hash comes when
        // it is no longer needed.
        let crc_bytes = parsed.body_len - parsed.plain_len();
        place.copy_body(slots, end, parsed.body_len, BODY_END + crc_bytes);
        let start = BODY_END - parsed.plain_len();
        if parsed.has_crc
            && !self.variant.makes(Mistake::IgnoresCrc)
            && !parsed.is_intact(&place.image, start, hash, commit)
        {
            counters.irregular.crc_mismatches += 1;
            return Taken::Torn;
        }
        if !self.share.has(hash) && parsed.op != SlotOp::Nop {
            return self.refuse(client, slot, commit, again, Status::WrongPartition, counters);
        }
        place.set_hash(hash);
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

    /// The next place's bytes are there; this is what to do with them.
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

    /// A request that is answered without being executed. It has had its turn all the same.
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
