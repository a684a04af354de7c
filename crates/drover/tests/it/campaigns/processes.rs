//! The processes of a campaign: a server, and clients with their journals. Every wait has an end, and every
//! process ends with its guard, even one that is stopped.

use crate::campaigns::attacker::{ATTACK, Attack, REPORT};
use crate::campaigns::client::Role;
use crate::campaigns::footprint::Footprint;
use crate::campaigns::journal::{Answer, Ask, Command, Key, Record, in_future, now};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// Environment variable by which this test binary, started as a client process, gets its role.
pub const ROLE: &str = "DROVER_CAMPAIGN_CLIENT";

/// Maximum time of every wait; what takes longer counts as hanging.
pub const WATCHDOG: Duration = Duration::from_secs(20);

/// Memory limit for a server's items, MiB.
const MEMORY_MIB: &str = "256";
/// Maximum memory that a server's items and index may come to take, KiB.
pub const ITEMS_KIB: usize = (256 + 32) << 10;

/// A child process, killed when dropped.
struct Guard(Child);

impl Guard {
    /// SIGKILL, and gone when this returns.
    fn kill(&mut self) {
        let _ = self.0.kill(); // it may have ended by itself
        let _ = self.0.wait();
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.0)
    }

    fn send(&self, signal: Signal) {
        rustix::process::kill_process(self.pid(), signal).expect("it is our child");
    }

    /// SIGSTOP, and all threads stand still when this returns.
    fn pause(&self) {
        self.send(Signal::STOP);
        rustix::process::waitid(WaitId::Pid(self.pid()), WaitIdOptions::STOPPED).expect("it is our child");
    }

    /// SIGCONT.
    fn resume(&self) {
        self.send(Signal::CONT);
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A running `drover serve`, killed when dropped.
pub struct Server {
    child: Guard,
    lines: Receiver<String>,
}

impl Server {
    /// Starts a server at `addr` with `more` arguments and waits until it serves.
    pub fn start(addr: &str, more: &[&str]) -> Server {
        let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_drover"))
            .args(["serve", "--fabric", addr, "-p", "0", "-m", MEMORY_MIB])
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map(Guard)
            .expect("the binary starts");
        let stderr = BufReader::new(child.0.stderr.take().expect("stderr is piped"));
        let (tell, lines) = channel();
        std::thread::spawn(move || {
            stderr.lines().map_while(Result::ok).for_each(|line| {
                let _ = tell.send(line); // nobody listens after the end
            });
        });
        let mut said = String::new();
        while !said.contains("serving at") {
            let line = lines.recv_timeout(WATCHDOG);
            said += &line.unwrap_or_else(|e| panic!("the server does not serve: {e}:\n{said}"));
            said.push('\n');
        }
        Server { child, lines }
    }

    /// Sends SIGKILL and waits for the end.
    pub fn kill(&mut self) {
        self.child.kill();
    }

    /// Sends SIGSTOP and waits until all threads stand still, which they do until [`resume`](Server::resume).
    pub fn pause(&self) {
        self.child.pause();
    }

    /// Sends SIGCONT.
    pub fn resume(&self) {
        self.child.resume();
    }

    /// Sends SIGTERM and waits for the end. Returns whether the exit status was 0.
    pub fn stop(mut self) -> bool {
        self.child.send(Signal::TERM);
        // The pipe closes when it ends, and then so does the reader's channel.
        while self.lines.recv_timeout(WATCHDOG).is_ok() {}
        matches!(self.child.0.try_wait(), Ok(Some(status)) if status.success())
            || self.child.0.wait().is_ok_and(|status| status.success())
    }

    /// What the server has logged since the last call.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        self.lines.try_iter()
    }

    /// What the server's process holds now.
    pub fn footprint(&self) -> Footprint {
        Footprint::of(self.child.0.id())
    }
}

/// One operation of a client, from its journal.
#[derive(Clone, Copy, Debug)]
pub struct OpRecord {
    pub key: Key,
    pub ask: Ask,
    pub called_at: u64,
    pub returned: Option<(Answer, u64)>,
}

/// What a client process has reported.
#[derive(Default)]
pub struct Known {
    pub ready: bool,
    pub audited: u64,
    /// Operations since the last [`take_ops`](Client::take_ops); the first has number `first_op`.
    pub ops: Vec<OpRecord>,
    first_op: u64,
    /// Time of the latest call that a server has answered.
    pub served_call_at: u64,
    ended: bool,
}

impl Known {
    fn take(&mut self, record: Record) {
        match record {
            Record::Ready => self.ready = true,
            Record::Audited { round } => self.audited = round,
            Record::Call { key, ask, at } => self.ops.push(OpRecord {
                key,
                ask,
                called_at: at,
                returned: None,
            }),
            Record::Return { op, answer, at } => {
                let op = &mut self.ops[(op - self.first_op) as usize];
                op.returned = Some((answer, at));
                if !matches!(answer, Answer::Unknown | Answer::Refused) {
                    self.served_call_at = self.served_call_at.max(op.called_at);
                }
            }
        }
    }
}

/// A client process, killed when dropped.
pub struct Client {
    pub id: u32,
    child: Guard,
    control: UnixStream,
    known: Arc<(Mutex<Known>, Condvar)>,
    reader: Option<JoinHandle<()>>,
}

