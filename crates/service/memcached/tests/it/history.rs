//! memcached's sessions on several cores, and requests of native clients on the partitions of those cores, interleaved by
//! a seed: what all of them were told must be explainable key by key as if it had happened one operation at a time. One
//! thread, no clock: a seed repeats everything (`DROVER_SEED`, and `DROVER_SEEDS` says how many). `crates/drover/tests/it/history.rs` is the same on a real server.

mod cluster;
mod workers;

use cluster::{Cluster, Flaw};
use drover_store::{Exclusive, SharedReads, Sharing, Unannounced};
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

/// The history of a run, and the number of GETs that were read in place.
fn run_as<S: Sharing + 'static>(seed: u64, flaw: Option<Flaw>) -> (History, u64) {
    let mut cluster = Cluster::<S>::new(seed, flaw);
    (0..STEPS).for_each(|_| cluster.step());
    (cluster.finish(), cluster.read_in_place())
}

fn run(seed: u64, flaw: Option<Flaw>) -> History {
    run_as::<SharedReads>(seed, flaw).0
}

fn is_explainable<S: Sharing + 'static>(in_place: std::ops::RangeInclusive<u64>) {
    let seeds = Seeds::new(SEEDS.0, SEEDS.1);
    println!("{seeds}");
    let (mut operations, mut read_in_place) = (0, 0);
    seeds.each(|seed| {
        let (history, count) = run_as::<S>(seed, None);
        (operations, read_in_place) = (operations + history.len(), read_in_place + count);
        if let Err(why) = history.check_in_order(STRICT, Model::Register) {
            panic!("DROVER_SEED={seed}: {why}");
        }
    });
    println!("{operations} operations, {read_in_place} GETs read in place");
    assert!(operations > 500 * seeds.count() as usize, "{operations}");
    assert!(
        in_place.contains(&(read_in_place / seeds.count())),
        "{read_in_place}"
    );
}

#[test]
fn whatever_the_order_it_is_explainable() {
    is_explainable::<Exclusive>(0..=0);
}

#[test]
fn with_gets_read_in_place_it_is_explainable() {
    is_explainable::<SharedReads>(50..=u64::MAX);
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

/// A read in place whose check finds nothing, because owners do not announce their writes, is found.
#[test]
fn a_read_in_place_without_its_check_is_found() {
    let found = (0..SEEDS_OF_A_FLAW).find(|&seed| {
        // What looks like the value of another key need not be a number.
        std::panic::catch_unwind(|| {
            let (history, _) = run_as::<Unannounced>(seed, None);
            history.check_in_order(STRICT, Model::Register).is_err()
        })
        .unwrap_or(true)
    });
    println!("{found:?}");
    assert!(found.is_some());
}
