//! `-k`: all memory of the server is locked, or it does not start.
//!
//! Beside the items (`-m`) that is everything else the process has mapped: slots, rings, tables, logs, stacks, program.
//! How much that is depends on the system, so it is not predicted: the kernel is asked when all of it is there, and counts
//! all of it against the limit.

use super::settings::Settings;
use crate::exit::{self, Failure};
use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{Resource, getrlimit, setrlimit};

const ADVICE: &str = "raise the limit with LimitMEMLOCK=infinity (systemd), --ulimit memlock=-1 (docker) or `ulimit -l \
    unlimited` as root, or leave out -k (lock-memory)";

/// Bytes that were asked for with `-m`.
#[derive(Clone, Copy, Debug)]
pub(super) struct ItemMemory(u64);

impl ItemMemory {
    pub(super) fn of(settings: &Settings) -> ItemMemory {
        ItemMemory(settings.capacity.memory_mib.value << 20)
    }
}

/// Raises the soft limit on locked memory to the hard one, and refuses a start that cannot end well, before any of the memory
/// is there.
///
/// # Errors
/// Not even the items fit in the limit, and the process may not lock more.
pub(super) fn check_items(settings: &Settings) -> Result<(), Failure> {
    let mut limit = getrlimit(Resource::Memlock);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Memlock, limit); // every process may do this; the check below covers a failure
    let limit = getrlimit(Resource::Memlock).current;
    check_limit(ItemMemory::of(settings), limit.filter(|_| !may_lock_anything()))
}

fn check_limit(items: ItemMemory, limit: Option<u64>) -> Result<(), Failure> {
    let Some(limit) = limit.filter(|limit| *limit < items.0) else {
        return Ok(());
    };
    let text = format!(
        "memlock limit too low: {} MiB wanted for items (-m) alone, {} KiB allowed; {ADVICE}",
        items.0 >> 20,
        limit >> 10
    );
    Err(Failure::new(exit::NO_PERMISSION, text))
}

/// Locks all memory that the process has mapped, and all that it will map for its clients.
///
/// # Errors
/// The limit is lower than what is mapped now.
pub(super) fn lock_all(items: ItemMemory) -> Result<(), Failure> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mapped = mapped_bytes(&status);
    let limit = getrlimit(Resource::Memlock).current;
    match (mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE), limit) {
        (Ok(()), None) => tracing::info!("all memory is locked: {} MiB", mapped >> 20),
        (Ok(()), Some(limit)) => tracing::info!(
            "all memory is locked: {} MiB; rings of further clients may take it to {} MiB (LimitMEMLOCK=)",
            mapped >> 20,
            limit >> 20
        ),
        (Err(error), limit) => {
            let text = refusal(mapped, items.0, limit, &error.into());
            return Err(Failure::new(exit::NO_PERMISSION, text));
        }
    }
    Ok(())
}

fn refusal(mapped: u64, items: u64, limit: Option<u64>, error: &std::io::Error) -> String {
    let allowed = limit.map_or("any amount".to_owned(), |limit| format!("{} KiB", limit >> 10));
    format!(
        "memlock limit too low: {} MiB wanted ({} MiB for items, -m, and {} MiB for slots, rings, tables, stacks, allocators and \
         program), {allowed} allowed: {error}; {ADVICE}",
        mapped.div_ceil(1 << 20),
        items >> 20,
        mapped.saturating_sub(items).div_ceil(1 << 20)
    )
}

/// Bytes that the process has mapped, which is what the kernel compares with the limit. `status`: its file in `/proc`.
fn mapped_bytes(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("VmSize:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

/// Whether the process may lock any amount (CAP_IPC_LOCK, bit 14 of the effective set).
fn may_lock_anything() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    effective
        .and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok())
        .is_some_and(|bits| bits >> 14 & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_beyond_the_limit_are_refused_at_once() {
        let items = ItemMemory(64 << 20);
        let failure = check_limit(items, Some(8 << 20)).unwrap_err();
        assert_eq!(failure.code, 77);
        assert_eq!(
            failure.text,
            format!("memlock limit too low: 64 MiB wanted for items (-m) alone, 8192 KiB allowed; {ADVICE}")
        );
        assert!(check_limit(items, Some(64 << 20)).is_ok());
        assert!(check_limit(items, None).is_ok(), "CAP_IPC_LOCK, or no limit");
    }

    #[test]
    fn a_refusal_has_the_sum_and_its_parts() {
        let error = std::io::Error::from(std::io::ErrorKind::OutOfMemory);
        let text = refusal(100 << 20, 64 << 20, Some(80 << 20), &error);
        assert!(
            text.contains("100 MiB wanted (64 MiB for items, -m, and 36 MiB for "),
            "{text}"
        );
        assert!(text.contains("81920 KiB allowed"), "{text}");
    }

    #[test]
    fn what_is_mapped_is_read() {
        assert_eq!(mapped_bytes("VmPeak:\t 9 kB\nVmSize:\t    2048 kB\n"), 2 << 20);
        assert_eq!(mapped_bytes(""), 0);
    }
}
