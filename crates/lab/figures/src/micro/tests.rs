//! The loops on the reference provider: every message arrives, every completion is counted, windows are kept.

use super::*;
use crate::cluster::{Doorbells, Thread};
use drover_base::{Actor, Cpu};
use drover_rt::TunerOptions;
use drover_verbs::{Device, Provider};
use drover_verbs_suite::loopback::{
    Flaw, Loopback, LoopbackContext, LoopbackCpu, LoopbackDevice, LoopbackOptions,
};
use std::collections::BTreeMap as Map;

/// Machines without costs: in each round every actor steps once and 100 ns pass.
struct Bench0 {
    device: LoopbackDevice,
    contexts: Map<Thread, LoopbackContext>,
    actors: Vec<(Thread, Box<dyn Actor<LoopbackCpu>>)>,
}

struct Machines;

impl Clusters for Machines {
    type Cluster = Bench0;
    fn cluster(&self, _: &ClusterOptions) -> Bench0 {
        Bench0 {
            device: LoopbackDevice::new(),
            contexts: Map::new(),
            actors: Vec::new(),
        }
    }
}

/// The same machines with a planted bug.
struct Flawed(Flaw);

impl Clusters for Flawed {
    type Cluster = Bench0;
    fn cluster(&self, options: &ClusterOptions) -> Bench0 {
        Bench0 {
            device: LoopbackDevice::with_options(LoopbackOptions {
                flaw: Some(self.0),
                ..LoopbackOptions::default()
            }),
            ..Machines.cluster(options)
        }
    }
}

impl Cluster for Bench0 {
    type Provider = Loopback;
    fn context(&mut self, thread: Thread) -> &LoopbackContext {
        let device = &self.device;
        let context = self.contexts.entry(thread);
        context.or_insert_with(|| device.context().expect("a context"))
    }
    fn spawn(&mut self, thread: Thread, actor: Box<dyn Actor<<Loopback as Provider>::Cpu>>) {
        self.actors.push((thread, actor));
    }
    fn run_until(&mut self, time: Ns) {
        while self.device.now() < time {
            for (thread, actor) in &mut self.actors {
                use drover_verbs::Context;
                let cpu = self.contexts[thread].cpu();
                cpu.refresh();
                actor.step(cpu);
            }
            self.device.advance(Ns(100));
        }
    }
    fn busy(&self, _: usize) -> Option<BusyTimes> {
        None
    }
    fn counter(&self, _: usize, _: &str) -> Option<u64> {
        None
    }
}

const SPAN: Span = Span {
    warm_up: Ns(2_000),
    measured: Ns(20_000),
    batches: 4,
};

fn plan(verb: Verb, kind: QpKind) -> Verbs {
    Verbs {
        verb,
        kind,
        bytes: 32,
        inline: matches!(verb, Verb::Write | Verb::Send),
        words: 16,
        issuers: Issuers {
            machines: 2,
            processes: 2,
            threads: 1,
        },
        targets: Targets {
            machines: 1,
            processes: 2,
        },
        wiring: Wiring::AllToAll,
        queue_pairs: 1,
        posting: Posting {
            random: true,
            ..Posting::paced(Pacing::Window(8))
        },
        doorbells: Doorbells::Driver,
        count: Count::Issued,
    }
}

fn mops(bench: Verbs) -> f64 {
    run(&Machines, &Bench::Verbs(bench), SPAN, 1).mops
}

#[test]
fn every_verb_runs_in_every_pacing() {
    for (verb, kind) in [
        (Verb::Write, QpKind::Rc),
        (Verb::Write, QpKind::Uc),
        (Verb::Read, QpKind::Rc),
        (Verb::Send, QpKind::Ud),
        (Verb::FetchAdd, QpKind::Rc),
    ] {
        let usual = plan(verb, kind);
        let batches = Verbs {
            posting: Posting {
                pacing: Pacing::Batch(4),
                signal_every: 0,
                ..usual.posting
            },
            wiring: Wiring::OneToOne,
            ..usual.clone()
        };
        let lists = Verbs {
            posting: Posting {
                list: 4,
                signal_every: 4,
                ..usual.posting
            },
            wiring: Wiring::OneToOne,
            ..usual.clone()
        };
        for bench in [usual, batches, lists] {
            let name = format!("{bench:?}");
            assert!(mops(bench) > 1.0, "nothing completed: {name}");
        }
    }
}

