//! [`LoadThreads`]: the pinned client threads of a run, one client each, in this process or several.

use crate::driver::{Client, Measured, RunOptions};
use crate::helper::Helper;
use crate::load_process::LoadProcess;
use crate::pin;
use crate::target::{Target, TargetError};
use crate::workload::{KeyText, Popularity, Tape, TapeOptions, Values};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::process::Command as Program;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::Scope;
use std::time::Duration;

/// A system under test, as the load generator sees it: connects the clients that the load generator drives.
pub trait System: Sync {
    /// Type of this system's clients.
    type Target: Target;

    /// Connects client `client_index`. Called on the thread that will use the client, pinned to its core.
    ///
    /// # Errors
    /// The client could not connect.
    fn connect(&self, client_index: u32) -> Result<Self::Target, Box<TargetError>>;

    /// Whether targets count their [verbs](Target::verbs). Then a client of its own counts those of each kind of operation
    /// after the samples.
    fn counts_verbs(&self) -> bool {
        false
    }

    /// Command that starts a child process for some of the clients: the child must call
    /// [`client_process`](crate::client_process) with a system equal to this one. `None` (the default) if this system's
    /// clients cannot run in other processes.
    fn process(&self, _helper: &Helper) -> Option<Program> {
        None
    }
}

/// Cores, tapes, keys and values of the clients of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LoadOptions {
    /// Cores of the clients, one client pinned to each.
    pub cores: Vec<usize>,
    /// Options of the tapes. The first client's tape has the `client_index` given here, each further client's one more.
    /// `client_count` must be the number of clients in the whole run.
    pub tape: TapeOptions,
    /// Popularity of the keys in each client's second tape; `None`: there is none.
    pub other: Option<Popularity>,
    /// Size of each key, bytes.
    pub key_bytes: usize,
    /// Minimum and maximum size of a value, bytes.
    pub value_bytes: [usize; 2],
}

enum Command {
    Load(Range<u32>, usize, Arc<AtomicU64>),
    /// Total number of keys, the indices to replace, the window, the progress counter.
    Churn(u32, Range<u32>, usize, Arc<AtomicU64>),
    /// Options, and number of the member's clients to run.
    Run(RunOptions, usize),
}

type Answer = Result<Option<Measured>, Box<TargetError>>;

/// Interval at which an idle client handles its timers.
const IDLE_TICK: Duration = Duration::from_millis(20);

/// The clients of a run, connected and waiting for commands, each on a thread of this process or of a child process.
/// The threads end when it is dropped. After an error it must not be used again.
pub struct LoadThreads {
    members: Vec<Member>,
}

/// A thread: a client, or the proxy of a process with several.
struct Member {
    clients: usize,
    orders: Sender<Command>,
    answers: Receiver<Answer>,
}

impl LoadThreads {
    /// Starts a pinned client thread for each core of `options`, within `scope`, and waits until all have connected.
    ///
    /// # Errors
    /// The error of the first client that could not be pinned or connected.
    pub fn start<'scope, 'env, S: System>(
        scope: &'scope Scope<'scope, 'env>,
        system: &'env S,
        options: &LoadOptions,
    ) -> Result<LoadThreads, Box<TargetError>> {
        let mut members = Vec::new();
        for (nth, &core) in options.cores.iter().enumerate() {
            let (orders, commands) = channel();
            let (answer, answers) = channel();
            let mut options = options.clone();
            options.tape.client_index += nth as u32;
            scope.spawn(move || match member(system, core, &options) {
                Ok(client) => obey(client, &commands, &answer, Ok(None)),
                Err(error) => drop(answer.send(Err(error))),
            });
            members.push(Member {
                clients: 1,
                orders,
                answers,
            });
        }
        LoadThreads::of(members)
    }

    /// As [`start`](LoadThreads::start), but the client threads are in child processes: at most `processes` of them (0
    /// counts as 1), with nearly equal shares of the clients.
    ///
    /// # Errors
    /// A process could not be started, a client could not connect, or [`System::process`] is `None`.
    pub fn start_processes<'scope, 'env, S: System>(
        scope: &'scope Scope<'scope, 'env>,
        system: &'env S,
        helper: &Helper,
        options: &LoadOptions,
        processes: usize,
    ) -> Result<LoadThreads, Box<TargetError>> {
        let mut members = Vec::new();
        let mut client_index = options.tape.client_index;
        for cores in options
            .cores
            .chunks(options.cores.len().div_ceil(processes.max(1)).max(1))
        {
            let (orders, commands) = channel();
            let (answer, answers) = channel();
            let mut options = options.clone();
            options.cores = cores.to_vec();
            options.tape.client_index = client_index;
            client_index += cores.len() as u32;
            let Some(program) = system.process(helper) else {
                return Err(TargetError::new("the clients of this system share one process"));
            };
            scope.spawn(move || match LoadProcess::start(program, &options) {
                Ok(process) => keep(process, &commands, &answer),
                Err(error) => drop(answer.send(Err(error))),
            });
            members.push(Member {
                clients: cores.len(),
                orders,
                answers,
            });
        }
        LoadThreads::of(members)
    }

    /// Waits until all members have connected.
    fn of(members: Vec<Member>) -> Result<LoadThreads, Box<TargetError>> {
        let load_threads = LoadThreads { members };
        answers(&load_threads.members)?;
        Ok(load_threads)
    }

