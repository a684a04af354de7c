//! Nothing goes wrong.

use crate::client::bed::{Bed, Ended, delete, get, put};
use drover_kv::{KvClient, Op, SubmitError};
use drover_kv_herd::client::ClientOptions;
use drover_kv_herd::control::FrontEnd;
use drover_kv_herd::layout::{SlotOp, TRAILER_BYTES};

#[test]
fn get_put_delete() {
    let mut bed = Bed::new();
    assert_eq!(bed.run(get(b"k")), Ended::NotFound);
    assert_eq!(bed.run(put(b"k", b"value")), Ended::Stored);
    assert_eq!(bed.run(get(b"k")), Ended::Value(b"value".to_vec()));
    assert_eq!(bed.run(put(b"k", b"")), Ended::Stored);
    assert_eq!(bed.run(get(b"k")), Ended::Value(Vec::new()));
    assert_eq!(bed.run(delete(b"k")), Ended::Deleted);
    assert_eq!(bed.run(delete(b"k")), Ended::NotFound);
    assert_eq!(bed.client.stats().retransmits, 0);
}

#[test]
fn time_to_live_travels() {
    let mut bed = Bed::new();
    let op = Op::put_for(b"k", b"v", 77);
    assert_eq!(bed.run(op), Ended::Stored);
    assert_eq!(bed.server.store[&b"k"[..]], (b"v".to_vec(), 77));
}

#[test]
fn keys_have_1_to_250_bytes() {
    let mut bed = Bed::new();
    for len in [1, 249, 250] {
        let key = vec![b'x'; len];
        assert_eq!(bed.run(put(&key, b"v")), Ended::Stored);
        assert_eq!(bed.run(get(&key)), Ended::Value(b"v".to_vec()));
    }
    assert_eq!(bed.try_submit(get(b"")), Err(SubmitError::BadKey));
    assert_eq!(bed.try_submit(get(&[b'x'; 251])), Err(SubmitError::BadKey));
}

#[test]
fn every_slot_size_carries_what_fits_it() {
    for slot_bytes in [64, 128, 192, 512, 1024] {
        let options = ClientOptions {
            slot_bytes,
            ..ClientOptions::default()
        };
        let mut bed = Bed::with(4, 1, options, |_| {});
        let cluster = slot_bytes - TRAILER_BYTES - 3;
        for len in 0..=cluster {
            let value = vec![len as u8; len];
            assert_eq!(bed.run(put(b"key", &value)), Ended::Stored);
            assert_eq!(bed.run(get(b"key")), Ended::Value(value));
        }
        assert_eq!(bed.client.stats().bulk_transfers, 0);
        assert_eq!(bed.run(put(b"key", &vec![1; cluster + 1])), Ended::Stored);
        assert_eq!(bed.client.stats().bulk_transfers, 1);
    }
}

#[test]
fn a_full_window_is_flow_control() {
    let mut bed = Bed::new();
    let keys: Vec<[u8; 1]> = (0..5).map(|i| [i]).collect();
    for key in &keys[..4] {
        bed.submit(get(key));
    }
    assert_eq!(bed.try_submit(get(&keys[4])), Err(SubmitError::WindowFull));
    assert_eq!(bed.client.in_flight(), 4);
    bed.settle();
    assert_eq!(bed.run(get(&keys[4])), Ended::NotFound);
}

#[test]
fn many_partitions_share_the_keys() {
    let mut bed = Bed::with(8, 6, ClientOptions::default(), |_| {});
    for round in 0..3u32 {
        let mut left = (0..500u32).peekable();
        while let Some(&i) = left.peek() {
            let key = i.to_le_bytes();
            match bed.try_submit(put(&key, &(i + round).to_le_bytes())) {
                Ok(_) => drop(left.next()),
                Err(error) => assert_eq!(error, SubmitError::WindowFull),
            }
            bed.step();
        }
        bed.settle();
        assert_eq!(bed.server.store.len(), 500);
        assert!(bed.server.store.iter().all(|(key, (value, _))| {
            let i = u32::from_le_bytes(key[..].try_into().expect("4 bytes"));
            value[..] == (i + round).to_le_bytes()
        }));
    }
    let used: std::collections::BTreeSet<usize> = bed.server.seen.iter().map(|seen| seen.partition).collect();
    assert_eq!(used.len(), 6);
}

