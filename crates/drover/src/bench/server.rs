//! [`ServerPlan`] and [`ServerProcess`]: the server that a bench starts, of any system, in its own process.

use drover_base::HashKind;
use drover_bench::{Helper, Table, pin};
use drover_client::{Fabric, Job};
use drover_control::{ControlAddr, ControlListener};
use drover_kv::{Capacity, Counter, OnCore, Service, Sizes, StartError, System, SystemJob, SystemTable};
use drover_mem::NativeCpu;
use drover_verbs::Provider;
use drover_verbs_shm::ShmDevice;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// System, cores and sizes of the server that a bench starts.
#[derive(Clone, Debug)]
pub struct ServerPlan<T> {
    /// System of the server.
    pub system: T,
    /// Index of each worker's core; there are as many workers as cores here.
    pub cores: Vec<usize>,
    /// Number of items that the server must have space for, over all shards, those that the mix inserts included.
    pub item_count: u64,
    /// Bytes of each key.
    pub key_bytes: usize,
    /// Maximum number of operations in flight per client and worker.
    pub window: usize,
    /// Maximum bytes of a value that the server accepts.
    pub value_bytes_max: usize,
    /// Hash of the keys.
    pub hash: HashKind,
}

impl<T: SystemTable> ServerPlan<T> {
    fn sizes(&self) -> Sizes {
        Sizes {
            shard_count: self.cores.len(),
            capacity: Capacity::Items {
                count: self.item_count,
                key_bytes: self.key_bytes,
            },
            value_bytes_max: self.value_bytes_max,
            window: self.window,
        }
    }

    /// Bytes of memory that requests touch, over all shards: first those of the tables, then those of the items.
    pub fn footprint(&self) -> [u64; 2] {
        self.system.run(Footprint(self.sizes())).map(|bytes| bytes as u64)
    }

    /// Kind of the server's table, and its load (used share of all slots) after `key_count` inserts; `None` if clients
    /// do not READ the table.
    pub fn table(&self, key_count: u32) -> Option<Table> {
        let kind = self.system.facts().table?;
        let places = self.system.run(EntryCount(self.sizes()));
        Some(Table {
            kind,
            load: f64::from(key_count) / places as f64,
        })
    }

    fn arguments(&self, addr: &ControlAddr) -> Vec<String> {
        let cores = self
            .cores
            .iter()
            .map(usize::to_string)
            .collect::<Vec<_>>()
            .join(",");
        let numbers = [
            self.item_count as usize,
            self.key_bytes,
            self.window,
            self.value_bytes_max,
        ];
        let mut all = vec![
            self.system.to_string(),
            addr.to_string(),
            cores,
            self.hash.to_string(),
        ];
        all.extend(numbers.map(|n| n.to_string()));
        all
    }

    fn from_arguments(arguments: &[String]) -> Option<(ControlAddr, ServerPlan<T>)> {
        let [system, addr, cores, hash, numbers @ ..] = arguments else {
            return None;
        };
        let numbers = numbers
            .iter()
            .map(|n| n.parse().ok())
            .collect::<Option<Vec<usize>>>()?;
        let [item_count, key_bytes, window, value_bytes_max] = numbers[..] else {
            return None;
        };
        let plan = ServerPlan {
            system: T::named(system)?,
            cores: cores.split(',').map(|c| c.parse().ok()).collect::<Option<_>>()?,
            item_count: item_count as u64,
            key_bytes,
            window,
            value_bytes_max,
            hash: hash.parse().ok()?,
        };
        Some((addr.parse().ok()?, plan))
    }
}

/// A plan with space for the items, which every system can make.
fn planned<S: System>(sizes: &Sizes) -> S::Plan {
    S::plan(sizes).expect("a plan by items has the memory it needs")
}

struct Footprint(Sizes);

impl SystemJob for Footprint {
    type Answer = [usize; 2];

    fn run<S: System>(self) -> [usize; 2] {
        S::footprint(&planned::<S>(&self.0))
    }
}

struct EntryCount(Sizes);

impl SystemJob for EntryCount {
    type Answer = usize;

    fn run<S: System>(self) -> usize {
        S::entry_count(&planned::<S>(&self.0))
    }
}

/// What the server of a bench counted from its start to its end, under the names of its system's
/// [counters](drover_kv::Facts::counters): the keys that were loaded and the warm-up are in it.
pub type ServerCounters = BTreeMap<String, u64>;

/// A server process. Dropping this closes the server's standard input, which asks it to stop, and kills it by its id if
/// it has not stopped after 3 s. If this process ends otherwise, the server's standard input ends, too.
pub struct ServerProcess {
    child: Child,
    out: BufReader<ChildStdout>,
    /// Address at which the server listens, with the actual port.
    pub addr: ControlAddr,
}

impl ServerProcess {
    /// Starts a server process at `addr`, whose port may be 0, on the cores of `plan`, and waits without a time limit
    /// until it serves. The server stops when its standard input ends: when the result is dropped or this process ends.
    ///
    /// # Errors
    /// The process cannot be pinned or started, or it ends before it serves.
    pub fn start<T: SystemTable>(
        helper: &Helper,
        plan: &ServerPlan<T>,
        addr: &ControlAddr,
    ) -> io::Result<ServerProcess> {
        let mut command = Command::new(&helper.program);
        command
            .args(&helper.arguments)
            .arg("serve")
            .args(plan.arguments(addr));
        // When this process ends for any reason, the server's standard input ends, and it stops and removes its socket.
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = pin::pinned(&plan.cores, || command.spawn())??;
        let out = child.stdout.take().expect("standard output is piped");
        let mut process = ServerProcess {
            child,
            out: BufReader::new(out),
            addr: addr.clone(),
        };
        let mut line = String::new();
        process.out.read_line(&mut line)?; // ends with the process at the latest
        process.addr = line
            .trim_end()
            .parse()
            .map_err(|_| io::Error::other("the server process ended before it served"))?;
        Ok(process)
    }

