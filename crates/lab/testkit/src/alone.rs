//! [`alone`]: runs a test in a process of its own.
//!
//! Tests of one program share a process, and some run at the same time. A test that changes or counts resources of the
//! whole process (limits, descriptors, mappings, the global log) runs its body in a child instead.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

/// Environment variable with the name of the test that a child runs.
const ALONE: &str = "DROVER_ALONE";

/// Runs `body` in a child process: starts this test program again with only `test`, the path of the calling test as
/// `--list` prints it, and waits for it. In that child, `alone` calls `body` directly.
///
/// # Panics
/// If the test fails in the child or does not exist.
pub fn alone(test: &str, body: impl FnOnce()) {
    alone_by(&[], test, body);
}

/// Whether this is the child that runs `test`.
pub(crate) fn is_alone(test: &str) -> bool {
    std::env::var_os(ALONE).is_some_and(|name| name == test)
}

/// As [`alone`], where `words` before the child's command line say how it is started.
pub(crate) fn alone_by(words: &[&str], test: &str, body: impl FnOnce()) {
    if is_alone(test) {
        return body();
    }
    let program = std::env::current_exe().expect("the path of this program");
    let mut line: Vec<&OsStr> = words.iter().map(OsStr::new).collect();
    line.push(program.as_os_str());
    let mut child = Command::new(line[0])
        .args(&line[1..])
        .args([test, "--exact", "--nocapture", "--include-ignored"])
        .env(ALONE, test)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a child process");
    let (stdout, mut stderr) = (child.stdout.take(), child.stderr.take());
    let errors = std::thread::spawn(move || {
        let mut text = String::new();
        let stderr = stderr.as_mut().expect("it is piped");
        stderr.read_to_string(&mut text).expect("a pipe of text");
        text
    });
    let mut has_passed = false;
    // At once, since some tests report how far they are.
    for line in BufReader::new(stdout.expect("it is piped")).lines() {
        let line = line.expect("a pipe of text");
        println!("{line}");
        has_passed |= line.contains("test result: ok. 1 passed");
    }
    let status = child.wait().expect("our child");
    eprint!("{}", errors.join().expect("a reader of text"));
    assert!(status.success(), "{test} alone: {status}");
    assert!(has_passed, "no test is called {test}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_runs_in_another_process() {
        let test = "alone::tests::the_body_runs_in_another_process";
        let mut ran_here = false;
        alone(test, || ran_here = true);
        assert_eq!(ran_here, std::env::var_os(ALONE).is_some());
    }

    #[test]
    #[should_panic(expected = "no test is called alone::tests::nobody")]
    fn a_wrong_name_is_noticed() {
        alone("alone::tests::nobody", || {});
    }

    #[test]
    #[should_panic(expected = "alone: exit status")]
    fn a_failure_of_the_child_fails_the_test() {
        alone("alone::tests::a_failure_of_the_child_fails_the_test", || {
            panic!("on purpose")
        });
    }
}
