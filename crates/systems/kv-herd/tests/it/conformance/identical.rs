//! One script of operations, three fabrics, the same results.

use crate::conformance::bed::HerdBed;
use crate::conformance::sim_bed::SimBed;
use drover_base::{Cpu, Rng};
use drover_kv::{KvClient, Op};
use drover_testkit::kv_conformance::{Bed, BedOptions, value_bytes};
use drover_verbs_shm::Shm;
use drover_verbs_sim::Sim;
use drover_verbs_suite::loopback::Loopback;

/// Longest values: some of them do not fit a slot.
const VALUE_BYTES_MAX: u64 = 700;

/// Plays the script of `seed` and tells what came of every operation. Nothing is evicted.
fn play<B: Bed>(seed: u64) -> Vec<String> {
    let options = BedOptions {
        memory_bytes: 4 << 20,
        ..BedOptions::default()
    };
    let mut bed = B::start(&options);
    let mut client = bed.connect();
    let mut rng = Rng::new(seed, 0, 0x5c21);
    let mut told = Vec::new();
    for n in 0..400u64 {
        let key = format!("key {}", rng.below(40));
        let value = value_bytes(n + 1, rng.below(VALUE_BYTES_MAX) as usize);
        let op = match rng.below(10) {
            0..4 => Op::put(key.as_bytes(), &value),
            4 => Op::delete(key.as_bytes()),
            _ => Op::Get { key: key.as_bytes() },
        };
        client.submit(bed.cpu(), &op, n).expect("an empty window");
        while told.len() as u64 <= n {
            bed.cpu().refresh();
            client.poll(bed.cpu(), &mut |completion| told.push(format!("{completion:?}")));
            bed.step();
        }
    }
    told
}

#[test]
fn one_script_three_fabrics_the_same_results() {
    for seed in 0..3 {
        let sim = play::<SimBed<Sim>>(seed);
        assert_eq!(sim, play::<HerdBed<Loopback>>(seed));
        assert_eq!(sim, play::<HerdBed<Shm>>(seed));
        let found = sim.iter().filter(|told| told.contains("Value")).count();
        assert!(found > 50, "{found} GETs found something");
    }
}
