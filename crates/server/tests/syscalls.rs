//! No system call per operation, as strace sees it: the worker of a real server answers thousands of
//! requests and enters the kernel for next to none of them.

#[allow(dead_code, reason = "the helpers of all command line tests")]
mod common;

use drover_base::{Cpu, Ns};
use drover_kv::{Completion, KvClient, Op, Outcome};
use drover_kv_herd::client::{ClientOptions, Dial, HerdClient};
use drover_mem::NativeCpu;
use drover_verbs::{Context, Device};
use drover_verbs_shm::{Shm, ShmDevice};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;

/// Operations of the first load; the second has twice as many.
const OPS: u64 = 20_000;
/// System calls that the second load may cost the workers more than the first.
const CALLS_MAX: u64 = OPS / 50;
/// No operation takes longer, or the test fails.
const PATIENCE: Ns = Ns::from_s(20);

/// A server whose every system call is a line in a file.
struct Traced {
    strace: Child,
    server: Option<Pid>,
    trace: PathBuf,
}

impl Traced {
    fn start(addr: &str, trace: &Path) -> Traced {
        let mut strace = Command::new("strace")
            .args(["-f", "-o", trace.to_str().expect("UTF-8")])
            .arg(env!("CARGO_BIN_EXE_drover"))
            // Spinning for ever: no sleep of an idle moment is counted.
            .args(["serve", "--fabric", addr, "-t", "1", "--spin-us", "0"])
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("strace is there");
        let stderr = BufReader::new(strace.stderr.take().expect("stderr is piped"));
        let mut traced = Traced {
            strace,
            server: None,
            trace: trace.to_path_buf(),
        };
        let mut lines = stderr.lines().map_while(Result::ok);
        assert!(
            lines.any(|line| line.contains("serving at")),
            "the server ended early"
        );
        std::thread::spawn(move || lines.for_each(drop));
        traced.server = Some(traced.tracee());
        traced
    }

    fn tracee(&self) -> Pid {
        let id = self.strace.id();
        let children =
            std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).expect("strace runs");
        let pid = children.split_whitespace().next().expect("strace has a child");
        Pid::from_raw(pid.parse().expect("a number")).expect("not 0")
    }

    /// Threads that answer requests.
    fn workers(&self) -> Vec<String> {
        let tasks = format!("/proc/{}/task", self.server.expect("it runs").as_raw_nonzero());
        let threads = std::fs::read_dir(tasks).expect("it runs").flatten();
        let name = |path: PathBuf| std::fs::read_to_string(path.join("comm")).unwrap_or_default();
        threads
            .filter(|thread| name(thread.path()).contains("worker"))
            .map(|thread| thread.file_name().to_string_lossy().into_owned())
            .collect()
    }

    /// The system calls of these threads so far.
    fn calls_of(&self, threads: &[String]) -> u64 {
        let text = std::fs::read_to_string(&self.trace).expect("strace writes it");
        let is_theirs = |line: &&str| threads.iter().any(|tid| line.split(' ').next() == Some(tid));
        text.lines().filter(is_theirs).count() as u64
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        // strace ends with the last process that it follows; ended first, it would leave the server behind.
        if let Some(server) = self.server {
            let _ = kill_process(server, Signal::KILL);
        } else {
            let _ = self.strace.kill();
        }
        let _ = self.strace.wait();
    }
}

fn can_trace() -> bool {
    let tried = Command::new("strace")
        .args(["-f", "-o", "/dev/null", "true"])
        .stderr(Stdio::null())
        .status();
    tried.is_ok_and(|status| status.success())
}

/// Every other operation is a PUT; the client polls and never sleeps.
fn load(client: &mut HerdClient<Shm>, cpu: &NativeCpu, op_count: u64) {
    let keys: Vec<String> = (0..1000).map(|i| format!("key-{i:012}")).collect();
    let (mut submitted, mut done) = (0, 0);
    let mut last_done_at = cpu.refresh();
    while done < op_count {
        while submitted < op_count {
            let key = keys[(submitted / 2 * 7 % 1000) as usize].as_bytes();
            let op = match submitted % 2 {
                0 => Op::Put {
                    key,
                    value: &[7; 32],
                    ttl_s: 0,
                },
                _ => Op::Get { key },
            };
            if client.submit(cpu, &op, submitted).is_err() {
                break;
            }
            submitted += 1;
        }
        let got = client.poll(cpu, &mut |c: Completion<'_>| {
            assert!(
                matches!(c.outcome, Outcome::Stored | Outcome::Value(_)),
                "{:?}",
                c.outcome
            );
        });
        done += got as u64;
        let now = cpu.refresh();
        if got > 0 {
            last_done_at = now;
        }
        assert!(
            now.since(last_done_at) < PATIENCE,
            "{done} of {op_count} are done"
        );
    }
}

#[test]
fn a_worker_makes_no_system_call_per_operation() {
    if !can_trace() {
        println!("skipped: strace is not installed, or may not trace here");
        return;
    }
    let folder = common::folder("syscalls");
    let addr = format!("shm:{}", folder.join("s.sock").display());
    let server = Traced::start(&addr, &folder.join("trace"));
    let ctx = Rc::new(ShmDevice::default().context().expect("a context"));
    let options = ClientOptions {
        window: 16,
        keeper: true,
        deadline: PATIENCE,
        ..ClientOptions::default()
    };
    let dial = Dial::to(addr.parse().expect("an address"));
    let mut client =
        HerdClient::<Shm>::connect_blocking(ctx.clone(), dial, options, PATIENCE).expect("a server");
    let workers = server.workers();
    assert!(!workers.is_empty(), "no thread is called a worker");
    let cost = |client: &mut HerdClient<Shm>, op_count| {
        let before = server.calls_of(&workers);
        load(client, ctx.cpu(), op_count);
        server.calls_of(&workers) - before
    };
    cost(&mut client, OPS); // what happens once
    let (once, twice) = (cost(&mut client, OPS), cost(&mut client, 2 * OPS));
    println!("system calls of the worker: {once} in {OPS} operations, {twice} in twice as many");
    assert!(
        twice.saturating_sub(once) < CALLS_MAX,
        "{once} system calls in {OPS} operations, {twice} in twice as many"
    );
    assert!(
        server.calls_of(&workers) > 0,
        "the trace shows nothing of the workers"
    );
    let _ = std::fs::remove_dir_all(&folder);
}
