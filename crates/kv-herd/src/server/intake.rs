//! [`Intake`]: requests copied out of slots, waiting for execution.
//!
//! A client may not touch a slot before its reply, but nothing makes a rogue one obey: so whatever is checked
//! is checked on our copy.

use super::clients::Client;
use super::options::Flaw;
use super::stats::Counters;
use crate::layout::{Commit, SLOT_BYTES_MAX, SlotOp, Status};
use crate::logic::{Parsed, Plain, Verdict};
use drover_base::sync::{Ordering, fence};
use drover_base::{KeyHash, Ns};
use drover_mem::MaskedRegion;
use drover_verbs::Provider;

/// A body: less than a slot.
pub(super) const IMAGE_BYTES_MAX: usize = SLOT_BYTES_MAX;
/// How long a request's checksum may be wrong before we wait for a retransmission instead.
pub(super) const TORN_NS_MAX: Ns = Ns::from_ms(1);

/// What a request wants done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Act {
    /// This.
    Do(SlotOp),
    /// It is a retransmission.
    Again(SlotOp),
    /// Nothing: this is the answer.
    Say(Status),
    /// Nothing: this is the answer to a retransmission.
    SayAgain(Status),
}

/// One request, its bytes in the intake's arena.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) hash: KeyHash,
    pub(super) client: u32,
    pub(super) seq: u32,
    /// Where the key starts; the value ends there, a ttl stands before the value.
    pub(super) key_at: u32,
    pub(super) value_len: u16,
    pub(super) key_len: u8,
    pub(super) slot: u8,
    pub(super) act: Act,
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

/// Requests and their bytes.
pub(super) struct Intake {
    pub(super) requests: Vec<Request>,
    arena: Box<[u8]>,
    used: usize,
    limit: usize,
    pub(super) partition_index: usize,
    pub(super) partition_count: usize,
    pub(super) flaw: Option<Flaw>,
}

impl Intake {
    pub(super) fn new(
        limit: usize,
        partition_index: usize,
        partition_count: usize,
        flaw: Option<Flaw>,
    ) -> Intake {
        Intake {
            requests: Vec::with_capacity(limit),
            arena: vec![0; limit * IMAGE_BYTES_MAX].into_boxed_slice(),
            used: 0,
            limit,
            partition_index,
            partition_count,
            flaw,
        }
    }

    #[inline(always)]
    pub(super) fn is_full(&self) -> bool {
        self.requests.len() >= self.limit
    }

    /// How many more requests fit.
    pub(super) fn room(&self) -> usize {
        self.limit.saturating_sub(self.requests.len())
    }

    /// Forgets everything.
    #[inline(always)]
    pub(super) fn clear(&mut self) {
        self.requests.clear();
        self.used = 0;
    }

    /// The bytes of a request's key, value and (with a ttl) the 4 bytes before.
    #[inline(always)]
    pub(super) fn key(&self, request: &Request) -> &[u8] {
        let at = request.key_at as usize;
        &self.arena[at..at + usize::from(request.key_len)]
    }

    #[inline(always)]
    pub(super) fn value(&self, request: &Request) -> &[u8] {
        let at = request.key_at as usize;
        &self.arena[at - usize::from(request.value_len)..at]
    }

    #[inline(always)]
    pub(super) fn ttl_s(&self, request: &Request) -> u32 {
        let at = request.key_at as usize - usize::from(request.value_len) - 4;
        u32::from_le_bytes(self.arena[at..at + 4].try_into().expect("4 bytes"))
    }

    /// Copies `len` bytes from `from` into the arena; returns where they are.
    #[inline(always)]
    pub(super) fn copy(&mut self, slots: &MaskedRegion, from: u64, len: usize) -> usize {
        let at = self.used;
        let place = slots.place(from);
        place.copy_out(from as usize & 7, &mut self.arena[at..at + len]);
        self.used = at + len;
        at
    }

    /// Gives back the last `len` bytes copied.
    pub(super) fn uncopy(&mut self, len: usize) {
        self.used -= len;
    }

