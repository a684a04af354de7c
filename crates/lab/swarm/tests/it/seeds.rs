//! A few seeds of the default scenario, always the same; thousands of them are `cargo xtask sim`.

use drover_swarm::campaign;
use drover_swarm::case::Case;
use drover_swarm::herd::Herd;
use drover_swarm::subject::Subject;
use std::sync::atomic::AtomicU64;

const SEEDS: std::ops::Range<u64> = 1..31;

#[test]
fn a_few_seeds_find_nothing() {
    let scenario = Herd::scenario("default").expect("in the table");
    let cases: Vec<Case<Herd>> = SEEDS
        .map(|seed| Case {
            ops: Some(40),
            ..Case::new(scenario, seed)
        })
        .collect();
    let tally = campaign::search(&cases, 2, false, &AtomicU64::new(0), |_| {});
    let found: Vec<String> = tally
        .findings
        .iter()
        .map(|finding| format!("{}: {}", finding.case.arguments(), finding.violation))
        .collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
    assert_eq!(tally.cases, cases.len() as u64);
    assert!(tally.message_faults > 100, "{tally:?}");
}
