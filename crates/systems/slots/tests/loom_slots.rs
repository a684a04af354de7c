//! One slot, one client, one worker, every interleaving and every allowed reordering: what a worker takes is a
//! whole request, and no request executes twice. Run by `cargo xtask loom`.
//!
//! ```text
//! client:  body, hash (Relaxed);  commit word (Release)            ... reply (Acquire)?  the slot is free again
//! worker:  commit word (Relaxed), news?  fence Acquire;  copy body, hash (Relaxed);  reply (Release)
//! ```
//! The decisions are the crate's own ([`SlotState`], [`Commit`], [`request_crc`]); the slot is loom's words instead
//! of a `MaskedRegion`, accessed in the order of `Region::copy_in_release` and `Intake::take`.
#![cfg(loom)]

use drover_base::KeyHash;
use drover_base::sync::{Arc, AtomicU64, Ordering, fence, thread};
use drover_slots::layout::{Commit, SlotOp, Status, request_crc};
use drover_slots::server::{SlotState, Verdict};

/// What both sides can see.
#[derive(Default)]
struct Shared {
    /// The value.
    body: AtomicU64,
    /// Its checksum.
    crc: AtomicU64,
    commit: AtomicU64,
    /// Seq of the last answer, 0: none yet.
    reply: AtomicU64,
    /// A question on the control channel: what became of this seq? 0: none.
    question: AtomicU64,
    /// The answer: [`NEVER`] or [`EXECUTED`].
    answer: AtomicU64,
}

const NEVER: u64 = 1;
const EXECUTED: u64 = 2;

/// Rules that are kept, or not.
#[derive(Clone, Copy)]
struct Rules {
    /// The commit word is released after the body: a fabric with `ordered_writes`.
    release: bool,
    /// The worker acquires between the commit word and the body.
    acquire: bool,
    /// Requests carry a checksum, and the worker believes nothing without it.
    crc: bool,
    /// The client uses the slot again only after an answer.
    waits: bool,
    /// The worker remembers what it executed.
    remembers: bool,
}

const ORDERED: Rules = Rules {
    release: true,
    acquire: true,
    crc: false,
    waits: true,
    remembers: true,
};

/// The value that request `seq` puts.
fn value(seq: u32) -> u64 {
    u64::from(seq) * 0x0101_0101
}

fn crc(value: u64, commit: Commit) -> u64 {
    u64::from(request_crc(&value.to_le_bytes(), KeyHash::default(), commit))
}

/// Request `seq`, sent for the `attempt`th time.
fn write(shared: &Shared, rules: Rules, seq: u32, attempt: u32) {
    let commit = Commit::new(SlotOp::Put, seq, 0, 8, rules.crc).with_attempt(attempt);
    shared.body.store(value(seq), Ordering::Relaxed);
    if rules.crc {
        shared.crc.store(crc(value(seq), commit), Ordering::Relaxed);
    }
    let order = if rules.release {
        Ordering::Release
    } else {
        Ordering::Relaxed
    };
    shared.commit.store(commit.0, order);
}

/// The worker, with what it did.
struct Worker {
    state: SlotState,
    executed: Vec<u32>,
    rules: Rules,
}

impl Worker {
    fn new(rules: Rules) -> Worker {
        Worker {
            state: SlotState::UNUSED,
            executed: Vec::new(),
            rules,
        }
    }

    /// One look at the slot.
    fn look(&mut self, shared: &Shared) {
        let commit = Commit(shared.commit.load(Ordering::Relaxed));
        if commit.0 == self.state.last_commit() {
            return;
        }
        if self.rules.acquire {
            fence(Ordering::Acquire);
        }
        match self.state.judge(commit) {
            Verdict::Execute => {
                let body = shared.body.load(Ordering::Relaxed);
                if self.rules.crc && shared.crc.load(Ordering::Relaxed) != crc(body, commit) {
                    return; // torn: look again
                }
                assert_eq!(body, value(commit.seq()), "a body of another request");
                self.executed.push(commit.seq());
                if self.rules.remembers {
                    self.state.take(commit);
                    self.state.finish(Status::Ok);
                } else {
                    self.state.note(commit);
                }
            }
            Verdict::Again => {
                self.state.note(commit);
                assert_eq!(self.state.again(SlotOp::Put), Some(Status::Ok));
            }
            Verdict::Ignore => return self.state.note(commit),
        }
        // Release: pairs with the Acquire of the client; our loads of the body come before its next stores.
        shared.reply.store(u64::from(commit.seq()), Ordering::Release);
    }

