//! Checks of cores, of the distance between them, and of their clock.

use super::Finding;
use super::machine::Machine;
use drover_bench::bound::Placement;
use drover_mem::{NativeCpu, pause, timestamp};
use drover_rt::cores::pin;
use std::sync::atomic::{AtomicU64, Ordering};

/// Round trips per probe; the fastest probe counts, the others suffered interference.
const TRIPS: u64 = 400;
const PROBES: usize = 5;

/// Checks how many cores this process may use; fewer than two: [`Grade::Fair`](super::Grade::Fair).
pub fn count(machine: &Machine) -> Finding {
    let cores = &machine.cores;
    match cores.len() {
        0 | 1 => Finding::fair(
            "cores",
            format!("{} for server and clients together", cores.len()),
            "workers poll: give server and client a core each, or expect them to take turns",
        ),
        count => Finding::good("cores", format!("{count}: {}", list(cores))),
    }
}

/// Checks whether any two usable cores are hyper-threads of one physical core; if so:
/// [`Grade::Fair`](super::Grade::Fair).
pub fn siblings(machine: &Machine) -> Finding {
    let what = "hyper-threads";
    let own = |core: usize| {
        machine.text(&format!(
            "sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list"
        ))
    };
    let known: Vec<String> = machine.cores.iter().map(|core| own(*core)).collect();
    let shared = known
        .iter()
        .enumerate()
        .any(|(i, set)| !set.is_empty() && known[..i].contains(set));
    if shared {
        return Finding::fair(
            what,
            "some of these cores share one physical core",
            "pin one worker per physical core: drover serve --cores LIST",
        );
    }
    Finding::good(
        what,
        "no two of these cores are siblings, as far as the system reports",
    )
}

/// Measures how long a cache line takes from the first usable core to the last and back: the mean of 400 round trips,
/// in the fastest of 5 probes. Cores that `bench` calls far, or if it cannot be measured: [`Grade::Fair`](super::Grade::Fair).
pub fn round_trip(machine: &Machine) -> Finding {
    let what = "round trip";
    let (Some(&a), Some(&b)) = (machine.cores.first(), machine.cores.last()) else {
        return Finding::fair(
            what,
            "not measured: no cores known",
            "run it on Linux with /proc and /sys mounted",
        );
    };
    if a == b || !machine.is_real() {
        return Finding::fair(
            what,
            "not measured: it takes two cores",
            "give this process two cores",
        );
    }
    let Some(ns) = measure(a, b) else {
        return Finding::fair(
            what,
            "not measured: threads could not be pinned",
            "allow sched_setaffinity",
        );
    };
    let placement = Placement::of(ns as f64);
    let found = format!(
        "{ns} ns between cores {a} and {b} ({placement}){}",
        moving(machine)
    );
    if placement != Placement::Far {
        return Finding::good(what, found);
    }
    Finding::fair(
        what,
        found,
        "put server and client on cores of one socket: --cores; on a virtual machine: drover bench --placement near, which waits",
    )
}

/// A warning that a round trip holds for now only: virtual machines move their cores from one real core to another.
fn moving(machine: &Machine) -> &'static str {
    let info = machine.text("proc/cpuinfo");
    match info.split_whitespace().any(|word| word == "hypervisor") {
        true => " now: virtual cores move, so that bench may find them elsewhere",
        false => "",
    }
}

/// Checks whether the processor's time-stamp counter runs at a constant rate and does not stop when a core sleeps.
pub fn clock(machine: &Machine) -> Finding {
    let what = "clock";
    let info = machine.text("proc/cpuinfo");
    let flags = info
        .lines()
        .find(|line| line.starts_with("flags"))
        .unwrap_or_default();
    let steady = ["constant_tsc", "nonstop_tsc"]
        .iter()
        .all(|flag| flags.split_whitespace().any(|word| word == *flag));
    let source = machine.text("sys/devices/system/clocksource/clocksource0/current_clocksource");
    if steady {
        return Finding::good(
            what,
            format!("time-stamp counter, constant and non-stop; the kernel uses {source}"),
        );
    }
    Finding::fair(
        what,
        format!("the time-stamp counter is not known to be steady; the kernel uses {source:?}"),
        "time-outs and latencies may drift by the change of clock frequency; fix the frequency if that matters",
    )
}

/// Nanoseconds of the fastest of several probes; `None` if a thread cannot be pinned to its core.
fn measure(a: usize, b: usize) -> Option<u64> {
    let line = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let echo = scope.spawn(|| {
            let tied = pin(b).is_ok();
            // Odd numbers are requests, the next even number is the reply; Acquire and Release as in a mailbox.
            for turn in 0..TRIPS * PROBES as u64 {
                wait_for(&line, 2 * turn + 1);
                line.store(2 * turn + 2, Ordering::Release);
            }
            tied
        });
        let ask = scope.spawn(|| {
            let tied = pin(a).is_ok();
            let mut best = u64::MAX;
            for probe in 0..PROBES as u64 {
                let start = timestamp();
                for turn in probe * TRIPS..(probe + 1) * TRIPS {
                    line.store(2 * turn + 1, Ordering::Release);
                    wait_for(&line, 2 * turn + 2);
                }
                best = best.min(NativeCpu::ticks_to_ns(timestamp() - start) / TRIPS);
            }
            (tied, best)
        });
        let (asked, best) = ask.join().ok()?;
        (echo.join().ok()? && asked).then_some(best)
    })
}

fn wait_for(line: &AtomicU64, value: u64) {
    let mut looks = 0u32;
    while line.load(Ordering::Acquire) != value {
        pause();
        looks += 1;
        if looks.is_multiple_of(4096) {
            std::thread::yield_now(); // the other thread may need this core
        }
    }
}

fn list(cores: &[usize]) -> String {
    cores.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::super::Grade;
    use super::*;

    #[test]
    fn siblings_are_noticed() {
        let file = |core| format!("sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list");
        let same = Machine::made_of("same", &[(&file(0), "0-1\n"), (&file(1), "0-1\n")]);
        assert_eq!(siblings(&same).grade, Grade::Fair);
        let apart = Machine::made_of("apart", &[(&file(0), "0\n"), (&file(1), "1\n")]);
        assert_eq!(siblings(&apart).grade, Grade::Good);
    }

    #[test]
    fn virtual_cores_are_said_to_move() {
        let of = |name, flags: &str| moving(&Machine::made_of(name, &[("proc/cpuinfo", flags)]));
        assert!(of("virtual", "flags\t: tsc hypervisor lm\n").contains("move"));
        assert_eq!(of("own", "flags\t: tsc lm\n"), "");
    }

    #[test]
    fn an_unsteady_clock_is_noticed() {
        let steady = Machine::made_of(
            "steady",
            &[("proc/cpuinfo", "flags\t: tsc constant_tsc nonstop_tsc\n")],
        );
        assert_eq!(clock(&steady).grade, Grade::Good);
        let not = Machine::made_of("unsteady", &[("proc/cpuinfo", "flags\t: tsc\n")]);
        assert_eq!(clock(&not).grade, Grade::Fair);
    }

    #[test]
    fn the_round_trip_is_measured_on_any_two_cores() {
        let machine = Machine::this();
        let (first, last) = (machine.cores[0], machine.cores[machine.cores.len() - 1]);
        assert!(measure(first, last).is_some_and(|ns| ns > 0));
    }
}
