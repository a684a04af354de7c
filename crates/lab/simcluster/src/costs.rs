//! Prices in nanoseconds of a system's own code on a core of a profile: its instruction counts, divided by the core's
//! speed.
//!
//! For each system whose instructions have been counted, a document such as `docs/herd-costs.md` lists the prices and says
//! where each count comes from.

use drover_base::Work;
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

/// Names and prices (nanoseconds per unit) of `work` on a core of `profile`, for
/// [`WorldOptions::costs`](drover_verbs_sim::WorldOptions::costs).
pub fn of(profile: &Profile, work: &[Work]) -> Vec<(String, f64)> {
    let pace = pace(profile);
    let price = |work: &Work| (work.cost.name.to_string(), work.instructions / pace);
    work.iter().map(price).collect()
}
