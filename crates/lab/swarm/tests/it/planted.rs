//! Every mistake that can be planted is found, by the scenario that is about it, and shrinks to little.
//! That fresh seeds find each within 300 is `cargo xtask sim --planted`.

use drover_swarm::campaign;
use drover_swarm::case;
use drover_swarm::herd::Herd;
use drover_swarm::subject::Subject;
use std::ops::Range;
use std::sync::atomic::AtomicU64;

type Case = case::Case<Herd>;
type Finding = campaign::Finding<Herd>;

/// What seeds find of a mistake, in their order: with one thread, always the same.
fn search(mistake: &str, scenario: &str, seeds: Range<u64>, stop_early: bool) -> Vec<Finding> {
    let planted = Herd::planted(mistake).expect("in the table");
    let scenario = Herd::scenario(scenario).expect("in the table");
    let cases: Vec<Case> = seeds
        .map(|seed| Case {
            planted: Some(planted),
            ..Case::new(scenario, seed)
        })
        .collect();
    campaign::search(&cases, 1, stop_early, &AtomicU64::new(0), |_| {}).findings
}

fn find(mistake: &str, scenario: &str, seeds: Range<u64>) -> Finding {
    let found = search(mistake, scenario, seeds.clone(), true).into_iter().next();
    found.unwrap_or_else(|| panic!("{mistake} was not found in seeds {seeds:?}"))
}

#[test]
fn requests_that_ignore_their_sequence_number() {
    assert_eq!(
        find("no-seq-check", "delay", 1..200).violation.rule,
        "linearizable"
    );
}

#[test]
fn updates_executed_twice() {
    assert_eq!(find("put-twice", "loss", 1..200).violation.rule, "linearizable");
}

#[test]
fn leftovers_executed() {
    assert_eq!(find("leftovers", "worker", 1..200).violation.rule, "linearizable");
}

#[test]
fn half_landed_requests_executed() {
    find("no-checksum", "tear", 1..200);
}

#[test]
fn used_items_evicted() {
    assert_eq!(find("evicts-used", "pressure", 1..200).violation.rule, "kept");
}

#[test]
fn replaced_items_kept() {
    assert_eq!(
        find("renews-old", "pressure", 1..200).violation.rule,
        "linearizable"
    );
}

#[test]
fn evicted_items_revived() {
    assert_eq!(
        find("revives-ghost", "pressure", 1..300).violation.rule,
        "linearizable"
    );
}

/// Not everything can be smaller, but most can.
#[test]
fn what_is_found_shrinks_and_is_still_wrong() {
    let size = |case: &Case| {
        let (ops, clients) = Herd::sizes(case);
        case.kinds.len() + ops + clients
    };
    let findings = search("leftovers", "worker", 1..41, false);
    let mut smaller = 0;
    for finding in findings.iter().take(3) {
        let least = campaign::shrink(finding);
        assert_eq!(least.violation.rule, finding.violation.rule);
        assert_eq!(campaign::wrong(&least.case).as_ref(), Some(&least.violation));
        smaller += usize::from(size(&least.case) < size(&finding.case));
    }
    assert!(smaller > 0, "of {} findings none became smaller", findings.len());
}
