//! A server that lies. Nothing it sends panics the client, hangs it, or ends an operation wrongly.

use crate::client::bed::{Bed, Ended, get, lossy, put};
use crate::client::fake::Fate;
use drover_base::{Ns, Rng};
use drover_kv::KvClient;
use drover_kv_herd::client::ClientOptions;
use drover_kv_herd::control::{Message, Resynced, Welcome};
use drover_kv_herd::layout::{ReplyImm, Status};
use drover_verbs::{Export, Imm};

#[test]
fn garbage_replies_are_counted_and_dropped() {
    let mut bed = Bed::with(4, 2, ClientOptions::default(), |_| {});
    bed.server.script = Box::new(|_| Fate::LoseReply);
    let token = bed.submit(put(b"k", b"v"));
    bed.step();
    let mut rng = Rng::new(9, 0, 0);
    for round in 0..3000u32 {
        let partition = rng.below(2) as usize;
        let len = rng.below(1000) as usize;
        // The right slot and seq, but a status that does not fit; wrong slots; no immediate; anything.
        let imm = match round % 4 {
            0 => Some(Imm(ReplyImm::new(Status::Bulk, 0, 1).0)),
            1 => Some(Imm(0x9000_0001 | (rng.next_u64() as u32 & 0x6000_0000))),
            2 => None,
            _ => Some(Imm(rng.next_u64() as u32 | 0x0ff0_0000)),
        };
        bed.server.reply_raw(partition, imm, &vec![round as u8; len]);
        bed.poll();
    }
    assert!(!bed.ended.contains_key(&token) || bed.ended[&token] == Ended::Stored);
    bed.server.script = Box::new(|_| Fate::Serve);
    bed.settle();
    assert_eq!(bed.ended[&token], Ended::Stored);
    let stats = bed.client.stats();
    assert!(stats.stale_replies + stats.garbage >= 2900, "{stats:?}");
    assert_eq!(bed.run(get(b"k")), Ended::Value(b"v".to_vec()));
}

#[test]
fn bent_welcomes_are_refused() {
    type Bend = fn(&mut Welcome);
    let bends: [(&str, Bend); 10] = [
        ("no window", |w| w.window = 0),
        ("odd window", |w| w.window = 3),
        ("window larger than asked", |w| w.window = 256),
        ("slot of no lines", |w| w.slot_bytes = 0),
        ("slot of 100 bytes", |w| w.slot_bytes = 100),
        ("slot too long", |w| w.slot_bytes = 2048),
        ("more slots than the region has", |w| {
            w.partition_count = 9;
            w.reply_qpns = (100..109).collect();
        }),
        ("two partitions, one sender", |w| {
            w.partition_count = 2;
            w.reply_qpns = vec![5, 5];
        }),
        ("no region", |w| w.slots.region = Export::default()),
        ("no queue pair", |w| w.slots.uc.bytes.truncate(3)),
    ];
    for (what, bend) in bends {
        let mut bed = Bed::raw(4, 1, ClientOptions::default(), lossy(), |server| {
            server.bend = Box::new(bend);
        });
        let mut error = None;
        bed.until(|bed| {
            error = error.take().or_else(|| bed.client.take_error());
            error.is_some()
        });
        assert!(!bed.client.is_ready(), "{what}");
        bed.server.bend = Box::new(|_| {});
        bed.until(|bed| bed.client.is_ready());
        assert_eq!(bed.run(put(b"k", b"v")), Ended::Stored, "{what}");
    }
}

#[test]
fn messages_nobody_asked_for_change_nothing() {
    let mut bed = Bed::new();
    let export = Export {
        bytes: vec![1, 2, 3],
        fds: Vec::new(),
    };
    let resynced = |slot, seq| Resynced {
        partition: slot,
        slot,
        seq,
        executed: true,
        status: 255,
        last_seq: 7,
    };
    for message in [
        Message::Ready,
        Message::Resynced(resynced(0, 1)),
        Message::Resynced(resynced(u16::MAX, 1)),
        Message::BulkReady {
            chunk_bytes: u32::MAX,
            chunk_count: 255,
            short_bytes: u32::MAX,
            short_count: 255,
            region: export.clone(),
            rc: export.clone(),
        },
        Message::Partition {
            index: 9,
            ud: export.clone(),
        },
        Message::StatsRequest,
        Message::Stats { text: String::new() },
    ] {
        bed.server.send(&message);
    }
    bed.pass(Ns::from_ms(5));
    assert_eq!(bed.run(put(b"k", b"v")), Ended::Stored);
    assert_eq!(bed.client.stats().reconnects, 0);
    assert!(bed.client.stats().garbage >= 5);
}

#[test]
fn bulk_memory_that_is_none_is_refused() {
    for bytes in [vec![], vec![0xff; 24]] {
        let mut bed = Bed::new();
        bed.server.script = Box::new(|_| Fate::Serve);
        let long = bed.submit(put(b"k", &[1; 2000]));
        bed.poll();
        bed.poll();
        let export = Export {
            bytes,
            fds: Vec::new(),
        };
        let message = Message::BulkReady {
            chunk_bytes: 1 << 30,
            chunk_count: 200,
            short_bytes: 4096,
            short_count: 4,
            region: export.clone(),
            rc: export,
        };
        bed.server.send(&message);
        bed.settle();
        assert_eq!(bed.ended[&long], Ended::Refused(drover_kv::Refusal::TooLarge));
        assert_eq!(bed.run(put(b"k", b"v")), Ended::Stored);
    }
}

/// A resynchronisation answered with nonsense must not complete the operation as stored.
#[test]
fn a_resync_answer_for_another_request_is_ignored() {
    let mut bed = Bed::new();
    bed.server.deaf = true;
    bed.server.script = Box::new(|_| Fate::LoseRequest);
    let token = bed.submit(put(b"k", b"v"));
    bed.until(|bed| !bed.server.resyncs.is_empty());
    for (slot, seq) in [(1, 1), (0, 2), (0, 0)] {
        let answer = Resynced {
            partition: 0,
            slot,
            seq,
            executed: true,
            status: 0,
            last_seq: seq,
        };
        bed.server.send(&Message::Resynced(answer));
    }
    bed.pass(Ns::from_ms(5));
    assert!(!bed.ended.contains_key(&token));
    bed.until(|bed| bed.ended.contains_key(&token));
    assert_eq!(bed.ended[&token], Ended::Indeterminate);
    assert_eq!(bed.client.in_flight(), 0);
}
