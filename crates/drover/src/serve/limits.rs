//! Limits that the system must grant before memory is allocated, each with a remedy.

use super::settings::Settings;
use super::{file_space, machine_memory, memlock};
use crate::exit::{self, Failure};
use rustix::process::{Resource, getrlimit, setrlimit};

/// Raises the soft limit on open files to the hard one, and warns if that is too low for all clients; with `-r` likewise that on
/// core files. With `-k` also
/// raises the limit on locked memory, which must suffice for the items at least. With `-L` checks that enough huge pages are free.
///
/// # Errors
/// There is less memory than `-m`, or less space for the memory file; the limit on locked memory is too low, or too few huge
/// pages are free. The text says how to change that.
pub fn check(settings: &Settings) -> Result<(), Failure> {
    let wanted_mib = settings.capacity.memory_mib.value;
    if settings.memory.lock_memory.value {
        memlock::check_items(settings)?;
    }
    if settings.memory.large_pages.value {
        check_huge_pages(wanted_mib.saturating_mul(1 << 20), free_huge_bytes())?;
    } else {
        machine_memory::check(settings)?;
    }
    if let Some(path) = &settings.memory.memory_file.value {
        file_space::check(path, wanted_mib, settings.capacity.threads.value)?;
    }
    if settings.memory.core_dumps.value {
        check_core_files(raise_core_files());
    }
    let clients = settings.capacity.conn_limit.value as u64;
    check_files(
        clients,
        files_per_client(settings.capacity.threads.value as u64),
        raise_files(),
    );
    Ok(())
}

/// Descriptors per client: its channel, and rings in both directions for each worker.
fn files_per_client(threads: u64) -> u64 {
    3 + 2 * threads
}

/// Raises the soft limit on open files to the hard one and returns it; `None`: unlimited.
fn raise_files() -> Option<u64> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit); // every process may do this; the check below covers a failure
    getrlimit(Resource::Nofile).current
}

/// Raises the soft limit on the size of core files to the hard one and returns it; `None`: unlimited.
fn raise_core_files() -> Option<u64> {
    let mut limit = getrlimit(Resource::Core);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Core, limit); // every process may do this; the check below covers a failure
    getrlimit(Resource::Core).current
}

/// A server that cannot leave a core file serves as well, so it starts. Returns whether it can leave one.
fn check_core_files(limit: Option<u64>) -> bool {
    let allowed = limit != Some(0);
    if !allowed {
        tracing::warn!(
            "-r: the limits of this process allow no core file; raise them with LimitCORE=infinity (systemd), --ulimit \
             core (docker) or `ulimit -Hc` as root"
        );
    }
    allowed
}

/// Clients beyond the limit are refused one by one and served when others leave, so the server starts anyway. Returns
/// whether all clients can be served.
fn check_files(clients: u64, per_client: u64, limit: Option<u64>) -> bool {
    const OWN: u64 = 64;
    let space = limit.map_or(u64::MAX, |limit| limit.saturating_sub(OWN) / per_client);
    if space < clients {
        tracing::warn!(
            "open files: the limit of this process suffices for some {space} clients, not for {clients} (-c); raise \
             it with LimitNOFILE=infinity (systemd), --ulimit nofile (docker) or `ulimit -n`"
        );
    }
    space >= clients
}

/// Bytes of reserved huge pages of the default size that are free; 0 if unknown.
pub fn free_huge_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let number = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    number("HugePages_Free:").unwrap_or(0) * number("Hugepagesize:").unwrap_or(0) * 1024
}

fn check_huge_pages(wanted: u64, free: u64) -> Result<(), Failure> {
    if free >= wanted {
        return Ok(());
    }
    let pages = wanted.div_ceil(2 << 20);
    let text = format!(
        "not enough huge pages: {} MiB wanted, {} MiB free; reserve them with `sysctl -w vm.nr_hugepages={}` as \
         root, or leave out -L",
        wanted >> 20,
        free >> 20,
        pages + pages / 8 + 64
    );
    Err(Failure::new(exit::OS_ERROR, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_few_files_for_all_clients() {
        assert_eq!(files_per_client(4), 11);
        assert!(!check_files(1024, 11, Some(1024)));
        assert!(check_files(80, 11, Some(1024)));
        assert!(check_files(1024, 11, None));
    }

    #[test]
    fn too_few_huge_pages() {
        let failure = check_huge_pages(64 << 20, 2 << 20).unwrap_err();
        assert_eq!(failure.code, 71);
        assert_eq!(
            failure.text,
            "not enough huge pages: 64 MiB wanted, 2 MiB free; reserve them with `sysctl -w vm.nr_hugepages=100` as \
             root, or leave out -L"
        );
        assert!(check_huge_pages(64 << 20, 64 << 20).is_ok());
    }
}