impl Client {
    /// Starts a client process; it is connected once it has reported [`Known::ready`].
    pub fn start(role: &Role) -> Client {
        let (control, theirs) = UnixStream::pair().expect("a socket pair");
        let child = std::process::Command::new(std::env::current_exe().expect("we run"))
            .args(["campaigns::client_process", "--exact", "--nocapture"])
            .env(ROLE, role.encode())
            .stdin(Stdio::from(std::os::fd::OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .spawn()
            .map(Guard)
            .expect("this binary starts once more");
        let known: Arc<(Mutex<Known>, Condvar)> = Arc::default();
        let from = control.try_clone().expect("dup");
        let reader = Some(std::thread::spawn({
            let known = known.clone();
            move || read_all(from, &known)
        }));
        Client {
            id: role.id,
            child,
            control,
            known,
            reader,
        }
    }

    /// Sends a command to the client.
    ///
    /// # Panics
    /// If the client is gone.
    pub fn tell(&mut self, command: Command) {
        command
            .write(&mut self.control)
            .unwrap_or_else(|e| panic!("client {} is gone: {e}", self.id));
    }

    /// Waits until the reports of the client satisfy `done`; `what` names that in messages.
    ///
    /// # Panics
    /// If that takes longer than [`WATCHDOG`] or the client ends before.
    pub fn wait_for(&self, what: &str, done: impl FnMut(&Known) -> bool) {
        self.wait_until(in_future(WATCHDOG), what, done)
            .unwrap_or_else(|why| panic!("{why}"));
    }

    /// As [`wait_for`](Client::wait_for), until [`now`] is `deadline`.
    ///
    /// # Errors
    /// The reports did not satisfy `done` by then, or the client has ended.
    pub fn wait_until(
        &self,
        deadline: u64,
        what: &str,
        mut done: impl FnMut(&Known) -> bool,
    ) -> Result<(), String> {
        let (known, moved) = &*self.known;
        let known = known.lock().expect("the reader does not panic");
        let left = Duration::from_nanos(deadline.saturating_sub(now()));
        let (known, _) = moved
            .wait_timeout_while(known, left, |known| !done(known) && !known.ended)
            .expect("the reader does not panic");
        if done(&known) {
            return Ok(());
        }
        let pending: Vec<_> = known.ops.iter().filter(|op| op.returned.is_none()).collect();
        Err(format!(
            "client {} {} while we wait for {what}; ready {}, {} operations, without an answer: {pending:?}",
            self.id,
            if known.ended { "ended" } else { "hangs" },
            known.ready,
            known.ops.len(),
        ))
    }

    /// Sends SIGSTOP and waits until the client stands still, which it does until [`resume`](Client::resume).
    pub fn pause(&self) {
        self.child.pause();
    }

    /// Sends SIGCONT.
    pub fn resume(&self) {
        self.child.resume();
    }

    /// Sends SIGKILL and waits for the end; the client's reports stay available.
    pub fn kill(&mut self) {
        self.child.kill();
        if let Some(reader) = self.reader.take() {
            reader.join().expect("the reader does not panic");
        }
    }

    /// Takes the operations that the client has reported since the last call.
    pub fn take_ops(&self) -> Vec<OpRecord> {
        let mut known = self.known.0.lock().expect("the reader does not panic");
        known.first_op += known.ops.len() as u64;
        std::mem::take(&mut known.ops)
    }

    /// What the client's process holds now.
    pub fn footprint(&self) -> Footprint {
        Footprint::of(self.child.0.id())
    }
}

fn read_all(from: UnixStream, (known, moved): &(Mutex<Known>, Condvar)) {
    let mut from = BufReader::with_capacity(1 << 16, from);
    loop {
        let record = Record::read(&mut from);
        let mut known = known.lock().expect("the waiter holds it only to look");
        match record {
            Ok(record) => known.take(record),
            Err(_) => known.ended = true,
        }
        moved.notify_all();
        if known.ended {
            return;
        }
    }
}

/// What attackers have done.
#[derive(Clone, Copy, Default, Debug)]
pub struct Done {
    /// Words of memory rewritten.
    pub words: u64,
    /// Frames spoiled or invented.
    pub frames: u64,
    /// Descriptors mapped for writing.
    pub mapped: u64,
    /// Operations of the attackers' own that ended well.
    pub answered: u64,
    /// Processes that lived to report it.
    pub lives: u64,
}

impl Done {
    pub fn add(&mut self, other: &Done) {
        self.words += other.words;
        self.frames += other.frames;
        self.mapped += other.mapped;
        self.answered += other.answered;
        self.lives += other.lives;
    }
}

/// Attackers, one after the other, each of which ends itself within a second.
pub struct Attacker {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Done>,
}

impl Attacker {
    /// Starts attackers, with seeds from that of `attack` on.
    pub fn start(mut attack: Attack) -> Attacker {
        let is_over = Arc::new(AtomicBool::new(false));
        let over = is_over.clone();
        let thread = std::thread::spawn(move || {
            let mut done = Done::default();
            while !over.load(Ordering::Relaxed) {
                attack.seed = attack.seed.wrapping_add(1);
                let out = std::process::Command::new(std::env::current_exe().expect("we run"))
                    .args(["campaigns::attacker_process", "--exact", "--nocapture"])
                    .env(ATTACK, attack.encode())
                    .stdin(Stdio::null())
                    .stderr(Stdio::null())
                    .output()
                    .expect("this binary starts once more");
                let text = String::from_utf8_lossy(&out.stdout);
                let report = text.lines().find_map(|line| line.strip_prefix(REPORT));
                // One that ruined itself reports nothing.
                let Some(report) = report else { continue };
                let numbers: Vec<u64> = report.split(' ').map(|n| n.parse().expect("a number")).collect();
                done.add(&Done {
                    words: numbers[0],
                    frames: numbers[1],
                    mapped: numbers[2],
                    answered: numbers[3],
                    lives: 1,
                });
            }
            done
        });
        Attacker { is_over, thread }
    }

    /// Waits for the end of the current attacker.
    pub fn stop(self) -> Done {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().expect("no panic")
    }
}
