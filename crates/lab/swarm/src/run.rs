//! Runs one case of HERD: trouble, then checks.
//!
//! ```text
//! 0 .. horizon       clients submit operations while faults are injected
//! .. quiet           operations in flight end, within their deadline
//! .. ready           every client has a session again
//! .. probed          every client fills all its windows and reads every key; every operation gets an answer
//! .. read again      delayed messages have arrived, and have changed nothing
//! .. settled         nothing is in flight, no core is busy, no resource has leaked
//! ```

use crate::check::{self, Circumstances};
use crate::cluster::{Cluster, SERVER};
use crate::kind::{Kind, TIMERS};
use crate::options::{Options, pick, time};
pub use crate::outcome::{Outcome, Summary};
use crate::phases;
use crate::planted::{self, Wrong};
use crate::scenario::{self, Scenario};
use crate::subject::{Planted, Subject};
use drover_base::Ns;
use drover_control::ATTEMPT_MAX;
use drover_kv::System;
use drover_kv_herd::Herd;
use drover_kv_herd::client::RECONNECT_MAX;
use drover_sim::{FaultKind, FaultOptions, FaultPlan, Ps, Stream};
use drover_store::Mode;

/// One run of HERD.
pub type Case = crate::case::Case<Herd>;

impl Case {
    /// The options of this case.
    pub fn options(&self) -> Options {
        let mut options = self.scenario.options(self.seed, &self.kinds);
        options.load.ops = self.ops.unwrap_or(options.load.ops);
        options.clients = self.clients.unwrap_or(options.clients);
        if let Some(planted) = self.planted {
            planted.mistake.plant(&mut options);
        }
        options
    }
}

/// Maximum time to reconnect. No attempt to connect blocks in a simulated cluster; the handshake takes well under 100
/// ms.
const READY_MAX: Ns = Ns(RECONNECT_MAX.0 - ATTEMPT_MAX.0 + Ns::from_ms(100).0);
/// Time within which the server excludes the execution of requests that were given up.
const RULED_OUT: Ns = Ns::from_ms(5);
/// Time within which delayed messages arrive.
const SETTLE: Ns = Ns::from_ms(60);

/// A fault of a machine, core, worker or client.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    Machine { machine: usize, kind: FaultKind },
    Worker { index: usize },
    Goodbye { index: usize },
    Shutdown,
    Successor,
    NonClient { index: usize },
}

impl Subject for Herd {
    const NAME: &'static str = <Herd as System>::FACTS.name;
    type Trouble = Kind;
    type Mistake = Wrong;
    const SCENARIOS: &'static [Scenario] = scenario::ALL;
    const PLANTED: &'static [Planted<Wrong>] = planted::ALL;

    fn sizes(case: &Case) -> (usize, usize) {
        let options = case.options();
        (options.load.ops, options.clients)
    }

    fn run(case: &Case) -> Outcome {
        run(case)
    }
}

/// Runs a case.
pub fn run(case: &Case) -> Outcome {
    let options = case.options();
    let plan = plan(&options, case.seed);
    let mut cluster = Cluster::new(&options, case.seed);
    let mut found = Vec::new();
    let mut timeline = Vec::new();
    for &(at, trouble) in &plan {
        cluster.world.run_until(at);
        timeline.push(format!("{at}: {}", send(trouble)));
        afflict(&mut cluster, trouble);
    }
    let running = |cluster: &Cluster| {
        !cluster
            .seated
            .iter()
            .all(|seated| seated.asker.borrow().is_done())
    };
    cluster
        .world
        .run_while(options.machines.horizon, || running(&cluster));
    cluster.calm_down();
    cluster.world.run_until(last_stall(&plan));
    timeline.push(format!("{}: trouble ends", cluster.world.now()));
    let began = cluster.world.now();
    for seated in &cluster.seated {
        seated.asker.borrow_mut().closing = true;
    }
    phases::quiet(&cluster, options.client.deadline, &mut found);
    let is_ready = phases::ready(&cluster, READY_MAX, &mut found);
    let until_ready = cluster.world.now().since(began);
    cluster.world.run_for(RULED_OUT);
    let circumstances = Circumstances {
        troubled: is_troubled(&case.kinds),
        settled_at: Ps::from(cluster.world.now()).0,
        may_be_full: options.server.partition.mode == Mode::Store,
        refused_above: options.load.values.refused_above,
        deadline: options.client.deadline,
        forgets: options.forgets(),
    };
    if is_ready {
        phases::probe(&cluster, options.client.window, &options.load, &mut found);
        cluster.world.run_for(SETTLE);
        phases::read_again(&cluster, &options.load, &mut found);
        phases::settle(&cluster, &mut found);
    }
    let verdict = check::check(&cluster.record.borrow(), circumstances);
    found.extend(verdict.violations);
    Outcome {
        violations: found,
        summary: Summary {
            judged: verdict.judged,
            unjudged: verdict.unjudged,
            until_ready,
            ..summary(&cluster)
        },
        timeline,
        trace_hash: cluster.world.trace_hash(),
    }
}

