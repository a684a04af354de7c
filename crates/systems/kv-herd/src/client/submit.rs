//! Submission of operations: each goes into the next slot of its partition, waits, or becomes a bulk transfer.

use super::session::{Session, slot_op};
use super::{HerdClient, RequestFormat};
use crate::costs::{SUBMIT, SUBMIT_GET, SUBMIT_PAPER};
use crate::layout::{Commit, SlotOp, TRAILER_BYTES, paper};
use drover_base::{Cpu, KeyHash, Ns};
use drover_kv::{KEY_BYTES_MAX, Op, SubmitError, Token};
use drover_mem::LINE_BYTES;
use drover_slots::client::request::{self, Body};
use drover_slots::client::{Before, Slot, SlotPhase, Waiting};
use drover_verbs::Provider;

const TWO_LINES: usize = 2 * LINE_BYTES;

/// Result of an attempt to put an operation into a slot.
pub(super) enum Placed {
    /// The request is staged in a slot.
    Posted,
    /// The partition's next slot is in use. This is checked first.
    NoSlot,
    /// The operation does not fit a slot.
    TooLong,
}

impl<P: Provider, F: RequestFormat> HerdClient<P, F> {
    /// Puts an operation into the next slot of its partition and stages the request: a conditional one if `before` is
    /// [`Before::Reads`].
    #[inline(always)]
    pub(super) fn place(
        session: &mut Session<P, F>,
        op: &Op<'_>,
        before: Before,
        hash: KeyHash,
        token: Token,
        submitted: Ns,
        now: Ns,
    ) -> Placed {
        let partition = hash.partition_index(session.params.partition_count);
        let conditional = before == Before::Reads;
        let (slot_op, key, value) = (slot_op(op), op.key(), op.value());
        let body = (key.len(), value.len());
        if slot_op.lead_bytes() == 0 && body.0 + body.1 <= session.params.plain_bytes_max {
            macro_rules! post {
                ($bytes:expr) => {
                    Self::post_lines(
                        session,
                        slot_op,
                        conditional,
                        body,
                        hash,
                        token,
                        submitted,
                        now,
                        |lines: &mut [u8; $bytes], commit| {
                            request::build_lines(lines, commit, hash, key, value)
                        },
                    )
                };
            }
            let placed = match body.0 + body.1 <= request::body_bytes_max::<LINE_BYTES>() {
                true => post!(LINE_BYTES),
                false => post!(TWO_LINES),
            };
            return match placed {
                true => Placed::Posted,
                false => Placed::NoSlot,
            };
        }
        let Some((at, seq)) = session.window.next(partition) else {
            return Placed::NoSlot;
        };
        if !session.fits(op) {
            return Placed::TooLong;
        }
        let body = Body {
            commit: Commit::new(slot_op, seq, key.len(), value.len(), session.params.crc)
                .with_condition(conditional),
            hash,
            key,
            value,
            ttl_s: op.ttl_s(),
            extension: op.extension().unwrap_or_default(),
        };
        Self::post(session, partition, at, &body, token, submitted, now);
        Placed::Posted
    }

    /// Submits a GET of a 16-byte key, given as two little-endian words, if such requests are [plain] and the key
    /// conflicts with nothing: the most frequent case, with the key in registers from the hash to the request.
    /// Otherwise does nothing and returns false.
    ///
    /// [plain]: super::session::ServerParams::plain_bytes_max
    #[inline(always)]
    pub(super) fn submit_inline_get(&mut self, cpu: &P::Cpu, key: [u64; 2], token: Token) -> bool {
        let session = match self.session.as_deref_mut() {
            Some(session) if self.open && session.params.plain_bytes_max >= 16 => session,
            _ => return false,
        };
        cpu.charge(SUBMIT_GET.cost, 1);
        let hash = session.hasher.hash_words(key);
        if !self.conflicts.try_add_read(hash) {
            return false;
        }
        let now = cpu.now();
        let build = |line: &mut _, commit| request::build_get(line, commit, hash, key);
        if !Self::post_lines(session, SlotOp::Get, false, (16, 0), hash, token, now, now, build) {
            self.conflicts.remove(hash, false);
            return false;
        }
        self.tally.began();
        if session.sends.is_batch() {
            session.flush(cpu);
        }
        true
    }

