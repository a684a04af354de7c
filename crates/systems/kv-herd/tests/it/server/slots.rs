//! Test 11: any bytes in any slot. The server goes on, and others notice nothing.

use crate::server::fake::{World, hello, options};
use drover_base::Rng;
use drover_kv_herd::control::{Format, Hello};
use drover_kv_herd::layout::{Commit, SlotOp, Status, TRAILER_BYTES};
use drover_kv_herd::server::{Mistake, RequestRules, ServeMode, ServerOptions};
use drover_verbs::Context as _;
use proptest::prelude::*;

#[test]
fn malformed_requests_are_refused_one_by_one() {
    let mut world = World::new(&options());
    let mut fake = world.connect_as(Hello {
        window: 16,
        slot_bytes: 128,
        ..hello()
    });
    let good = fake.request(SlotOp::Put, 1, b"key", b"value", 0);
    let words = [
        good.commit.0 & !(0xf << 56),                   // op 0
        good.commit.0 | 0xf << 56,                      // op 15
        good.commit.0 | 1 << 44,                        // reserved bits
        good.commit.0 | 0x3ff << 32,                    // value longer than the slot
        good.commit.0 | 0xff << 48,                     // key longer than any
        Commit::new(SlotOp::Put, 1, 0, 5, false).0,     // no key
        Commit::new(SlotOp::Get, 1, 3, 5, false).0,     // a GET with a value
        Commit::new(SlotOp::PutBulk, 1, 3, 5, false).0, // not a bulk descriptor
        Commit::new(SlotOp::Put, 1, 100, 5, false).0,   // both together too long
    ];
    for (slot, word) in words.into_iter().enumerate() {
        let mut bad = good.clone();
        bad.commit = Commit(word);
        fake.write(0, slot, &bad);
        let reply = fake.reply(&mut world);
        assert_eq!((reply.slot, reply.status), (slot, Status::BadRequest));
    }
    assert_eq!(world.counters().refused.bad_requests, words.len() as u64);
    assert_eq!(world.counters().operations.puts, 0);
    let request = fake.request(SlotOp::Put, 1, b"key", b"value", 0);
    fake.write(0, words.len(), &request);
    assert_eq!(
        fake.reply(&mut world).status,
        Status::Ok,
        "the same client, behaving"
    );
}

/// What comes of a PUT that a client WRITEs into another one's slot, by that slot's key: the victim's value, and PUTs executed.
fn forged_by_key(mistake: Option<Mistake>) -> (Option<Vec<u8>>, u64) {
    let mut world = World::with(&options(), mistake);
    let (mut victim, mut forger) = (world.connect(), world.connect());
    let foreign = forger.ctx.import_region(&victim.welcome.slots.region);
    forger.remote = Some(foreign.expect("keys can be guessed"));
    let request = forger.request(SlotOp::Put, 1, b"key", b"forged", 0);
    forger.write(0, 0, &request);
    world.settle();
    let puts = world.counters().operations.puts;
    // Where the forged request was executed, the victim got its reply, and its slot is used.
    victim.replies();
    victim.next(SlotOp::Get, b"key", b"", 0);
    (victim.get(&mut world, b"key"), puts)
}

#[test]
fn foreign_rkey_changes_nothing() {
    assert_eq!(forged_by_key(None), (None, 0));
}

#[test]
fn flaw_shares_domain_is_caught() {
    assert_eq!(
        forged_by_key(Some(Mistake::SharesDomain)),
        (Some(b"forged".to_vec()), 1)
    );
}

#[test]
fn bulk_ops_without_bulk_memory_are_refused() {
    let mut world = World::new(&options());
    let mut fake = world.connect();
    for op in [SlotOp::PutBulk, SlotOp::GetBulk] {
        assert_eq!(
            fake.call(&mut world, op, b"k", &[0xff; 12]).status,
            Status::BadRequest
        );
    }
}

/// Noise of several colours into a client's region while another one works.
fn noise(mode: ServeMode, format: Format, seed: u64) {
    let all = ServerOptions {
        mode,
        requests: RequestRules {
            hash_only: true,
            ..options().requests
        },
        ..options()
    };
    let mut world = World::new(&all);
    let mut rogue = world.connect_as(Hello {
        format,
        window: 8,
        slot_bytes: 128,
        ..hello()
    });
    let mut honest = world.connect();
    let mut rng = Rng::new(seed, 0, 0);
    for round in 0..60u32 {
        for _ in 0..rng.below(6) {
            let slot = rng.below(8) as usize;
            let mut bytes: Vec<u8> = (0..128).map(|_| rng.next_u64() as u8).collect();
            if rng.chance(0.7) {
                // Nearly good: a plausible word at the end.
                let lens = (rng.below(60) as usize, rng.below(60) as usize);
                let word = Commit::new(SlotOp::Put, rng.below(20) as u32, lens.0, lens.1, rng.chance(0.3));
                let word = word.0 & !(0xf << 56) | rng.below(9) << 56;
                bytes[120..].copy_from_slice(&word.to_le_bytes());
            }
            let from = if rng.chance(0.5) { 0 } else { 128 - TRAILER_BYTES };
            rogue.write_end(0, slot, &bytes[from..]);
        }
        for _ in 0..rng.below(4) {
            world.step(0);
        }
        rogue.replies();
        // No key of zeros, which noise has under other hashes than that of the key: in a bucket that is full one could be
        // found in place of the other.
        let key = (!round).to_le_bytes();
        honest.put(&mut world, &key, &round.to_le_bytes());
        assert_eq!(honest.get(&mut world, &key), Some(round.to_le_bytes().to_vec()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn noise_in_the_slots_hurts_nobody(seed in any::<u64>(), mode in 0usize..3, paper in any::<bool>()) {
        let modes = [ServeMode::Batch { batch: 32 }, ServeMode::Pipeline { drain: true }, ServeMode::Batch { batch: 3 }];
        let format = if paper { Format::P } else { Format::D };
        noise(modes[mode], format, seed);
    }
}