    /// Looks at `commit`, found at `commit_at` in slot `slot` of `client` and different from what was there.
    ///
    /// What nearly all requests are goes straight through here: new, a GET or PUT with a key and no checksum,
    /// ours. Everything else takes the [long way](Intake::take_other).
    #[inline(always)]
    pub(super) fn take<P: Provider>(
        &mut self,
        client: &mut Client<P>,
        slots: &MaskedRegion,
        slot: u32,
        commit_at: u64,
        commit: Commit,
        counters: &mut Counters,
    ) -> Taken {
        // Acquire: pairs with the Release of the commit word by whoever wrote the slot; what was written
        // before it is visible to the loads after this.
        fence(Ordering::Acquire);
        let state = &mut client.states[slot as usize];
        let trailer = slots.place(commit_at - 16);
        let hash = KeyHash {
            low: trailer.load(0),
            high: trailer.load(8),
        };
        let ours = hash.partition_index(self.partition_count) == self.partition_index;
        let plain = Plain::new(commit, client.plain_bytes_max);
        let (Some(plain), true, true) = (plain, ours, state.is_new(commit)) else {
            return self.take_other(client, slots, slot, commit_at, commit, counters);
        };
        state.take(commit);
        let len = plain.body_len();
        let at = self.copy(slots, Client::<P>::body_end(commit_at) - len as u64, len);
        self.requests.push(Request {
            hash,
            client: client.id,
            seq: commit.seq(),
            key_at: (at + plain.value_len) as u32,
            value_len: plain.value_len as u16,
            key_len: plain.key_len as u8,
            slot: slot as u8,
            act: Act::Do(plain.op),
        });
        Taken::New
    }

    /// As [`take`](Intake::take), for anything.
    #[cold]
    #[inline(never)]
    fn take_other<P: Provider>(
        &mut self,
        client: &mut Client<P>,
        slots: &MaskedRegion,
        slot: u32,
        commit_at: u64,
        commit: Commit,
        counters: &mut Counters,
    ) -> Taken {
        let verdict = client.states[slot as usize].judge(commit);
        if verdict == Verdict::Ignore && !self.executes_ruled_out(commit) {
            client.states[slot as usize].note(commit);
            counters.ignored += 1;
            return Taken::Noted;
        }
        let again = verdict == Verdict::Again;
        let Ok(parsed) = Parsed::new(commit, client.rule, client.body_bytes_max) else {
            return self.refuse(client, slot, commit, again, Status::BadRequest, counters);
        };
        let end = Client::<P>::body_end(commit_at);
        let len = parsed.body_len;
        let at = self.copy(slots, end - len as u64, len);
        let hash = KeyHash {
            low: slots.load(end),
            high: slots.load(end + 8),
        };
        if parsed.has_crc && !self.is_intact(&parsed, at, hash, commit) {
            self.uncopy(len);
            counters.crc_mismatches += 1;
            return Taken::Torn;
        }
        if hash.partition_index(self.partition_count) != self.partition_index && parsed.op != SlotOp::Nop {
            self.uncopy(len);
            return self.refuse(client, slot, commit, again, Status::WrongPartition, counters);
        }
        let act = if again {
            self.note_again(client, slot, commit, parsed.op, counters)
        } else {
            client.states[slot as usize].take(commit);
            Act::Do(parsed.op)
        };
        self.requests.push(Request {
            hash,
            client: client.id,
            seq: commit.seq(),
            key_at: parsed.body_at(at).key as u32,
            value_len: parsed.value_len as u16,
            key_len: parsed.key_len as u8,
            slot: slot as u8,
            act,
        });
        if again { Taken::Again } else { Taken::New }
    }

    fn is_intact(&self, parsed: &Parsed, at: usize, hash: KeyHash, commit: Commit) -> bool {
        self.flaw == Some(Flaw::IgnoresCrc) || parsed.is_intact(&self.arena, at, hash, commit)
    }

    fn note_again<P: Provider>(
        &self,
        client: &mut Client<P>,
        slot: u32,
        commit: Commit,
        op: SlotOp,
        counters: &mut Counters,
    ) -> Act {
        client.states[slot as usize].note(commit);
        counters.retransmits += 1;
        match self.flaw {
            Some(Flaw::ExecutesTwice) => Act::Do(op),
            _ => Act::Again(op),
        }
    }

    fn executes_ruled_out(&self, commit: Commit) -> bool {
        self.flaw == Some(Flaw::ForgetsResync) && commit.is_valid()
    }

    /// A request that is answered without being executed. It has had its turn all the same.
    fn refuse<P: Provider>(
        &mut self,
        client: &mut Client<P>,
        slot: u32,
        commit: Commit,
        again: bool,
        status: Status,
        counters: &mut Counters,
    ) -> Taken {
        match status {
            Status::WrongPartition => counters.wrong_partition += 1,
            _ => counters.bad_requests += 1,
        }
        let state = &mut client.states[slot as usize];
        if again {
            state.note(commit);
        } else {
            state.take(commit);
        }
        self.requests.push(Request {
            hash: KeyHash::default(),
            client: client.id,
            seq: commit.seq(),
            key_at: 0,
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
