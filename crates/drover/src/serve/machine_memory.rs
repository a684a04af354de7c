//! [`check`]: whether the machine, and the container around the server, can ever have as much memory as `-m` asks for.
//!
//! Linux lends memory that it does not have, so such a server would start, and be killed when it has filled up.

use super::settings::Settings;
use crate::exit::{self, Failure};
use std::path::{Path, PathBuf};

/// Program, stacks and what allocators keep, MiB; and a worker's share of it. docs/operations.md has the whole sum.
const PROGRAM_MIB: u64 = 16;
const WORKER_MIB: u64 = 4;

/// Most memory that the processes here may have together, and what says so.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Limit {
    mib: u64,
    source: String,
}

/// Refuses a size (`-m`) for which there can be no memory. With a memory file the file's disk decides.
///
/// # Errors
/// The size is too large; the text names the largest one that would work.
pub(super) fn check(settings: &Settings) -> Result<(), Failure> {
    let (capacity, service) = (&settings.capacity, &settings.service);
    let is_gateway = service.connect.value.is_some() || !service.pool.value.is_empty();
    if is_gateway || settings.memory.memory_file.value.is_some() {
        return Ok(());
    }
    match limit(Path::new("/")) {
        Some(limit) => check_size(capacity.memory_mib.value, capacity.threads.value as u64, &limit),
        None => Ok(()),
    }
}

fn check_size(mib: u64, threads: u64, limit: &Limit) -> Result<(), Failure> {
    let own = PROGRAM_MIB + WORKER_MIB * threads;
    let most = limit.mib.saturating_sub(own);
    if mib <= most {
        return Ok(());
    }
    let (has, source) = (limit.mib, &limit.source);
    let advice = match most {
        0 => "there is too little memory for any server".to_owned(),
        _ => format!("at most -m {most} (memory-limit) fits"),
    };
    let text = format!("-m {mib}: {source} has {has} MiB, of which the program takes {own}: {advice}");
    Err(Failure::new(exit::OS_ERROR, text))
}

/// The least of the limits of a system whose `proc` and `sys` are in the folder `root`; `None` if none is known.
fn limit(root: &Path) -> Option<Limit> {
    let read = |path: PathBuf| std::fs::read_to_string(path).unwrap_or_default();
    let meminfo = read(root.join("proc/meminfo"));
    let kib = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    let machine = kib("MemTotal:").map(|total| Limit {
        mib: (total + kib("SwapTotal:").unwrap_or(0)) >> 10,
        source: "this machine".to_owned(),
    });
    let groups = read(root.join("proc/self/cgroup"));
    let files = groups.lines().flat_map(|line| limit_files(root, line));
    let cgroup = files.filter_map(|file| {
        let bytes = std::fs::read_to_string(&file).ok()?.trim().parse::<u64>().ok()?;
        let source = format!("the control group ({}, MemoryMax= of a unit)", file.display());
        Some(Limit {
            mib: bytes >> 20,
            source,
        })
    });
    machine.into_iter().chain(cgroup).min_by_key(|limit| limit.mib)
}

/// Files with the limits of a control group and of those around it. `line`: `0::PATH`, or `4:memory:PATH` of version 1.
fn limit_files(root: &Path, line: &str) -> Vec<PathBuf> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (Some(controller), Some(path)) = (parts.next(), parts.next()) else {
        return Vec::new();
    };
    let (top, name) = match controller {
        "" => ("sys/fs/cgroup", "memory.max"),
        "memory" => ("sys/fs/cgroup/memory", "memory.limit_in_bytes"),
        _ => return Vec::new(),
    };
    let group = Path::new(path.trim_start_matches('/'));
    group
        .ancestors()
        .map(|group| root.join(top).join(group).join(name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(name: &str, files: &[(&str, &str)]) -> PathBuf {
        let root = std::env::temp_dir().join(format!("drover-{name}-{}", std::process::id()));
        for (path, text) in files {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("temporary folder");
            std::fs::write(path, text).expect("temporary file");
        }
        root
    }

    const MEMINFO: (&str, &str) = ("proc/meminfo", "MemTotal: 2097152 kB\nSwapTotal: 1048576 kB\n");

    #[test]
    fn the_least_limit_counts() {
        let root = machine("bare", &[MEMINFO]);
        assert_eq!(limit(&root).expect("known").mib, 3072);
        let inside = machine(
            "inside",
            &[
                MEMINFO,
                ("proc/self/cgroup", "5:cpu:/x\n0::/system.slice/drover.service\n"),
                ("sys/fs/cgroup/system.slice/drover.service/memory.max", "max\n"),
                ("sys/fs/cgroup/system.slice/memory.max", "1073741824\n"),
            ],
        );
        let found = limit(&inside).expect("known");
        assert_eq!(found.mib, 1024);
        assert!(found.source.contains("system.slice/memory.max"), "{found:?}");
        let old = machine(
            "old",
            &[
                MEMINFO,
                ("proc/self/cgroup", "4:memory:/box\n"),
                ("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "536870912\n"),
            ],
        );
        assert_eq!(limit(&old).expect("known").mib, 512);
        assert_eq!(limit(&machine("nothing", &[])), None);
    }

    #[test]
    fn the_size_named_in_a_refusal_is_accepted() {
        let limit = Limit {
            mib: 1000,
            source: "this machine".to_owned(),
        };
        let refused = check_size(1000, 2, &limit).expect_err("too much");
        assert_eq!(
            refused.text,
            "-m 1000: this machine has 1000 MiB, of which the program takes 24: at most -m 976 (memory-limit) fits"
        );
        assert!(check_size(976, 2, &limit).is_ok() && check_size(977, 2, &limit).is_err());
    }
}