/// Whether operations may fail with these kinds.
fn is_troubled(kinds: &[Kind]) -> bool {
    use Kind::*;
    let sizes = [
        Skew,
        Pressure,
        Expiry,
        Narrow,
        Datagrams,
        Large,
        Conflicts,
        Pipeline,
        ShortQueues,
        Paper,
        Ordered,
        Crowd,
        FullHouse,
        Oversize,
        ShortWaits,
    ];
    kinds.iter().any(|kind| !sizes.contains(kind))
}

/// All faults of machines and cores, in order of time.
fn plan(options: &Options, seed: u64) -> Vec<(Ns, Trouble)> {
    let machines = &options.machines;
    let none = FaultOptions {
        horizon: machines.horizon,
        crashes: 0,
        down_max: machines.down_max,
        stalls: 0,
        stall_max: machines.stall_max,
    };
    let clients: Vec<u16> = (1..=options.client_machines as u16).collect();
    let everybody: Vec<u16> = (0..=options.client_machines as u16).collect();
    let draws = [
        (
            vec![SERVER as u16],
            FaultOptions {
                crashes: machines.server_crashes,
                ..none
            },
        ),
        (
            clients,
            FaultOptions {
                crashes: machines.client_crashes,
                ..none
            },
        ),
        (
            everybody,
            FaultOptions {
                stalls: machines.stalls,
                ..none
            },
        ),
    ];
    let mut plan = Vec::new();
    for (n, (machines, options)) in draws.iter().enumerate() {
        let faults = FaultPlan::draw(seed ^ n as u64, machines, options).faults;
        plan.extend(faults.into_iter().map(|fault| {
            let machine = usize::from(fault.machine);
            (
                fault.at,
                Trouble::Machine {
                    machine,
                    kind: fault.kind,
                },
            )
        }));
    }
    let dice = Stream::new(seed, 0, "pauses");
    for _ in 0..machines.pauses {
        let at = Ns(dice.below(machines.horizon.0));
        let machine = dice.below(1 + options.client_machines as u64) as usize;
        let timer = pick(&dice, &TIMERS);
        let kind = FaultKind::Stall {
            core_index: dice.below(1 << 16) as u32,
            time: time(&dice, Ns(timer.0 * 4 / 5), Ns(timer.0 * 5 / 4)),
        };
        plan.push((at, Trouble::Machine { machine, kind }));
    }
    let dice = Stream::new(seed, 0, "hangs");
    for hang in 0..machines.workers.hangs + machines.workers.relapses {
        let index = dice.below(options.server.partition_count as u64) as usize;
        let at = Ns(dice.below(machines.horizon.0));
        let longest = match hang < machines.workers.hangs {
            true => Ns::from_ms(400),
            false => Ns::from_ms(4),
        };
        let time = time(&dice, Ns(longest.0 / 8), longest);
        // The acceptor's core is the first of the server's machine.
        let kind = FaultKind::Stall {
            core_index: 1 + index as u32,
            time,
        };
        let machine = SERVER;
        plan.push((at, Trouble::Machine { machine, kind }));
        if hang >= machines.workers.hangs {
            plan.push((at + Ns(time.0 * 9 / 10), Trouble::Worker { index }));
        }
    }
    let dice = Stream::new(seed, 0, "workers");
    for _ in 0..machines.workers.restarts {
        let (at, index) = (Ns(dice.below(machines.horizon.0)), dice.below(1 << 16) as usize);
        plan.push((at, Trouble::Worker { index }));
    }
    let dice = Stream::new(seed, 0, "goodbyes");
    for _ in 0..machines.goodbyes {
        let (at, index) = (Ns(dice.below(machines.horizon.0)), dice.below(1 << 16) as usize);
        plan.push((at, Trouble::Goodbye { index }));
    }
    let dice = Stream::new(seed, 0, "shutdowns");
    for _ in 0..machines.shutdowns {
        let at = Ns(dice.below(machines.horizon.0));
        let away = dice.log_uniform(Ns::from_us(50).0 as f64, Ns::from_ms(20).0 as f64);
        plan.push((at, Trouble::Shutdown));
        plan.push((at + Ns(away as u64), Trouble::Successor));
    }
    let dice = Stream::new(seed, 0, "non-clients");
    for _ in 0..machines.non_clients {
        // Most come early, so that the server closes those that stay before the end.
        let at = Ns((dice.unit().powi(4) * machines.horizon.0 as f64) as u64);
        let index = dice.below(1 << 16) as usize;
        plan.push((at, Trouble::NonClient { index }));
    }
    plan.sort_by_key(|(at, _)| *at);
    plan
}

