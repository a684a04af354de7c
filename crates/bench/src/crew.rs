//! [`Crew`]: the client threads of a run, each pinned, each with a client of its own.

use crate::driver::{Client, Measured, RunOptions};
use crate::pin;
use crate::target::{Target, TargetError};
use crate::workload::{KeyText, Tape, TapeOptions, Values};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::Scope;
use std::time::Duration;

/// A system under test, as seen by the load generator.
pub trait System: Sync {
    /// One client.
    type Target: Target;

    /// Connects client `client_index`, on the thread that will use it.
    fn connect(&self, client_index: u32) -> Result<Self::Target, Box<TargetError>>;
}

/// What all clients of a run share.
#[derive(Clone, Debug)]
pub struct CrewOptions {
    /// One client on each.
    pub cores: Vec<usize>,
    /// What to draw; each client gets a tape of its own.
    pub tape: TapeOptions,
    /// Bytes of a key.
    pub key_bytes: usize,
    /// Bytes of a value, from and to.
    pub value_bytes: [usize; 2],
}

enum Command {
    Load(Range<u32>, usize, Arc<AtomicU64>),
    Run(RunOptions),
}

type Answer = Result<Option<Measured>, Box<TargetError>>;

/// How often a client with nothing to do minds its timers.
const IDLE_TICK: Duration = Duration::from_millis(20);

/// Client threads, waiting for orders.
pub struct Crew {
    members: Vec<(Sender<Command>, Receiver<Answer>)>,
}

impl Crew {
    /// Starts the threads of `scope` and waits until all have connected.
    pub fn start<'scope, 'env, S: System>(
        scope: &'scope Scope<'scope, 'env>,
        system: &'env S,
        options: &CrewOptions,
    ) -> Result<Crew, Box<TargetError>> {
        let mut members = Vec::new();
        for (nth, &core) in options.cores.iter().enumerate() {
            let (command, commands) = channel();
            let (answer, answers) = channel();
            let mut options = options.clone();
            options.tape.client_index = nth as u32;
            options.tape.client_count = options.cores.len() as u32;
            scope.spawn(move || match member(system, core, &options) {
                Ok(client) => obey(client, &commands, &answer, Ok(None)),
                Err(error) => drop(answer.send(Err(error))),
            });
            members.push((command, answers));
        }
        let crew = Crew { members };
        crew.answers()?;
        Ok(crew)
    }

    /// PUTs keys 0 to `key_count`, shared among the clients.
    pub fn load(
        &self,
        key_count: u32,
        window: usize,
        progress: &Arc<AtomicU64>,
    ) -> Result<(), Box<TargetError>> {
        let share = |nth: usize| (u64::from(key_count) * nth as u64 / self.members.len() as u64) as u32;
        for (nth, (command, _)) in self.members.iter().enumerate() {
            let range = share(nth)..share(nth + 1);
            // A client that is gone has left an answer that says why.
            let _ = command.send(Command::Load(range, window, progress.clone()));
        }
        self.answers().map(drop)
    }

    /// Lets the first `client_count` clients run at the same time (they start within microseconds of each other:
    /// no barrier, at which a client that died would leave the others waiting) and adds up what they measured.
    pub fn run(&self, client_count: usize, options: &RunOptions) -> Result<Measured, Box<TargetError>> {
        let members = &self.members[..client_count.min(self.members.len())];
        for (command, _) in members {
            let _ = command.send(Command::Run(*options));
        }
        let mut all = answers(members)?.into_iter().flatten();
        let mut sum = all.next().ok_or_else(|| TargetError::new("no client ran"))?;
        all.for_each(|measured| sum.merge(&measured));
        Ok(sum)
    }

    fn answers(&self) -> Result<Vec<Option<Measured>>, Box<TargetError>> {
        answers(&self.members)
    }
}

fn answers(
    members: &[(Sender<Command>, Receiver<Answer>)],
) -> Result<Vec<Option<Measured>>, Box<TargetError>> {
    let gone = |_| Err(TargetError::new("a client thread ended"));
    members
        .iter()
        .map(|(_, answers)| answers.recv().unwrap_or_else(gone))
        .collect()
}

fn member<S: System>(
    system: &S,
    core: usize,
    options: &CrewOptions,
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
    Ok(Client::new(target, tape, keys, values, options.tape.client_index))
}

/// Does as told until nobody can tell any more.
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
            Ok(Command::Run(options)) => Some(client.run(&options).map(Some)),
            Err(RecvTimeoutError::Timeout) => client.idle().err().map(Err),
            Err(RecvTimeoutError::Disconnected) => return,
        };
    }
}