    /// As [`submit_inline_get`](HerdClient::submit_inline_get), for a PUT of `value` without time to live; `key` are the
    /// bytes of the key, and `words` the same.
    #[inline(always)]
    pub(super) fn submit_inline_put(
        &mut self,
        cpu: &P::Cpu,
        key: &[u8],
        words: [u64; 2],
        value: &[u8],
        token: Token,
    ) -> bool {
        let len = key.len() + value.len();
        let session = match self.session.as_deref_mut() {
            Some(session) if self.open && session.params.plain_bytes_max >= len => session,
            _ => return false,
        };
        let hash = session.hasher.hash_words(words);
        if !self.conflicts.try_add_write(hash) {
            return false;
        }
        let now = cpu.now();
        let body = (key.len(), value.len());
        let posted = match len <= request::body_bytes_max::<LINE_BYTES>() {
            true => {
                let build = |line: &mut [u8; LINE_BYTES], commit| {
                    request::build_lines(line, commit, hash, key, value);
                };
                Self::post_lines(session, SlotOp::Put, false, body, hash, token, now, now, build)
            }
            false => {
                let build = |lines: &mut [u8; TWO_LINES], commit| {
                    request::build_lines(lines, commit, hash, key, value);
                };
                Self::post_lines(session, SlotOp::Put, false, body, hash, token, now, now, build)
            }
        };
        if !posted {
            self.conflicts.remove(hash, true);
            return false;
        }
        cpu.charge(SUBMIT_GET.cost, 1);
        self.tally.began();
        if session.sends.is_batch() {
            session.flush(cpu);
        }
        true
    }

    /// As [`submit_inline_get`](HerdClient::submit_inline_get), in the paper's format.
    #[inline(always)]
    pub(super) fn submit_paper_get(&mut self, cpu: &P::Cpu, key: [u64; 2], token: Token) -> bool {
        let session = match self.session.as_deref_mut() {
            Some(session) if self.open => session,
            _ => return false,
        };
        let hash = session.hasher.hash_words(key);
        if !self.conflicts.try_add_read(hash) {
            return false;
        }
        let partition = hash.partition_index(session.params.partition_count);
        let Some(claim) = session.window.claim(partition) else {
            self.conflicts.remove(hash, false);
            return false;
        };
        cpu.charge(SUBMIT_PAPER.cost, 1);
        let (now, at) = (cpu.now(), claim.index);
        let commit = Commit::new(SlotOp::Get, claim.seq, 16, 0, session.params.crc);
        Self::fill(claim.slot, commit, hash, token, now, now, paper::GET_BYTES);
        paper::build_get(session.sends.block_mut(at), key, hash);
        session.stage(at, paper::GET_BYTES);
        self.tally.began();
        if session.sends.is_batch() {
            session.flush(cpu);
        }
        true
    }