/// [HERD §4] program order: pipelined operations of one client on one key take effect in order, although this
/// server takes slots in reverse.
#[test]
fn pipelined_operations_on_one_key_keep_their_order() {
    let mut bed = Bed::new();
    bed.submit(put(b"k", b"1"));
    let first = bed.submit(get(b"k"));
    let also = bed.submit(get(b"k"));
    bed.submit(put(b"k", b"2"));
    let second = bed.submit(get(b"k"));
    bed.submit(delete(b"k"));
    let third = bed.submit(get(b"k"));
    bed.settle();
    assert_eq!(bed.ended[&first], Ended::Value(b"1".to_vec()));
    assert_eq!(bed.ended[&also], Ended::Value(b"1".to_vec()));
    assert_eq!(bed.ended[&second], Ended::Value(b"2".to_vec()));
    assert_eq!(bed.ended[&third], Ended::NotFound);
    assert!(bed.client.stats().conflicts >= 4);
}

#[test]
fn reads_of_one_key_are_not_held_back() {
    let mut bed = Bed::new();
    for _ in 0..4 {
        bed.submit(get(b"k"));
    }
    assert_eq!(bed.client.stats().conflicts, 0);
    bed.settle();
}

#[test]
fn checksums_where_the_server_or_the_caller_wants_them() {
    for (by_server, by_caller) in [(true, false), (false, true)] {
        let options = ClientOptions {
            crc: by_caller,
            ..ClientOptions::default()
        };
        let mut bed = Bed::with(4, 1, options, |server| server.crc_wanted = by_server);
        assert_eq!(bed.run(put(b"key", &[7; 993])), Ended::Stored);
        assert_eq!(bed.run(get(b"key")), Ended::Value(vec![7; 993]));
        assert_eq!(bed.server.crc_checked, 2);
        assert_eq!(bed.client.stats().bulk_transfers, 0);
        assert_eq!(bed.run(put(b"key", &[7; 994])), Ended::Stored);
        assert_eq!(
            bed.client.stats().bulk_transfers,
            1,
            "the checksum takes four bytes of the slot"
        );
    }
}

#[test]
fn requests_travel_as_datagrams_too() {
    let options = ClientOptions {
        front_end: FrontEnd::Datagrams,
        ..ClientOptions::default()
    };
    let mut bed = Bed::with(4, 3, options, |server| server.datagrams = true);
    for len in [0, 1, 20, 36, 37, 500, 997] {
        let value = vec![3; len];
        assert_eq!(bed.run(put(b"key", &value)), Ended::Stored);
        assert_eq!(bed.run(get(b"key")), Ended::Value(value));
    }
    assert_eq!(bed.run(put(b"key", &[5; 50_000])), Ended::Stored);
    assert_eq!(bed.run(get(b"key")), Ended::Value(vec![5; 50_000]));
    assert_eq!(bed.server.executions(b"key", SlotOp::PutBulk), 1);
}

#[test]
fn a_batch_is_taken_as_far_as_it_fits() {
    let mut bed = Bed::new();
    let ops: Vec<Op<'_>> = [b"a", b"b", b"c", b"d", b"e"]
        .iter()
        .map(|key| get(&key[..]))
        .collect();
    let ctx = bed.client.context().clone();
    use drover_verbs::Context;
    assert_eq!(bed.client.submit_batch(ctx.cpu(), &ops, 50), Ok(4));
    assert_eq!(
        bed.client.submit_batch(ctx.cpu(), &ops[4..], 54),
        Err(SubmitError::WindowFull)
    );
    bed.until(|bed| bed.client.in_flight() == 0);
    assert_eq!(bed.order.len(), 4);
}

#[test]
fn a_large_window_of_small_requests_never_runs_out_of_anything() {
    let options = ClientOptions {
        window: 256,
        ..ClientOptions::default()
    };
    let mut bed = Bed::with(256, 1, options, |_| {});
    let mut sent = 0u32;
    while sent < 20_000 {
        match bed.try_submit(get(&(sent % 997).to_le_bytes())) {
            Ok(_) => sent += 1,
            Err(_) => bed.step(),
        }
    }
    bed.settle();
    assert_eq!(bed.client.stats().retransmits, 0);
}
