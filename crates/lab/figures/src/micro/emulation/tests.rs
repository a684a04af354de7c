//! The exact verbs of each operation, as recorded by a provider.

use super::*;
use crate::cluster::{BusyTimes, Cluster, Thread};
use drover_base::{Actor, Ns};
use drover_verbs::{Context, Device, Opcode, SendOp};
use drover_verbs_suite::loopback::{Loopback, LoopbackCpu, LoopbackDevice};
use drover_verbs_suite::traced::{Traced, TracedContext, TracedDevice, What};
use std::collections::BTreeMap;

/// Machines without costs that record their verbs.
struct Watched {
    clock: LoopbackDevice,
    device: TracedDevice<Loopback>,
    contexts: BTreeMap<Thread, TracedContext<Loopback>>,
    actors: Vec<(Thread, Box<dyn Actor<LoopbackCpu>>)>,
}

impl Watched {
    fn new() -> Watched {
        let clock = LoopbackDevice::new();
        Watched {
            device: TracedDevice::new(clock.clone(), 1 << 16),
            clock,
            contexts: BTreeMap::new(),
            actors: Vec::new(),
        }
    }
}

impl Cluster for Watched {
    type Provider = Traced<Loopback>;
    fn context(&mut self, thread: Thread) -> &TracedContext<Loopback> {
        let device = &self.device;
        let context = self.contexts.entry(thread);
        context.or_insert_with(|| device.context().expect("a context"))
    }
    fn spawn(&mut self, thread: Thread, actor: Box<dyn Actor<LoopbackCpu>>) {
        self.actors.push((thread, actor));
    }
    fn run_until(&mut self, time: Ns) {
        while self.clock.now() < time {
            for (thread, actor) in &mut self.actors {
                actor.step(self.contexts[thread].cpu());
            }
            self.clock.advance(Ns(100));
        }
    }
    fn busy(&self, _: usize) -> Option<BusyTimes> {
        None
    }
    fn counter(&self, _: usize, _: &str) -> Option<u64> {
        None
    }
}

/// A posted verb, or the completion of a READ.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Seen {
    Read(usize),
    Write(usize),
    Send(usize),
    Done,
}

/// Runs `outstanding` operations at a time of `system`; returns the recorded verbs and the number of operations.
fn play(system: System, put_percent: u64, outstanding: usize, value_bytes: usize) -> (Vec<Seen>, u64) {
    play_until(Ns(20_000), system, put_percent, outstanding, value_bytes)
}

fn play_until(
    end: Ns,
    system: System,
    put_percent: u64,
    outstanding: usize,
    value_bytes: usize,
) -> (Vec<Seen>, u64) {
    let plan = Emulation {
        put_percent,
        outstanding,
        value_bytes,
        server_threads: 2,
        client_machines: 2,
        ..Emulation::published(system)
    };
    let recorder = Recorder {
        tally: Tally::default(),
        from: Ns::ZERO,
        latencies: Latencies::default(),
    };
    let mut cluster = Watched::new();
    setup::set_up(&mut cluster, &plan, &recorder);
    cluster.run_until(end);
    let done = recorder.tally.done.get();
    assert_eq!(recorder.latencies.borrow().len() as u64, done);
    let trace = cluster.device.trace();
    let seen = trace.events.iter().filter_map(|event| match &event.what {
        What::Posted { wr, bytes, .. } => Some(match wr.op {
            SendOp::Read { .. } => Seen::Read(*bytes),
            SendOp::Write { .. } => Seen::Write(*bytes),
            SendOp::Send { .. } => Seen::Send(*bytes),
            _ => panic!("{wr:?}"),
        }),
        What::Completed(wc) if wc.opcode == Opcode::Read => Some(Seen::Done),
        _ => None,
    });
    (seen.collect(), done)
}

/// The READs of sequential GETs, after a check that each waits for the previous one.
fn reads(system: System, value_bytes: usize) -> (Vec<usize>, u64) {
    let (seen, done) = play(system, 0, 1, value_bytes);
    let lengths = seen.chunks_exact(2).map(|pair| match pair {
        [Seen::Read(bytes), Seen::Done] => *bytes,
        other => panic!("a READ did not wait for the one before it: {other:?}"),
    });
    (lengths.collect(), done)
}

#[test]
fn a_get_of_farm_is_one_read_of_six_items() {
    let (lengths, done) = reads(System::FarmInline, 32);
    assert!(done > 20 && lengths.len() as u64 == done, "{done}");
    assert!(lengths.iter().all(|bytes| *bytes == 288));
}

#[test]
fn a_get_of_farm_with_pointers_is_a_read_of_six_and_one_of_the_value() {
    let (lengths, done) = reads(System::FarmVar, 32);
    assert!(done > 20 && lengths.len() as u64 / 2 == done, "{done}");
    assert!(lengths.chunks_exact(2).all(|pair| pair == [144, 32]));
}

#[test]
fn a_get_of_pilaf_is_one_or_two_buckets_and_the_value() {
    let (lengths, done) = reads(System::PilafOpt, 40);
    let gets: Vec<&[usize]> = lengths.split_inclusive(|bytes| *bytes == 40).collect();
    let whole = &gets[..done as usize];
    assert!(
        whole
            .iter()
            .all(|get| [&[32, 40][..], &[32, 32, 40]].contains(get))
    );
    let all = |draw| {
        Emulation::published(System::PilafOpt)
            .chain(draw)
            .iter()
            .filter(|b| **b > 0)
            .count()
    };
    assert_eq!(
        (0..10).map(all).sum::<usize>(),
        26,
        "2.6 READs per GET on average"
    );
}

#[test]
fn a_put_is_a_request_of_key_and_value_and_a_short_answer() {
    for (system, request, answer) in [
        (System::PilafOpt, Seen::Send(48), Seen::Send(8)),
        (System::FarmInline, Seen::Write(48), Seen::Write(8)),
        (System::FarmVar, Seen::Write(48), Seen::Write(8)),
    ] {
        let (seen, done) = play(system, 100, 1, 32);
        let count = |wanted: Seen| seen.iter().filter(|verb| **verb == wanted).count() as u64;
        assert!(done > 20, "{system:?}: {done}");
        assert!((done..=done + 1).contains(&count(request)), "{system:?}");
        assert!((done..=done + 1).contains(&count(answer)), "{system:?}");
        assert_eq!(seen.len() as u64, count(request) + count(answer), "{system:?}");
    }
}

#[test]
fn mixtures_of_many_clients_and_long_values_go_on() {
    for system in [System::PilafOpt, System::FarmInline, System::FarmVar] {
        for value_bytes in [4, 32, 1024] {
            let after = |us| play_until(Ns::from_us(us), system, 50, 14, value_bytes).1;
            let (early, late) = (after(20), after(80));
            assert!(
                late > 3 * early && early > 50,
                "{system:?}, {value_bytes} B: {early}, {late}"
            );
        }
    }
}

#[test]
fn operations_outstanding_are_spread_over_processes() {
    let plan = Emulation {
        outstanding: 10,
        ..Emulation::published(System::FarmInline)
    };
    let windows: Vec<usize> = (0..plan.clients()).map(|n| plan.window_of(n)).collect();
    assert_eq!(windows, [4, 4, 2]);
}

#[test]
fn percentiles_of_known_latencies() {
    let mut latencies: Vec<u64> = (1..=101).rev().map(|n| n * 1000).collect();
    let found = summary(&mut latencies);
    assert_eq!(
        found,
        [("latency mean", 51.0), ("latency p5", 6.0), ("latency p95", 96.0)]
    );
    assert!(summary(&mut []).is_empty());
}
