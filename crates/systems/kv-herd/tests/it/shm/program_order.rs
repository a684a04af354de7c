//! Operations of one client on one key take effect in the order of their submission, however many are on their way at
//! once, and whether their values fit a reply or are fetched afterwards.

use crate::planted::Planted;
use crate::shm::pair::Pair;
use drover_base::{Actor, Cpu, Rng};
use drover_kv::{KvClient, Op, Outcome, SubmitError};
use drover_kv_herd::client::ClientOptions;
use drover_kv_herd::server::{Mistake, ServerOptions};
use drover_mem::PageWish;
use drover_store::PartitionOptions;
use drover_verbs::Context;
use std::collections::BTreeMap;

const OPS: u64 = 2_000;
const KEYS: [&[u8]; 3] = [b"one", b"two", b"three"];
/// Rounds without a completion: nobody waits for ever.
const QUIET_MAX: u32 = 100_000;

/// What an operation must come to, from a map to which all are applied as they are submitted.
#[derive(Clone, PartialEq, Eq, Debug)]
enum End {
    Value(Vec<u8>),
    NotFound,
    Stored,
    Deleted,
}

fn end_of(outcome: &Outcome<'_>) -> End {
    match outcome {
        Outcome::Value(value) => End::Value(value.to_vec()),
        Outcome::NotFound => End::NotFound,
        Outcome::Stored => End::Stored,
        Outcome::Deleted => End::Deleted,
        other => panic!("{other:?}"),
    }
}

/// What a run came to.
struct Run {
    /// Operations that came to something else than the map says.
    wrong: u64,
    /// Operations that had to wait for others.
    waited: u64,
}

/// Slots of 128 bytes: of two values one is too long for them. Draws what is submitted, and who runs when.
fn run(seed: u64, mistake: Option<Mistake>) -> Run {
    let options = ServerOptions {
        partition: PartitionOptions {
            log_bytes: 1 << 18,
            bucket_count: 1 << 8,
            pages: PageWish::Small,
            ..PartitionOptions::default()
        },
        ..ServerOptions::default()
    };
    let wishes = ClientOptions {
        slot_bytes: 128,
        window: 8,
        ..ClientOptions::default()
    };
    let mut pair = Pair::of(options, wishes, Planted(mistake));
    let mut rng = Rng::new(seed, 0, 0);
    let mut map: BTreeMap<&[u8], Vec<u8>> = BTreeMap::new();
    let mut wants = Vec::new();
    let (mut wrong, mut ended, mut quiet) = (0, 0, 0);
    while ended < OPS {
        pair.ctx.cpu().refresh();
        for _ in 0..rng.below(6) {
            let token = wants.len() as u64;
            let key = KEYS[rng.below(3) as usize];
            let len = [20, 500][usize::from(rng.below(8) == 0)];
            let value = vec![token as u8; len];
            let op = match rng.below(8) {
                0..=3 => Op::Get { key },
                4..=6 => Op::put(key, &value),
                _ => Op::delete(key),
            };
            match pair.client.submit(pair.ctx.cpu(), &op, token) {
                _ if token >= OPS => break,
                Err(SubmitError::WindowFull) => break,
                submitted => submitted.expect("nothing wrong with it"),
            }
            let was = match op {
                Op::Get { .. } => map.get(key).cloned(),
                Op::Put { .. } => map.insert(key, value.clone()),
                _ => map.remove(key),
            };
            wants.push(match (op, was) {
                (Op::Put { .. }, _) => End::Stored,
                (_, None) => End::NotFound,
                (Op::Get { .. }, Some(value)) => End::Value(value),
                (_, Some(_)) => End::Deleted,
            });
        }
        let before = ended;
        pair.client.poll(pair.ctx.cpu(), &mut |completion| {
            if let Some(want) = wants.get(completion.token as usize) {
                wrong += u64::from(end_of(&completion.outcome) != *want);
                ended += 1;
            }
        });
        quiet = if ended > before { 0 } else { quiet + 1 };
        assert!(quiet < QUIET_MAX, "seed {seed}: {ended} ended, then nothing");
        for _ in 0..rng.below(3) {
            pair.step_worker();
        }
        let control = pair.acceptor.context();
        control.cpu().refresh();
        pair.acceptor.step(control.cpu());
    }
    Run {
        wrong,
        waited: pair.client.stats().conflicts,
    }
}

#[test]
fn whatever_is_on_its_way_keeps_its_order() {
    for seed in 0..20 {
        let run = run(seed, None);
        assert_eq!(run.wrong, 0, "seed {seed}");
        assert!(run.waited < OPS / 2, "seed {seed}: {} waited", run.waited);
    }
}

/// Each of these lets a GET of a long value find what was written after it.
#[test]
fn what_a_client_asks_for_is_what_keeps_it() {
    for mistake in [Mistake::IgnoresConditions, Mistake::ForgetsRefusals] {
        let caught = (0..20).filter(|&seed| run(seed, Some(mistake)).wrong > 0).count();
        assert!(caught > 10, "{mistake:?} is caught by {caught} of 20 seeds");
    }
}
