//! What is documented of the prices of systems' own code.

use drover_kv::Facts;
use drover_simcluster::costs;
use drover_systems::System;
use drover_verbs_sim::profile::Profile;
use std::collections::BTreeSet;

/// The systems whose instructions have been counted.
fn counted() -> impl Iterator<Item = &'static Facts> {
    let facts = System::ALL.iter().map(|system| system.facts());
    facts.filter(|facts| !facts.work.is_empty())
}

/// The table in the documentation has a line with the right numbers for everything that a system charges.
#[test]
fn the_documented_tables_are_those_in_the_code() {
    let profile = Profile::named("apt").expect("a profile");
    for facts in counted() {
        let path = format!(
            "{}/../../../docs/{}-costs.md",
            env!("CARGO_MANIFEST_DIR"),
            facts.name
        );
        let documented = std::fs::read_to_string(&path).expect("a document");
        for (work, (name, ns)) in facts.work.iter().zip(costs::of(&profile, facts.work)) {
            let line = format!(
                "| `{name}` | {} | {:.0} | {ns:.1} |",
                work.unit, work.instructions
            );
            assert!(documented.contains(&line), "not in {path}: {line}");
        }
    }
}

#[test]
fn every_cost_is_budgeted_once() {
    let mut names = BTreeSet::new();
    for work in counted().flat_map(|facts| facts.work) {
        assert!(names.insert(work.cost.name), "{}", work.cost.name);
    }
    assert!(!names.is_empty());
}