    /// Takes the next slot of the key's partition for a request of at most `N` bytes, whose key and value have the lengths
    /// `body`, and stages what `build` writes. Returns false, doing nothing, if that slot is in use.
    #[inline(always)]
    #[expect(
        clippy::too_many_arguments,
        reason = "a request, spread out: it is to stay in registers"
    )]
    fn post_lines<const N: usize>(
        session: &mut Session<P, F>,
        op: SlotOp,
        conditional: bool,
        body: (usize, usize),
        hash: KeyHash,
        token: Token,
        submitted: Ns,
        now: Ns,
        build: impl FnOnce(&mut [u8; N], Commit),
    ) -> bool {
        let partition = hash.partition_index(session.params.partition_count);
        let Some(claim) = session.window.claim(partition) else {
            return false;
        };
        let commit = Commit::new(op, claim.seq, body.0, body.1, false).with_condition(conditional);
        let len = TRAILER_BYTES + body.0 + body.1;
        Self::fill(claim.slot, commit, hash, token, submitted, now, len);
        let at = claim.index;
        session.stage_plain(at, len, |line| build(line, commit));
        true
    }

    /// Submits any operation: posts it, queues it, or begins its bulk transfer.
    ///
    /// # Errors
    /// The operation is not accepted.
    #[inline(never)]
    pub(super) fn submit_to_slot(
        &mut self,
        cpu: &P::Cpu,
        op: &Op<'_>,
        token: Token,
    ) -> Result<(), SubmitError> {
        let key = op.key();
        if key.is_empty() || key.len() > KEY_BYTES_MAX {
            return Err(SubmitError::BadKey);
        }
        cpu.charge(SUBMIT.cost, 1);
        let now = cpu.now();
        let session = match self.session.as_deref_mut() {
            Some(session) if self.open => session,
            _ => return self.submit_unpostable(op, self.hash(key), token, now),
        };
        if session.window.is_full() {
            return Err(SubmitError::WindowFull);
        }
        let hash = session.hasher.hash(key);
        let write = op.kind().is_update();
        let before = match self.conflicts.may_conflict(hash, write) {
            true => self.before(hash, write),
            false => Before::Nothing,
        };
        if before == Before::Unsure {
            return self.submit_behind_conflict(op, hash, token, now);
        }
        let Some(session) = self.session.as_deref_mut() else {
            return Err(SubmitError::Closed);
        };
        if session.cannot_say(op) {
            return self.submit_unpostable(op, hash, token, now);
        }
        match Self::place(session, op, before, hash, token, now, now) {
            Placed::Posted => {}
            Placed::NoSlot => return Err(SubmitError::WindowFull),
            // A bulk transfer begins before its turn in the lane would come.
            Placed::TooLong if before != Before::Nothing => {
                return self.submit_behind_conflict(op, hash, token, now);
            }
            Placed::TooLong => return self.submit_bulk_put(op, hash, token, now),
        }
        self.conflicts.add(hash, write);
        self.tally.began();
        if session.sends.is_batch() {
            session.flush(cpu);
        }
        Ok(())
    }

    /// Builds a request in slot `at`, which is free and its partition's next, and stages it.
    #[inline(always)]
    pub(super) fn post(
        session: &mut Session<P, F>,
        partition: usize,
        at: usize,
        body: &Body<'_>,
        token: Token,
        submitted: Ns,
        now: Ns,
    ) {
        let len = match session.params.format.is_paper() {
            true => paper::build(session.sends.block_mut(at), body),
            false => request::build(session.sends.block_mut(at), body),
        };
        let slot = session.window.take(partition, at);
        Self::fill(slot, body.commit, body.hash, token, submitted, now, len);
        session.stage(at, len);
    }

    #[inline(always)]
    fn fill(
        slot: &mut Slot,
        commit: Commit,
        hash: KeyHash,
        token: Token,
        submitted: Ns,
        now: Ns,
        len: usize,
    ) {
        *slot = Slot {
            token,
            commit,
            hash,
            submitted,
            sent: now,
            len: len as u16,
            tries: 0,
            phase: SlotPhase::Posted,
            forgotten: false,
        };
    }

    /// Hash of a key under the seed of the session. Without a session, a constant: hashes are computed again when a
    /// session begins.
    fn hash(&self, key: &[u8]) -> KeyHash {
        self.session
            .as_ref()
            .map_or(KeyHash::default(), |session| session.hasher.hash(key))
    }

    /// Begins the bulk transfer of a PUT that does not fit a slot.
    ///
    /// # Errors
    /// The operation is no PUT, its value is too long for the server, long values cannot be moved, or too many are.
    #[cold]
    fn submit_bulk_put(
        &mut self,
        op: &Op<'_>,
        hash: KeyHash,
        token: Token,
        now: Ns,
    ) -> Result<(), SubmitError> {
        let Some(session) = &self.session else {
            return self.submit_unpostable(op, hash, token, now);
        };
        let Op::Put { value, .. } = *op else {
            // The key is too long for these slots, and only values can move in bulk.
            return Err(SubmitError::TooLarge);
        };
        if session.params.format.is_paper()
            || value.len() > session.params.item_bytes_max
            || self.bulk.are_refused()
        {
            return Err(SubmitError::TooLarge);
        }
        if self.bulk.count() >= self.options.waiting_max {
            return Err(SubmitError::WindowFull);
        }
        self.conflicts.add(hash, true);
        self.tally.began();
        self.begin_bulk(Waiting::new(op, hash, token, now), value.len());
        Ok(())
    }

    /// How conflicting operations precede a new one, exactly: looks at all waiting operations, bulk transfers and slots
    /// of the partition.
    #[cold]
    fn before(&self, hash: KeyHash, write: bool) -> Before {
        let waits = self.waiting.iter().any(|w| w.conflicts_with(hash, write));
        match &self.session {
            _ if waits || self.conflicts_with_bulk(hash, write) => Before::Unsure,
            Some(session) => session.before(hash, write),
            None => Before::Nothing,
        }
    }
}
