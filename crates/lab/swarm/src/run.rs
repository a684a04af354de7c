//! Runs one case: trouble, calm, questions, checks.
//!
//! ```text
//! 0 .. horizon       clients ask, things go wrong
//! .. quiet           what is under way ends, within the deadline of operations
//! .. ready           every client has a session again
//! .. probed          every client fills all its windows, reads every key; everything is answered
//! .. read again      what was late has arrived, and has changed nothing
//! .. settled         nothing is under way, nobody is busy, nothing has leaked
//! ```

use crate::asker::Wish;
use crate::check::{self, Circumstances, DEADLINE_SLACK, Violation};
use crate::cluster::{Cluster, SERVER, Seated};
use crate::kind::{Kind, TIMERS};
use crate::options::{Options, pick, time};
use crate::planted::Planted;
use crate::record::End;
use crate::scenario::Scenario;
use drover_base::Ns;
use drover_kv::{KvClient, OpKind, Refusal};
use drover_kv_herd::client::RECONNECT_MAX;
use drover_rt::control::ATTEMPT_MAX;
use drover_sim::{FaultKind, FaultOptions, FaultPlan, Ps, Stream};
use std::cell::Cell;
use std::fmt;

/// What to run.
#[derive(Clone, Debug)]
pub struct Case {
    /// The scenario.
    pub scenario: &'static Scenario,
    /// The seed.
    pub seed: u64,
    /// Those of the scenario's kinds that are left.
    pub kinds: Vec<Kind>,
    /// Other than drawn: operations per client.
    pub ops: Option<usize>,
    /// Other than drawn: clients.
    pub clients: Option<usize>,
    /// A mistake of the server.
    pub planted: Option<&'static Planted>,
}

impl Case {
    /// What `seed` makes of `scenario`.
    pub fn new(scenario: &'static Scenario, seed: u64) -> Case {
        Case {
            scenario,
            seed,
            kinds: scenario.kinds(seed),
            ops: None,
            clients: None,
            planted: None,
        }
    }

    /// The options that come of it.
    pub fn options(&self) -> Options {
        let mut options = self.scenario.options(self.seed, &self.kinds);
        options.load.ops = self.ops.unwrap_or(options.load.ops);
        options.clients = self.clients.unwrap_or(options.clients);
        if let Some(planted) = self.planted {
            planted.plant(&mut options);
        }
        options
    }

    /// Arguments of `drover sim` that run it again.
    pub fn arguments(&self) -> String {
        let mut text = format!("--scenario {} --seed {}", self.scenario.name, self.seed);
        let drawn = self.scenario.kinds(self.seed);
        let without: Vec<&str> = drawn
            .iter()
            .filter(|kind| !self.kinds.contains(kind))
            .map(|kind| kind.name())
            .collect();
        if !without.is_empty() {
            text += &format!(" --without {}", without.join(","));
        }
        for (flag, number) in [("ops", self.ops), ("clients", self.clients)] {
            if let Some(number) = number {
                text += &format!(" --{flag} {number}");
            }
        }
        if let Some(planted) = self.planted {
            text += &format!(" --plant {}", planted.name);
        }
        text
    }
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What must not be, if anything.
    pub violations: Vec<Violation>,
    /// What happened.
    pub summary: Summary,
    /// Of machines and cores, in order.
    pub timeline: Vec<String>,
    /// Over every event of the cluster: equal for equal cases.
    pub trace_hash: u64,
}

/// Counts of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// Operations asked.
    pub asked: usize,
    /// Answered.
    pub completed: usize,
    /// Nobody can know.
    pub unknown: usize,
    /// Did not happen.
    pub refused: usize,
    /// Their clients crashed.
    pub orphaned: usize,
    /// Messages lost, late, doubled, torn; connections broken.
    pub message_faults: u64,
    /// Requests sent again by clients that are up at the end.
    pub retransmits: u64,
    /// Slots given up and asked about, by those.
    pub resyncs: u64,
    /// Sessions after the first, of those.
    pub reconnects: u64,
    /// Values moved in bulk, by those.
    pub bulk: u64,
    /// Keys whose histories were judged.
    pub judged: usize,
    /// Keys whose histories overlap too much to be judged.
    pub unjudged: usize,
    /// Virtual time in all.
    pub time: Ns,
    /// Of it from the end of trouble until every client was ready.
    pub until_ready: Ns,
    /// Events.
    pub events: u64,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "operations: {} asked, {} answered, {} indeterminate, {} refused, {} of crashed clients",
            self.asked, self.completed, self.unknown, self.refused, self.orphaned
        )?;
        writeln!(
            f,
            "messages:   {} faults, {} retransmissions, {} slots resynchronised, {} reconnections, {} bulk transfers",
            self.message_faults, self.retransmits, self.resyncs, self.reconnects, self.bulk
        )?;
        write!(
            f,
            "time:       {} virtual, {} events; ready again {} after the trouble",
            self.time, self.events, self.until_ready
        )
    }
}

