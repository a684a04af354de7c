//! The kernel's numbers about this process, under the names that Prometheus' own clients use.

use super::exposition::{Exposition, Kind};
use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Resource, getrlimit};

/// The kernel's numbers about this process at one moment.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Process {
    /// User and system time of all threads since the process started, seconds.
    pub cpu_seconds: f64,
    /// Resident memory, bytes.
    pub resident_bytes: u64,
    /// Mapped address space, bytes.
    pub virtual_bytes: u64,
    /// Number of open file descriptors.
    pub open_fds: u64,
    /// Maximum number of open file descriptors (soft limit); `None`: no limit.
    pub max_fds: Option<u64>,
    /// Number of threads.
    pub threads: u64,
}

/// Reads the numbers of this process from the kernel; those that are not available are 0.
pub fn figures() -> Process {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count() as u64);
    Process {
        open_fds: open.saturating_sub(1), // without the one that lists them
        max_fds: getrlimit(Resource::Nofile).current,
        ..parse(&stat, clock_ticks_per_second(), page_size() as u64).unwrap_or_default()
    }
}

/// Parses fields of proc_pid_stat(5), counted after the command's name, which may contain any character.
fn parse(stat: &str, ticks_per_second: u64, page_bytes: u64) -> Option<Process> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    Some(Process {
        cpu_seconds: (number(14)? + number(15)?) as f64 / ticks_per_second as f64,
        threads: number(20)?,
        virtual_bytes: number(23)?,
        resident_bytes: number(24)? * page_bytes,
        ..Process::default()
    })
}

/// Adds the metrics of `process` to `out`.
pub fn add(out: &mut Exposition, process: &Process) {
    let mut gauge = |name, help, value: u64| out.family(name, Kind::Gauge, help).count(&[], value);
    gauge(
        "process_resident_memory_bytes",
        "Memory of this process that is present.",
        process.resident_bytes,
    );
    gauge(
        "process_virtual_memory_bytes",
        "Addresses that this process has mapped.",
        process.virtual_bytes,
    );
    gauge("process_open_fds", "Open file descriptors.", process.open_fds);
    gauge("process_threads", "Threads of this process.", process.threads);
    let mut max = out.family(
        "process_max_fds",
        Kind::Gauge,
        "Most open file descriptors; none: no limit.",
    );
    if let Some(count) = process.max_fds {
        max.count(&[], count);
    }
    out.family(
        "process_cpu_seconds_total",
        Kind::Counter,
        "Processor time of all threads.",
    )
    .add(&[], process.cpu_seconds);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_command_may_hold_anything() {
        let line =
            "7 (a) b (c) S 1 1 1 0 -1 4194560 1 2 3 4 250 50 0 0 20 0 9 0 100 4096 3 18446744073709551615";
        let process = parse(line, 100, 4096).expect("a line");
        assert_eq!(process.cpu_seconds, 3.0);
        assert_eq!(
            (process.threads, process.virtual_bytes, process.resident_bytes),
            (9, 4096, 3 * 4096)
        );
        assert_eq!(parse("nonsense", 100, 4096), None);
    }

    #[test]
    fn this_process_has_memory_and_files() {
        let process = figures();
        assert!(process.resident_bytes > 0 && process.open_fds > 2 && process.threads > 0);
    }
}
