//! [`Memlock`]: the number of bytes that this process may pin. It is checked before a registration, because the
//! kernel's own error is only "cannot allocate memory".

use rustix::process::{Resource, getrlimit};
use rustix::thread::{CapabilitySet, capabilities};

/// The limit counts whole pages.
const PAGE_BYTES: u64 = 4096;

/// Advice for a limit that is too low.
const ADVICE: &str = "raise the limit with `ulimit -l unlimited` in the shell that starts it, with `* - memlock \
    unlimited` in /etc/security/limits.conf and a new login, or with `LimitMEMLOCK=infinity` in the service's unit";

/// The limit on pinned memory, and the part in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Memlock {
    /// Limit in bytes; `None` if unlimited.
    limit: Option<u64>,
    /// Bytes that this process has pinned.
    pinned: u64,
    /// Whether the process is exempt, because it may lock memory.
    exempt: bool,
}

/// The registration would exceed the limit.
#[derive(Debug, thiserror::Error)]
#[error(
    "{needed} bytes would be pinned, and this process may pin {limit} (RLIMIT_MEMLOCK), of which {pinned} are taken"
)]
pub(crate) struct Shortage {
    needed: u64,
    limit: u64,
    pinned: u64,
}

impl Shortage {
    /// Three ways to raise or avoid the limit.
    pub(crate) const fn advice(&self) -> &'static str {
        ADVICE
    }
}

impl Memlock {
    /// Reads the state for this thread. Costs a system call or two and reading a file: for the control path.
    pub(crate) fn read() -> Memlock {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let may = capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::IPC_LOCK));
        Memlock {
            limit: getrlimit(Resource::Memlock).current,
            pinned: pinned(&status),
            exempt: may,
        }
    }

    /// Predicts whether the kernel allows `bytes` more. In a user namespace it may refuse all the same, because the
    /// capability to lock memory is not the machine's there.
    pub(crate) fn check(&self, bytes: usize) -> Result<(), Shortage> {
        match self.exempt {
            true => Ok(()),
            false => self.check_limit(bytes),
        }
    }

    /// As [`check`](Memlock::check), but without the exemption: to explain a refusal.
    pub(crate) fn check_limit(&self, bytes: usize) -> Result<(), Shortage> {
        let needed = (bytes as u64).next_multiple_of(PAGE_BYTES);
        let pinned = self.pinned;
        match self.limit {
            Some(limit) if needed + pinned > limit => Err(Shortage {
                needed,
                limit,
                pinned,
            }),
            _ => Ok(()),
        }
    }
}

/// Pinned bytes in a process's status file. The kernel counts registrations there, separately from locked memory.
fn pinned(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("VmPin:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

#[cfg(test)]
mod tests {
    use super::*;

    const NARROW: Memlock = Memlock {
        limit: Some(64 << 10),
        pinned: 4096,
        exempt: false,
    };

    #[test]
    fn whole_pages_count_and_what_is_pinned_counts_too() {
        assert!(NARROW.check(60 << 10).is_ok());
        assert!(NARROW.check((56 << 10) + 1).is_ok());
        let shortage = NARROW.check((60 << 10) + 1).expect_err("a page too many");
        assert_eq!(
            shortage.to_string(),
            "65536 bytes would be pinned, and this process may pin 65536 (RLIMIT_MEMLOCK), of which 4096 are taken"
        );
    }

    #[test]
    fn no_limit_and_the_right_to_lock_memory_let_everything_pass() {
        let exempt = Memlock {
            exempt: true,
            ..NARROW
        };
        assert!(exempt.check(1 << 40).is_ok() && exempt.check_limit(1 << 40).is_err());
        let limitless = Memlock {
            limit: None,
            ..NARROW
        };
        assert!(limitless.check(1 << 40).is_ok());
    }

    #[test]
    fn what_is_pinned_is_read_from_the_process() {
        assert_eq!(
            pinned("VmLck:\t       8 kB\nVmPin:\t     128 kB\nVmHWM:\t 1 kB\n"),
            128 << 10
        );
        assert_eq!(pinned("VmLck: 8 kB\n"), 0);
        assert_eq!(pinned("VmPin: many\n"), 0);
    }
}
