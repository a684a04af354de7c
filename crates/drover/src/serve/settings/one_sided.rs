//! What makes no sense for a system without memcached's clients and request slots: refused, whoever says it.

use super::{Origin, Settings};
use crate::exit::{self, Failure};
use crate::shards::System;

/// Settings, by their names in `drover config`, and why they mean nothing to the other systems.
const OF_HERD: [(&str, &str); 21] = [
    ("port", SOCKETS),
    ("unix-socket", SOCKETS),
    ("unix-mask", SOCKETS),
    ("listen", SOCKETS),
    ("listen-backlog", SOCKETS),
    ("max-reqs-per-event", SOCKETS),
    ("protocol", SOCKETS),
    ("disable-cas", SOCKETS),
    ("disable-flush-all", SOCKETS),
    ("disable-dumping", SOCKETS),
    ("disable-watch", SOCKETS),
    ("enable-shutdown", SOCKETS),
    ("idle_timeout", SOCKETS),
    ("maxconns_fast", SOCKETS),
    ("auth-file", SOCKETS),
    ("enable-ssl", SOCKETS),
    ("slot-clients", SLOTS),
    ("window-max", SLOTS),
    ("slot-bytes-max", SLOTS),
    ("memory-file", "its items do not outlive the process"),
    ("metrics-listen", "its counters are told to `drover stats` only"),
];

const SOCKETS: &str = "it serves native clients only, not memcached's";
const SLOTS: &str = "it has no request slots";

/// # Errors
/// The first setting that somebody made and that the system has no use for.
pub(super) fn refuse_what_means_nothing(settings: &Settings) -> Result<(), Failure> {
    let system = settings.system.value;
    if system == System::Herd {
        return Ok(());
    }
    for (name, value, origin) in settings.rows() {
        let is_said = matches!(origin, Origin::CommandLine | Origin::File);
        let reason = OF_HERD.iter().find(|(of_herd, _)| *of_herd == name);
        // No port is what it has anyway.
        let is_harmless = name == "port" && value == "0";
        if let (true, false, Some((_, why))) = (is_said, is_harmless, reason) {
            let flag = match name {
                "idle_timeout" | "maxconns_fast" => "-o".to_string(),
                name => format!("--{name} {value}"),
            };
            let text = format!("{flag}: means nothing with --system {system}: {why} ({origin})");
            return Err(Failure::new(exit::USAGE, text));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name in the table that no setting has would refuse nothing.
    #[test]
    fn every_name_in_the_table_is_a_settings() {
        let settings = Settings::resolve(&crate::serve::Args::default()).expect("defaults");
        let names: Vec<&str> = settings.rows().iter().map(|(name, ..)| *name).collect();
        for (name, _) in OF_HERD {
            assert!(names.contains(&name), "{name}");
        }
    }
}
