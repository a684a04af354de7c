//! [`Request`]: a request copied out of its slot.
//!
//! A client may not touch a slot before its reply, but nothing makes a rogue client obey. So everything is checked on a
//! copy, the *image*:
//!
//! ```text
//! 0                          960                              1000      1016    1024
//! |  ... the rest, if it is longer | end of the body: [ttl] value key | key hash | commit word |
//! ```
//! It is right-aligned like the slot, so the key of every request ends at the same byte. Only as many lines are copied
//! as the request takes, whole ones: a GET with a key of up to 40 bytes is one.

use super::{Parsed, Plain, SlotState};
use crate::layout::{Commit, SLOT_BYTES_MAX, SlotOp, Status, TRAILER_BYTES};
use drover_base::KeyHash;
use drover_base::sync::{Ordering, fence};
use drover_kv::Extension;
use drover_mem::{LINE_BYTES, MaskedRef, MaskedRegion};

/// Where the body ends in an image: key, value and ttl are right-aligned to it.
const BODY_END: usize = SLOT_BYTES_MAX - TRAILER_BYTES;
/// Bytes of body in the line of the commit word.
const LINE_BODY_BYTES: usize = LINE_BYTES - TRAILER_BYTES;

/// What to do about a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Act {
    /// Execute it.
    Do(SlotOp),
    /// Execute it, or answer [`Status::Retry`] if the client's [`Hold`](super::Hold) holds it.
    DoIf(SlotOp),
    /// Answer a retransmission as [`SlotState::again`] decides: with a status, or by executing it again.
    Again(SlotOp),
    /// Answer a new request with this status, without executing it, and record the status.
    Say(Status),
    /// Answer a retransmission with this status, without executing it or recording the status.
    SayAgain(Status),
}

impl Act {
    /// `DoIf` for a `Do`; any other action unchanged.
    pub fn conditional(self) -> Act {
        match self {
            Act::Do(op) => Act::DoIf(op),
            other => other,
        }
    }
}

/// A commit word and where it was found.
#[derive(Clone, Copy, Debug)]
pub struct Found<'s> {
    /// Memory that contains the slot: the client's region, or a copy of one slot if the request came by datagram.
    pub slots: &'s MaskedRegion,
    /// Index of the slot within the partition's window.
    pub slot: u32,
    /// Offset of the commit word in `slots`.
    pub commit_at: u64,
    /// The commit word.
    pub commit: Commit,
}

/// What a server knows about a request, besides its key hash, key, value and time to live.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// Seq, lengths of key and value and operation, where a commit word has them; the operation is `Nop` unless it is a GET
    /// or PUT to be executed at once. So a plain request is described by its own commit word.
    word: Commit,
    /// Id of the client.
    pub client: u32,
    /// Index of the slot within the partition's window.
    pub slot: u8,
    /// What to do about the request, if its word does not say it.
    act: Act,
}

impl About {
    /// A request of client number `client` in use `seq` of slot `slot`. The lengths of its key and value in bytes are
    /// those of `lens`, in this order: (0, 0) if it is refused.
    #[inline]
    pub fn new(client: u32, slot: u8, seq: u32, lens: (usize, usize), act: Act) -> About {
        let op = match act {
            Act::Do(op @ (SlotOp::Get | SlotOp::Put)) => op,
            _ => SlotOp::Nop,
        };
        About {
            word: Commit::new(op, seq, lens.0, lens.1, false),
            client,
            slot,
            act,
        }
    }

    /// The operation, if it is a GET or PUT to be executed at once. One comparison.
    #[inline(always)]
    pub fn get_or_put(&self) -> Option<SlotOp> {
        match self.word.0 >> 56 {
            Plain::GET_BYTE => Some(SlotOp::Get),
            Plain::PUT_BYTE => Some(SlotOp::Put),
            _ => None,
        }
    }

    /// What to do about the request.
    pub fn act(&self) -> Act {
        self.get_or_put().map_or(self.act, Act::Do)
    }