/// No attempt to connect blocks in a simulated cluster; the handshake itself takes well under 100 ms.
const READY_MAX: Ns = Ns(RECONNECT_MAX.0 - ATTEMPT_MAX.0 + Ns::from_ms(100).0);
/// Questions in a cluster where nothing goes wrong any more are answered within this.
const PROBE_MAX: Ns = Ns::from_ms(200);
/// Requests that were given up have been ruled out by the server within this.
const RULED_OUT: Ns = Ns::from_ms(5);
/// What is late arrives within this.
const SETTLE: Ns = Ns::from_ms(60);
/// The last replies have been forgotten within this.
const REST: Ns = Ns::from_ms(5);
/// For so long everybody is watched doing nothing ...
const WATCHED: Ns = Ns::from_ms(10);
/// ... with at most one step in this time.
const REST_MIN: Ns = Ns::from_us(5);

/// Something that happens to a machine or core.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    Machine { machine: usize, kind: FaultKind },
    Worker { index: usize },
    Goodbye { index: usize },
    Shutdown,
    Successor,
    NonClient { index: usize },
}

/// Runs it.
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
    quiet(&cluster, &options, &mut found);
    let is_ready = ready(&cluster, &mut found);
    let until_ready = cluster.world.now().since(began);
    cluster.world.run_for(RULED_OUT);
    let circumstances = Circumstances {
        troubled: is_troubled(&case.kinds),
        settled_at: Ps::from(cluster.world.now()).0,
    };
    if is_ready {
        probe(&cluster, &options, &mut found);
        cluster.world.run_for(SETTLE);
        read_again(&cluster, &options, &mut found);
        settle(&cluster, &mut found);
    }
    let verdict = check::check(&cluster.record.borrow(), &options, circumstances);
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

/// Whether operations may fail.
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

/// Everything that happens to machines and cores, in order.
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
    for hang in 0..machines.worker_hangs + machines.worker_relapses {
        let index = dice.below(options.server.partition_count as u64) as usize;
        let at = Ns(dice.below(machines.horizon.0));
        let longest = match hang < machines.worker_hangs {
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
        if hang >= machines.worker_hangs {
            plan.push((at + Ns(time.0 * 9 / 10), Trouble::Worker { index }));
        }
    }
    let dice = Stream::new(seed, 0, "workers");
    for _ in 0..machines.worker_restarts {
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
        // Many come early: those who stay are sent away in the end.
        let at = Ns((dice.unit().powi(4) * machines.horizon.0 as f64) as u64);
        let index = dice.below(1 << 16) as usize;
        plan.push((at, Trouble::NonClient { index }));
    }
    plan.sort_by_key(|(at, _)| *at);
    plan
}

/// When every core goes on.
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
        Trouble::NonClient { index } => cluster.knock(index),
        Trouble::Machine { machine, kind } => match kind {
            FaultKind::Crash => cluster.crash(machine),
            FaultKind::Restart => cluster.restart(machine),
            FaultKind::Stall { core_index, time } => cluster.stall(machine, core_index as usize, time),
        },
    }
}

/// Everything under way must end.
fn quiet(cluster: &Cluster, options: &Options, found: &mut Vec<Violation>) {
    let until = cluster.world.now() + options.client.deadline + DEADLINE_SLACK;
    // What has ended stays ended: no look at it again with every event.
    let ended = Cell::new(0);
    let pending = || {
        let record = cluster.record.borrow();
        let more = record.entries[ended.get()..].iter();
        ended.set(ended.get() + more.take_while(|entry| entry.end != End::Pending).count());
        ended.get() < record.entries.len()
    };
    if pending() && cluster.world.run_while(until, pending) {
        let record = cluster.record.borrow();
        let mut entries = record.entries.iter().enumerate();
        let first = entries.find(|(_, entry)| entry.end == End::Pending);
        let text = format!(
            "{} operations hang past their deadline; the first: {first:?}",
            record.count(|end| *end == End::Pending)
        );
        found.push(Violation::new("ends", text));
    }
}

/// Everybody must have a session again.
fn ready(cluster: &Cluster, found: &mut Vec<Violation>) -> bool {
    let until = cluster.world.now() + READY_MAX;
    if !cluster.is_ready() && cluster.world.run_while(until, || !cluster.is_ready()) {
        let errors: Vec<String> = cluster
            .seated
            .iter()
            .filter_map(|seated| seated.asker.borrow_mut().client.take_error())
            .map(|error| error.to_string())
            .collect();
        let text = format!(
            "not every client found its way back to the server, or sessions are left over: {}",
            errors.join("; ")
        );
        found.push(Violation::new("ready", text));
        return false;
    }
    true
}

