//! Clients that lie, and those who send noise: the server survives them, and the others do not notice.

use crate::service::bed::{Cluster, Ended, get, put, small, value};
use crate::service::raw::{Raw, VALUES_BYTES, hello, receive};
use drover_base::Rng;
use drover_control::{Message, kind};
use drover_kv_pilaf::control::{Adopted, Attach, Hello, Ticket, Welcome};
use drover_kv_pilaf::layout::{MESSAGE_HEADER_BYTES, Request, RequestKind, Status};
use drover_kv_pilaf::server::ServerOptions;
use drover_verbs::Export;
use std::sync::atomic::{AtomicU64, Ordering};

/// The next number of a request: what comes with the number of an earlier one is not executed.
static NEXT: AtomicU64 = AtomicU64::new(1);

fn request(kind: RequestKind, key: &[u8], value_bytes: usize, value_offset: u64) -> Vec<u8> {
    let header = Request {
        kind,
        slot: 3,
        key_bytes: key.len(),
        value_bytes,
        ttl_s: 0,
        sequence: NEXT.fetch_add(1, Ordering::Relaxed),
        value_offset,
        is_detailed: false,
        extension: None,
    };
    [&header.encode()[..], key].concat()
}

/// The value that lies in the client's memory is fetched; one that would lie outside is not asked for.
#[test]
fn lengths_and_offsets_that_lie_are_refused() {
    let mut cluster = Cluster::new(small());
    let mut raw = Raw::new(&mut cluster);
    let mut ask = |message: &[u8]| raw.ask(&mut cluster, message).expect("an answer").0.status;
    let at = |value_bytes, offset| request(RequestKind::PutLarge, b"key", value_bytes, offset);
    assert_eq!(ask(&at(VALUES_BYTES, 0)), Status::Stored);
    for (bytes, offset) in [
        (VALUES_BYTES + 1, 0),
        (1, VALUES_BYTES as u64),
        (8, VALUES_BYTES as u64 - 7),
        (8, u64::MAX - 3),
        (u32::MAX as usize, 0),
        (u32::MAX as usize, u64::MAX),
    ] {
        assert_eq!(
            ask(&at(bytes, offset)),
            Status::BadRequest,
            "{bytes} bytes at {offset}"
        );
    }
    // Lengths in the header that the message is too short, or too long, for.
    for key_bytes in [0usize, 2, 4, 251, 65_535] {
        let mut message = request(RequestKind::Get, b"key", 0, 0);
        message[4..6].copy_from_slice(&(key_bytes as u16).to_le_bytes());
        assert_eq!(ask(&message), Status::BadRequest, "a key of {key_bytes} bytes");
    }
    for value_bytes in [1u32, 1 << 20, u32::MAX] {
        let message = request(RequestKind::Put, b"key", value_bytes as usize, 0);
        assert_eq!(
            ask(&message),
            Status::BadRequest,
            "a value of {value_bytes} bytes"
        );
    }
    assert_eq!(ask(&[]), Status::BadRequest);
    assert_eq!(ask(&request(RequestKind::Get, b"key", 0, 0)), Status::Location);
}