    /// Makes the execution of a request conditional.
    pub fn make_conditional(&mut self) {
        let lens = (self.key_len(), self.value_len());
        *self = About::new(self.client, self.slot, self.seq(), lens, self.act().conditional());
    }

    /// Has the request answered with `status` in place of being executed. A retransmission stays one.
    pub fn refuse(&mut self, status: Status) {
        let act = match self.act() {
            Act::Again(_) | Act::SayAgain(_) => Act::SayAgain(status),
            _ => Act::Say(status),
        };
        *self = About::new(self.client, self.slot, self.seq(), (0, 0), act);
    }

    /// Use count of the slot.
    #[inline(always)]
    pub fn seq(&self) -> u32 {
        self.word.seq()
    }

    /// Length of the value in the slot, bytes; 0 also if the request is refused.
    #[inline(always)]
    pub fn value_len(&self) -> usize {
        self.word.value_len()
    }

    /// Length of the key, bytes; 0: the hash is the key, or the request is refused.
    #[inline(always)]
    pub fn key_len(&self) -> usize {
        self.word.key_len()
    }
}

/// A request and its bytes. `H` is what its executor remembers about its key between two stages.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct Request<H> {
    /// The end of the slot, as far as it has been copied.
    image: [u8; SLOT_BYTES_MAX],
    /// Everything about the request but its bytes.
    pub about: About,
    /// What the executor remembers about the key between two stages. No method of `Request` changes it.
    pub hint: H,
}

impl<H> Request<H> {
    /// Space for a request, with this `hint`. Its other contents mean nothing yet.
    pub fn new(hint: H) -> Request<H> {
        Request {
            image: [0; SLOT_BYTES_MAX],
            about: About::new(0, 0, 0, (0, 0), Act::Say(Status::BadRequest)),
            hint,
        }
    }

