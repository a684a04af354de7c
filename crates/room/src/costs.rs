//! What HERD's own code costs on a core of a profile.

use drover_verbs_sim::profile::Parameters;

/// The prices of one profile, as [`WorldOptions::costs`](drover_verbs_sim::WorldOptions::costs) wants them.
pub fn of(parameters: &Parameters) -> Vec<(String, f64)> {
    vec![("herd.poll".to_string(), parameters.cpu.slot_poll_ns)]
}
