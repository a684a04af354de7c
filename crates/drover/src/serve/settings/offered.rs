//! Settings about a feature that the system does not offer are refused, from the command line and from the file.

use super::{Origin, Settings};
use crate::exit::{self, Failure};
use drover_kv::Offers;
use drover_systems::System;

/// Feature that a setting concerns.
#[derive(Clone, Copy)]
enum About {
    Memcached,
    Slots,
    MemoryFile,
}

use About::{Memcached, MemoryFile, Slots};

/// Settings that not every system uses, by their names in `drover config`.
const ABOUT: [(&str, About); 20] = [
    ("port", Memcached),
    ("unix-socket", Memcached),
    ("unix-mask", Memcached),
    ("listen", Memcached),
    ("listen-backlog", Memcached),
    ("max-reqs-per-event", Memcached),
    ("protocol", Memcached),
    ("disable-cas", Memcached),
    ("disable-flush-all", Memcached),
    ("disable-dumping", Memcached),
    ("disable-watch", Memcached),
    ("enable-shutdown", Memcached),
    ("idle_timeout", Memcached),
    ("maxconns_fast", Memcached),
    ("auth-file", Memcached),
    ("enable-ssl", Memcached),
    ("slot-clients", Slots),
    ("window-max", Slots),
    ("slot-bytes-max", Slots),
    ("memory-file", MemoryFile),
];

/// Reason why a setting about `about` does not apply to a system that offers `offers`.
fn refusal(about: About, offers: &Offers) -> Option<&'static str> {
    match about {
        Memcached if !offers.memcached => Some("it serves native clients only, not memcached's"),
        Slots if !offers.request_slots => Some("it has no request slots"),
        MemoryFile => offers.memory_file.err(),
        _ => None,
    }
}

/// Which systems have a memory file, as an end of the reason.
fn with_memory_file() -> String {
    let has = |system: &&System| system.facts().offers.memory_file.is_ok();
    let names: Vec<String> = System::ALL.iter().filter(has).map(System::to_string).collect();
    format!("; --system {} keeps items in a file", names.join(" or "))
}

/// # Errors
/// The first explicit setting that does not apply to the system.
pub(super) fn refuse_what_means_nothing(settings: &Settings) -> Result<(), Failure> {
    let system = settings.system.value;
    for (name, value, origin) in settings.rows() {
        let is_said = matches!(origin, Origin::CommandLine | Origin::File);
        let about = ABOUT.iter().find(|(setting, _)| *setting == name);
        let reason = about.and_then(|(_, about)| refusal(*about, &system.offers));
        // Port 0 is no request for memcached.
        let is_harmless = name == "port" && value == "0";
        if let (true, false, Some(why)) = (is_said, is_harmless, reason) {
            let flag = match name {
                "idle_timeout" | "maxconns_fast" => "-o".to_string(),
                "memory-file" => format!("-e {value} (--memory-file)"),
                name => format!("--{name} {value}"),
            };
            let instead = match about {
                Some((_, MemoryFile)) => with_memory_file(),
                _ => String::new(),
            };
            let text = format!(
                "{flag}: does not apply to --system {}: {why}{instead} ({origin})",
                system.name
            );
            return Err(Failure::new(exit::USAGE, text));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A misspelt name in the table would refuse nothing.
    #[test]
    fn every_name_in_the_table_is_a_settings() {
        let args = crate::serve::Args::default();
        let (settings, _) = Settings::resolve::<drover_systems::System>(&args).expect("defaults");
        let names: Vec<&str> = settings.rows().iter().map(|(name, ..)| *name).collect();
        for (name, _) in ABOUT {
            assert!(names.contains(&name), "{name}");
        }
    }
}