    fn word(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.image[at..at + 8].try_into().expect("8 bytes"))
    }

    /// Hash of the key.
    #[inline(always)]
    pub fn hash(&self) -> KeyHash {
        KeyHash {
            low: self.word(BODY_END),
            high: self.word(BODY_END + 8),
        }
    }

    /// The key; empty if the hash is the key.
    #[inline(always)]
    pub fn key(&self) -> &[u8] {
        &self.image[BODY_END - self.about.key_len()..BODY_END]
    }

    /// The value, or the [`Bulk`](crate::layout::Bulk) in its place.
    #[inline(always)]
    pub fn value(&self) -> &[u8] {
        let end = BODY_END - self.about.key_len();
        &self.image[end - self.about.value_len()..end]
    }

    /// Time to live, seconds. Meaningful only for operations that [have one](SlotOp::has_ttl).
    pub fn ttl_s(&self) -> u32 {
        let end = BODY_END - self.about.key_len() - self.about.value_len();
        u32::from_le_bytes(self.image[end - 4..end].try_into().expect("4 bytes"))
    }

    /// Flags and condition; `None` if they are malformed. Meaningful only for operations that [have
    /// some](SlotOp::has_extension); `op` is this request's.
    pub fn extension(&self, op: SlotOp) -> Option<Extension> {
        let start = BODY_END - self.about.key_len() - self.about.value_len() - op.lead_bytes();
        Extension::decode(self.image[start..].first_chunk()?)
    }

    fn set_hash(&mut self, hash: KeyHash) {
        self.image[BODY_END..BODY_END + 16].copy_from_slice(&hash.to_bytes());
    }

    /// Copies a request in the format of HERD's paper: no key, and `about.value_len()` bytes of value that end at offset
    /// `value_end` of `slots`. Sets `about`.
    #[inline(always)]
    pub fn copy_paper(&mut self, slots: &MaskedRegion, value_end: u64, hash: KeyHash, about: About) {
        let len = about.value_len();
        if len > 0 {
            self.copy_body(slots, value_end, len, BODY_END);
        }
        self.set_hash(hash);
        self.about = about;
    }

    /// As [`copy_paper`](Request::copy_paper), for a GET by client number `client` in use `seq` of slot `slot`.
    #[inline(always)]
    pub fn copy_paper_get(&mut self, hash: KeyHash, client: u32, slot: u8, seq: u32) {
        self.set_hash(hash);
        // Its word says what to do.
        self.about.word = Commit::new(SlotOp::Get, seq, 0, 0, false);
        (self.about.client, self.about.slot) = (client, slot);
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

    /// Copies body and key hash of a request that passed all checks, whose commit word is at offset `commit_at`.
    /// Returns the hash, and true if the checksum is right or absent. `about` does not change: the caller sets it.
    pub fn copy_checked(
        &mut self,
        slots: &MaskedRegion,
        commit_at: u64,
        commit: Commit,
        parsed: &Parsed,
    ) -> (KeyHash, bool) {
        let end = commit_at + 8 - TRAILER_BYTES as u64;
        let hash = KeyHash {
            low: slots.load(end),
            high: slots.load(end + 8),
        };
        // A checksum would push the key from its place: it goes behind the body's end, where the hash comes when it is
        // no longer needed.
        let crc_bytes = parsed.body_len - parsed.plain_len();
        self.copy_body(slots, end, parsed.body_len, BODY_END + crc_bytes);
        let start = BODY_END - parsed.plain_len();
        let is_intact = parsed.is_intact(&self.image, start, hash, commit);
        self.set_hash(hash);
        (hash, is_intact)
    }

    /// Copies what a body has before the last two lines of its slot.
    #[inline(never)]
    fn copy_before(&mut self, slots: &MaskedRegion, commit_at: u64, len: usize) {
        let from_end = commit_at + 8 - 2 * LINE_BYTES as u64;
        self.copy_body(slots, from_end, len, SLOT_BYTES_MAX - 2 * LINE_BYTES);
    }

    /// Copies and takes a request of the kind that nearly all are, in straight-line code: a new [`Plain`] GET or PUT
    /// in use `seq` of its slot, with a key of this share. `place` is that of the commit word. Returns true after
    /// recording it in `state` and in `about`; false if it is any other request, and then at most the
    /// bytes of `self` have changed.
    #[inline(always)]
    pub fn copy_plain(
        &mut self,
        share: Share,
        client: PlainClient,
        seq: u32,
        state: &mut SlotState,
        place: MaskedRef<'_>,
        found: Found<'_>,
    ) -> bool {
        // Acquire: pairs with the Release of the commit word by the client that wrote the slot; what was written
        // before it is visible to the loads after this.
        fence(Ordering::Acquire);
        // Two branches and not one with two outcomes: then each knows what it has.
        if let Some(get) = Plain::get(found.commit, seq, client.plain_bytes_max) {
            self.copy_as(get, share, client, state, place, found)
        } else if let Some(put) = Plain::put(found.commit, seq, client.plain_bytes_max) {
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
        if state.is_done(found.commit.seq()) || !share.has(self.hash()) {
            return false;
        }
        state.take(found.commit);
        // Its word says what to do.
        self.about.word = found.commit;
        (self.about.client, self.about.slot) = (client.id, found.slot as u8);
        true
    }
}

/// What [`Request::copy_plain`] needs to know of the client.
#[derive(Clone, Copy, Debug)]
pub struct PlainClient {
    /// Id of the client.
    pub id: u32,
    /// Longest body without a checksum, bytes; 0 if a checksum is required.
    pub plain_bytes_max: usize,
}

/// Tells which keys a worker owns: those of one partition out of several. It contains no keys.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    /// Index of the worker's partition.
    pub partition_index: usize,
    /// Number of partitions.
    pub partition_count: usize,
}

impl Share {
    /// Whether the worker owns the key with this hash.
    #[inline(always)]
    pub fn has(self, hash: KeyHash) -> bool {
        hash.partition_index(self.partition_count) == self.partition_index
    }
}
