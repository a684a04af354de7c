//! Settings about a feature that the system does not offer are refused, from the command line and from the file.

use super::{Origin, Settings};
use crate::exit::{self, Failure};
use drover_kv::Facts;
use drover_systems::System;

/// Feature that not every system offers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Feature {
    /// memcached's protocol.
    Memcached,
    /// Versions that memcached's clients see, which are the server's own.
    Cas,
    /// Counts by the prefixes of memcached clients' keys.
    Prefixes,
    /// Request slots.
    Slots,
    /// A memory file.
    MemoryFile,
    /// A choice of which items are evicted.
    Eviction,
    /// Several ways by which results come to clients.
    Transfer,
    /// Services of several members.
    Cluster,
}

impl Feature {
    /// Reason why a setting about the feature does not apply to a system.
    fn refusal(self, facts: &Facts) -> Option<&'static str> {
        let offers = &facts.offers;
        match self {
            Feature::Memcached if !offers.memcached && !offers.gateway => {
                Some("it serves native clients only, not memcached's")
            }
            Feature::Cas if !offers.memcached => Some("the versions of its items are always there"),
            Feature::Prefixes if !offers.memcached => Some("nothing is counted by prefix there"),
            Feature::Slots if !offers.request_slots => Some("it has no request slots"),
            Feature::Transfer if !offers.transfer => Some("its results come to clients in one way only"),
            Feature::Cluster => facts.cluster.err(),
            Feature::MemoryFile => offers.memory_file.err(),
            Feature::Eviction => offers.eviction.err(),
            _ => None,
        }
    }
}

/// Which systems have a memory file, as an end of the reason.
fn with_memory_file() -> String {
    let has = |system: &&System| system.facts().offers.memory_file.is_ok();
    let names: Vec<String> = System::ALL.iter().filter(has).map(System::to_string).collect();
    format!("; --system {} keeps items in a file", names.join(" or "))
}

/// Settings of a service with items of its own, which mean nothing to a gateway.
const OWN_ITEMS: [&str; 19] = [
    "system",
    "fabric",
    "hash",
    "control-listen",
    "memory-limit",
    "eviction",
    "disable-evictions",
    "slot-clients",
    "window-max",
    "slot-bytes-max",
    "transfer",
    "enable-largepages",
    "memory-file",
    "disable-cas",
    "disable-flush-all",
    "disable-dumping",
    "disable-watch",
    "prefix-delimiter",
    "cluster",
];

/// Whether a setting of [`OWN_ITEMS`] has a meaning in a gateway to a pool: its clients decide what nodes do not.
fn applies(settings: &Settings, name: &str) -> bool {
    matches!(name, "disable-evictions" | "disable-flush-all") && !settings.service.pool.value.is_empty()
}

/// # Errors
/// The first explicit setting that does not apply to a gateway.
fn refuse_own_items(settings: &Settings) -> Result<(), Failure> {
    let said = |origin| matches!(origin, Origin::CommandLine | Origin::File);
    let (flag, whose) = match settings.service.connect.value.is_some() {
        true => ("--connect", "the other service's"),
        false => ("--pool", "the pool's"),
    };
    let mut rows = settings.rows.iter();
    match rows.find(|row| said(row.origin) && OWN_ITEMS.contains(&row.name) && !applies(settings, row.name)) {
        None => Ok(()),
        Some(row) => {
            let text = format!(
                "--{} {}: does not apply to a gateway ({flag}): items are {whose} ({})",
                row.name, row.value, row.origin
            );
            Err(Failure::new(exit::USAGE, text))
        }
    }
}

/// # Errors
/// A setting says how a gateway reaches the server of its items, and this is none.
fn refuse_ways_of_gateways(settings: &Settings) -> Result<(), Failure> {
    let mut rows = settings.rows.iter();
    let is_said = |origin| matches!(origin, Origin::CommandLine | Origin::File);
    match rows.find(|row| is_said(row.origin) && row.name.starts_with("connect-tls-")) {
        None => Ok(()),
        Some(row) => {
            let text = format!(
                "--{} {}: only a gateway (--connect, --pool) connects to another server ({})",
                row.name, row.value, row.origin
            );
            Err(Failure::new(exit::USAGE, text))
        }
    }
}

/// # Errors
/// The first explicit setting that does not apply to the system, or to a gateway.
pub(super) fn refuse_what_means_nothing(settings: &Settings) -> Result<(), Failure> {
    if settings.service.is_gateway() {
        return refuse_own_items(settings);
    }
    refuse_ways_of_gateways(settings)?;
    let system = settings.service.system.value;
    for row in &settings.rows {
        let (name, value, origin) = (row.name, &row.value, row.origin);
        let is_said = matches!(origin, Origin::CommandLine | Origin::File);
        let reason = row.needs.and_then(|feature| feature.refusal(system));
        // Port 0 is no request for memcached, and certificates are those of native clients, too.
        let is_harmless = match name {
            "port" => value == "0",
            "idle_timeout" | "maxconns_fast" => settings.extended.value.is_about_tls_alone(),
            _ => false,
        };
        if let (true, false, Some(why)) = (is_said, is_harmless, reason) {
            let flag = match name {
                "idle_timeout" | "maxconns_fast" => "-o".to_string(),
                "memory-file" => format!("-e {value} (--memory-file)"),
                name => format!("--{name} {value}"),
            };
            let instead = match row.needs {
                Some(Feature::MemoryFile) => with_memory_file(),
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