    /// One look at the control channel.
    fn answer(&mut self, shared: &Shared) {
        let seq = shared.question.load(Ordering::Acquire);
        if seq != 0 && shared.answer.load(Ordering::Relaxed) == 0 {
            let executed = self.state.rule_out(seq as u32).executed;
            let answer = if executed { EXECUTED } else { NEVER };
            shared.answer.store(answer, Ordering::Release);
        }
    }
}

fn is_answered(shared: &Shared, seq: u32) -> bool {
    shared.reply.load(Ordering::Acquire) == u64::from(seq)
}

/// The client sends a request, and then the next one or, without a reply, the same one again.
fn retransmission(rules: Rules) {
    loom::model(move || {
        let shared = Arc::new(Shared::default());
        let theirs = shared.clone();
        let client = thread::spawn(move || {
            write(&theirs, rules, 1, 0);
            if !rules.waits || is_answered(&theirs, 1) {
                write(&theirs, rules, 2, 0);
            } else {
                write(&theirs, rules, 1, 1);
            }
        });
        let mut worker = Worker::new(rules);
        (0..3).for_each(|_| worker.look(&shared));
        client.join().expect("the client");
        worker.look(&shared);
        let executed = worker.executed;
        assert!(executed.is_sorted_by(|a, b| a < b), "executed {executed:?}");
        if rules.waits {
            assert!(executed == [1] || executed == [1, 2], "executed {executed:?}");
        }
    });
}

/// The client sends a request, gives it up without a reply, and uses the slot again when it knows what became
/// of it.
fn resync(rules: Rules) {
    loom::model(move || {
        let shared = Arc::new(Shared::default());
        let theirs = shared.clone();
        let client = thread::spawn(move || {
            write(&theirs, rules, 1, 0);
            theirs.question.store(1, Ordering::Release);
            let answer = theirs.answer.load(Ordering::Acquire);
            if !rules.waits || answer != 0 {
                write(&theirs, rules, 2, 0);
            }
            answer
        });
        let mut worker = Worker::new(rules);
        worker.look(&shared);
        worker.answer(&shared);
        worker.look(&shared);
        let answer = client.join().expect("the client");
        worker.look(&shared);
        let executed = worker.executed;
        match answer {
            NEVER => assert_eq!(executed, [2], "ruled out, and executed"),
            EXECUTED => assert_eq!(executed, [1, 2], "said to be executed"),
            _ if rules.waits => assert!(executed.len() <= 1, "executed {executed:?}"),
            _ => {}
        }
    });
}

#[test]
fn loom_a_request_is_taken_whole_and_once() {
    retransmission(ORDERED);
}

#[test]
fn loom_a_slot_is_used_again_after_resync() {
    resync(ORDERED);
}

/// Words of a write may land in any order; then the checksum decides.
#[test]
fn loom_with_a_checksum_no_order_is_needed() {
    retransmission(Rules {
        release: false,
        crc: true,
        ..ORDERED
    });
}

#[test]
#[should_panic(expected = "a body of another request")]
fn loom_a_commit_word_without_release_is_caught() {
    retransmission(Rules {
        release: false,
        ..ORDERED
    });
}

#[test]
#[should_panic(expected = "a body of another request")]
fn loom_a_worker_without_acquire_is_caught() {
    retransmission(Rules {
        acquire: false,
        ..ORDERED
    });
}

#[test]
#[should_panic(expected = "a body of another request")]
fn loom_a_client_that_does_not_wait_is_caught() {
    retransmission(Rules {
        waits: false,
        ..ORDERED
    });
}

#[test]
#[should_panic(expected = "a body of another request")]
fn loom_a_slot_used_again_without_resync_is_caught() {
    resync(Rules {
        waits: false,
        ..ORDERED
    });
}

#[test]
#[should_panic(expected = "executed [1, 1]")]
fn loom_a_worker_that_forgets_is_caught() {
    retransmission(Rules {
        remembers: false,
        ..ORDERED
    });
}
