//! [`plan`]: draws all faults of machines, cores, workers and clients of a service of workers from the seed.

use super::WorkerSystem;
use super::non_client::{self, Behaviour};
use super::options::Options;
use crate::draw::{pick, time};
use crate::run;
use drover_base::Ns;
use drover_sim::{FaultKind, FaultOptions, FaultPlan, Stream};
use std::fmt;

/// Index of the server's machine; clients are on the others.
pub const SERVER: usize = 0;

/// A fault of a machine, core, worker or client, or the arrival of a peer. Indices of cores, workers and clients are
/// taken modulo their number; those of machines are not.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// A machine crashes or restarts, or a core of it stops.
    Machine { machine: usize, kind: FaultKind },
    /// A worker restarts.
    Worker { index: usize },
    /// A client closes properly; another one takes its place.
    Goodbye { index: usize },
    /// The server begins to shut down properly.
    Shutdown,
    /// Another server takes the place of one that is shutting down, whose machine restarts. Nothing happens if no
    /// server is shutting down.
    Successor,
    /// A peer connects that is no client.
    NonClient(Behaviour),
}

impl run::Fault for Fault {
    fn stops_for(self) -> Ns {
        match self {
            Fault::Machine {
                kind: FaultKind::Stall { time, .. },
                ..
            } => time,
            _ => Ns::ZERO,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Fault::Worker { index } => write!(f, "worker {index} (modulo their number) begins again"),
            Fault::Goodbye { index } => {
                write!(f, "client {index} (modulo) says goodbye, another one comes")
            }
            Fault::Shutdown => f.write_str("the server says goodbye"),
            Fault::Successor => f.write_str("another server takes its place"),
            Fault::NonClient((about, _)) => {
                write!(f, "a peer that is no client connects ({about})")
            }
            Fault::Machine { machine, kind } => {
                let whose = match machine {
                    SERVER => "the server's machine".to_owned(),
                    machine => format!("machine {machine}"),
                };
                match kind {
                    FaultKind::Crash => write!(f, "{whose} crashes"),
                    FaultKind::Restart => write!(f, "{whose} is there again"),
                    FaultKind::Stall { core_index, time } => {
                        write!(f, "core {core_index} (modulo) of {whose} stops for {time}")
                    }
                }
            }
        }
    }
}

/// Draws all faults of a run, in order of time.
pub fn plan<T: WorkerSystem>(options: &Options, seed: u64) -> Vec<(Ns, Fault)> {
    let mut plan = crashes_and_stalls(options, seed);
    pauses(options, seed, T::TIMERS, &mut plan);
    hangs(options, seed, &mut plan);
    let machines = &options.machines;
    let anytime = |dice: &Stream| Ns(dice.below(machines.horizon.0));
    let index = |dice: &Stream| dice.below(1 << 16) as usize;
    let dice = &Stream::new(seed, 0, "workers");
    for _ in 0..machines.workers.restarts {
        let (at, index) = (anytime(dice), index(dice));
        plan.push((at, Fault::Worker { index }));
    }
    let dice = &Stream::new(seed, 0, "goodbyes");
    for _ in 0..machines.goodbyes {
        let (at, index) = (anytime(dice), index(dice));
        plan.push((at, Fault::Goodbye { index }));
    }
    let dice = &Stream::new(seed, 0, "shutdowns");
    for _ in 0..machines.shutdowns {
        let at = anytime(dice);
        let away = time(dice, Ns::from_us(50), Ns::from_ms(20));
        plan.push((at, Fault::Shutdown));
        plan.push((at + away, Fault::Successor));
    }
    let dice = &Stream::new(seed, 0, "non-clients");
    for _ in 0..machines.non_clients {
        // Most come early, so that the server closes those that stay before the end.
        let at = Ns((dice.unit().powi(4) * machines.horizon.0 as f64) as u64);
        let behaviour = non_client::behaviour::<T>(index(dice));
        plan.push((at, Fault::NonClient(behaviour)));
    }
    plan.sort_by_key(|(at, _)| *at);
    plan
}

fn crashes_and_stalls(options: &Options, seed: u64) -> Vec<(Ns, Fault)> {
    let machines = &options.machines;
    let clients = 1..=options.client_machines as u16;
    let draws = [
        (vec![SERVER as u16], machines.server_crashes, 0),
        (clients.collect(), machines.client_crashes, 0),
        ((0..=options.client_machines as u16).collect(), 0, machines.stalls),
    ];
    let mut plan = Vec::new();
    for (n, (affected, crashes, stalls)) in draws.into_iter().enumerate() {
        let fault_options = FaultOptions {
            horizon: machines.horizon,
            crashes,
            down_max: machines.down_max,
            stalls,
            stall_max: machines.stall_max,
        };
        let faults = FaultPlan::draw(seed ^ n as u64, &affected, &fault_options).faults;
        plan.extend(faults.into_iter().map(|fault| {
            let (machine, kind) = (usize::from(fault.machine), fault.kind);
            (fault.at, Fault::Machine { machine, kind })
        }));
    }
    plan
}

/// Cores stop for about as long as one of `timers`.
fn pauses(options: &Options, seed: u64, timers: &[Ns], plan: &mut Vec<(Ns, Fault)>) {
    let dice = &Stream::new(seed, 0, "pauses");
    for _ in 0..options.machines.pauses {
        let at = Ns(dice.below(options.machines.horizon.0));
        let machine = dice.below(1 + options.client_machines as u64) as usize;
        let timer = pick(dice, timers);
        let kind = FaultKind::Stall {
            core_index: dice.below(1 << 16) as u32,
            time: time(dice, Ns(timer.0 * 4 / 5), Ns(timer.0 * 5 / 4)),
        };
        plan.push((at, Fault::Machine { machine, kind }));
    }
}

/// Workers stop; after a relapse they restart.
fn hangs(options: &Options, seed: u64, plan: &mut Vec<(Ns, Fault)>) {
    let workers = &options.machines.workers;
    let dice = &Stream::new(seed, 0, "hangs");
    for hang in 0..workers.hangs + workers.relapses {
        let index = dice.below(options.server.partition_count as u64) as usize;
        let at = Ns(dice.below(options.machines.horizon.0));
        let longest = match hang < workers.hangs {
            true => Ns::from_ms(400),
            false => Ns::from_ms(4),
        };
        let time = time(dice, Ns(longest.0 / 8), longest);
        // The acceptor's core is the first of the server's machine.
        let kind = FaultKind::Stall {
            core_index: 1 + index as u32,
            time,
        };
        let machine = SERVER;
        plan.push((at, Fault::Machine { machine, kind }));
        if hang >= workers.hangs {
            plan.push((at + Ns(time.0 * 9 / 10), Fault::Worker { index }));
        }
    }
}
