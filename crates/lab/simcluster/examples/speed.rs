//! How fast a cluster is computed: `speed [CLIENTS [DEPTH [ROUNDS]]]`.
//!
//! Every round runs the published set-up of HERD twice, over a short and over a long measured span, so that the difference is
//! free of connecting, filling and warming up; and beside it a fixed loop, one pop and one push on a binary heap of
//! 512 events. Machines change their speed; the ratio of the two hardly does. The best round counts.
//!
//! For counts of instructions, which depend on no machine's mood, subtract two runs of `speed --once MICROSECONDS` under
//! `valgrind --tool=callgrind` or `perf stat -e instructions:u`.

use drover_base::{Cpu, Ns};
use drover_mem::NativeCpu;
use drover_simcluster::{Outcome, Setup, run};
use drover_systems::System;
use drover_verbs_sim::MachineReport;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hint::black_box;

const SHORT: Ns = Ns::from_us(500);
const LONG: Ns = Ns::from_us(4_500);
const REFERENCE_ROUNDS: u64 = 4_000_000;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [once, span] = &args[..]
        && once == "--once"
    {
        let span = Ns::from_us(span.parse().expect("microseconds"));
        let (outcome, ns) = timed(&Setup::new(), span);
        println!(
            "{} requests, {} events in all, {ns} ns",
            outcome.done, outcome.events
        );
        println!("trace {:016x}", outcome.trace_hash);
        steps("server", &outcome.report.machines[..1]);
        steps("clients", &outcome.report.machines[1..]);
        return;
    }
    let mut args = args.iter().map(|arg| arg.parse::<usize>().expect("a number"));
    let mut setup = Setup::new();
    setup.clients = args.next().unwrap_or(setup.clients);
    setup.depth = args.next().unwrap_or(setup.depth);
    let rounds = args.next().unwrap_or(5);
    let best = (0..rounds).map(|_| round(&setup)).min_by(|a, b| {
        let ns = |speed: &Speed| speed.request_ns;
        ns(a).total_cmp(&ns(b))
    });
    let Some(best) = best else { return };
    println!("best: {best}");
}

fn steps(who: &str, machines: &[MachineReport]) {
    let cores = machines.iter().flat_map(|machine| &machine.cores);
    let (busy, idle) = cores.fold((0, 0), |(busy, idle), core| {
        (busy + core.busy_steps, idle + core.idle_steps)
    });
    println!("{who}: {busy} steps with work and {idle} without, from the beginning");
}

/// One round's result.
struct Speed {
    request_ns: f64,
    events_per_request: f64,
    reference_ns: f64,
    mops: f64,
}

impl std::fmt::Display for Speed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let event_ns = self.request_ns / self.events_per_request;
        write!(
            f,
            "{:.3} M requests/s, {:.1} events per request, {:.2} M events/s, {event_ns:.0} ns per event; \
             reference {:.1} ns, a request is {:.1} of it ({:.2} simulated Mops)",
            1e3 / self.request_ns,
            self.events_per_request,
            1e3 / event_ns,
            self.reference_ns,
            self.request_ns / self.reference_ns,
            self.mops
        )
    }
}

fn round(setup: &Setup) -> Speed {
    let before = reference();
    let (short, short_ns) = timed(setup, SHORT);
    let (long, long_ns) = timed(setup, LONG);
    let requests = (long.done - short.done) as f64;
    let speed = Speed {
        request_ns: long_ns.saturating_sub(short_ns) as f64 / requests,
        events_per_request: (long.events - short.events) as f64 / requests,
        reference_ns: (before + reference()) / 2.0,
        mops: long.mops,
    };
    println!("{speed}");
    speed
}

fn timed(setup: &Setup, span: Ns) -> (Outcome, u64) {
    let setup = Setup {
        measured: span,
        window: setup.depth.next_power_of_two(),
        ..setup.clone()
    };
    let system = System::named("herd").expect("in the table");
    let cpu = NativeCpu::new(0);
    let start = cpu.refresh();
    let outcome = run(&setup, system, None);
    (outcome, cpu.refresh().since(start).0)
}

/// Nanoseconds of one pop and one push.
fn reference() -> f64 {
    let mut heap: BinaryHeap<_> = (0..512u64).map(|n| Reverse((n, n))).collect();
    let cpu = NativeCpu::new(0);
    let start = cpu.refresh();
    for n in 0..REFERENCE_ROUNDS {
        if let Some(Reverse((at, id))) = heap.pop() {
            let after = drover_base::mix(at ^ n) % 1_000;
            heap.push(Reverse((at + after, id)));
        }
    }
    black_box(&heap);
    cpu.refresh().since(start).0 as f64 / REFERENCE_ROUNDS as f64
}
