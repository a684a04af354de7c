//! Test 6: fabrics that show a request's bytes in any order, and those that show them from left to right.

use crate::server::fake::{Fake, Request, World, hello, options};
use drover_base::{Ns, Progress, Rng};
use drover_kv_herd::control::{Format, Hello, Message};
use drover_kv_herd::layout::{SlotOp, Status};
use drover_kv_herd::server::{Mistake, ServerOptions};

/// Writes the lines of a request one by one, from left to right or in an order of `chance`, with server steps in
/// between. Returns the replies seen before the last line had landed.
fn write_torn(
    world: &mut World,
    fake: &mut Fake,
    slot: usize,
    request: &Request,
    chance: Option<&mut Rng>,
) -> usize {
    let mut bytes = request.body.clone();
    bytes.extend_from_slice(&request.hash.to_bytes());
    bytes.extend_from_slice(&request.commit.0.to_le_bytes());
    let start = fake.map.slot_offset(0, slot) + fake.map.slot_bytes - bytes.len();
    let mut pieces = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let end = (((start + at) / 64 + 1) * 64 - start).min(bytes.len());
        pieces.push(at..end);
        at = end;
    }
    if let Some(rng) = chance {
        for i in (1..pieces.len()).rev() {
            pieces.swap(i, rng.below(i as u64 + 1) as usize);
        }
    }
    let mut early = 0;
    let last = pieces.len() - 1;
    for (i, piece) in pieces.into_iter().enumerate() {
        fake.write_at(start + piece.start, &bytes[piece]).expect("posted");
        for _ in 0..3 {
            world.step(0);
        }
        if i < last {
            early += fake.replies().len();
        }
    }
    early
}

/// Puts through torn WRITEs; returns how many were executed before they were whole.
fn early_executions(options: &ServerOptions, mistake: Option<Mistake>) -> usize {
    let mut world = World::unordered(options, mistake);
    let mut fake = world.connect();
    assert!(fake.welcome.crc, "checksums are demanded");
    let mut rng = Rng::new(3, 0, 0);
    let mut early = 0;
    for round in 0..60usize {
        let value = vec![round as u8 + 1; 300 + round];
        let (_, slot, request) = fake.next(SlotOp::Put, b"k", &value, 0);
        early += write_torn(&mut world, &mut fake, slot, &request, Some(&mut rng));
        world.settle();
        fake.replies();
        let got = fake.get(&mut world, b"k");
        if mistake.is_none() {
            assert_eq!(got, Some(value));
        }
    }
    early
}

#[test]
fn a_torn_request_is_not_executed() {
    assert_eq!(early_executions(&options(), None), 0);
}

/// Software RoCE copies a WRITE by bytes: a PUT's commit word had its sequence number and value length, and still the
/// operation of the GET that was in the slot before. It was refused as malformed.
#[test]
fn a_commit_word_of_two_requests_is_not_refused() {
    let mut world = World::unordered(&options(), None);
    let mut fake = world.connect();
    for _ in 0..fake.map.window {
        assert_eq!(fake.get(&mut world, b"k"), None);
    }
    let (_, slot, request) = fake.next(SlotOp::Put, b"k", b"value", 0);
    let mut bytes = request.body.clone();
    bytes.extend_from_slice(&request.hash.to_bytes());
    bytes.extend_from_slice(&request.commit.0.to_le_bytes());
    let (start, most) = (
        fake.map.slot_offset(0, slot) + fake.map.slot_bytes - bytes.len(),
        bytes.len() - 2,
    );
    fake.write_at(start, &bytes[..most]).expect("posted");
    world.settle();
    assert!(fake.replies().is_empty(), "it has not landed");
    fake.write_at(start + most, &bytes[most..]).expect("posted");
    world.settle();
    assert_eq!(fake.replies().len(), 1);
    assert_eq!(fake.get(&mut world, b"k").as_deref(), Some(&b"value"[..]));
}

