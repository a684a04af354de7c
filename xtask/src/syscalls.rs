//! System calls of a server under load, counted by strace: a server that makes one per operation, or one per
//! twenty, fails (on an idle machine it is one per several thousand: heartbeats go by time). Without system calls strace costs nothing, so the load is a real one.

use crate::command::{cargo, output, target_dir};
use crate::counts::Counts;
use crate::steps::{StepResult, Steps};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A server may make one system call (heartbeats, statistics, its own start) per so many operations.
const OPERATIONS_PER_CALL_MIN: u64 = 20;

/// One step.
pub fn run(steps: &mut Steps) {
    steps.run("syscalls", || {
        crate::command::run(&mut cargo(&["build", "--release", "--quiet", "-p", "drover"]))?;
        let folder = target_dir("syscalls");
        std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        measure(&target_dir("release").join("drover"), &folder)
    });
}

fn measure(drover: &Path, folder: &Path) -> StepResult {
    let addr = format!("shm:{}", folder.join("s.sock").display());
    let summary = folder.join("summary");
    let mut server = Traced::start(drover, &addr, &summary)?;
    let load = "bench --keys 100000 --seconds 1 --repeats 1 --json - --address";
    let mut bench = Command::new(drover);
    output(
        bench
            .args(load.split(' '))
            .arg(&addr)
            .arg("--results")
            .arg(folder),
    )?;
    let stats = output(Command::new(drover).args(["stats", "--server", &addr]))?;
    server.stop()?;
    let operations = stat(&stats, "cmd_get")? + stat(&stats, "cmd_set")?;
    let text = std::fs::read_to_string(&summary).map_err(|e| format!("{}: {e}", summary.display()))?;
    let calls = total_calls(&text).ok_or_else(|| format!("no total in strace's summary:\n{text}"))?;
    println!("{calls} system calls for {operations} operations");
    if calls * OPERATIONS_PER_CALL_MIN <= operations {
        return Ok(Counts::ONE);
    }
    Err(format!(
        "{calls} system calls for {operations} operations:\n{text}"
    ))
}

/// A server under strace; ends with this value.
struct Traced {
    strace: Child,
}

impl Traced {
    fn start(drover: &Path, addr: &str, summary: &Path) -> Result<Traced, String> {
        let mut command = Command::new("strace");
        command
            .args(["-f", "-c", "-U", "calls,name", "-o"])
            .arg(summary)
            .arg(drover);
        command.args(["serve", "-t", "1", "--spin-us", "0", "--fabric", addr]);
        let strace = command
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| format!("strace: {e}; sudo apt-get install strace"))?;
        let mut traced = Traced { strace };
        let stderr = traced.strace.stderr.take().expect("stderr is piped");
        let mut lines = BufReader::new(stderr).lines().map_while(Result::ok);
        if !lines.any(|line| line.contains("serving at")) {
            return Err("the server under strace ended early (may this user trace?)".to_string());
        }
        std::thread::spawn(move || lines.for_each(drop));
        Ok(traced)
    }

    /// Ends the server, so that strace writes its summary.
    fn stop(&mut self) -> Result<(), String> {
        self.tell("-TERM")?;
        self.strace.wait().map(drop).map_err(|e| format!("strace: {e}"))
    }

    /// Sends a signal to the server, which is strace's only child.
    fn tell(&self, signal: &str) -> Result<(), String> {
        let id = self.strace.id();
        let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
        let children = children.map_err(|e| format!("children of strace: {e}"))?;
        let server = children.split_whitespace().next().ok_or("strace has no child")?;
        output(Command::new("kill").args([signal, server])).map(drop)
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        if let Ok(None) = self.strace.try_wait() {
            let _ = self.tell("-KILL");
            let _ = self.strace.wait();
        }
    }
}

/// The number in a line `name value`.
fn stat(text: &str, name: &str) -> Result<u64, String> {
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value
        .and_then(|value| value.trim().parse().ok())
        .ok_or(format!("no {name} in the statistics"))
}

/// The number in the line of the summary that ends with `total`.
fn total_calls(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.trim_end().ends_with("total"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_strace_and_statistics() {
        let text =
            "    calls syscall\n--------- ----------\n       12 futex\n        3 read\n       15 total\n";
        assert_eq!(total_calls(text), Some(15));
        assert_eq!(total_calls("nothing"), None);
        assert_eq!(stat("cmd_get 7\ncmd_set 3\n", "cmd_set"), Ok(3));
        assert!(stat("cmd_gets 7\n", "cmd_get").is_err());
    }
}
