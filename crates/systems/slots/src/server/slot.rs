//! [`SlotState`]: a server's record of a slot, and its decision about the commit word that it finds there.

use crate::layout::{Commit, SlotOp, Status};

/// What became of the last request of a slot. As a byte: a [`Status`], or one of these.
const RULED_OUT: u8 = 0x80;
const FORGOTTEN: u8 = 0x81;
const RETRY: u8 = Status::Retry as u8;

/// The server's private record of one slot of a client: 16 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotState {
    /// The last commit word taken (or ignored). A word equal to it is nothing new.
    last_commit: u64,
    /// Seq of the last request that was executed or ruled out.
    last_seq: u32,
    outcome: u8,
}

/// What to do about a commit word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// A new request: [`take`](SlotState::take) it, execute or refuse it, [`finish`](SlotState::finish) it.
    Execute,
    /// A retransmission of the slot's last request (the same seq): [`again`](SlotState::again) decides how to answer
    /// it.
    Again,
    /// An older request, one ruled out, or no request: [`note`](SlotState::note) the word, and do nothing else.
    Ignore,
}

/// The server's answer about a request that a client gave up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Judgement {
    /// Whether the request is the last one taken from its slot: executed or refused as `status` says, or with unknown
    /// result (`StaleEpoch`). False if it was ruled out, or if a later request of the slot was taken.
    pub executed: bool,
    /// Result of the request; `StaleEpoch` if the result is unknown or `executed` is false.
    pub status: Status,
    /// Seq of the slot's last request that was taken or ruled out, including the ruling out by this answer.
    pub last_seq: u32,
}

impl SlotState {
    /// A slot without any request so far: the first one has seq 1.
    pub const UNUSED: SlotState = SlotState {
        last_commit: 0,
        last_seq: 0,
        outcome: RULED_OUT,
    };

    /// The last commit word taken or [noted](SlotState::note); 0: none. The same word in the slot is not a new request.
    #[inline(always)]
    pub fn last_commit(&self) -> u64 {
        self.last_commit
    }

    /// Seq of the last request that was taken or ruled out; 0: none.
    #[inline(always)]
    pub fn last_seq(&self) -> u32 {
        self.last_seq
    }

    /// Whether `commit` has its valid bit set and belongs to a later use of the slot than the last request taken or
    /// ruled out: its seq is up to 2^31 - 1 ahead.
    #[inline(always)]
    pub fn is_new(&self, commit: Commit) -> bool {
        commit.is_valid() && self.is_newer(commit)
    }

    /// As [`is_new`](SlotState::is_new), for a word whose valid bit is known to be set (checked in debug builds only).
    #[inline(always)]
    pub fn is_newer(&self, commit: Commit) -> bool {
        debug_assert!(commit.is_valid());
        // Serial arithmetic: half of all numbers are newer, half older.
        commit.seq().wrapping_sub(self.last_seq) as i32 > 0
    }

    /// Whether the request `seq`, or a later one of this slot, was taken or ruled out.
    #[inline(always)]
    pub fn is_done(&self, seq: u32) -> bool {
        self.last_seq.wrapping_sub(seq) as i32 >= 0
    }

    /// Decides what to do with `commit`, which must differ from [`last_commit`](SlotState::last_commit). Changes
    /// nothing.
    pub fn judge(&self, commit: Commit) -> Verdict {
        if self.is_new(commit) {
            return Verdict::Execute;
        }
        let older = commit.seq() != self.last_seq;
        if !commit.is_valid() || older || self.outcome == RULED_OUT {
            return Verdict::Ignore;
        }
        Verdict::Again
    }

    /// Decides how to answer a retransmission of the slot's last request, whose operation is `op`. `Some` is the status
    /// to answer without executing it; `None`: execute it again. The first that applies, for reads too:
    /// - result unknown, or ruled out: `Some(StaleEpoch)`
    /// - first answer was `Retry`: `Some(Retry)`
    /// - `op` is `Nop` or gets a value: `None`
    /// - any other: `Some` of the first answer's status; another client may have written since, so it must not execute
    ///   twice
    #[cold]
    pub fn again(&self, op: SlotOp) -> Option<Status> {
        match (self.outcome, op) {
            (FORGOTTEN | RULED_OUT, _) => Some(Status::StaleEpoch),
            // Others that it was sent with were told the same: they must not change places now.
            (RETRY, _) => Some(Status::Retry),
            (_, op) if matches!(op.base(), SlotOp::Get | SlotOp::GetBulk | SlotOp::Nop) => None,
            (status, _) => Status::from_bits(u32::from(status)),
        }
    }

    /// Records `commit` as seen: it becomes [`last_commit`](SlotState::last_commit). No request is taken.
    #[inline(always)]
    pub fn note(&mut self, commit: Commit) {
        self.last_commit = commit.0;
    }

    /// Records that the request with the commit word `commit` is taken, to be executed or refused: from now on neither
    /// it nor an older request of the slot is new. The caller has checked that it is new. [`finish`](SlotState::finish)
    /// must follow with its status; until then its result counts as unknown.
    #[inline(always)]
    pub fn take(&mut self, commit: Commit) {
        self.last_commit = commit.0;
        self.last_seq = commit.seq();
        // Should the worker die before it finishes, nobody knows.
        self.outcome = FORGOTTEN;
    }

    /// As [`take`](SlotState::take), for a request in the format of HERD's paper, which has no commit word: `seq` is
    /// that of its turn, and the last commit word stays as it is.
    #[inline(always)]
    pub fn take_in_turn(&mut self, seq: u32) {
        self.last_seq = seq;
        self.outcome = FORGOTTEN;
    }

    /// Records the status of the request taken last.
    #[inline(always)]
    pub fn finish(&mut self, status: Status) {
        self.outcome = status as u8;
    }

    /// Ensures that no request with `seq` or an older one is taken from now on. Returns what became of request `seq`.
    /// If it was taken before, its result stays as it is, and a retransmission is still answered ([`again`]).
    ///
    /// [`again`]: SlotState::again
    pub fn rule_out(&mut self, seq: u32) -> Judgement {
        let behind = self.last_seq.wrapping_sub(seq) as i32;
        if behind < 0 {
            self.last_seq = seq;
            self.outcome = RULED_OUT;
        }
        let known = behind == 0 && self.outcome != RULED_OUT;
        Judgement {
            executed: known,
            status: match self.outcome {
                status if known && status < RULED_OUT => {
                    Status::from_bits(u32::from(status)).unwrap_or(Status::StaleEpoch)
                }
                _ => Status::StaleEpoch,
            },
            last_seq: self.last_seq,
        }
    }

    /// As [`rule_out`](SlotState::rule_out), without an answer.
    pub fn rule_out_silently(&mut self, seq: u32) {
        if (self.last_seq.wrapping_sub(seq) as i32) < 0 {
            self.last_seq = seq;
            self.outcome = RULED_OUT;
        }
    }

    /// Forgets the result of the last request, because the worker restarts with an empty partition. Its seq stays
    /// known, and whether it was ruled out: an older request may still arrive, and must not execute.
    pub fn forget(&mut self) {
        if self.outcome != RULED_OUT {
            self.outcome = FORGOTTEN;
        }
    }

    /// As [`forget`](SlotState::forget), for a slot that contains the commit word `word`, which counts as seen. If it
    /// is a new request, it may be the one at which the worker failed, so it counts as taken with unknown result and
    /// does not execute.
    pub fn forget_at(&mut self, word: u64) {
        let commit = Commit(word);
        self.forget();
        if self.is_new(commit) {
            self.take(commit);
        }
        self.note(commit);
    }
}
