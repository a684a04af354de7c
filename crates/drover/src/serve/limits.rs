//! Limits that the system must grant before memory is allocated: locked memory and huge pages, each with a remedy.

use super::settings::Settings;
use crate::advice::Mount;
use crate::exit::{self, Failure};
use rustix::fs::StatVfsMountFlags;
use rustix::process::{Resource, getrlimit, setrlimit};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Raises the soft limit on open files to the hard one, and warns if that is too low for all clients; with `-r` likewise that on
/// core files. With `-k` also
/// raises the limit on locked memory, which must suffice for the items unless the process may lock any amount. Checks that
/// the machine has the memory, with `-L` in free huge pages, with `-e` on the file's device.
///
/// # Errors
/// The limit on locked memory is too low, or there is too little memory or space; the text says how to change that.
pub fn check(settings: &Settings) -> Result<(), Failure> {
    let wanted_bytes = settings.capacity.memory_mib.value.saturating_mul(1 << 20);
    if settings.memory.lock_memory.value {
        let limit = raise_memlock();
        check_memlock(wanted_bytes, limit, may_lock_anything())?;
    }
    match &settings.memory.memory_file.value {
        _ if settings.memory.large_pages.value => check_huge_pages(wanted_bytes, free_huge_bytes())?,
        None => check_memory(settings.capacity.memory_mib.value, machine_mib())?,
        Some(path) => check_space(settings.capacity.memory_mib.value, path)?,
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

/// Locks all present and future mappings of the process.
///
/// # Errors
/// The system refuses.
pub fn lock_all() -> Result<(), Failure> {
    use rustix::mm::{MlockAllFlags, mlockall};
    mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE)
        .map_err(|error| Failure::new(exit::OS_ERROR, format!("locking memory failed: {error}")))
}

/// Raises the soft limit on locked bytes to the hard one and returns it; `None`: unlimited.
fn raise_memlock() -> Option<u64> {
    let mut limit = getrlimit(Resource::Memlock);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Memlock, limit); // every process may do this; the check below covers a failure
    getrlimit(Resource::Memlock).current
}

/// Whether the process may lock any amount (CAP_IPC_LOCK, bit 14 of the effective set).
fn may_lock_anything() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    effective
        .and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok())
        .is_some_and(|bits| bits >> 14 & 1 == 1)
}

fn check_memlock(wanted: u64, limit: Option<u64>, any: bool) -> Result<(), Failure> {
    let Some(limit) = limit.filter(|limit| !any && *limit < wanted) else {
        return Ok(());
    };
    let text = format!(
        "memlock limit too low: {} MiB wanted, {} KiB allowed; raise it with LimitMEMLOCK=infinity (systemd), \
         --ulimit memlock=-1 (docker) or `ulimit -l unlimited` as root, or leave out -k",
        wanted >> 20,
        limit >> 10
    );
    Err(Failure::new(exit::NO_PERMISSION, text))
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

/// MiB of memory and swap of this machine; `None` if unknown.
fn machine_mib() -> Option<u64> {
    let machine = rustix::system::sysinfo();
    let unit_bytes = u64::from(machine.mem_unit);
    let bytes = (machine.totalram as u64 + machine.totalswap as u64).checked_mul(unit_bytes)?;
    Some(bytes >> 20).filter(|mib| *mib > 0)
}

/// The system would promise more than that, and end the process when it is used.
fn check_memory(wanted_mib: u64, machine_mib: Option<u64>) -> Result<(), Failure> {
    let Some(most) = machine_mib.filter(|most| *most < wanted_mib) else {
        return Ok(());
    };
    let text = format!("-m {wanted_mib}: this machine has {most} MiB of memory and swap: -m {most} at most");
    Err(Failure::new(exit::OS_ERROR, text))
}

/// Checks that the memory file has space on its device; a file that is there already counts as space.
fn check_space(wanted_mib: u64, path: &Path) -> Result<(), Failure> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let Ok(device) = rustix::fs::statvfs(folder.unwrap_or(Path::new("."))) else {
        return Ok(()); // opening the file reports the error
    };
    let own_bytes = std::fs::metadata(path).map_or(0, |file| file.blocks() * 512);
    let most = (device.f_bavail.saturating_mul(device.f_frsize) + own_bytes) >> 20;
    if wanted_mib <= most || device.f_flag.contains(StatVfsMountFlags::RDONLY) {
        return Ok(());
    }
    let mount = Mount::of(path);
    // File systems need some of it for themselves.
    let step = match most.saturating_sub(most / 16 + 1) {
        0 => "free space there".to_owned(),
        advised => format!("-m {advised} at most"),
    };
    let text = format!(
        "-e {}: device {}, mounted at {}, has {most} MiB free, and -m is {wanted_mib}: {step}, or name a \
         file elsewhere",
        path.display(),
        mount.device,
        mount.place.display(),
    );
    Err(Failure::new(exit::OS_ERROR, text))
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
    fn memlock_too_low() {
        let failure = check_memlock(64 << 20, Some(8 << 20), false).unwrap_err();
        assert_eq!(failure.code, 77);
        assert_eq!(
            failure.text,
            "memlock limit too low: 64 MiB wanted, 8192 KiB allowed; raise it with LimitMEMLOCK=infinity (systemd), \
             --ulimit memlock=-1 (docker) or `ulimit -l unlimited` as root, or leave out -k"
        );
        assert!(
            check_memlock(64 << 20, Some(8 << 20), true).is_ok(),
            "CAP_IPC_LOCK needs no limit"
        );
        assert!(check_memlock(64 << 20, Some(64 << 20), false).is_ok());
        assert!(check_memlock(64 << 20, None, false).is_ok());
    }

    #[test]
    fn too_few_files_for_all_clients() {
        assert_eq!(files_per_client(4), 11);
        assert!(!check_files(1024, 11, Some(1024)));
        assert!(check_files(80, 11, Some(1024)));
        assert!(check_files(1024, 11, None));
    }

    #[test]
    fn more_memory_than_there_is() {
        let failure = check_memory(2000, Some(1999)).unwrap_err();
        assert_eq!(
            failure.text,
            "-m 2000: this machine has 1999 MiB of memory and swap: -m 1999 at most"
        );
        assert!(check_memory(1999, Some(1999)).is_ok() && check_memory(2000, None).is_ok());
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