/// Where the last word lands last, no checksum is asked for, and none is needed.
#[test]
fn an_ordered_write_without_a_checksum_is_taken_whole() {
    let mut world = World::new(&options());
    let mut fake = world.connect();
    assert!(!fake.welcome.crc, "no checksum on a fabric that keeps the order");
    for round in 0..60usize {
        let value = vec![round as u8 + 1; 300 + round];
        let (_, slot, request) = fake.next(SlotOp::Put, b"k", &value, 0);
        assert_eq!(write_torn(&mut world, &mut fake, slot, &request, None), 0);
        world.settle();
        assert_eq!(fake.replies().len(), 1);
        assert_eq!(fake.get(&mut world, b"k"), Some(value));
    }
}

#[test]
fn flaw_ignores_crc_is_caught() {
    assert!(early_executions(&options(), Some(Mistake::IgnoresCrc)) > 10);
}

/// A line is lost for good: after a millisecond the server stops looking, and takes the retransmission.
#[test]
fn a_request_that_stays_torn_is_dropped() {
    let mut world = World::unordered(&options(), None);
    let mut fake = world.connect();
    let (partition, slot, request) = fake.next(SlotOp::Put, b"k", &[9; 200], 0);
    let mut damaged = request.clone();
    damaged.body[10] ^= 1;
    fake.write(partition, slot, &damaged);
    world.settle();
    assert!(fake.replies().is_empty());
    assert!(world.counters().irregular.crc_mismatches > 0);
    world.device.advance(Ns::from_ms(2));
    world.settle();
    assert_eq!(world.counters().irregular.crc_dropped, 1);
    let looks = world.counters().irregular.crc_mismatches;
    world.settle();
    assert_eq!(
        world.counters().irregular.crc_mismatches,
        looks,
        "it does not look again"
    );
    fake.again(&(partition, slot, request), 1);
    assert_eq!(fake.reply(&mut world).status, Status::Ok);
    assert_eq!(fake.get(&mut world, b"k"), Some(vec![9; 200]));
}

#[test]
fn a_request_without_the_checksum_asked_for_is_refused() {
    let mut world = World::unordered(&options(), None);
    let mut fake = world.connect();
    fake.welcome.crc = false;
    assert_eq!(
        fake.call(&mut world, SlotOp::Get, b"k", b"").status,
        Status::BadRequest
    );
    let refused = Fake::connect(
        &mut world,
        Hello {
            format: Format::P,
            ..hello()
        },
    );
    assert!(
        matches!(refused, Err(Message::Error { .. })),
        "format P has no checksum"
    );
}

#[test]
fn a_client_may_ask_for_checksums() {
    let mut world = World::new(&options());
    let mut fake = world.connect_as(Hello { crc: true, ..hello() });
    assert!(fake.welcome.crc);
    fake.put(&mut world, b"k", b"v");
    assert_eq!(fake.get(&mut world, b"k"), Some(b"v".to_vec()));
}

/// Behind a lost request stands a torn one, which a look around finds, and takes when it is whole. Afterwards the worker
/// has nothing to wake up for.
#[test]
fn a_torn_request_that_was_taken_wakes_nobody() {
    let mut world = World::unordered(&options(), None);
    let mut fake = world.connect();
    let _lost = fake.next(SlotOp::Put, b"k", b"lost", 0);
    let (partition, slot, request) = fake.next(SlotOp::Put, b"k", b"torn", 0);
    let mut torn = request.clone();
    torn.body[0] ^= 1;
    fake.write(partition, slot, &torn);
    world.step(0);
    assert_eq!(
        world.counters().irregular.crc_mismatches > 0,
        fake.replies().is_empty()
    );
    fake.again(&(partition, slot, request), 1);
    world.settle();
    assert_eq!(fake.replies()[0].status, Status::Ok);
    assert_eq!(world.step(0), Progress::Idle { wake_at: Ns::MAX });
}
