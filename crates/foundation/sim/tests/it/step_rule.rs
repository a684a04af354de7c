//! The step rule: when actors step and what it costs.

use drover_base::{Actor, Cost, Cpu, Ns, Progress};
use drover_sim::{CostTable, CpuOptions, Event, Model, Noise, Phase, Ps, Queue, Sim, VirtualCpu};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

const WORK: Cost = Cost::new("test.work");
const ARRIVAL: u16 = Event::FIRST_KIND;

/// Lets something arrive at its core.
#[derive(Default)]
struct Doorbell {
    core: Option<VirtualCpu>,
    arrived: Rc<Cell<u32>>,
}

impl Model for Doorbell {
    fn handle(&mut self, event: Event, queue: &mut Queue) {
        assert_eq!(event.kind, ARRIVAL);
        self.arrived.set(self.arrived.get() + 1);
        if let Some(core) = &self.core {
            core.notify(queue);
        }
    }
}

/// An actor made from a closure.
struct Play<F>(F);

impl<F: FnMut(&VirtualCpu) -> Progress> Actor<VirtualCpu> for Play<F> {
    fn step(&mut self, cpu: &VirtualCpu) -> Progress {
        (self.0)(cpu)
    }
}

const IDLE: Progress = Progress::Idle { wake_at: Ns::MAX };

fn options(work_ns: f64) -> CpuOptions {
    let mut costs = CostTable::new();
    costs.set(WORK.name, work_ns);
    CpuOptions {
        costs: Rc::new(costs),
        detect: Ps::from_ns(30.0),
        phase: Phase::Start,
        ..CpuOptions::default()
    }
}

/// A cluster with one core that hosts `play`, and the times of its steps.
fn cluster(
    options: CpuOptions,
    mut play: impl FnMut(&VirtualCpu) -> Progress + 'static,
) -> (Sim<Doorbell>, VirtualCpu, Rc<RefCell<Vec<Ns>>>) {
    let sim = Sim::new(Doorbell::default(), 1);
    let cpu = sim.add_core(0, options);
    sim.with(|bell, _| bell.core = Some(cpu.clone()));
    let times = Rc::new(RefCell::new(Vec::new()));
    let log = times.clone();
    let actor = Play(move |cpu: &VirtualCpu| {
        log.borrow_mut().push(cpu.now());
        play(cpu)
    });
    sim.host(&cpu, Box::new(actor));
    (sim, cpu, times)
}

fn arrive(sim: &Sim<Doorbell>, at: Ns) {
    sim.with(|_, queue| queue.schedule(at.into(), Event::new(ARRIVAL, 0, 0)));
}

#[test]
fn a_busy_actor_steps_when_its_clock_says_so() {
    let (sim, cpu, times) = cluster(options(100.0), |cpu| {
        cpu.charge(WORK, 3);
        Progress::Busy
    });
    sim.run_until(Ns(1_000));
    assert_eq!(*times.borrow(), [Ns(0), Ns(300), Ns(600), Ns(900)]);
    assert_eq!(cpu.report().busy, Ps::from_ns(1_200.0));
}

#[test]
fn an_idle_actor_makes_no_events_until_something_arrives() {
    let (sim, cpu, times) = cluster(options(10.0), |cpu| {
        cpu.charge(WORK, 1);
        IDLE
    });
    arrive(&sim, Ns(5_000));
    sim.run_until(Ns::from_ms(1));
    assert_eq!(*times.borrow(), [Ns(0), Ns(5_030)]);
    assert_eq!(sim.events(), 3);
    assert_eq!(cpu.report().idle, Ps::from_ns(5_040.0));
}

#[test]
fn what_arrives_during_an_idle_step_is_not_missed() {
    let (sim, _, times) = cluster(options(100.0), |cpu| {
        cpu.charge(WORK, 1);
        IDLE
    });
    arrive(&sim, Ns(50));
    sim.run_until(Ns::from_us(1));
    assert_eq!(*times.borrow(), [Ns(0), Ns(100)]);
}

#[test]
fn a_uniform_phase_is_less_than_a_round_of_polling() {
    let phased = CpuOptions {
        phase: Phase::Uniform,
        ..options(100.0)
    };
    let (sim, _, times) = cluster(phased, |cpu| {
        cpu.charge(WORK, 1);
        IDLE
    });
    for n in 1..50 {
        arrive(&sim, Ns(n * 1_000));
    }
    sim.run_until(Ns::from_ms(1));
    let late: Vec<u64> = times.borrow()[1..].iter().map(|at| at.0 % 1_000).collect();
    assert!(late.iter().all(|late| (30..130).contains(late)), "{late:?}");
    assert!(late.iter().any(|late| *late < 60) && late.iter().any(|late| *late > 100));
}

