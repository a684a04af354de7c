//! Requests and replies get lost, doubled, late.

use crate::client::bed::{Bed, Ended, delete, get, put};
use crate::client::fake::{Fate, refresh};
use drover_base::{Ns, Rng};
use drover_kv::{KvClient, Refusal};
use drover_kv_herd::client::ClientOptions;
use drover_kv_herd::layout::{Commit, SlotOp, Status};

/// Deals out the fates in order, then serves.
fn fates(list: &[Fate]) -> Box<dyn FnMut(&crate::client::fake::Seen) -> Fate> {
    let mut left = Vec::from(list).into_iter();
    Box::new(move |_| left.next().unwrap_or_default())
}

#[test]
fn a_lost_request_is_sent_again() {
    let mut bed = Bed::new();
    bed.server.script = fates(&[Fate::LoseRequest]);
    assert_eq!(bed.run(put(b"k", b"v")), Ended::Stored);
    assert_eq!(bed.client.stats().retransmits, 1);
    assert_eq!(bed.server.executions(b"k", SlotOp::Put), 1);
    assert_eq!(
        bed.server.seen[1].commit,
        bed.server.seen[0].commit.with_attempt(1)
    );
}

/// A client that was away for a second, as its thread did not run, has not waited for a second.
#[test]
fn absence_is_not_taken_for_loss() {
    let mut bed = Bed::new();
    bed.server.script = Box::new(|_| Fate::Hold);
    bed.submit(put(b"k", b"v"));
    bed.step();
    let start = refresh(&bed.server.ctx);
    while refresh(&bed.server.ctx).since(start) < Ns::from_s(1) {}
    for _ in 0..20 {
        bed.poll();
    }
    assert_eq!(bed.client.stats().retransmits, 0);
    bed.server.release(false);
    bed.settle();
    assert_eq!(bed.client.stats().retransmits, 0);
}

#[test]
fn a_put_whose_reply_was_lost_is_not_executed_again() {
    let mut bed = Bed::new();
    bed.server.script = fates(&[Fate::LoseReply, Fate::LoseReply]);
    assert_eq!(bed.run(put(b"k", b"v")), Ended::Stored);
    assert_eq!(bed.client.stats().retransmits, 2);
    assert_eq!(bed.server.executions(b"k", SlotOp::Put), 1);
    assert_eq!(bed.run(delete(b"k")), Ended::Deleted);
}

#[test]
fn a_get_whose_reply_was_lost_is_read_again() {
    let mut bed = Bed::new();
    bed.run(put(b"k", b"v"));
    bed.server.script = fates(&[Fate::LoseReply]);
    assert_eq!(bed.run(get(b"k")), Ended::Value(b"v".to_vec()));
    assert_eq!(bed.server.executions(b"k", SlotOp::Get), 2);
}

#[test]
fn duplicate_replies_are_dropped_and_never_eat_the_recvs() {
    let mut bed = Bed::new();
    bed.server.script = Box::new(|_| Fate::Duplicate);
    for i in 0..1000u32 {
        assert_eq!(bed.run(put(&i.to_le_bytes(), b"v")), Ended::Stored);
    }
    bed.step();
    assert_eq!(bed.client.stats().stale_replies, 1000);
    assert_eq!(bed.client.stats().retransmits, 0, "a reply found no RECV");
}

#[test]
fn a_late_reply_after_the_slot_was_used_again_is_dropped() {
    let mut bed = Bed::with(1, 1, ClientOptions::default(), |_| {});
    bed.run(put(b"a", b"1"));
    bed.run(put(b"b", b"2"));
    // The first GET's reply is held; its retransmission is answered; the held one comes during the next GET.
    bed.server.script = fates(&[Fate::Hold]);
    assert_eq!(bed.run(get(b"a")), Ended::Value(b"1".to_vec()));
    let next = bed.submit(get(b"b"));
    bed.poll();
    bed.server.release(false);
    bed.poll();
    assert!(
        !bed.ended.contains_key(&next),
        "the late reply was taken for the answer"
    );
    bed.settle();
    assert_eq!(bed.ended[&next], Ended::Value(b"2".to_vec()));
    assert_eq!(bed.client.stats().stale_replies, 1);
}

