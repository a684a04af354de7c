//! Processor time of this process.

/// User and system time of all threads of this process so far, in microseconds; `None` if the system does not tell.
/// Read from `/proc`: `getrusage` would be an unsafe call.
pub(super) fn of_process_us() -> Option<(u64, u64)> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    times_us(&stat, rustix::param::clock_ticks_per_second())
}

/// Fields 14 and 15 of `/proc/PID/stat` (see proc_pid_stat(5)), converted to microseconds.
fn times_us(stat: &str, ticks_per_s: u64) -> Option<(u64, u64)> {
    // Field 2, the name of the program, is in parentheses and may itself contain spaces and parentheses.
    let (_, from_field_3) = stat.rsplit_once(')')?;
    let mut fields = from_field_3.split_ascii_whitespace().skip(11);
    let mut next_us = || {
        let ticks: u64 = fields.next()?.parse().ok()?;
        ticks.checked_mul(1_000_000)?.checked_div(ticks_per_s)
    };
    Some((next_us()?, next_us()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_stand_behind_the_name() {
        let stat = "42 (a (b) c) S 1 42 42 0 -1 4194304 107 0 0 0 250 31 7 8 20 0 1 0 5 1 1";
        assert_eq!(times_us(stat, 100), Some((2_500_000, 310_000)));
        assert_eq!(times_us("42 (x) S 1 2", 100), None);
        assert_eq!(times_us("", 100), None);
        assert!(of_process_us().is_some());
    }
}
