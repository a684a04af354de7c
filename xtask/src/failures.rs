//! Lines that name a failed test or its panic, to be shown again at the end: the output of a complete run is long, and
//! often only its end is kept.

use std::sync::{Mutex, PoisonError};

/// Lines kept of one run.
const LINES_MAX: usize = 60;
/// Lines kept after the line of a panic: its message and the place of an assertion's values.
const AFTER_PANIC: usize = 6;

struct Kept {
    lines: Vec<String>,
    /// Lines that still belong to the last panic.
    owed: usize,
}

/// Test runners are read by several threads, and all of them end in one list.
static KEPT: Mutex<Kept> = Mutex::new(Kept {
    lines: Vec::new(),
    owed: 0,
});

/// Keeps `line` if it tells of a failure.
pub fn read(line: &str) {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner).read(line);
}

/// Returns what was kept, and forgets it.
pub fn take() -> Vec<String> {
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    kept.owed = 0;
    std::mem::take(&mut kept.lines)
}

impl Kept {
    fn read(&mut self, line: &str) {
        let panicked = line.contains("panicked at ");
        if panicked {
            self.owed = AFTER_PANIC;
        } else if self.owed > 0 {
            self.owed -= 1;
        } else if !names_a_failed_test(line) {
            return;
        }
        if self.lines.len() < LINES_MAX && !self.lines.iter().any(|kept| kept == line) {
            self.lines.push(line.to_string());
        }
    }
}

/// Whether `line` is what a runner prints of a test that failed: nextest, cargo's own, a guest's script.
fn names_a_failed_test(line: &str) -> bool {
    let words = line.trim_start();
    ["FAIL [", "TIMEOUT [", "SIGABRT [", "SIGSEGV [", "not ok "]
        .iter()
        .any(|start| words.starts_with(start))
        || (words.starts_with("test ") && words.ends_with(" ... FAILED"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_names_of_failed_tests_and_what_follows_a_panic() {
        let mut kept = Kept {
            lines: Vec::new(),
            owed: 0,
        };
        let output = [
            "        PASS [   0.005s] drover a::b",
            "        FAIL [   0.005s] drover a::c",
            "        FAIL [   0.005s] drover a::c",
            "test a::d ... FAILED",
            "test a::e ... ok",
            "thread 'a::d' panicked at crates/a.rs:3:5:",
            "left: 1",
        ];
        for line in output {
            kept.read(line);
        }
        assert_eq!(kept.lines, [output[1], output[3], output[5], output[6]]);
    }
}