/// Everybody fills all windows and reads every key: whoever is stuck shows.
fn probe(cluster: &Cluster, options: &Options, found: &mut Vec<Violation>) {
    let before = cluster.record.borrow().entries.len();
    for seated in &cluster.seated {
        let mut asker = seated.asker.borrow_mut();
        let partitions = asker.client.partition_count().unwrap_or(1);
        let fill = (options.client.window * partitions * 2).max(8) as u64;
        let wish = |kind, key| Wish {
            kind,
            key,
            value_len: 16,
            ttl_s: 0,
        };
        let reads = (0..options.load.keys).map(|key| wish(OpKind::Get, key));
        // Keys of their own, so that nobody waits for anybody.
        let own = (u64::from(asker.id) + 1) << 32;
        let puts = (0..fill).map(|key| wish(OpKind::Put, own + key));
        asker.wishes.extend(reads.chain(puts));
        if options.load.large_percent > 0 {
            let load = &options.load;
            let value_len = load.large_bytes_max.min(load.refused_above) as usize;
            asker.wishes.push_back(Wish {
                value_len,
                ..wish(OpKind::Put, own)
            });
        }
        drop(asker);
        cluster.wake(seated);
    }
    answered(cluster, before, found);
}

/// One client reads every key once more: what is late has arrived, and has changed nothing.
fn read_again(cluster: &Cluster, options: &Options, found: &mut Vec<Violation>) {
    let before = cluster.record.borrow().entries.len();
    let Some(seated) = cluster.seated.first() else {
        return;
    };
    let read = |key| Wish {
        kind: OpKind::Get,
        key,
        value_len: 0,
        ttl_s: 0,
    };
    let reads = (0..options.load.keys).map(read);
    seated.asker.borrow_mut().wishes.extend(reads);
    cluster.wake(seated);
    answered(cluster, before, found);
}

/// All wishes are asked, and everything asked since `before` is answered.
fn answered(cluster: &Cluster, before: usize, found: &mut Vec<Violation>) {
    let missing = || {
        let done = |seated: &Seated| seated.asker.borrow().is_done();
        cluster.seated.iter().filter(|seated| !done(seated)).count()
    };
    let until = cluster.world.now() + PROBE_MAX;
    if missing() > 0 && cluster.world.run_while(until, || missing() > 0) {
        let text = format!("{} clients wait for answers though all is well", missing());
        found.push(Violation::new("probe", text));
    }
    let record = cluster.record.borrow();
    let failed = |end: &End| !matches!(end, End::Answered(_) | End::Refused(_, Refusal::Full));
    let mut entries = record.entries[before..].iter();
    if let Some(entry) = entries.find(|entry| failed(&entry.end)) {
        let text = format!("an operation failed though all is well: {entry:?}");
        found.push(Violation::new("probe", text));
    }
}

/// Nothing is left over, and nobody is busy.
fn settle(cluster: &Cluster, found: &mut Vec<Violation>) {
    cluster.world.run_for(REST);
    let mut leak = |what: String| found.push(Violation::new("leak", what));
    for seated in &cluster.seated {
        let asker = seated.asker.borrow();
        if asker.client.in_flight() > 0 {
            leak(format!(
                "client {} has {} operations under way",
                asker.id,
                asker.client.in_flight()
            ));
        }
    }
    if let Some(served) = &cluster.served {
        let (sessions, clients) = (served.acceptor.borrow().session_count(), cluster.seated.len());
        if sessions != clients {
            leak(format!("{sessions} sessions of {clients} clients"));
        }
        for (n, worker) in served.workers.iter().enumerate() {
            let served = worker.borrow().stats().clients;
            if served != clients {
                leak(format!("worker {n} serves {served} clients of {clients}"));
            }
        }
    }
    let steps = || -> Vec<u64> {
        let reports = cluster.world.cores().into_iter().map(|core| core.report());
        reports
            .map(|report| report.busy_steps + report.idle_steps)
            .collect()
    };
    let before = steps();
    cluster.world.run_for(WATCHED);
    for (n, (after, before)) in steps().into_iter().zip(before).enumerate() {
        if after - before > WATCHED.0 / REST_MIN.0 {
            leak(format!("core {n} makes {} steps for nothing", after - before));
        }
    }
}

fn summary(cluster: &Cluster) -> Summary {
    let record = cluster.record.borrow();
    let mut summary = Summary {
        asked: record.entries.len(),
        completed: record.count(|end| matches!(end, End::Answered(_))),
        unknown: record.count(|end| matches!(end, End::Unknown(_))),
        refused: record.count(|end| matches!(end, End::Refused(..))),
        orphaned: record.count(|end| *end == End::Orphaned),
        message_faults: cluster.fault_counts().total(),
        time: Ps::from(cluster.world.now()).floor(),
        events: cluster.world.events(),
        ..Summary::default()
    };
    for seated in &cluster.seated {
        let asker = seated.asker.borrow();
        let stats = asker.client.stats();
        summary.retransmits += stats.retransmits;
        summary.resyncs += stats.resyncs;
        summary.reconnects += stats.reconnects;
        summary.bulk += stats.bulk_transfers;
    }
    summary
}