    /// PUTs the keys of `indices`, divided among the clients, as [`Client::load`] does: each client keeps `window` (at
    /// least 1) operations in flight. A child process adds to `progress` only after each 64th of its share.
    ///
    /// # Errors
    /// The error of the first client that failed.
    pub fn load(
        &self,
        indices: Range<u32>,
        window: usize,
        progress: &Arc<AtomicU64>,
    ) -> Result<(), Box<TargetError>> {
        self.share_out(indices, |range| Command::Load(range, window, progress.clone()))
    }

    /// Replaces the keys of `indices`, divided among the clients, as [`Client::churn`] does. `key_count` is the total
    /// number of keys, and `indices` must be all of them. A child process adds to `progress` only at the end.
    ///
    /// # Errors
    /// The error of the first client that failed.
    pub fn churn(
        &self,
        key_count: u32,
        indices: Range<u32>,
        window: usize,
        progress: &Arc<AtomicU64>,
    ) -> Result<(), Box<TargetError>> {
        self.share_out(indices, |range| {
            Command::Churn(key_count, range, window, progress.clone())
        })
    }

    /// Sends each client a command with its share of `indices`.
    fn share_out(
        &self,
        indices: Range<u32>,
        command: impl Fn(Range<u32>) -> Command,
    ) -> Result<(), Box<TargetError>> {
        let client_count: usize = self.members.iter().map(|member| member.clients).sum();
        let count = u64::from(indices.end - indices.start);
        let cut = |client: usize| indices.start + (count * client as u64 / client_count as u64) as u32;
        let mut client = 0;
        for member in &self.members {
            let range = cut(client)..cut(client + member.clients);
            client += member.clients;
            // A client that has ended has left an answer with the reason.
            let _ = member.orders.send(command(range));
        }
        answers(&self.members).map(drop)
    }

    /// Runs the first `client_count` clients (all, if there are fewer) at the same time and merges their results. They
    /// start within microseconds of each other. There is no barrier: a dead client would block the others at it.
    ///
    /// # Errors
    /// The error of the first client that failed, or no client ran.
    pub fn run(&self, client_count: usize, options: &RunOptions) -> Result<Measured, Box<TargetError>> {
        let (mut left, mut asked) = (client_count, 0);
        for member in &self.members {
            let some = left.min(member.clients);
            if some == 0 {
                break;
            }
            let _ = member.orders.send(Command::Run(*options, some));
            (left, asked) = (left - some, asked + 1);
        }
        let mut all = answers(&self.members[..asked])?.into_iter().flatten();
        let mut sum = all.next().ok_or_else(|| TargetError::new("no client ran"))?;
        all.for_each(|measured| sum.merge(&measured));
        Ok(sum)
    }
}

fn answers(members: &[Member]) -> Result<Vec<Option<Measured>>, Box<TargetError>> {
    let gone = |_| Err(TargetError::new("a client thread ended"));
    members
        .iter()
        .map(|member| member.answers.recv().unwrap_or_else(gone))
        .collect()
}

fn member<S: System>(
    system: &S,
    core: usize,
    options: &LoadOptions,
) -> Result<Client<S::Target>, Box<TargetError>> {
    let words = |error: &dyn std::fmt::Display| TargetError::new(error.to_string());
    pin::pin(&[core]).map_err(|e| words(&e))?;
    let tape = Tape::new(&options.tape);
    let keys = KeyText::new(
        options.key_bytes,
        u64::from(tape.index_count()),
        options.tape.seed,
    );
    let keys = keys.map_err(|e| words(&e))?;
    let values = Values::new(options.value_bytes[0], options.value_bytes[1]);
    let target = system.connect(options.tape.client_index)?;
    let client = Client::new(target, tape, keys, values, options.tape.client_index);
    Ok(match options.other {
        None => client,
        Some(popularity) => client.with_other_tape(Tape::new(&TapeOptions {
            popularity,
            ..options.tape.clone()
        })),
    })
}

/// Executes commands until the channel closes.
fn obey<T: Target>(
    mut client: Client<T>,
    commands: &Receiver<Command>,
    answer: &Sender<Answer>,
    first: Answer,
) {
    let mut ready = Some(first);
    loop {
        if let Some(done) = ready.take() {
            let failed = done.is_err();
            if answer.send(done).is_err() || failed {
                return;
            }
        }
        ready = match commands.recv_timeout(IDLE_TICK) {
            Ok(Command::Load(range, window, progress)) => {
                Some(client.load(range, window, &progress).map(|()| None))
            }
            Ok(Command::Churn(key_count, range, window, progress)) => {
                Some(client.churn(key_count, range, window, &progress).map(|()| None))
            }
            Ok(Command::Run(options, _)) => Some(client.run(&options).map(Some)),
            Err(RecvTimeoutError::Timeout) => client.idle().err().map(Err),
            Err(RecvTimeoutError::Disconnected) => return,
        };
    }
}

/// Executes commands with the clients of another process, which handle their own timers.
fn keep(mut process: LoadProcess, commands: &Receiver<Command>, answer: &Sender<Answer>) {
    let mut done: Answer = Ok(None);
    loop {
        let failed = done.is_err();
        if answer.send(done).is_err() || failed {
            return;
        }
        done = match commands.recv() {
            Ok(Command::Load(range, window, progress)) => {
                process.load(range, window, &progress).map(|()| None)
            }
            Ok(Command::Churn(key_count, range, window, progress)) => {
                process.churn(key_count, range, window, &progress).map(|()| None)
            }
            Ok(Command::Run(options, client_count)) => process.run(client_count, &options).map(Some),
            Err(_) => return,
        };
    }
}
