//! [`SlotState`]: what a server remembers of a slot, and what it makes of the word it finds there.

use crate::layout::{Commit, SlotOp, Status};

/// What became of the last request of a slot. As a byte: a [`Status`], or one of these.
const RULED_OUT: u8 = 0x80;
const FORGOTTEN: u8 = 0x81;
const RETRY: u8 = Status::Retry as u8;

/// The server's private memory of one slot: 16 bytes.
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
    /// A new request: [`take`](SlotState::take) it, execute it, [`finish`](SlotState::finish) it.
    Execute,
    /// A retransmission of the last one: when its turn comes, ask [`again`](SlotState::again).
    Again,
    /// History, or not a request at all: nothing.
    Ignore,
}

/// What became of a request that a client asks about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Judgement {
    /// It was executed, or nobody knows (then the status is `StaleEpoch`).
    pub executed: bool,
    /// How it ended.
    pub status: Status,
    /// The last seq executed or ruled out in this slot.
    pub last_seq: u32,
}

impl SlotState {
    /// A slot that nobody has used: the first request in it has seq 1.
    pub const UNUSED: SlotState = SlotState {
        last_commit: 0,
        last_seq: 0,
        outcome: RULED_OUT,
    };

    /// The word that is nothing new.
    #[inline(always)]
    pub fn last_commit(&self) -> u64 {
        self.last_commit
    }

    /// The last seq executed or ruled out.
    #[inline(always)]
    pub fn last_seq(&self) -> u32 {
        self.last_seq
    }

    /// Whether `commit` is a request of a later use of the slot than the last one executed or ruled out.
    #[inline(always)]
    pub fn is_new(&self, commit: Commit) -> bool {
        commit.is_valid() && self.is_newer(commit)
    }

    /// [`is_new`](SlotState::is_new) of a word known to be a request.
    #[inline(always)]
    pub fn is_newer(&self, commit: Commit) -> bool {
        debug_assert!(commit.is_valid());
        // Serial arithmetic: half of all numbers are newer, half older.
        commit.seq().wrapping_sub(self.last_seq) as i32 > 0
    }

    /// Whether the request `seq` was executed or ruled out, or one after it.
    #[inline(always)]
    pub fn is_done(&self, seq: u32) -> bool {
        self.last_seq.wrapping_sub(seq) as i32 >= 0
    }

    /// What to do about `commit`, which differs from [`last_commit`](SlotState::last_commit).
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

    /// What to do about a retransmission of `op`: say this status again, because another client may have
    /// written in between, or (`None`) execute it, because it only reads.
    #[cold]
    pub fn again(&self, op: SlotOp) -> Option<Status> {
        match (self.outcome, op) {
            (FORGOTTEN | RULED_OUT, _) => Some(Status::StaleEpoch),
            // Others that it was sent with were told the same: they must not change places now.
            (RETRY, _) => Some(Status::Retry),
            (_, SlotOp::Get | SlotOp::GetBulk | SlotOp::Nop) => None,
            (status, _) => Status::from_bits(u32::from(status)),
        }
    }

    /// The word has been looked at; whatever it was, it is nothing new from now on.
    #[inline(always)]
    pub fn note(&mut self, commit: Commit) {
        self.last_commit = commit.0;
    }

    /// The request has been taken for execution. The status follows with [`finish`](SlotState::finish) before
    /// anybody can ask.
    #[inline(always)]
    pub fn take(&mut self, commit: Commit) {
        self.last_commit = commit.0;
        self.last_seq = commit.seq();
        // Should the worker die before it finishes, nobody knows.
        self.outcome = FORGOTTEN;
    }

    /// As [`take`](SlotState::take), of a request that carries no number: its turn says which it is.
    pub fn take_in_turn(&mut self, seq: u32) {
        self.last_seq = seq;
        self.outcome = FORGOTTEN;
    }

    /// The request taken last ended so.
    #[inline(always)]
    pub fn finish(&mut self, status: Status) {
        self.outcome = status as u8;
    }

    /// From now on no request with `seq` or an older one executes. Says what became of `seq`.
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

    /// As [`rule_out`](SlotState::rule_out), for requests nobody asks about.
    pub fn rule_out_silently(&mut self, seq: u32) {
        if (self.last_seq.wrapping_sub(seq) as i32) < 0 {
            self.last_seq = seq;
            self.outcome = RULED_OUT;
        }
    }

    /// The worker restarts with an empty partition: how the last request ended no longer says what is stored. Its
    /// number, and that it was ruled out, stay known: an older request may still arrive, and must not execute.
    pub fn forget(&mut self) {
        if self.outcome != RULED_OUT {
            self.outcome = FORGOTTEN;
        }
    }

    /// As [`forget`](SlotState::forget), of a slot in which `word` stands: it may be what the worker failed at, so it
    /// does not execute. An older word, which came late, changes nothing.
    pub fn forget_at(&mut self, word: u64) {
        let commit = Commit(word);
        self.forget();
        if self.is_new(commit) {
            self.take(commit);
        }
        self.note(commit);
    }
}