#[test]
fn replies_in_any_order_find_their_operations() {
    let mut bed = Bed::new();
    for i in 0..4u8 {
        bed.run(put(&[i], &[i; 5]));
    }
    bed.server.script = Box::new(|_| Fate::Hold);
    let tokens: Vec<u64> = (0..4u8).map(|i| bed.submit(get(&[i]))).collect();
    bed.step();
    bed.server.release(false); // the fake server takes slots in reverse
    bed.settle();
    for (i, token) in tokens.iter().enumerate() {
        assert_eq!(bed.ended[token], Ended::Value(vec![i as u8; 5]));
    }
    assert_eq!(bed.order[4..], [tokens[3], tokens[2], tokens[1], tokens[0]]);
}

/// Five retransmissions, then the slot is quarantined and the server asked; the PUT gets a definite answer.
#[test]
fn a_put_given_up_is_asked_about() {
    for (fate, executions) in [(Fate::LoseReply, 1), (Fate::LoseRequest, 1)] {
        let mut bed = Bed::new();
        bed.server.script = fates(&[fate; 6]);
        assert_eq!(bed.run(put(b"k", b"v")), Ended::Stored);
        let stats = *bed.client.stats();
        assert_eq!((stats.retransmits, stats.resyncs, stats.indeterminate), (5, 1, 0));
        assert_eq!(stats.resubmits, u64::from(fate == Fate::LoseRequest));
        assert_eq!(bed.server.executions(b"k", SlotOp::Put), executions);
        let attempts: Vec<Commit> = bed.server.seen[..6].iter().map(|seen| seen.commit).collect();
        let first = attempts[0];
        assert!(
            attempts
                .iter()
                .enumerate()
                .all(|(i, commit)| *commit == first.with_attempt(i as u32))
        );
    }
}

#[test]
fn a_resync_rules_out_only_what_is_given_up() {
    let mut bed = Bed::new();
    bed.server.script = Box::new(|seen| match seen.key[0] {
        b'a' if seen.commit.seq() == 1 => Fate::LoseRequest,
        _ => Fate::Serve,
    });
    let lost = bed.submit(put(b"a", b"1"));
    bed.run(put(b"b", b"2"));
    bed.pass(Ns::from_ms(50));
    // Posted long after: still open when the first one is given up.
    let open = bed.submit(put(b"a2", b"3"));
    bed.server.script = Box::new(|_| Fate::LoseRequest);
    bed.until(|bed| !bed.server.resyncs.is_empty());
    assert_eq!(bed.server.resyncs[0].r, 2, "r = 2 is still under way");
    bed.server.script = Box::new(|_| Fate::Serve);
    bed.settle();
    assert_eq!(
        (&bed.ended[&lost], &bed.ended[&open]),
        (&Ended::Stored, &Ended::Stored)
    );
}

#[test]
fn a_get_given_up_is_submitted_anew_until_its_deadline() {
    let mut bed = Bed::new();
    bed.run(put(b"k", b"v"));
    bed.server.script = fates(&[Fate::LoseReply; 6]);
    assert_eq!(bed.run(get(b"k")), Ended::Value(b"v".to_vec()));
    bed.server.script = Box::new(|_| Fate::LoseRequest);
    assert_eq!(bed.run(get(b"k")), Ended::Refused(Refusal::Unavailable));
}

#[test]
fn a_put_at_its_deadline_is_indeterminate_and_its_slot_stays_shut() {
    let mut bed = Bed::new();
    bed.server.deaf = true;
    bed.server.script = Box::new(|_| Fate::LoseRequest);
    let first = bed.submit(put(b"k", b"1"));
    bed.until(|bed| bed.ended.contains_key(&first));
    assert_eq!(bed.ended[&first], Ended::Indeterminate);
    // A later operation on the key waits for the answer about the first.
    let second = bed.submit(put(b"k", b"2"));
    bed.server.script = Box::new(|_| Fate::Serve);
    bed.pass(Ns::from_ms(100));
    assert!(!bed.ended.contains_key(&second));
    bed.server.deaf = false;
    let asked = *bed.server.resyncs.last().expect("asked");
    let answer = drover_kv_herd::control::Resynced {
        partition: asked.partition,
        slot: asked.slot,
        seq: asked.seq,
        executed: false,
        status: 0,
        last_seq: asked.seq,
    };
    bed.server
        .send(&drover_kv_herd::control::Message::Resynced(answer));
    bed.settle();
    assert_eq!(bed.ended[&second], Ended::Stored);
    assert_eq!(bed.server.executions(b"k", SlotOp::Put), 1);
}