/// Time at which every core runs again.
fn last_stall(plan: &[(Ns, Trouble)]) -> Ns {
    plan.iter()
        .map(|&(at, trouble)| match trouble {
            Trouble::Machine {
                kind: FaultKind::Stall { time, .. },
                ..
            } => at + time,
            _ => at,
        })
        .fold(Ns::ZERO, Ns::max)
}

fn send(trouble: Trouble) -> String {
    let whose = |machine| match machine {
        SERVER => "the server's machine".to_owned(),
        machine => format!("machine {machine}"),
    };
    match trouble {
        Trouble::Worker { index } => format!("worker {index} (modulo their number) begins again"),
        Trouble::Goodbye { index } => format!("client {index} (modulo) says goodbye, another one comes"),
        Trouble::Shutdown => "the server says goodbye".to_owned(),
        Trouble::Successor => "another server takes its place".to_owned(),
        Trouble::NonClient { index } => format!(
            "a peer that is no client connects ({})",
            crate::non_client::describe(index)
        ),
        Trouble::Machine { machine, kind } => match kind {
            FaultKind::Crash => format!("{} crashes", whose(machine)),
            FaultKind::Restart => format!("{} is there again", whose(machine)),
            FaultKind::Stall { core_index, time } => {
                format!(
                    "core {core_index} (modulo) of {} stops for {time}",
                    whose(machine)
                )
            }
        },
    }
}

fn afflict(cluster: &mut Cluster, trouble: Trouble) {
    match trouble {
        Trouble::Worker { index } => cluster.restart_worker(index),
        Trouble::Goodbye { index } => cluster.goodbye(index),
        Trouble::Shutdown => cluster.shut_down(),
        Trouble::Successor => cluster.succeed(),
        Trouble::NonClient { index } => cluster.connect_non_client(index),
        Trouble::Machine { machine, kind } => match kind {
            FaultKind::Crash => cluster.crash(machine),
            FaultKind::Restart => cluster.restart(machine),
            FaultKind::Stall { core_index, time } => cluster.stall(machine, core_index as usize, time),
        },
    }
}

fn summary(cluster: &Cluster) -> Summary {
    let (mut retransmits, mut resyncs, mut reconnects, mut bulk) = (0, 0, 0, 0);
    for seated in &cluster.seated {
        let asker = seated.asker.borrow();
        let stats = asker.client.stats();
        retransmits += stats.retransmits;
        resyncs += stats.resyncs;
        reconnects += stats.reconnects;
        bulk += stats.bulk_transfers;
    }
    Summary {
        message_faults: cluster.fault_counts().total(),
        counted: vec![
            ("retransmissions", retransmits),
            ("slots resynchronised", resyncs),
            ("reconnections", reconnects),
            ("bulk transfers", bulk),
        ],
        ..Summary::of(&cluster.record.borrow(), &cluster.world)
    }
}
