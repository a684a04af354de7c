//! What the systems offer their clients.

use super::Finding;
use super::machine::Machine;
use drover_systems::System;

/// Tells what operations of each system's clients may say, and what they may not. It depends on no machine.
pub fn offers(_: &Machine) -> Finding {
    let lines: Vec<String> = System::ALL.iter().map(|system| line(*system)).collect();
    Finding::good("operations", lines.join("; "))
}

/// `NAME: conditions, ttl, values up to 8 MiB, no scan`.
fn line(system: System) -> String {
    let offers = system.facts().offers.operations;
    let (has, lacks): (Vec<_>, Vec<_>) = offers.named().into_iter().partition(|(_, has)| *has);
    let names = |list: Vec<(&'static str, bool)>| {
        let names: Vec<&str> = list.into_iter().map(|(name, _)| name).collect();
        names.join(", ")
    };
    let [shortest, longest] = offers.key_bytes;
    format!(
        "{system}: {}, keys of {shortest} to {longest} B, values up to {} KiB; not: {}",
        names(has),
        offers.value_bytes_max >> 10,
        names(lacks)
    )
}
