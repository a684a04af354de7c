//! Numbers of passed, failed and skipped tests, read from the closing lines of test runners.

use std::fmt;

/// Sums over one or more test runners.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Tests that passed.
    pub passed: u64,
    /// Tests that failed or timed out.
    pub failed: u64,
    /// Tests that were ignored, each with its reason in the source.
    pub skipped: u64,
}

impl Counts {
    /// One passed check.
    pub const ONE: Counts = Counts {
        passed: 1,
        failed: 0,
        skipped: 0,
    };

    /// Adds the sums of another runner.
    pub fn add(&mut self, other: Counts) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }

    /// Reads a closing line of `cargo test`, `cargo nextest` or `pytest -q`; `None` for any other line.
    pub fn from_line(line: &str) -> Option<Counts> {
        // nextest shows the output of failed tests indented: their own closing lines do not count again.
        if let Some(rest) = line.strip_prefix("test result: ") {
            let (_, numbers) = rest.split_once(". ")?;
            return Some(Counts::sum(numbers.split(';')));
        }
        if let Some(rest) = line.trim_start().strip_prefix("Summary [") {
            let (_, numbers) = rest.split_once(" run: ")?;
            return Some(Counts::sum(numbers.split(',')));
        }
        let (numbers, seconds) = line.split_once(" in ")?;
        let seconds = seconds.split(' ').next()?.strip_suffix('s')?;
        let is_pytest = seconds.parse::<f64>().is_ok();
        let counts = Counts::sum(numbers.split(','));
        (is_pytest && counts != Counts::default()).then_some(counts)
    }

    fn sum<'a>(parts: impl Iterator<Item = &'a str>) -> Counts {
        let mut counts = Counts::default();
        for part in parts {
            let mut words = part.split_whitespace();
            let Some(number) = words.next().and_then(|n| n.parse::<u64>().ok()) else {
                continue;
            };
            match words.next() {
                Some("passed") => counts.passed += number,
                Some("failed" | "timed" | "exec" | "error" | "errors") => counts.failed += number,
                Some("skipped" | "ignored") => counts.skipped += number,
                _ => {}
            }
        }
        counts
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} passed, {} failed, {} skipped",
            self.passed, self.failed, self.skipped
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(passed: u64, failed: u64, skipped: u64) -> Option<Counts> {
        Some(Counts {
            passed,
            failed,
            skipped,
        })
    }

    #[test]
    fn reads_cargo_test() {
        let line =
            "test result: ok. 3 passed; 0 failed; 2 ignored; 0 measured; 1 filtered out; finished in 0.0s";
        assert_eq!(Counts::from_line(line), counts(3, 0, 2));
        let line = "test result: FAILED. 3 passed; 4 failed; 0 ignored; 0 measured; 0 filtered out";
        assert_eq!(Counts::from_line(line), counts(3, 4, 0));
    }

    #[test]
    fn reads_nextest() {
        let line = "     Summary [   0.005s] 12 tests run: 12 passed, 0 skipped";
        assert_eq!(Counts::from_line(line), counts(12, 0, 0));
        let line = "     Summary [   9.0s] 14 tests run: 10 passed (1 slow), 2 failed, 1 timed out, 1 exec failed, 3 skipped";
        assert_eq!(Counts::from_line(line), counts(10, 4, 3));
        let line = "     Summary [   9.0s] 4/14 tests run: 3 passed, 1 failed, 3 skipped";
        assert_eq!(Counts::from_line(line), counts(3, 1, 3));
    }

    #[test]
    fn reads_pytest() {
        assert_eq!(Counts::from_line("143 passed in 6.29s"), counts(143, 0, 0));
        assert_eq!(
            Counts::from_line("1 failed, 30 passed, 4 skipped in 0.22s"),
            counts(30, 1, 4)
        );
        assert_eq!(
            Counts::from_line("2 failed, 1 error in 61.00s (0:01:01)"),
            counts(0, 3, 0)
        );
        assert_eq!(Counts::from_line("5 passed in the test"), None);
    }

    #[test]
    fn ignores_other_lines() {
        assert_eq!(Counts::from_line("running 3 tests"), None);
        assert_eq!(
            Counts::from_line("    test result: FAILED. 0 passed; 1 failed; 0 ignored"),
            None
        );
        assert_eq!(Counts::from_line("3 passed, 1 failed"), None);
    }
}
