//! What a server remembers of a slot, and what it makes of a commit word there.

use drover_slots::layout::{Commit, SlotOp, Status};
use drover_slots::server::{SlotState, Verdict};
use proptest::prelude::*;

fn word(op: SlotOp, seq: u32, attempt: u32) -> Commit {
    Commit::new(op, seq, 3, 0, false).with_attempt(attempt)
}

fn executed(op: SlotOp, seq: u32, status: Status) -> SlotState {
    let mut state = SlotState::UNUSED;
    assert_eq!(state.judge(word(op, seq, 0)), Verdict::Execute);
    state.take(word(op, seq, 0));
    state.finish(status);
    state
}

#[test]
fn an_update_is_executed_once_and_its_status_said_again() {
    for op in [SlotOp::Put, SlotOp::PutTtl, SlotOp::Delete, SlotOp::PutBulk] {
        let state = executed(op, 1, Status::NotFound);
        assert_eq!(state.judge(word(op, 1, 1)), Verdict::Again);
        assert_eq!(state.again(op), Some(Status::NotFound));
    }
}

#[test]
fn what_nobody_asks_about_is_ruled_out_too() {
    let mut state = executed(SlotOp::Put, 3, Status::Ok);
    state.rule_out_silently(5);
    assert_ne!(state.judge(word(SlotOp::Put, 5, 1)), Verdict::Execute);
    assert_eq!(state.judge(word(SlotOp::Put, 6, 0)), Verdict::Execute);
    // What is known of a later request stays known.
    let mut state = executed(SlotOp::Put, 3, Status::Ok);
    state.rule_out_silently(2);
    assert_eq!(state.judge(word(SlotOp::Put, 3, 1)), Verdict::Again);
    assert_eq!(state.again(SlotOp::Put), Some(Status::Ok));
}

#[test]
fn a_get_is_executed_again() {
    let state = executed(SlotOp::Get, 1, Status::Ok);
    assert_eq!(state.judge(word(SlotOp::Get, 1, 1)), Verdict::Again);
    assert_eq!(state.again(SlotOp::Get), None);
}

#[test]
fn a_get_told_to_retry_is_not_executed_again() {
    let state = executed(SlotOp::Get, 1, Status::Retry);
    assert_eq!(state.again(SlotOp::Get), Some(Status::Retry));
}

#[test]
fn older_requests_are_history() {
    let state = executed(SlotOp::Put, 9, Status::Ok);
    assert_eq!(state.judge(word(SlotOp::Put, 8, 3)), Verdict::Ignore);
    assert_eq!(state.judge(word(SlotOp::Put, 10, 0)), Verdict::Execute);
}

#[test]
fn seq_wraps() {
    let mut state = SlotState::UNUSED;
    state.rule_out(0x7fff_ffff);
    state.rule_out(0xffff_fffe);
    for seq in [u32::MAX, 0, 1] {
        assert_eq!(state.judge(word(SlotOp::Put, seq, 0)), Verdict::Execute, "{seq}");
        state.take(word(SlotOp::Put, seq, 0));
        state.finish(Status::Ok);
        let before = seq.wrapping_sub(1);
        assert_eq!(state.judge(word(SlotOp::Put, before, 1)), Verdict::Ignore);
    }
}

#[test]
fn what_was_ruled_out_never_executes() {
    let mut state = executed(SlotOp::Put, 1, Status::Ok);
    let judgement = state.rule_out(2);
    assert!(!judgement.executed);
    assert_eq!(judgement.last_seq, 2);
    for attempt in 0..8 {
        assert_eq!(state.judge(word(SlotOp::Put, 2, attempt)), Verdict::Ignore);
        assert_eq!(state.judge(word(SlotOp::Get, 2, attempt)), Verdict::Ignore);
    }
    assert_eq!(state.judge(word(SlotOp::Put, 3, 0)), Verdict::Execute);
}

#[test]
fn resync_tells_what_happened() {
    let mut state = executed(SlotOp::Delete, 5, Status::NotFound);
    let judgement = state.rule_out(5);
    assert_eq!((judgement.executed, judgement.status), (true, Status::NotFound));
    let judgement = state.rule_out(4);
    assert_eq!((judgement.executed, judgement.last_seq), (false, 5));
}

#[test]
fn leftovers_are_nobodys() {
    let leftover = word(SlotOp::Put, 7, 0);
    let mut state = executed(SlotOp::Put, 6, Status::Ok);
    state.forget_at(leftover.0);
    assert_eq!(state.last_commit(), leftover.0);
    assert_eq!(state.judge(leftover.with_attempt(1)), Verdict::Again);
    assert_eq!(state.again(SlotOp::Put), Some(Status::StaleEpoch));
    assert_eq!(state.again(SlotOp::Get), Some(Status::StaleEpoch));
    assert_eq!(state.judge(word(SlotOp::Put, 8, 0)), Verdict::Execute);
    let judgement = state.rule_out(7);
    assert_eq!((judgement.executed, judgement.status), (true, Status::StaleEpoch));
}

/// A WRITE that was overtaken lands last: an older word stands in the slot when the worker restarts.
#[test]
fn an_older_word_does_not_bring_an_executed_request_back() {
    let mut state = executed(SlotOp::Put, 30, Status::Ok);
    state.forget_at(word(SlotOp::Put, 15, 0).0);
    assert_eq!(state.last_seq(), 30);
    assert_eq!(state.judge(word(SlotOp::Put, 30, 1)), Verdict::Again);
    assert_eq!(state.again(SlotOp::Put), Some(Status::StaleEpoch));
}

#[test]
fn a_restart_does_not_bring_back_what_was_ruled_out() {
    let mut state = executed(SlotOp::Put, 4, Status::Ok);
    state.rule_out(5);
    state.forget_at(word(SlotOp::Put, 4, 0).0);
    assert_eq!(state.judge(word(SlotOp::Put, 5, 0)), Verdict::Ignore);
    assert!(
        !state.rule_out(5).executed,
        "the client was told so, and sent it anew"
    );
    assert_eq!(state.judge(word(SlotOp::Put, 6, 0)), Verdict::Execute);
}

proptest! {
    /// The plainest model: the set of seqs that executed. No update executes twice, none that is older
    /// than one that did or was ruled out, whatever words appear.
    #[test]
    fn no_update_executes_twice(steps in prop::collection::vec((0u32..6, 0u32..8, 0u8..4), 1..60)) {
        let mut state = SlotState::UNUSED;
        let mut highest = 0;
        for (seq, attempt, what) in steps {
            let commit = word(SlotOp::Put, seq, attempt);
            match what {
                0 => {
                    state.rule_out(seq);
                    highest = highest.max(seq);
                    continue;
                }
                1 => {
                    state.forget_at(commit.0);
                    highest = highest.max(seq);
                    continue;
                }
                _ => {}
            }
            if commit.0 != state.last_commit() {
                let verdict = state.judge(commit);
                prop_assert_eq!(verdict == Verdict::Execute, seq > highest);
                match verdict {
                    Verdict::Execute => { state.take(commit); state.finish(Status::Ok); highest = seq; }
                    _ => state.note(commit),
                }
            }
        }
    }
}
