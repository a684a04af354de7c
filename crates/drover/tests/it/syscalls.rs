//! No system call per operation, as strace sees it: the worker of a real server answers thousands of
//! requests and enters the kernel for next to none of them. And a worker that does is caught.
//!
//! Without strace, or where it may not trace, the tests say so and pass; with `DROVER_STRACE=must`, as `cargo xtask
//! syscalls` sets it, they fail.

use crate::common;
use drover_base::{Cpu, Ns};
use drover_kv::{Completion, KvClient, Op, Outcome, wait_for_sessions};
use drover_kv_herd::client::{ClientOptions, Dial, HerdClient};
use drover_mem::NativeCpu;
use drover_verbs::{Context, Device};
use drover_verbs_shm::{Shm, ShmContext, ShmDevice};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;

/// Operations of the first load; the second has twice as many.
const OPS: u64 = 20_000;
/// A worker may make one system call (for heartbeats, statistics) in so many operations.
const OPS_PER_CALL_MIN: u64 = 50;
/// Operations of the planted worker, which sleeps after each; the second load has four times as many.
const PLANTED_OPS: u64 = 50;
/// No operation takes longer, or the test fails.
const PATIENCE: Ns = Ns::from_s(20);

/// A server whose every system call is a line in a file.
struct Traced {
    strace: Child,
    server: Option<Pid>,
    trace: PathBuf,
}

impl Traced {
    /// With this many microseconds of polling before a worker sleeps; 0: it never does.
    fn start(addr: &str, trace: &Path, spin_us: &str) -> Traced {
        let mut strace = Command::new("strace")
            .args(["-f", "-o", trace.to_str().expect("UTF-8")])
            .arg(env!("CARGO_BIN_EXE_drover"))
            .args([
                "serve",
                "--fabric",
                addr,
                "-p",
                "0",
                "-t",
                "1",
                "--spin-us",
                spin_us,
            ])
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

    /// Whether this thread sleeps in the kernel.
    fn sleeps(&self, thread: &str) -> bool {
        let pid = self.server.expect("it runs").as_raw_nonzero();
        let stat = std::fs::read_to_string(format!("/proc/{pid}/task/{thread}/stat")).expect("it runs");
        stat.rsplit_once(") ")
            .is_some_and(|(_, state)| state.starts_with('S'))
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

/// If not, says so, and fails where it must.
fn can_trace() -> bool {
    let tried = Command::new("strace")
        .args(["-f", "-o", "/dev/null", "true"])
        .stderr(Stdio::null())
        .status();
    if tried.is_ok_and(|status| status.success()) {
        return true;
    }
    let must = std::env::var("DROVER_STRACE").is_ok_and(|value| value == "must");
    assert!(!must, "strace is not installed, or may not trace here");
    println!("skipped: strace is not installed, or may not trace here");
    false
}

/// Whether the calls grow with the operations.
fn grows(few: (u64, u64), many: (u64, u64)) -> bool {
    let (few_ops, few_calls) = few;
    let (many_ops, many_calls) = many;
    many_calls.saturating_sub(few_calls) * OPS_PER_CALL_MIN >= many_ops - few_ops
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
                0 => Op::put(key, &[7; 32]),
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

/// A traced server and a client of it.
struct Bed {
    server: Traced,
    workers: Vec<String>,
    ctx: Rc<ShmContext>,
    client: HerdClient<Shm>,
}

impl Bed {
    fn new(folder: &Path, spin_us: &str) -> Bed {
        let addr = format!("shm:{}", folder.join("s.sock").display());
        let server = Traced::start(&addr, &folder.join("trace"), spin_us);
        let ctx = Rc::new(ShmDevice::default().context().expect("a context"));
        let options = ClientOptions {
            window: 16,
            keeper: true,
            deadline: PATIENCE,
            ..ClientOptions::default()
        };
        let dial = Dial::to(addr.parse().expect("an address"));
        let client = HerdClient::<Shm>::new(ctx.clone(), dial, options);
        let client = wait_for_sessions(&ctx, client, PATIENCE).expect("a server");
        let workers = server.workers();
        assert!(!workers.is_empty(), "no thread is called a worker");
        Bed {
            server,
            workers,
            ctx,
            client,
        }
    }

    /// System calls of the workers while `work` goes on.
    fn calls(&mut self, work: impl FnOnce(&mut Bed)) -> u64 {
        let before = self.server.calls_of(&self.workers);
        work(self);
        self.server.calls_of(&self.workers) - before
    }

    fn load(&mut self, op_count: u64) {
        load(&mut self.client, self.ctx.cpu(), op_count);
    }

    /// Returns when all workers sleep.
    fn let_them_sleep(&self) {
        let start = self.ctx.cpu().refresh();
        while !self.workers.iter().all(|thread| self.server.sleeps(thread)) {
            assert!(
                self.ctx.cpu().refresh().since(start) < PATIENCE,
                "a worker never sleeps"
            );
            std::thread::yield_now();
        }
    }
}

#[test]
fn a_worker_makes_no_system_call_per_operation() {
    if !can_trace() {
        return;
    }
    let folder = common::folder("syscalls");
    // Spinning for ever: no sleep of an idle moment is counted.
    let mut bed = Bed::new(&folder, "0");
    bed.load(OPS); // what happens once
    let (once, twice) = (bed.calls(|bed| bed.load(OPS)), bed.calls(|bed| bed.load(2 * OPS)));
    println!("system calls of the worker: {once} in {OPS} operations, {twice} in twice as many");
    assert!(
        !grows((OPS, once), (2 * OPS, twice)),
        "{once} system calls in {OPS} operations, {twice} in twice as many"
    );
    assert!(
        bed.server.calls_of(&bed.workers) > 0,
        "the trace shows nothing of the workers"
    );
    let _ = std::fs::remove_dir_all(&folder);
}

#[test]
fn a_worker_that_makes_one_per_operation_is_caught() {
    if !can_trace() {
        return;
    }
    let folder = common::folder("syscalls-planted");
    let mut bed = Bed::new(&folder, "1");
    let one_by_one = |op_count| {
        move |bed: &mut Bed| {
            (0..op_count).for_each(|_| {
                bed.let_them_sleep();
                bed.load(1);
            })
        }
    };
    let few = bed.calls(one_by_one(PLANTED_OPS));
    let many = bed.calls(one_by_one(4 * PLANTED_OPS));
    println!(
        "a worker that sleeps after each operation: {few} calls in {PLANTED_OPS}, {many} in four times as many"
    );
    assert!(grows((PLANTED_OPS, few), (4 * PLANTED_OPS, many)));
    let _ = std::fs::remove_dir_all(&folder);
}
