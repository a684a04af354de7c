//! Values too long for a slot.

use crate::client::bed::{Bed, Ended, delete, get, put};
use crate::client::fake::{Fate, ITEM_BYTES_MAX, SHORT_BYTES};
use drover_base::Cpu;
use drover_kv::{KvClient, Op, SubmitError};
use drover_kv_herd::client::ClientOptions;
use drover_kv_herd::control::{ErrorCode, Message, Resynced};
use drover_kv_herd::layout::SlotOp;
use drover_verbs::Context;

fn value(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + len) as u8).collect()
}

#[test]
fn long_values_go_and_come() {
    let mut bed = Bed::new();
    for len in [998, 1000, 1001, 4096, 65_537, ITEM_BYTES_MAX] {
        assert_eq!(bed.run(put(b"key", &value(len))), Ended::Stored);
        assert_eq!(bed.run(get(b"key")), Ended::Value(value(len)));
    }
    assert_eq!(bed.run(delete(b"key")), Ended::Deleted);
    assert_eq!(bed.client.stats().retransmits, 0);
}

#[test]
fn the_limit_is_exact() {
    let mut bed = Bed::new();
    let fits = value(1000 - 3);
    assert_eq!(bed.run(put(b"key", &fits)), Ended::Stored);
    assert_eq!(bed.run(Op::put_for(b"key", &fits[4..], 9)), Ended::Stored);
    assert_eq!(bed.client.stats().bulk_transfers, 0);
    assert_eq!(bed.run(Op::put_for(b"key", &fits[3..], 9)), Ended::Stored);
    assert_eq!(
        bed.client.stats().bulk_transfers,
        1,
        "the time to live takes four bytes"
    );
    assert_eq!(bed.server.store[&b"key"[..]].1, 9);
    assert_eq!(
        bed.try_submit(put(b"key", &value(ITEM_BYTES_MAX + 1))),
        Err(SubmitError::TooLarge)
    );
}

#[test]
fn long_and_short_operations_on_a_key_keep_their_order() {
    let mut bed = Bed::new();
    bed.submit(put(b"k", &value(5000)));
    let long = bed.submit(get(b"k"));
    bed.submit(put(b"k", b"short"));
    let short = bed.submit(get(b"k"));
    bed.submit(put(b"k", &value(7000)));
    bed.submit(delete(b"k"));
    let none = bed.submit(get(b"k"));
    bed.settle();
    assert_eq!(bed.ended[&long], Ended::Value(value(5000)));
    assert_eq!(bed.ended[&short], Ended::Value(b"short".to_vec()));
    assert_eq!(bed.ended[&none], Ended::NotFound);
}

#[test]
fn more_long_values_than_chunks_take_turns() {
    let options = ClientOptions {
        bulk_chunks: 2,
        window: 8,
        ..ClientOptions::default()
    };
    let mut bed = Bed::with(8, 2, options, |_| {});
    for i in 0..20u8 {
        bed.submit(put(&[i], &value(3000 + usize::from(i))));
    }
    bed.settle();
    let tokens: Vec<u64> = (0..8u8).map(|i| bed.submit(get(&[i]))).collect();
    bed.settle();
    for (i, token) in tokens.iter().enumerate() {
        assert_eq!(bed.ended[token], Ended::Value(value(3000 + i)));
    }
}

#[test]
fn a_value_that_changed_on_its_way_is_read_again() {
    let mut bed = Bed::new();
    bed.run(put(b"k", &value(5000)));
    bed.server.spoil_bulk = 3;
    assert_eq!(bed.run(get(b"k")), Ended::Value(value(5000)));
    assert_eq!(bed.client.stats().bulk_repeats, 3);
}

#[test]
fn losses_during_bulk_operations() {
    for fate in [Fate::LoseRequest, Fate::LoseReply, Fate::Duplicate] {
        for give_up in [1, 6] {
            let mut bed = Bed::new();
            let mut left = give_up;
            bed.server.script = Box::new(move |seen| {
                let bulk = matches!(seen.commit.op(), Some(SlotOp::PutBulk));
                left -= i32::from(bulk);
                if bulk && left >= 0 { fate } else { Fate::Serve }
            });
            assert_eq!(bed.run(put(b"k", &value(5000))), Ended::Stored);
            assert_eq!(bed.server.executions(b"k", SlotOp::PutBulk), 1);
            let mut left = give_up;
            bed.server.script = Box::new(move |seen| {
                let bulk = matches!(seen.commit.op(), Some(SlotOp::GetBulk));
                left -= i32::from(bulk);
                if bulk && left >= 0 { fate } else { Fate::Serve }
            });
            assert_eq!(bed.run(get(b"k")), Ended::Value(value(5000)));
        }
    }
}

#[test]
fn a_loss_of_the_session_leaves_only_asked_puts_in_doubt() {
    let mut bed = Bed::with(1, 1, ClientOptions::default(), |_| {});
    bed.run(put(b"r", &value(2000)));
    bed.server.script = Box::new(|seen| match seen.commit.op() {
        Some(SlotOp::PutBulk) => Fate::LoseRequest,
        _ => Fate::Serve,
    });
    let asked = bed.submit(put(b"a", &value(3000)));
    let waits = bed.submit(put(b"b", &value(4000)));
    let read = bed.submit(get(b"a"));
    bed.until(|bed| bed.server.seen.len() > 2);
    bed.server.kill();
    bed.server.script = Box::new(|_| Fate::Serve);
    bed.settle();
    assert_eq!(bed.ended[&asked], Ended::Indeterminate);
    assert_eq!(bed.ended[&waits], Ended::Stored);
    assert_eq!(bed.ended[&read], Ended::NotFound);
    assert_eq!(bed.run(get(b"b")), Ended::Value(value(4000)));
}

