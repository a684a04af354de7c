//! memcached's sessions on several cores, and requests of native clients on the partitions of those cores, interleaved by
//! a seed: what all of them were told must be explainable key by key as if it had happened one operation at a time. One
//! thread, no clock: a seed repeats everything (`DROVER_SEED`, and `DROVER_SEEDS` says how many). `crates/drover/tests/it/history.rs` is the same on a real server.

mod cluster;

use cluster::{Cluster, Flaw};
use drover_testkit::history::History;
use drover_testkit::linear::{Model, Strict};
use drover_testkit::seeds::Seeds;

/// Seeds in an ordinary `cargo test`: the same in every run, and fresh ones. Miri reads no `/dev/urandom`.
const SEEDS: (u64, u64) = if cfg!(miri) { (1, 0) } else { (10, 50) };
/// Number of seeds within which a planted mistake must be found.
const SEEDS_OF_A_FLAW: u64 = 30;
const STEPS: usize = 3000;

const STRICT: Strict = Strict {
    unknown_until: u64::MAX,
    configurations_max: 1 << 20,
};

fn run(seed: u64, flaw: Option<Flaw>) -> History {
    let mut cluster = Cluster::new(seed, flaw);
    (0..STEPS).for_each(|_| cluster.step());
    cluster.finish()
}

#[test]
fn whatever_the_order_it_is_explainable() {
    let seeds = Seeds::new(SEEDS.0, SEEDS.1);
    println!("{seeds}");
    let mut operations = 0;
    seeds.each(|seed| {
        let history = run(seed, None);
        operations += history.len();
        if let Err(why) = history.check_in_order(STRICT, Model::Register) {
            panic!("DROVER_SEED={seed}: {why}");
        }
    });
    println!("{operations} operations");
    assert!(operations > 500 * seeds.count() as usize, "{operations}");
}

#[test]
fn a_seed_repeats_everything() {
    let text = |seed| format!("{:?}", run(seed, None));
    assert_eq!(text(7), text(7));
    assert_ne!(text(7), text(8));
}

/// Planted mistakes are found.
#[test]
fn planted_mistakes_are_found() {
    for flaw in [
        Flaw::NativeGoesElsewhere,
        Flaw::CasInTwoSteps,
        Flaw::AnswersBeforeTheOtherCore,
    ] {
        let found = (0..SEEDS_OF_A_FLAW).find(|&seed| {
            run(seed, Some(flaw))
                .check_in_order(STRICT, Model::Register)
                .is_err()
        });
        println!("{flaw:?}: {found:?}");
        assert!(found.is_some(), "{flaw:?}");
    }
}
