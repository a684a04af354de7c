//! A client that writes whatever it likes into its ring: the server neither panics nor waits for it, and others are served.

use crate::raw::{Guests as _, cluster};
use drover_base::Rng;
use drover_kv::Op;
use drover_kv_farm::control::Ticket;
use drover_kv_farm::layout::{Request, RequestKind};
use drover_rpc::ring::{encode_record, filler_word, record_bytes};
use drover_testkit::beds::put;
use std::sync::atomic::{AtomicU64, Ordering};

const KEY: &[u8] = b"key";

/// The next number of a request: what comes with the number of an earlier one is not executed.
static NEXT: AtomicU64 = AtomicU64::new(1);

fn request(kind: RequestKind) -> Request {
    Request {
        kind,
        slot: 0,
        key_bytes: KEY.len(),
        value_bytes: 0,
        ttl_s: 0,
        sequence: NEXT.fetch_add(1, Ordering::Relaxed),
        value_offset: 0,
        is_detailed: false,
        extension: None,
    }
}

fn record(sequence: u32, request: &Request, tail: &[u8]) -> Vec<u8> {
    let mut record = Vec::new();
    encode_record(&mut record, sequence, &[&request.encode(), tail], false);
    record
}

#[test]
fn farm_noise_in_a_ring_hurts_nobody_else() {
    let mut cluster = cluster();
    let mut honest = cluster.client();
    let mut ended = 0;
    for seed in 0..150 {
        let mut rng = Rng::new(seed, 0, 0);
        let mut guest = cluster.guest(Ticket::NONE);
        for _ in 0..4 {
            let len = 64 * (1 + rng.below(40) as usize);
            let mut bytes: Vec<u8> = (0..len).map(|_| rng.next_u64() as u8).collect();
            if rng.chance(0.7) {
                // What the server expects next, and then noise.
                let header = [rng.below(1200) as u32, 1];
                bytes[..4].copy_from_slice(&header[0].to_le_bytes());
                bytes[4..8].copy_from_slice(&header[1].to_le_bytes());
                let end = record_bytes(header[0] as usize).min(len);
                bytes[end - 4..end].copy_from_slice(&(1u32 | 1 << 31).to_le_bytes());
            }
            let offset = if rng.chance(0.6) {
                0
            } else {
                64 * rng.below(900) as usize
            };
            guest.write(offset, &bytes);
            cluster.run(20);
        }
        let value = seed.to_le_bytes();
        assert_eq!(cluster.ask(&mut honest, put(KEY, &value)), "stored");
        let answer = cluster.ask(&mut honest, Op::Get { key: KEY });
        assert_eq!(answer, format!("{value:?}"));
        ended += usize::from(cluster.server.client_count() == 1);
        drop(guest);
        cluster.run(60);
    }
    assert_eq!(
        cluster.server.client_count(),
        1,
        "those who have gone are forgotten"
    );
    assert!(ended > 50, "only {ended} of 150 were sent away");
}

/// Header and sequence are right, the end never comes.
#[test]
fn farm_a_record_that_is_never_finished_holds_up_nobody_else() {
    let mut cluster = cluster();
    let mut honest = cluster.client();
    let mut guest = cluster.guest(Ticket::NONE);
    let whole = record(1, &request(RequestKind::Delete), KEY);
    guest.write(0, &whole[..whole.len() - 8]);
    for round in 0..50u64 {
        assert_eq!(cluster.ask(&mut honest, put(KEY, &round.to_le_bytes())), "stored");
    }
    assert_eq!(cluster.server.stats().deletes, 0);
    guest.write(0, &whole);
    cluster.run(10);
    assert_eq!(
        (cluster.server.stats().deletes, cluster.server.client_count()),
        (1, 2)
    );
}

