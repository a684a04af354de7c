//! Rate of a client of a service of several members, as a part of the rate of a client of one server: `members_rate [ROUNDS]`.
//!
//! Shared memory, window 16, 10,000 keys of 16 bytes, values of 32, 5 % PUTs. In each round the clients of one server, of a service of one
//! member and of one of two work for 20,000 operations each, one after the other; printed are the medians of the ratios, and the quarters.

use drover_base::{Cpu, Ns, Rng};
use drover_client::{Connected, Op, Options, Pipeline};
use drover_mem::NativeCpu;

#[path = "../tests/it/members/bed.rs"]
#[allow(dead_code, reason = "tests use more of it")]
mod bed;

const WINDOW: usize = 16;
const OPERATIONS: usize = 20_000;
const KEYS: u64 = 10_000;
const VALUE: [u8; 32] = [7; 32];

fn key(index: u64) -> [u8; 16] {
    let mut key = *b"key-000000000000";
    key[8..].copy_from_slice(&drover_base::mix(index).to_le_bytes());
    key
}

/// Executes the operations with a full window.
fn execute(client: &mut Pipeline, ops: &[Op<'_>]) {
    let mut good = 0;
    let mut rest = ops.iter();
    while good < ops.len() {
        while client.in_flight() < WINDOW
            && let Some(op) = rest.next()
        {
            client.submit(op, 0).expect("the window has space");
        }
        good += client.wait(&mut |done| assert!(done.outcome.found().is_ok(), "{:?}", done.outcome));
    }
}

fn time(client: &mut Pipeline, ops: &[Op<'_>]) -> Ns {
    let cpu = NativeCpu::new(0);
    let begun = cpu.refresh();
    execute(client, ops);
    cpu.refresh().since(begun)
}

fn main() {
    let rounds = std::env::args().nth(1).and_then(|count| count.parse().ok());
    let one = bed::TestService::new(&["a"]);
    let mut two = bed::TestService::new(&["a", "b"]);
    two.give(bed::SHARDS / 2..bed::SHARDS, 1);
    let options = Options::default();
    let direct = Connected::to(&one.members[0].addr, &options).expect("a server");
    let mut clients: [Pipeline; 3] = [direct.into(), one.pipeline(), two.pipeline()];
    let keys: Vec<[u8; 16]> = (0..KEYS).map(key).collect();
    let puts: Vec<Op<'_>> = keys.iter().map(|key| Op::put(key, &VALUE)).collect();
    clients.iter_mut().for_each(|client| execute(client, &puts));
    let mut rng = Rng::new(1, 0, 0);
    let mut op = || {
        let key = &keys[rng.below(KEYS) as usize];
        if rng.chance(0.05) {
            Op::put(key, &VALUE)
        } else {
            Op::Get { key }
        }
    };
    let ops: Vec<Op<'_>> = (0..OPERATIONS).map(|_| op()).collect();
    let mut ratios = [Vec::new(), Vec::new()];
    let mut direct_ns = Vec::new();
    for _ in 0..rounds.unwrap_or(200) {
        let times = clients.each_mut().map(|client| time(client, &ops).0 as f64);
        direct_ns.push(times[0] / OPERATIONS as f64);
        for (ratios, time) in ratios.iter_mut().zip(&times[1..]) {
            ratios.push(times[0] / time);
        }
    }
    let quarters = |name: &str, all: &mut Vec<f64>| {
        all.sort_by(f64::total_cmp);
        let at = |part: usize| all[(all.len() - 1) * part / 4];
        println!("{name}: {:.3} (quarters {:.3} to {:.3})", at(2), at(1), at(3));
    };
    quarters("one server, ns per operation", &mut direct_ns);
    quarters("rate with one member / rate of one server", &mut ratios[0]);
    quarters("rate with two members / rate of one server", &mut ratios[1]);
}
