//! The log lines of a hosting service: its choices and their reasons.

use super::limits::free_huge_bytes;
use super::settings::Settings;
use drover_store::PartitionOptions;
use drover_verbs::Caps;

/// Logs what a hosting service was set to, and why: memory and pages, eviction, workers, clients, idle polling.
pub fn announce(settings: &Settings, partition: &PartitionOptions, caps: &Caps) {
    let memory = size(partition.bytes());
    let (asked, count) = (
        settings.capacity.memory_mib.value,
        settings.capacity.threads.value,
    );
    tracing::info!(
        "items and index: {count} partition(s) of {memory} ({asked} MiB requested by {})",
        settings.capacity.memory_mib.origin
    );
    tracing::info!("when full: {}", partition.mode.when_full());
    tracing::info!("pages: {}", pages(settings, partition));
    match &settings.workers.cores.value {
        Some(cores) => tracing::info!(
            "workers: {count}, on cores {} ({})",
            core_list(cores),
            settings.workers.cores.origin
        ),
        None => tracing::info!(
            "workers: {count}, not pinned ({}): too few cores, or not wanted",
            settings.workers.cores.origin
        ),
    }
    let (clients, slots) = (
        settings.capacity.conn_limit.value,
        settings.capacity.slot_clients.value,
    );
    match clients.checked_sub(slots) {
        None | Some(0) => tracing::info!("clients: {clients}, all with request slots"),
        Some(more) => {
            tracing::info!("clients: {clients}; {slots} with request slots, {more} more by datagrams")
        }
    }
    match settings.workers.spin_us.value {
        0 => tracing::info!("idle workers poll for ever (--spin-us 0)"),
        us if !caps.wakes.on_memory => tracing::info!(
            "idle workers poll for {us} us, then at intervals of up to a millisecond ({}): requests on this fabric \
             raise no event",
            settings.workers.spin_us.origin
        ),
        us => tracing::info!(
            "idle workers poll for {us} us, then sleep ({})",
            settings.workers.spin_us.origin
        ),
    }
}

/// Formats a size in whole MiB, or in whole KiB below 1 MiB, rounded down.
pub fn size(bytes: usize) -> String {
    match bytes >> 20 {
        0 => format!("{} KiB", bytes >> 10),
        mib => format!("{mib} MiB"),
    }
}

/// Cores as `--cores` takes them.
pub(super) fn core_list(cores: &[usize]) -> String {
    let cores: Vec<String> = cores.iter().map(usize::to_string).collect();
    cores.join(",")
}

fn pages(settings: &Settings, partition: &PartitionOptions) -> String {
    let wanted = settings.capacity.threads.value * partition.bytes();
    let free = free_huge_bytes();
    if settings.memory.large_pages.value {
        return "reserved huge pages (-L)".to_string();
    }
    if free >= wanted as u64 {
        return format!("reserved huge pages, {} MiB are free", free >> 20);
    }
    format!(
        "transparent huge pages where available: {} MiB wanted, {} MiB of huge pages reserved (see `drover doctor`)",
        wanted >> 20,
        free >> 20
    )
}