/// Records as they should be, whose requests lie: refused, or the end of the session.
#[test]
fn farm_requests_that_contradict_themselves_are_refused() {
    let base = request(RequestKind::PutLarge);
    let far = u64::MAX - 3;
    let lies = [
        Request {
            value_bytes: 0,
            ..base
        },
        Request {
            value_bytes: 1 << 31,
            ..base
        },
        Request {
            value_bytes: 100,
            value_offset: far,
            is_detailed: false,
            extension: None,
            ..base
        },
        Request {
            value_bytes: 4096,
            value_offset: 4000,
            is_detailed: false,
            extension: None,
            ..base
        },
        Request { slot: 999, ..base },
        Request { key_bytes: 0, ..base },
        Request {
            key_bytes: 60_000,
            ..base
        },
        Request { sequence: 0, ..base },
        Request {
            value_bytes: 77,
            ..request(RequestKind::Put)
        },
        Request {
            value_bytes: usize::MAX >> 32,
            value_offset: far,
            is_detailed: false,
            extension: None,
            ..request(RequestKind::Get)
        },
    ];
    let mut cluster = cluster();
    let mut honest = cluster.client();
    assert_eq!(cluster.ask(&mut honest, put(KEY, &[7; 3000])), "stored");
    for lie in lies {
        let mut guest = cluster.guest(Ticket::NONE);
        guest.write(0, &record(1, &lie, KEY));
        cluster.run(30);
        drop(guest);
        let answer = cluster.ask(&mut honest, Op::Get { key: KEY });
        assert_eq!(answer, format!("{:?}", [7u8; 3000]), "{lie:?}");
    }
    cluster.run(60);
    assert_eq!(cluster.server.client_count(), 1);
}

/// A client that asks for long values all the time, and never looks at a reply, has one stage at most.
#[test]
fn farm_a_flood_of_long_values_leaves_stages_to_others() {
    let mut cluster = cluster();
    let mut honest = cluster.client();
    let mut guests: Vec<_> = (0..6).map(|_| cluster.guest(Ticket::NONE)).collect();
    for lap in 0..20u32 {
        for guest in &mut guests {
            let large = Request {
                value_bytes: 4096,
                sequence: u64::from(lap) + 1,
                ..request(RequestKind::PutLarge)
            };
            guest.write(lap as usize * 64, &record(lap + 1, &large, KEY));
        }
        let value = vec![lap as u8; 5000];
        assert_eq!(cluster.ask(&mut honest, put(b"mine", &value)), "stored");
        let answer = cluster.ask(&mut honest, Op::Get { key: b"mine" });
        assert_eq!(answer, format!("{value:?}"));
    }
    assert_eq!(cluster.server.client_count(), 7);
    assert!(
        cluster.server.stats().pulls >= 100,
        "{:?}",
        cluster.server.stats()
    );
}

/// What the last session wrote and the server has not read was reported as unknown when the connection was lost: once the
/// client is back, it must not happen any more.
#[test]
fn farm_what_an_old_session_left_in_its_ring_never_happens() {
    let mut cluster = cluster();
    let mut honest = cluster.client();
    let left = record(
        1,
        &Request {
            value_bytes: 3,
            ..request(RequestKind::Put)
        },
        b"keyold",
    );
    // The canary: it does happen as long as the session lasts.
    let mut guest = cluster.guest(Ticket::NONE);
    guest.write(0, &left);
    cluster.run(10);
    assert_eq!(
        cluster.ask(&mut honest, Op::Get { key: KEY }),
        format!("{:?}", b"old")
    );
    assert_eq!(cluster.ask(&mut honest, put(KEY, b"new")), "stored");
    for _ in 0..20 {
        let mut old = cluster.guest(Ticket::NONE);
        let ticket = old.ticket();
        // Nobody looks at the ring until the client has come back.
        old.write(0, &left[..left.len() - 64]);
        old.write(0, &left[..8]);
        let new = cluster.guest(ticket);
        old.write(0, &left);
        cluster.run(30);
        assert_eq!(
            cluster.ask(&mut honest, Op::Get { key: KEY }),
            format!("{:?}", b"new")
        );
        drop((old, new));
    }
}

/// A server that restarts has new rings: what was half-written into the old one is nowhere.
#[test]
fn farm_a_server_that_restarts_begins_with_an_empty_ring() {
    let mut cluster = cluster();
    let mut guest = cluster.guest(Ticket::NONE);
    let half = record(1, &request(RequestKind::Delete), KEY);
    guest.write(0, &half[..8]);
    cluster.restart();
    let mut honest = cluster.client();
    for round in 0..200u64 {
        assert_eq!(cluster.ask(&mut honest, put(KEY, &round.to_le_bytes())), "stored");
    }
    assert_eq!(cluster.server.client_count(), 1);
}

/// Fillers cost a word each, and turn nothing without records in between.
#[test]
fn farm_fillers_without_records_end_the_session() {
    let mut cluster = cluster();
    let mut guest = cluster.guest(Ticket::NONE);
    guest.write(0, &filler_word(1).to_le_bytes());
    cluster.run(30);
    assert_eq!(cluster.server.client_count(), 0);
}
