//! Checks of pages, and of limits on memory and files.

use super::Finding;
use super::machine::Machine;

/// Number of 2 MiB pages for a few gigabytes of items.
const SUGGESTED_PAGES: u64 = 1024;
/// A client uses up to a dozen descriptors, and there may be a thousand clients.
const OPEN_FILES_WANTED: u64 = 16_384;

/// Checks whether any reserved huge page of the default size, which is assumed to be 2 MiB, is free.
pub fn huge_pages(machine: &Machine) -> Finding {
    let what = "huge pages";
    let total = machine.number("proc/meminfo", "HugePages_Total").unwrap_or(0);
    let free = machine.number("proc/meminfo", "HugePages_Free").unwrap_or(0);
    if free > 0 {
        return Finding::good(
            what,
            format!(
                "{free} of {total} reserved 2 MiB pages are free ({} MiB)",
                free * 2
            ),
        );
    }
    let found = if total == 0 {
        "none reserved".to_string()
    } else {
        format!("all {total} are taken")
    };
    Finding::fair(
        what,
        format!("{found}: random reads of a large store cost half as much again on 4 KiB pages"),
        format!(
            "sysctl -w vm.nr_hugepages={} (as root; 2 MiB each)",
            total + SUGGESTED_PAGES
        ),
    )
}

/// Checks whether shared memory can have transparent huge pages, at least on request. Linux disables this by default.
pub fn shared_transparent(machine: &Machine) -> Finding {
    transparent(
        machine,
        "shared memory pages",
        "sys/kernel/mm/transparent_hugepage/shmem_enabled",
        &["always", "advise", "within_size", "force"],
    )
}

/// Checks whether private memory can have transparent huge pages, at least on request.
pub fn private_transparent(machine: &Machine) -> Finding {
    transparent(
        machine,
        "private memory pages",
        "sys/kernel/mm/transparent_hugepage/enabled",
        &["always", "madvise"],
    )
}

fn transparent(machine: &Machine, what: &'static str, path: &str, wanted: &[&str]) -> Finding {
    let text = machine.text(path);
    let chosen = text
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'))
        .map(|(word, _)| word)
        .unwrap_or("");
    if wanted.contains(&chosen) {
        return Finding::good(what, format!("transparent huge pages: {chosen}"));
    }
    let found = if chosen.is_empty() {
        "this kernel offers no transparent huge pages"
    } else {
        "transparent huge pages are off"
    };
    Finding::fair(
        what,
        found,
        format!("echo {} > /{path} (as root), or reserve huge pages", wanted[1]),
    )
}

/// Memory of a server's slots and bulk values with default settings, and of clients on the same machine, with a margin
/// *(our choice)*.
const LOCKED_WANTED: u64 = 256 << 20;

/// Checks whether this process may lock 256 MiB of memory; registering memory with a card locks it.
pub fn locked(machine: &Machine) -> Finding {
    match limit(machine, "Max locked memory") {
        Some(u64::MAX) => Finding::good("locked memory", "unlimited"),
        Some(bytes) if bytes >= LOCKED_WANTED => Finding::good(
            "locked memory",
            format!(
                "{} MiB, of {} MiB that registering with a card may take",
                bytes >> 20,
                LOCKED_WANTED >> 20
            ),
        ),
        Some(bytes) => Finding::fair(
            "locked memory",
            format!(
                "{} KiB; enough for shared memory, not for -k or for registering with a card, which may take {} MiB",
                bytes >> 10,
                LOCKED_WANTED >> 20
            ),
            "LimitMEMLOCK=infinity (systemd), --ulimit memlock=-1 (docker), or `* - memlock unlimited` in limits.conf",
        ),
        None => Finding::fair("locked memory", "limit unknown", "mount /proc"),
    }
}

/// Checks whether this process may have 16384 files open (soft limit).
pub fn open_files(machine: &Machine) -> Finding {
    match limit(machine, "Max open files") {
        Some(count) if count >= OPEN_FILES_WANTED => Finding::good("open files", format!("up to {count}")),
        Some(count) => Finding::fair(
            "open files",
            format!("up to {count}: a client takes several, so many clients run out"),
            format!("ulimit -n {OPEN_FILES_WANTED}, or LimitNOFILE={OPEN_FILES_WANTED} (systemd)"),
        ),
        None => Finding::fair("open files", "limit unknown", "mount /proc"),
    }
}

/// The soft limit of this process in `/proc/self/limits`; [`u64::MAX`] for unlimited.
fn limit(machine: &Machine, name: &str) -> Option<u64> {
    let text = machine.text("proc/self/limits");
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Grade;
    use super::*;

    #[test]
    fn huge_pages_none_taken_and_free() {
        let text =
            |total, free| format!("MemTotal: 1 kB\nHugePages_Total: {total}\nHugePages_Free: {free}\n");
        let machine = |name, total, free| Machine::made_of(name, &[("proc/meminfo", &text(total, free))]);
        let none = huge_pages(&machine("none", 0, 0));
        assert!(none.found.starts_with("none reserved"), "{none:?}");
        assert_eq!(
            none.fix.as_deref(),
            Some("sysctl -w vm.nr_hugepages=1024 (as root; 2 MiB each)")
        );
        assert!(
            huge_pages(&machine("taken", 5, 0))
                .found
                .starts_with("all 5 are taken")
        );
        assert_eq!(huge_pages(&machine("free", 5, 3)).grade, Grade::Good);
    }

    #[test]
    fn transparent_pages_off_and_on() {
        let path = "sys/kernel/mm/transparent_hugepage/shmem_enabled";
        let off = Machine::made_of("off", &[(path, "always within_size advise [never] deny force\n")]);
        let finding = shared_transparent(&off);
        assert_eq!(
            finding.fix.as_deref(),
            Some(
                "echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled (as root), or reserve huge pages"
            )
        );
        let on = Machine::made_of("on", &[(path, "always within_size [advise] never deny force\n")]);
        assert_eq!(shared_transparent(&on).grade, Grade::Good);
    }

    #[test]
    fn limits() {
        let text = "Limit                     Soft Limit           Hard Limit           Units\n\
                    Max open files            1024                 4096                 files\n\
                    Max locked memory         8388608              8388608              bytes\n";
        let machine = Machine::made_of("limits", &[("proc/self/limits", text)]);
        assert!(locked(&machine).found.starts_with("8192 KiB"));
        let enough = Machine::made_of(
            "enough",
            &[("proc/self/limits", &text.replace("8388608", "268435456"))],
        );
        assert_eq!(locked(&enough).grade, Grade::Good);
        assert!(open_files(&machine).found.starts_with("up to 1024"));
        let machine = Machine::made_of(
            "nolimits",
            &[("proc/self/limits", &text.replace("8388608 ", "unlimited"))],
        );
        assert_eq!(locked(&machine).grade, Grade::Good);
    }
}
