//! What is documented of the prices of systems' own code.

use drover_base::Work;
use drover_simcluster::costs;
use drover_systems::System;
use drover_verbs_sim::profile::Profile;
use std::collections::{BTreeMap, BTreeSet};

/// The budgets that have been counted, by the names that their costs begin with: systems of one crate share one.
fn counted() -> BTreeMap<&'static str, &'static [Work]> {
    let mut budgets = BTreeMap::new();
    for work in System::ALL.iter().map(|system| system.facts().work) {
        let Some(first) = work.first() else { continue };
        let (begin, _) = first.cost.name.split_once('.').expect("begin.rest");
        let other = budgets.insert(begin, work);
        assert!(other.is_none_or(|other| other == work), "{begin}");
    }
    budgets
}

/// The table in the documentation has a line with the right numbers for everything that a system charges.
#[test]
fn the_documented_tables_are_those_in_the_code() {
    let profile = Profile::named("apt").expect("a profile");
    for (begin, budget) in counted() {
        let path = format!("{}/../../../docs/{begin}-costs.md", env!("CARGO_MANIFEST_DIR"));
        let documented = std::fs::read_to_string(&path).expect("a document");
        for (work, (name, ns)) in budget.iter().zip(costs::of(&profile, budget)) {
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
    for (begin, budget) in counted() {
        for work in budget {
            let name = work.cost.name;
            assert!(names.insert(name), "{name}");
            // A store charges what is done under its locks, a pool of tasks their switches, which nobody else can.
            let of_others = ["store.", "task."].iter().any(|other| name.starts_with(other));
            assert!(name.starts_with(begin) || of_others, "{name}");
        }
    }
    assert!(names.len() > 10);
}