/// Pilaf's released code stores the checksum and the lengths that a client sends: a client that READs that key afterwards spins
/// for ever. Here nothing that a client says can be stored: there are no checksums in messages, and lengths must agree.
#[test]
fn pilaf_a_put_cannot_poison_the_readers_of_its_key() {
    let mut stored = 0;
    for seed in 0..200 {
        let mut cluster = Cluster::new(small());
        let mut reader = cluster.client();
        let mut raw = Raw::new(&mut cluster);
        let mut rng = Rng::new(seed, 0, 0);
        let mut message = request(RequestKind::Put, b"key", 8, 0);
        message.extend_from_slice(b"12345678");
        for _ in 0..1 + rng.below(3) {
            let at = rng.below(message.len() as u64) as usize;
            message[at] = rng.next_u64() as u8;
        }
        raw.ask(&mut cluster, &message);
        let key = &message[MESSAGE_HEADER_BYTES..MESSAGE_HEADER_BYTES + 3];
        match reader.run(&mut cluster, &get(key)) {
            Ended::NotFound => {}
            // Lengths must agree, so what was stored under the first three bytes is all that follows them.
            Ended::Value(value) => {
                assert_eq!(
                    value,
                    message[MESSAGE_HEADER_BYTES + 3..],
                    "seed {seed}: {message:?}"
                );
                stored += 1;
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(reader.client.stats().torn, 0, "seed {seed}: {message:?}");
    }
    assert!(stored > 20, "{stored} of these messages were stored");
}

/// Any bytes, over any number of sessions.
#[test]
fn noise_for_requests_is_answered_or_ends_the_session_and_others_are_served() {
    let mut cluster = Cluster::new(ServerOptions {
        evicts: true,
        ..small()
    });
    let mut good = cluster.client();
    good.fill(&mut cluster, 0..20);
    for seed in 0..100 {
        let mut rng = Rng::new(seed, 0, 0);
        let mut raw = Raw::new(&mut cluster);
        for _ in 0..20 {
            let bytes = rng.below(raw.message_bytes() as u64 + 1) as usize;
            let mut message: Vec<u8> = (0..bytes).map(|_| rng.next_u64() as u8).collect();
            // Most begin as requests do, or hardly anything would get past the first byte.
            if rng.chance(0.8) && bytes >= MESSAGE_HEADER_BYTES {
                message[0] = 1 + rng.below(5) as u8;
                message[4..6].copy_from_slice(&(rng.below(300) as u16).to_le_bytes());
                let rest = bytes as u32 - MESSAGE_HEADER_BYTES as u32;
                message[8..12].copy_from_slice(&(rng.below(u64::from(rest) + 2) as u32).to_le_bytes());
                message[24..32].copy_from_slice(&rng.below(8192).to_le_bytes());
            }
            if raw.ask(&mut cluster, &message).is_none() {
                break;
            }
        }
        let key = 1000 + seed as u32;
        good.fill(&mut cluster, key..key + 1);
        good.check(&mut cluster, key..key + 1);
    }
    assert_eq!(good.client.stats().lost, 0);
}

#[test]
fn noise_on_the_control_channel_ends_that_channel_and_no_other() {
    let mut cluster = Cluster::new(small());
    let mut good = cluster.client();
    good.fill(&mut cluster, 0..20);
    for seed in 0..300 {
        let mut rng = Rng::new(seed, 0, 0);
        let mut control = cluster.listener.connect();
        if rng.chance(0.5) {
            control.send_message(&hello()).expect("space for a frame");
        }
        for _ in 0..rng.below(4) {
            let body: Vec<u8> = (0..rng.below(200)).map(|_| rng.next_u64() as u8).collect();
            let kind = kind::APPLICATION + rng.below(8) as u16;
            let _ = control.send(kind, &body, &[]);
        }
        while receive(&mut cluster, &mut control).is_some() {}
        good.check(&mut cluster, 0..3);
    }
    assert_eq!(
        cluster.server.client_count(),
        1,
        "a client that hung up is forgotten"
    );
    assert_eq!(good.client.stats().lost, 0);
}

#[test]
fn messages_out_of_turn_are_refused() {
    let mut cluster = Cluster::new(small());
    let mut good = cluster.client();
    type Say = fn(&mut Cluster, &mut Raw, &Welcome);
    let turns: [(&str, Say); 6] = [
        ("Hello twice", |_, raw, _| {
            raw.control.send_message(&hello()).expect("space")
        }),
        ("Attach twice", |cluster, raw, _| {
            let attach = raw.attach();
            raw.control.send_message(&attach).expect("space");
            receive(cluster, &mut raw.control).expect("the first one is fine");
            raw.control.send_message(&attach).expect("space");
        }),
        ("a queue pair that is none", |_, raw, _| {
            let attach = Attach {
                qp: Export::default(),
                ..raw.attach()
            };
            raw.control.send_message(&attach).expect("space");
        }),
        ("memory that is none", |_, raw, _| {
            let attach = Attach {
                values: Export::default(),
                ..raw.attach()
            };
            raw.control.send_message(&attach).expect("space");
        }),
        ("a table of the future", |_, raw, welcome| {
            let epoch = welcome.table.epoch + 1;
            raw.control.send_message(&Adopted { epoch }).expect("space");
        }),
        ("a table of the past", |_, raw, welcome| {
            let epoch = welcome.table.epoch - 1;
            raw.control.send_message(&Adopted { epoch }).expect("space");
        }),
    ];
    for (what, say) in turns {
        let (mut raw, welcome) = Raw::welcomed(&mut cluster);
        say(&mut cluster, &mut raw, &welcome);
        assert!(receive(&mut cluster, &mut raw.control).is_none(), "{what}");
        assert!(raw.control.is_closed(), "{what}");
        assert_eq!(good.run(&mut cluster, &put(what.as_bytes(), b"1")), Ended::Stored);
    }
    let mut control = cluster.listener.connect();
    control.send_message(&Adopted { epoch: 1 }).expect("space");
    assert!(receive(&mut cluster, &mut control).is_none() && control.is_closed());
    assert_eq!(cluster.server.client_count(), 1);
}

/// Memory that is shorter than its export says: the server's READ of it fails, and what had been set aside for the
/// value is free again.
#[test]
fn a_value_that_cannot_be_fetched_costs_its_client_the_session_and_nobody_else() {
    let mut cluster = Cluster::new(ServerOptions {
        memory_bytes: 64 << 10,
        item_bytes_max: 32 << 10,
        ..small()
    });
    let mut good = cluster.client();
    for _ in 0..50 {
        let (mut raw, welcome) = Raw::welcomed(&mut cluster);
        raw.connect(&welcome);
        let attach = raw.attach();
        raw.control.send_message(&attach).expect("space");
        receive(&mut cluster, &mut raw.control).expect("ready");
        // Registered no more, though the server has been told of it.
        raw.forget_values();
        let large = request(RequestKind::PutLarge, b"key", 4000, 0);
        assert!(raw.ask(&mut cluster, &large).is_none());
        assert_eq!(good.run(&mut cluster, &put(b"k", &[1; 900])), Ended::Stored);
    }
    assert_eq!(cluster.server.stats().pulls, 50);
    assert_eq!(good.run(&mut cluster, &put(b"long", &[2; 20_000])), Ended::Stored);
    assert_eq!(good.run(&mut cluster, &get(b"key")), Ended::NotFound);
    assert_eq!(good.run(&mut cluster, &get(b"k")), value(&[1; 900]));
    assert_eq!(cluster.server.client_count(), 1);
}

/// Greetings with numbers of their own.
#[test]
fn greetings_that_do_not_fit_are_refused() {
    let mut cluster = Cluster::new(small());
    type Bend = fn(&mut Hello);
    let bends: [(&str, Bend); 4] = [
        ("version", |hello| hello.version += 1),
        ("shard", |hello| hello.shard = 1),
        ("count", |hello| hello.shard_count = 2),
        ("none", |hello| hello.shard_count = 0),
    ];
    for (what, bend) in bends {
        let mut control = cluster.listener.connect();
        let mut hello = hello();
        bend(&mut hello);
        control.send_message(&hello).expect("space");
        assert!(
            receive(&mut cluster, &mut control).is_none() && control.is_closed(),
            "{what}"
        );
    }
    for slots in [0, 1, u16::MAX] {
        let mut control = cluster.listener.connect();
        control.send_message(&Hello { slots, ..hello() }).expect("space");
        let frame = receive(&mut cluster, &mut control).expect("slots are a wish");
        assert_eq!(frame.kind, Welcome::KIND, "{slots} slots");
    }
    // A session that is somebody else's cannot be guessed; 0 is nobody's.
    let mut good = cluster.client();
    for secret in [0, 1, u64::MAX] {
        let previous = Ticket {
            session: secret,
            secret,
        };
        let mut control = cluster.listener.connect();
        let _ = control.send_message(&Hello { previous, ..hello() });
        receive(&mut cluster, &mut control).expect("a welcome");
    }
    assert_eq!(good.run(&mut cluster, &put(b"k", b"v")), Ended::Stored);
    assert_eq!(good.client.stats().lost, 0);
}
