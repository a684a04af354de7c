//! Processor time of a server process, and of a client's thread.

use drover_base::Ns;
use rustix::time::{ClockId, clock_gettime};

/// Processor time that the calling thread has used so far, in the kernel, too.
pub fn of_thread() -> Ns {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    Ns(used.tv_sec as u64 * 1_000_000_000 + used.tv_nsec as u64)
}

/// Processor time that process `pid` has used so far in all threads, nanoseconds: `[user, system]` mode. `None` if
/// unavailable, for example because the process is gone. Usually in steps of 10 ms.
pub fn cpu_ns(pid: u32) -> Option<[f64; 2]> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Fields follow the name in parentheses, which may contain any character: state is field 3, times are 14 and 15.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ').skip(11);
    let tick_ns = 1e9 / rustix::param::clock_ticks_per_second() as f64;
    let mut next = || fields.next()?.parse::<f64>().ok().map(|ticks| ticks * tick_ns);
    Some([next()?, next()?])
}

/// Processor time per operation, nanoseconds, `[user, system]` mode, from two results of [`cpu_ns`] with `ops`
/// operations in between (0 counts as 1); `None` if one of the two is `None`.
pub fn per_op(before: Option<[f64; 2]>, after: Option<[f64; 2]>, ops: u64) -> Option<[f64; 2]> {
    let each = |before: f64, after: f64| (after - before) / ops.max(1) as f64;
    let (before, after) = before.zip(after)?;
    Some([each(before[0], after[0]), each(before[1], after[1])])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_works_uses_time() {
        let before = of_thread();
        let mut sum = 0u64;
        while of_thread() == before {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(of_thread() > before);
    }

    #[test]
    fn this_process_has_used_some_and_a_look_ahead_is_none() {
        let now = cpu_ns(std::process::id()).expect("Linux tells");
        assert!(now.iter().all(|ns| *ns >= 0.0));
        assert_eq!(cpu_ns(u32::MAX), None);
        let (before, after) = (Some([1000.0, 0.0]), Some([3000.0, 500.0]));
        assert_eq!(per_op(before, after, 10), Some([200.0, 50.0]));
        assert_eq!(per_op(None, after, 10), None);
    }
}
