//! Prices in nanoseconds of HERD's own code on a core of a profile: its instruction counts, divided by the core's
//! speed.
//!
//! `docs/herd-costs.md` lists the prices and says where each instruction count comes from.

use drover_kv_herd::costs::BUDGET;
use drover_verbs_sim::profile::Profile;

/// Instructions per cycle of short, well-predicted integer code in the first-level cache *(our estimate, 1.5 to 2.5: we
/// count 2.5 to 2.7 on cores of 2020, which public comparisons put a quarter to a third above Sandy Bridge)*.
pub const INSTRUCTIONS_PER_CYCLE: f64 = 2.0;
/// Instructions per cycle of the Opterons of `susitna`, whose cores share their front end in pairs *(our estimate, 1.0
/// to 1.5)*.
pub const INSTRUCTIONS_PER_CYCLE_OPTERON: f64 = 1.2;

/// Instructions per nanosecond of a core of `profile`.
pub fn pace(profile: &Profile) -> f64 {
    let per_cycle = match profile.name().starts_with("susitna") {
        true => INSTRUCTIONS_PER_CYCLE_OPTERON,
        false => INSTRUCTIONS_PER_CYCLE,
    };
    per_cycle * profile.parameters().machine.clock_ghz
}

/// Names and prices (nanoseconds per unit) of all work that HERD's code charges, on a core of `profile`. The value is
/// meant for [`WorldOptions::costs`](drover_verbs_sim::WorldOptions::costs).
pub fn of(profile: &Profile) -> Vec<(String, f64)> {
    let pace = pace(profile);
    let price = |work: &drover_base::Work| (work.cost.name.to_string(), work.instructions / pace);
    BUDGET.iter().map(price).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table in the documentation has a line with the right numbers for every entry of the budget.
    #[test]
    fn the_documented_table_is_the_one_in_the_code() {
        let profile = Profile::named("apt").expect("a profile");
        let documented = include_str!("../../../../docs/herd-costs.md");
        for (work, (name, ns)) in BUDGET.iter().zip(of(&profile)) {
            let line = format!(
                "| `{name}` | {} | {:.0} | {ns:.1} |",
                work.unit, work.instructions
            );
            assert!(documented.contains(&line), "not in docs/herd-costs.md: {line}");
        }
    }

    #[test]
    fn every_cost_is_budgeted_once() {
        let mut names: Vec<_> = BUDGET.iter().map(|work| work.cost.name).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