#[test]
fn timers_wake_and_an_earlier_one_replaces_a_later_one() {
    let mut wakes = [Ns(900), Ns(300), Ns(700), Ns::MAX].into_iter();
    let (sim, _, times) = cluster(options(0.0), move |_| Progress::Idle {
        wake_at: wakes.next().unwrap_or(Ns::MAX),
    });
    arrive(&sim, Ns(100));
    sim.run_until(Ns::from_us(2));
    assert_eq!(*times.borrow(), [Ns(0), Ns(130), Ns(300), Ns(700)]);
}

#[test]
#[should_panic(expected = "charged")]
fn a_step_that_takes_too_long_is_a_bug() {
    let capped = CpuOptions {
        step_cap: Ps::from_ns(50.0),
        ..options(100.0)
    };
    let (sim, ..) = cluster(capped, |cpu| {
        cpu.charge(WORK, 1);
        IDLE
    });
    sim.run_until(Ns(1));
}

#[test]
fn wakers_of_other_threads_and_other_cores_are_heard() {
    let (sim, cpu, times) = cluster(options(0.0), |_| IDLE);
    sim.run_until(Ns(100));
    let waker = sim.waker(&cpu);
    std::thread::spawn(waker).join().expect("a waker does not panic");
    sim.run_until(Ns(200));
    assert_eq!(*times.borrow(), [Ns(0), Ns(130)]);
}

#[test]
fn a_stalled_core_does_nothing_and_a_crashed_one_never_again() {
    let (sim, cpu, times) = cluster(options(100.0), |cpu| {
        cpu.charge(WORK, 1);
        Progress::Busy
    });
    sim.run_until(Ns(150));
    sim.stall(&cpu, Ns(1_000));
    sim.run_until(Ns(1_300));
    sim.crash(0);
    sim.run_until(Ns::from_us(9));
    assert_eq!(*times.borrow(), [Ns(0), Ns(100), Ns(1_150), Ns(1_250)]);
}

#[test]
fn a_short_stall_does_not_end_a_longer_one() {
    let (sim, cpu, times) = cluster(options(100.0), |cpu| {
        cpu.charge(WORK, 1);
        Progress::Busy
    });
    sim.run_until(Ns(150));
    sim.stall(&cpu, Ns(1_000));
    sim.stall(&cpu, Ns(10));
    sim.run_until(Ns(1_200));
    assert_eq!(*times.borrow(), [Ns(0), Ns(100), Ns(1_150)]);
}

#[test]
fn a_report_adds_up_on_a_slowed_core() {
    let slow = CpuOptions {
        slowdown: 1.5,
        ..options(100.0)
    };
    let (sim, cpu, _) = cluster(slow, |cpu| {
        cpu.charge(WORK, 3);
        Progress::Busy
    });
    sim.run_until(Ns(1_000));
    let report = cpu.report();
    assert_eq!(report.busy, Ps::from_ns(1_350.0));
    assert_eq!((report.lines[0].count, report.lines[0].time), (9, report.busy));
}

/// A few noisy cores that draw, wait and work; returns the trace hash and the draws of core 0 of machine 0.
fn noisy(seed: u64, others: u16) -> (u64, Vec<u64>) {
    let sim = Sim::new(Doorbell::default(), seed);
    let noisy = CpuOptions {
        noise: Noise {
            stall_every: Ns::from_us(20),
            ..Noise::ORDINARY
        },
        ..options(10.0)
    };
    let drawn = Rc::new(RefCell::new(Vec::new()));
    for machine in (0..=others).rev() {
        let cpu = sim.add_core(machine, noisy.clone());
        let log = (machine == 0).then(|| drawn.clone());
        let play = Play(move |cpu: &VirtualCpu| {
            let random = cpu.random();
            cpu.charge(WORK, 1 + random as u32 % 8);
            log.iter().for_each(|log| log.borrow_mut().push(random));
            let wake_at = cpu.now() + Ns(random >> 40 & 1023);
            if random & 1 == 0 {
                Progress::Busy
            } else {
                Progress::Idle { wake_at }
            }
        });
        sim.host(&cpu, Box::new(play));
    }
    sim.run_until(Ns::from_us(200));
    let drawn = drawn.borrow()[..100].to_vec();
    (sim.trace_hash(), drawn)
}

#[test]
fn same_seed_same_trace_and_another_entity_shifts_no_draws() {
    assert_eq!(noisy(1, 3), noisy(1, 3));
    assert_ne!(noisy(1, 3).0, noisy(2, 3).0);
    assert_eq!(noisy(1, 3).1, noisy(1, 4).1);
    assert_ne!(noisy(1, 3).0, noisy(1, 4).0);
}