#[test]
fn a_server_without_bulk_memory_refuses_long_values_only() {
    let mut bed = Bed::new();
    let long = bed.submit(put(b"k", &value(2000)));
    bed.poll();
    bed.poll();
    let text = "no memory".to_owned();
    bed.server.send(&Message::Error {
        code: ErrorCode::Resources,
        text,
    });
    bed.settle();
    assert_eq!(bed.ended[&long], Ended::Refused(drover_kv::Refusal::TooLarge));
    assert_eq!(bed.run(put(b"k", b"short")), Ended::Stored);
    assert_eq!(
        bed.try_submit(put(b"k", &value(2000))),
        Err(SubmitError::TooLarge)
    );
}

/// Number of requests of this kind that the server has executed.
fn executed(bed: &Bed, op: SlotOp) -> usize {
    let is_op = |seen: &&crate::client::fake::Seen| seen.commit.op() == Some(op);
    bed.server.executed.iter().filter(is_op).count()
}

/// While all values are long, a GET is one request, and so is one of a short value or of none. While most are short, a GET
/// begins as if all were.
#[test]
fn a_get_begins_with_a_chunk_while_values_are_long() {
    let mut bed = Bed::new();
    let lengths = [2000, SHORT_BYTES, SHORT_BYTES + 1, 300];
    for (i, len) in (0u8..).zip(lengths) {
        bed.run(put(&[i], &value(len)));
    }
    let get_all = |bed: &mut Bed, keys: &[u8]| {
        for &i in keys {
            assert_eq!(bed.run(get(&[i])), Ended::Value(value(lengths[usize::from(i)])));
        }
        (executed(bed, SlotOp::Get), executed(bed, SlotOp::GetBulk))
    };
    assert_eq!(
        get_all(&mut bed, &[0; 5]),
        (3, 5),
        "it has to be seen a few times"
    );
    assert_eq!(get_all(&mut bed, &[0, 1, 0, 0]), (3, 9));
    assert_eq!(get_all(&mut bed, &[3]), (3, 10), "a short value is in the reply");
    assert_eq!(bed.run(get(b"nothing")), Ended::NotFound);
    assert_eq!(get_all(&mut bed, &[2]), (3, 13), "it is longer than the chunk");
    let (short_ones, _) = get_all(&mut bed, &[3; 20]);
    assert!((10..20).contains(&short_ones), "{short_ones}");
    let (now, asked) = get_all(&mut bed, &[0, 3, 3, 3]);
    assert_eq!((now - short_ones, asked), (4, executed(&bed, SlotOp::GetBulk)));
}

/// As many operations as the window has places are on their way, whatever their order and lengths.
#[test]
fn long_and_short_gets_share_the_window() {
    let mut bed = Bed::with(8, 1, ClientOptions::default(), |_| {});
    for i in 0..16u8 {
        bed.run(put(&[i], &value(900 + 40 * usize::from(i))));
    }
    for round in 0..20 {
        let tokens: Vec<u64> = (0..8u8)
            .map(|i| bed.submit(get(&[(i * 5 + round) % 16])))
            .collect();
        bed.settle();
        for (i, token) in (0u8..).zip(tokens) {
            let len = 900 + 40 * usize::from((i * 5 + round) % 16);
            assert_eq!(bed.ended[&token], Ended::Value(value(len)));
        }
    }
}

/// A caller whose window is full waits for a completion. The end of a PUT that was completed at its deadline makes space without
/// one, so the client asks to be polled again.
#[test]
fn a_late_end_of_a_long_put_makes_space_that_the_caller_hears_of() {
    let mut bed = Bed::with(1, 1, ClientOptions::default(), |_| {});
    bed.server.deaf = true;
    bed.server.script = Box::new(|seen| match seen.commit.op() {
        Some(SlotOp::PutBulk) => Fate::LoseRequest,
        _ => Fate::Serve,
    });
    assert_eq!(bed.run(put(b"k", &value(2000))), Ended::Indeterminate);
    assert_eq!(bed.try_submit(get(b"other")), Err(SubmitError::WindowFull));
    let asked = *bed.server.resyncs.last().expect("asked");
    bed.server.send(&Message::Resynced(Resynced {
        partition: asked.partition,
        slot: asked.slot,
        seq: asked.seq,
        executed: false,
        status: 0,
        last_seq: asked.seq,
    }));
    let until_told = (0..1000).find(|_| {
        bed.poll();
        let now = bed.client.context().cpu().now();
        let is_due = bed.client.next_timer() <= now;
        bed.try_submit(get(b"other"))
            .inspect(|_| assert!(is_due, "nothing wakes the caller"))
            .is_ok()
    });
    assert!(until_told.is_some(), "the slot is free");
    bed.settle();
}