    /// Process id of the server process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Text for an error message, with the exit status, if the server process has ended; `None` while it runs.
    pub fn ended(&mut self) -> Option<String> {
        let status = self.child.try_wait().ok()??;
        Some(format!("the server process ended: {status}"))
    }

    /// Stops the server, and returns what it has counted: nothing if it did not say.
    pub fn stop(mut self) -> ServerCounters {
        drop(self.child.stdin.take());
        let mut line = String::new();
        // A line fits into the pipe, so it is there when the process has ended; a process that hangs is killed.
        if ends_within(&self.child, STOP) && self.out.read_line(&mut line).is_ok() {
            serde_json::from_str(&line).unwrap_or_default()
        } else {
            ServerCounters::new()
        }
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        if !ends_within(&self.child, STOP) {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

/// Time limit for a server to stop.
const STOP: Timespec = Timespec {
    tv_sec: 3,
    tv_nsec: 0,
};

fn ends_within(child: &Child, time: Timespec) -> bool {
    let pid = rustix::process::Pid::from_child(child);
    let Ok(process) = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()) else {
        return false;
    };
    let mut ended = [PollFd::new(&process, PollFlags::IN)];
    poll(&mut ended, Some(&time)).is_ok_and(|count| count > 0)
}

/// Main function of the server process: prints the server's address and serves until standard input ends. `arguments`
/// come from the bench.
pub fn serve<T: SystemTable>(arguments: Vec<OsString>) -> ExitCode {
    let words: Option<Vec<String>> = arguments.into_iter().map(|w| w.into_string().ok()).collect();
    let Some((addr, plan)) = words.and_then(|w| ServerPlan::<T>::from_arguments(&w)) else {
        eprintln!("this command is started by bench itself");
        return ExitCode::FAILURE;
    };
    // Ctrl-C at the terminal reaches this process too, but it ends with the bench.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::default());
    let served = Fabric::serving(&addr, ShmDevice::default())
        .map_err(|error| error.to_string().into())
        .and_then(|fabric| fabric.run(Serve { addr, plan }));
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("drover bench, server process: {error}");
            ExitCode::FAILURE
        }
    }
}

type Served = Result<(), Box<dyn std::error::Error>>;

struct Serve<T> {
    addr: ControlAddr,
    plan: ServerPlan<T>,
}

impl<T: SystemTable> Job for Serve<T> {
    type Answer = Served;

    fn run<P: Provider<Cpu = NativeCpu>>(self, device: &P::Device) -> Self::Answer {
        let listener = ControlListener::bind(&self.addr)?;
        let addr = listener.addr().to_string();
        let system = self.plan.system;
        let service = system.run(Start::<P, T> {
            device,
            listener,
            plan: self.plan,
        })?;
        until_told(&addr)?;
        if let Ok(shards) = service.counters(ANSWER) {
            println!(
                "{}",
                serde_json::to_string(&totals(system.facts().counters, &shards))?
            );
        }
        service.stop();
        Ok(())
    }
}

struct Start<'d, P: Provider, T> {
    device: &'d P::Device,
    listener: ControlListener,
    plan: ServerPlan<T>,
}

impl<P: Provider<Cpu = NativeCpu>, T: SystemTable> SystemJob for Start<'_, P, T> {
    type Answer = Result<Box<dyn Service>, StartError>;

    fn run<S: System>(self) -> Self::Answer {
        let mut plan = planned::<S>(&self.plan.sizes());
        *S::hash(&mut plan) = self.plan.hash;
        S::start::<P>(self.device, &plan, vec![self.listener], pin_to(self.plan.cores))
    }
}

/// How long a shard may take to say what it has counted.
const ANSWER: Duration = Duration::from_secs(1);

/// The counts of the whole service.
fn totals(counters: &[Counter], shards: &[Vec<u64>]) -> ServerCounters {
    let total = |(at, counter): (usize, &Counter)| {
        let values = shards.iter().filter_map(|shard| shard.get(at).copied());
        (counter.name.to_owned(), counter.merged(values))
    };
    counters.iter().enumerate().map(total).collect()
}

/// Prints the server's address, and serves until standard input ends.
fn until_told(addr: &str) -> io::Result<()> {
    println!("{addr}");
    io::copy(&mut io::stdin(), &mut io::sink()).map(drop)
}

fn pin_to(cores: Vec<usize>) -> OnCore {
    Box::new(move |index| {
        if let Err(error) = drover_rt::cores::pin(cores[index]) {
            eprintln!("drover bench: worker {index} cannot be pinned: {error}");
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use drover_systems::System;

    #[test]
    fn a_plan_survives_the_command_line() {
        let plan = ServerPlan {
            system: System::ALL[0],
            cores: vec![1, 3],
            item_count: 1000,
            key_bytes: 16,
            window: 16,
            value_bytes_max: 32,
            hash: HashKind::Xxh3,
        };
        let addr: ControlAddr = "shm:x".parse().expect("an address");
        let (there, back) = ServerPlan::<System>::from_arguments(&plan.arguments(&addr)).expect("arguments");
        assert_eq!((there, format!("{back:?}")), (addr, format!("{plan:?}")));
        assert!(ServerPlan::<System>::from_arguments(&["shm:x".to_owned()]).is_none());
    }
}
