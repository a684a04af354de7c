//! [`Machine`]: the running emulated machine, and the lines that it prints.
//!
//! Output of scenarios comes line by line through a serial port. Lines of `init.sh` itself begin with [`MARK`].

use crate::command;
use crate::counts::Counts;
use crate::failures;
use crate::steps::StepResult;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

/// Prefix of `init.sh`'s own lines: `ready`, `begin NAME`, `end NAME STATUS HUNDREDTHS` (of a second that it took), or the
/// reason of a failure.
const MARK: &str = "guest: ";
/// Scenarios need two processors, and on a shared one pollers would wait for the scheduler's tick; idle emulated
/// processors cost nothing.
const PROCESSORS: &str = "4";
const MEMORY_MIB: &str = "1024";

/// A booted guest. Dropping it powers it off.
pub struct Machine {
    emulator: Child,
    lines: BufReader<ChildStdout>,
    console: PathBuf,
    /// Reason why there will be no more lines.
    dead: Option<String>,
}

impl Machine {
    /// Boots `kernel` with `initrd`, for at most `seconds`. Other kernel output goes to `console`.
    pub fn boot(kernel: &Path, initrd: &Path, console: PathBuf, seconds: u32) -> Result<Machine, String> {
        let mut command = emulator(kernel, initrd, &console, seconds);
        command::show(&command);
        let mut emulator = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("cannot start the emulator: {e}"))?;
        let lines = BufReader::new(emulator.stdout.take().expect("stdout is piped"));
        let mut machine = Machine {
            emulator,
            lines,
            console,
            dead: None,
        };
        match machine.next()? {
            Line::Mark(word) if word == "ready" => Ok(machine),
            Line::Mark(why) => Err(machine.died(&why)),
            Line::Said(line) => Err(machine.died(&format!("it began with {line:?}"))),
        }
    }

    /// Passes on the output of the scenario `name`, writes it to `to`, and returns its counts and the seconds that it took, which
    /// may have passed before this call.
    ///
    /// # Errors
    /// The machine has ended, or something else than this scenario follows.
    pub fn follow(&mut self, name: &str, to: &Path) -> Result<(StepResult, f64), String> {
        let begun = self.next()?;
        if begun != Line::Mark(format!("begin {name}")) {
            return Err(self.died(&format!("{begun:?} where {name} should begin")));
        }
        let mut kept = fs::File::create(to).map_err(|e| format!("writing {}: {e}", to.display()))?;
        let mut counts = Counts::default();
        let ending = format!("end {name} ");
        loop {
            match self.next()? {
                Line::Said(line) => {
                    println!("{line}");
                    // A full disk loses the copy, not the verdict.
                    let _ = writeln!(kept, "{line}");
                    failures::read(&line);
                    if let Some(more) = Counts::from_line(&line) {
                        counts.add(more);
                    }
                }
                Line::Mark(mark) => {
                    let Some((status, seconds)) = mark.strip_prefix(&ending).and_then(ending_of) else {
                        return Err(self.died(&mark));
                    };
                    return Ok((verdict(status, counts, to), seconds));
                }
            }
        }
    }

    /// Waits until the guest has powered itself off, which it does after its last scenario.
    pub fn switch_off(mut self) {
        while self.next().is_ok() {}
    }

    /// The next line.
    ///
    /// # Errors
    /// The reason why there are no more lines.
    fn next(&mut self) -> Result<Line, String> {
        if let Some(why) = &self.dead {
            return Err(why.clone());
        }
        let mut bytes = Vec::new();
        let read = self.lines.read_until(b'\n', &mut bytes);
        if !matches!(read, Ok(1..)) {
            let why = match self.emulator.wait() {
                Ok(status) if status.success() => {
                    let text = "it has switched itself off".to_string();
                    self.dead = Some(text.clone());
                    return Err(text);
                }
                Ok(status) if status.code() == Some(TIMED_OUT) => "it took too long".to_string(),
                Ok(status) => format!("the emulator ended with {status}"),
                Err(error) => error.to_string(),
            };
            return Err(self.died(&why));
        }
        let line = String::from_utf8_lossy(&bytes).replace(['\r', '\n'], "");
        Ok(match line.strip_prefix(MARK) {
            Some(mark) => Line::Mark(mark.to_string()),
            None => Line::Said(line),
        })
    }

    /// Records why the guest ended, and shows its kernel's last lines.
    fn died(&mut self, why: &str) -> String {
        let console = fs::read_to_string(&self.console).unwrap_or_default();
        let last: Vec<&str> = console.lines().rev().take(CONSOLE_LINES).collect();
        for line in last.into_iter().rev() {
            eprintln!("    console: {line}");
        }
        let text = format!(
            "the guest is gone: {why} (its console: {})",
            self.console.display()
        );
        self.dead = Some(text.clone());
        text
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // It may have powered itself off. `timeout` forwards the signal to the emulator.
        if let Ok(None) = self.emulator.try_wait() {
            let pid = self.emulator.id().to_string();
            let _ = Command::new("kill").arg(&pid).status();
            let _ = self.emulator.wait();
        }
    }
}

