//! [`plan`]: draws all faults of machines and cores of a service of shards from the seed.

use super::kind::TIMERS;
use super::options::Options;
use crate::draw::{pick, time};
use crate::run;
use drover_base::Ns;
use drover_sim::{FaultKind, FaultOptions, FaultPlan, Stream};
use std::fmt;

/// Machines that a fault affects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Whose {
    /// The machines of all shards.
    Service,
    /// The machine of one shard, by index of the shard; only where every shard has its own.
    Shard(usize),
    /// One machine with clients, by index among all machines.
    Clients(usize),
}

/// A fault, or the arrival of a client.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// The machines crash.
    Crash(Whose),
    /// The machines restart after a crash.
    Restart(Whose),
    /// A core of a machine stops for a while; the index is taken modulo the number of cores.
    Stall {
        machine: usize,
        core_index: usize,
        time: Ns,
    },
    /// A client starts on a machine with clients.
    Arrival { machine: usize },
    /// A client's process dies, and another one takes its place; the index is taken modulo the number of clients.
    Death { client: usize },
}

impl fmt::Display for Whose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Whose::Service => f.write_str("the service"),
            Whose::Shard(shard) => write!(f, "shard {shard}"),
            Whose::Clients(machine) => write!(f, "clients' machine {machine}"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Crash(whose) => write!(f, "{whose} crashes"),
            Fault::Restart(whose) => write!(f, "{whose} is there again"),
            Fault::Stall {
                machine,
                core_index,
                time,
            } => write!(
                f,
                "core {core_index} (modulo) of machine {machine} stops for {time}"
            ),
            Fault::Arrival { machine } => write!(f, "a client comes to machine {machine}"),
            Fault::Death { client } => write!(f, "client {client} (modulo) dies"),
        }
    }
}

impl run::Fault for Fault {
    fn stops_for(self) -> Ns {
        match self {
            Fault::Stall { time, .. } => time,
            _ => Ns::ZERO,
        }
    }
}

/// Draws all faults of a run, in order of time.
pub fn plan(options: &Options, seed: u64) -> Vec<(Ns, Fault)> {
    let machines = &options.machines;
    let first_client = options.shard_machines();
    let all = first_client + options.client_machines;
    let mut plan = Vec::new();
    let mut crashes = |stream: u64, whose: Vec<Whose>, count| {
        let numbers: Vec<u16> = (0..whose.len() as u16).collect();
        let fault_options = FaultOptions {
            horizon: machines.horizon,
            crashes: count,
            down_max: machines.down_max,
            stalls: 0,
            stall_max: Ns::ZERO,
        };
        for fault in FaultPlan::draw(seed ^ stream, &numbers, &fault_options).faults {
            let whose = whose[usize::from(fault.machine)];
            plan.push(match fault.kind {
                FaultKind::Restart => (fault.at, Fault::Restart(whose)),
                _ => (fault.at, Fault::Crash(whose)),
            });
        }
    };
    crashes(0, vec![Whose::Service], machines.service_crashes);
    let shards = (0..options.plan.shard_count).map(Whose::Shard);
    crashes(1, shards.collect(), machines.shard_crashes);
    let clients = (first_client..all).map(Whose::Clients);
    crashes(2, clients.collect(), machines.client_crashes);
    let mut stall = |dice: &Stream, time| {
        let at = Ns(dice.below(machines.horizon.0));
        let machine = dice.below(all as u64) as usize;
        let core_index = dice.below(1 << 16) as usize;
        let fault = Fault::Stall {
            machine,
            core_index,
            time,
        };
        plan.push((at, fault));
    };
    let dice = &Stream::new(seed, 0, "stalls");
    for _ in 0..machines.stalls {
        stall(dice, Ns(1 + dice.below(machines.stall_max.0.max(1))));
    }
    let dice = &Stream::new(seed, 0, "pauses");
    for _ in 0..machines.pauses {
        let timer = pick(dice, &TIMERS);
        stall(dice, time(dice, Ns(timer.0 * 4 / 5), Ns(timer.0 * 5 / 4)));
    }
    let dice = &Stream::new(seed, 0, "arrivals");
    for _ in 0..machines.arrivals {
        let at = Ns(dice.below(machines.horizon.0));
        let machine = first_client + dice.below(options.client_machines as u64) as usize;
        plan.push((at, Fault::Arrival { machine }));
    }
    let dice = &Stream::new(seed, 0, "deaths");
    for _ in 0..machines.deaths {
        let at = Ns(dice.below(machines.horizon.0));
        let client = dice.below(1 << 16) as usize;
        plan.push((at, Fault::Death { client }));
    }
    plan.sort_by_key(|(at, _)| *at);
    plan
}
