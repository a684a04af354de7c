//! [`Process`]: a program on a host, with its log, and waits that end.

use drover_testkit::network::Host;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

/// Longest wait for anything; what takes longer counts as hanging.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Time of the machine's monotonic clock, nanoseconds.
pub fn now() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Time that has passed since [`now`] was `at`.
pub fn since(at: u64) -> Duration {
    Duration::from_nanos(now().saturating_sub(at))
}

/// Lets this time pass, in which others go on.
pub fn pass(time: Duration) {
    let (_never, nothing): (Sender<()>, _) = channel();
    let _ = nothing.recv_timeout(time);
}

/// Waits until `is_so`, and returns how long that took.
///
/// # Panics
/// If that takes longer than [`PATIENCE`]; the message names `what`.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) -> Duration {
    let start = now();
    while !is_so() {
        assert!(since(start) < PATIENCE, "not within {PATIENCE:?}: {what}");
        pass(Duration::from_millis(10));
    }
    since(start)
}

/// A program that runs on a host. Killed when dropped.
pub struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts the program of `words` on `host`; it adds what it says to the file `log`.
    pub fn start(host: &Host, words: &[String], log: &Path) -> Process {
        let file = File::options()
            .create(true)
            .append(true)
            .open(log)
            .expect("a log");
        let program = match &*words[0] {
            "drover" => env!("CARGO_BIN_EXE_drover"),
            other => other,
        };
        let mut command = host.command(program);
        let child = command
            .args(&words[1..])
            .stdin(Stdio::null())
            .stdout(file.try_clone().expect("dup"))
            .stderr(file)
            .spawn()
            .expect("nsenter");
        let log = log.to_owned();
        Process { child, log }
    }

    /// What it has said, and what earlier programs with its log have.
    pub fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// SIGKILL, and gone when this returns.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// SIGTERM, and gone when this returns.
    pub fn terminate(&mut self) {
        self.send(Signal::TERM);
        let mut ended = || self.child.try_wait().expect("our child").is_some();
        until("the end of a program that was asked to end", &mut ended);
    }

    /// SIGSTOP, and all threads stand still when this returns.
    pub fn pause(&self) {
        self.send(Signal::STOP);
        rustix::process::waitid(WaitId::Pid(self.pid()), WaitIdOptions::STOPPED).expect("our child");
    }

    /// SIGCONT.
    pub fn resume(&self) {
        self.send(Signal::CONT);
    }

    fn send(&self, signal: Signal) {
        rustix::process::kill_process(self.pid(), signal).expect("our child");
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            let said = self.said();
            let lines: Vec<&str> = said.lines().collect();
            let last = &lines[lines.len().saturating_sub(20)..];
            eprintln!("{}:\n{}", self.log.display(), last.join("\n"));
        }
    }
}