/// Exit status of `timeout` after a time-out.
const TIMED_OUT: i32 = 124;
/// Number of console lines to show after a failure.
const CONSOLE_LINES: usize = 40;

#[derive(PartialEq, Eq, Debug)]
enum Line {
    /// Line of `init.sh`.
    Mark(String),
    /// Line of a scenario.
    Said(String),
}

/// A script's exit status and its time in seconds, of `STATUS HUNDREDTHS`.
fn ending_of(words: &str) -> Option<(&str, f64)> {
    let (status, hundredths) = words.split_once(' ')?;
    Some((status, hundredths.parse::<f64>().ok()? / 100.0))
}

/// Verdict from a script's exit status and its programs' closing lines.
fn verdict(status: &str, counts: Counts, said: &Path) -> StepResult {
    match (status, counts) {
        ("0", counts) if counts == Counts::default() => Ok(Counts::ONE),
        ("0", counts) => Ok(counts),
        (_, counts) if counts.failed > 0 => Ok(counts),
        ("143" | "137" | "124", _) => Err(format!(
            "killed when its time was up; it said: {}",
            said.display()
        )),
        (status, _) => Err(format!(
            "its script ended with {status}; it said: {}",
            said.display()
        )),
    }
}

/// Not KVM, even if available: so a run is the same on every machine.
fn emulator(kernel: &Path, initrd: &Path, console: &Path, seconds: u32) -> Command {
    let mut command = Command::new("timeout");
    command.args([
        "-k",
        "5",
        &seconds.to_string(),
        "nice",
        "-n",
        "10",
        "qemu-system-x86_64",
    ]);
    command.args(["-M", "q35", "-accel", "tcg,thread=multi", "-cpu", "max"]);
    command.args(["-smp", PROCESSORS, "-m", MEMORY_MIB]);
    command.args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]);
    command.arg("-serial").arg(format!("file:{}", console.display()));
    command.args(["-chardev", "stdio,id=said,signal=off", "-serial", "chardev:said"]);
    command.arg("-kernel").arg(kernel).arg("-initrd").arg(initrd);
    command.args(["-append", "console=ttyS0 panic=-1 quiet tsc=reliable"]);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ending_has_a_status_and_a_time() {
        assert_eq!(ending_of("0 2250"), Some(("0", 22.5)));
        assert_eq!(ending_of("0"), None);
        assert_eq!(ending_of("0 soon"), None);
    }

    #[test]
    fn a_verdict_needs_a_status_of_zero_or_failures_that_were_counted() {
        let counted = |failed| Counts {
            passed: 3,
            failed,
            skipped: 1,
        };
        let said = Path::new("x.txt");
        assert_eq!(verdict("0", Counts::default(), said), Ok(Counts::ONE));
        assert_eq!(verdict("0", counted(0), said), Ok(counted(0)));
        assert_eq!(verdict("1", counted(2), said), Ok(counted(2)));
        let ended = |status, counts| verdict(status, counts, said).expect_err("it failed");
        assert_eq!(ended("1", counted(0)), "its script ended with 1; it said: x.txt");
        assert_eq!(
            ended("143", Counts::default()),
            "killed when its time was up; it said: x.txt"
        );
    }
}