#[test]
fn a_synchronous_thread_completes_at_most_one_request_per_turn() {
    let mut bench = plan(Verb::Read, QpKind::Rc);
    bench.posting.pacing = Pacing::Window(1);
    (bench.issuers.machines, bench.issuers.processes) = (1, 1);
    // A round of 100 ns and some ticks of the clock: at most ten million per second.
    let found = run(&Machines, &Bench::Verbs(bench), SPAN, 1);
    assert!(found.mops <= 10.0 && found.latency_us >= 0.1, "{found:?}");
}

#[test]
fn symmetric_machines_count_per_machine() {
    let mut bench = plan(Verb::Read, QpKind::Rc);
    bench.issuers.machines = 3;
    bench.targets.machines = 0;
    let double = Verbs {
        queue_pairs: 2,
        ..bench.clone()
    };
    assert!(mops(bench) > 1.0 && mops(double) > 1.0);
}

#[test]
fn a_gap_paces_a_thread() {
    let mut bench = plan(Verb::Write, QpKind::Uc);
    bench.posting.gap_ns = 1_000;
    // Two threads per machine, one request per microsecond each.
    let found = mops(bench);
    assert!((1.0..=2.2).contains(&found), "{found} Mops");
}

#[test]
fn every_echo_is_answered() {
    use Via::*;
    for (request, reply, kind) in [
        (Write, Write, QpKind::Uc),
        (Write, Datagram, QpKind::Uc),
        (Send, Send, QpKind::Rc),
        (Write, Send, QpKind::Rc),
    ] {
        for (inline, signaled) in [(true, false), (false, true)] {
            let echo = Echo {
                request,
                reply,
                kind,
                bytes: 32,
                inline,
                signaled,
                accesses: Accesses::None,
                server_threads: 2,
                client_machines: 3,
                clients: 2,
                window: 4,
            };
            let found = run(&Machines, &Bench::Echo(echo), SPAN, 1);
            assert!(
                found.mops > 1.0,
                "{request:?}/{reply:?} inline {inline}: {found:?}"
            );
        }
    }
}

/// Verbs that `clusters` supports over `kind`: SEND, WRITE, READ, FAA.
fn verbs_of(clusters: &impl Clusters, kind: QpKind) -> [f64; 4] {
    [Verb::Send, Verb::Write, Verb::Read, Verb::FetchAdd].map(|verb| {
        let outcome = run(clusters, &Bench::Trial(Trial { verb, kind }), SPAN, 1);
        assert_eq!(outcome.named[0].0, SUPPORTED);
        outcome.named[0].1
    })
}

#[test]
fn a_trial_finds_the_verbs_that_there_are() {
    assert_eq!(verbs_of(&Machines, QpKind::Rc), [1.0; 4]);
    assert_eq!(verbs_of(&Machines, QpKind::Uc), [1.0, 1.0, 0.0, 0.0]);
    assert_eq!(verbs_of(&Machines, QpKind::Ud), [1.0, 0.0, 0.0, 0.0]);
}

#[test]
fn a_trial_looks_at_effects_and_not_at_names() {
    assert_eq!(verbs_of(&Flawed(Flaw::AnyVerb), QpKind::Uc)[2], 1.0);
    for (flaw, lost) in [
        (Flaw::CompletesBeforeLanding, 1),
        (Flaw::ReadsShort, 2),
        (Flaw::FaaReturnsNew, 3),
    ] {
        assert_eq!(verbs_of(&Flawed(flaw), QpKind::Rc)[lost], 0.0, "{flaw:?}");
    }
}

#[test]
fn tasks_complete_batches_and_come_and_go() {
    let tasks = |threads, changes| {
        let plan = Tasks {
            verb: Verb::Write,
            threads,
            batch: 4,
            doorbells: Doorbells::PerThread,
            tuner: Some(TunerOptions::PAPER.faster(4_000)),
            changes,
        };
        run(&Machines, &Bench::Tasks(plan), Span::FULL, 1).mops
    };
    let (few, all) = (tasks(2, None), tasks(6, None));
    assert!(few > 1.0 && all > few, "{few}, {all}");
    // Few half of the time, all the other half.
    let changes = Changes {
        every: Ns(11_000),
        threads: vec![2, 6],
    };
    let some = tasks(6, Some(changes));
    assert!((few * 1.05..all * 0.95).contains(&some), "{few}, {some}, {all}");
}