#[test]
fn a_slow_server_is_asked_again_and_executes_once() {
    let mut bed = Bed::new();
    let token = bed.submit(put(b"k", b"v"));
    // The server sleeps for 20 ms; retransmissions overwrite the slot meanwhile.
    for _ in 0..1000 {
        bed.poll();
    }
    assert!(bed.client.stats().retransmits >= 3);
    bed.until(|bed| bed.ended.contains_key(&token));
    assert_eq!(
        (bed.server.seen.len(), bed.server.executions(b"k", SlotOp::Put)),
        (1, 1)
    );
}

#[test]
fn retry_means_again() {
    let mut bed = Bed::new();
    bed.server.script = fates(&[Fate::Say(Status::Retry), Fate::Say(Status::Retry)]);
    assert_eq!(bed.run(put(b"k", b"v")), Ended::Stored);
    assert_eq!(bed.client.stats().resubmits, 2);
}

#[test]
fn a_forgetful_server_leaves_a_put_indeterminate_and_a_get_repeated() {
    let mut bed = Bed::new();
    bed.server.script = fates(&[Fate::Say(Status::StaleEpoch)]);
    assert_eq!(bed.run(put(b"k", b"v")), Ended::Indeterminate);
    bed.server.script = fates(&[Fate::Say(Status::StaleEpoch)]);
    assert_eq!(bed.run(get(b"k")), Ended::NotFound);
    assert_eq!(bed.client.stats().resyncs, 2);
}

#[test]
fn refusals_have_no_effect() {
    let mut bed = Bed::new();
    for (status, refusal) in [
        (Status::TooLarge, Refusal::TooLarge),
        (Status::Full, Refusal::Full),
        (Status::BadRequest, Refusal::BadRequest),
    ] {
        bed.server.script = fates(&[Fate::Say(status)]);
        assert_eq!(bed.run(put(b"k", b"v")), Ended::Refused(refusal));
    }
}

/// Random loss, duplication and delay: everything completes, acknowledged writes happened exactly once and the
/// last acknowledged value is there.
#[test]
fn random_faults_lose_and_double_nothing() {
    for (seed, rate) in [(1, 0.0001), (2, 0.001), (3, 0.01), (4, 0.1), (5, 0.3)] {
        let mut bed = Bed::with(
            16,
            2,
            ClientOptions {
                window: 16,
                ..ClientOptions::default()
            },
            |_| {},
        );
        let mut rng = Rng::new(seed, 0, 0);
        let mut faults = Rng::new(seed, 0, 1);
        bed.server.script = Box::new(move |_| match faults.chance(rate) {
            true => {
                [Fate::LoseRequest, Fate::LoseReply, Fate::Duplicate, Fate::Hold][faults.below(4) as usize]
            }
            false => Fate::Serve,
        });
        let mut puts = Vec::new();
        for i in 0..1500u32 {
            let key = [rng.below(40) as u8];
            let value = i.to_le_bytes();
            let op = if rng.chance(0.5) {
                put(&key, &value)
            } else {
                get(&key)
            };
            loop {
                match bed.try_submit(op) {
                    Ok(token) => {
                        if matches!(op, drover_kv::Op::Put { .. }) {
                            puts.push((token, key[0], i));
                        }
                        break;
                    }
                    Err(_) => bed.step(),
                }
            }
            if rng.chance(0.01) {
                bed.server.release(true);
            }
        }
        bed.settle();
        let mut last = std::collections::BTreeMap::new();
        for (token, key, value) in puts {
            assert_eq!(bed.ended[&token], Ended::Stored, "seed {seed}");
            last.insert(key, value);
        }
        for (key, value) in last {
            assert_eq!(
                bed.server.store[&vec![key]].0,
                value.to_le_bytes(),
                "seed {seed}, key {key}"
            );
        }
        let stored = bed
            .server
            .executed
            .iter()
            .filter(|seen| seen.commit.op() == Some(SlotOp::Put))
            .count();
        let submitted = bed
            .ended
            .values()
            .filter(|ended| **ended == Ended::Stored)
            .count();
        assert_eq!(
            stored, submitted,
            "seed {seed}: a PUT was executed twice, or never"
        );
        assert_eq!(bed.client.in_flight(), 0);
    }
}
