//! The table of scenarios in the guest. A new scenario is a new entry; each system of shards has one by its line in the
//! table of systems.
//!
//! A scenario's script runs under busybox's `sh` in the folder of the programs, with these variables:
//!
//! | variable | is |
//! |---|---|
//! | `A`, `B` | the two RDMA devices: `rxe0` and `rxe1`, or `rxe0` twice in loopback |
//! | `A_ADDR`, `B_ADDR` | their addresses: `10.9.0.1` and `10.9.0.2`, or the first twice |
//! | `LOSS` | packets lost on the wire, percent |
//!
//! The suites of all systems, which spend most of their time waiting for repeated packets, run some at a time.
//!
//! Its exit status is the verdict. Closing lines of test runners (`test result: ok. 3 passed; 0 failed; 1 ignored`) are
//! counted; a script without any counts as one check. All processes that it started are killed when it ends.

use super::programs::Program;
use crate::command::root;
use crate::systems;

/// Connection between the devices of a scenario.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Network {
    /// One device in loopback: its packets never leave the driver.
    Itself,
    /// Two devices with a wire between them, which loses packets in each direction.
    Wire {
        /// Lost packets, percent.
        loss: u32,
    },
    /// Two devices with a wire between them, which delays packets in each direction.
    SlowWire {
        /// Delay, milliseconds.
        delay: u32,
    },
}

/// A scenario in the guest.
#[derive(Clone, Copy)]
pub struct Scenario {
    /// Name for `--only`: words and hyphens.
    pub name: &'static str,
    pub network: Network,
    /// Programs to build; each is in the script's folder under its own name.
    pub programs: &'static [Program],
    /// Script, lines of `sh`.
    pub script: &'static str,
    /// Time limit, seconds; then the scenario is killed and has failed. Several times its duration on a quiet machine.
    pub seconds: u32,
}

const VERBS: Program = Program::Example {
    name: "ibv_conformance",
};

const HERD: Program = Program::Example {
    name: "herd_conformance",
};
const SHARDS: Program = Program::Example {
    name: "shards_conformance",
};
const PROCESSES: Program = Program::Example {
    name: "herd_processes",
};

/// Those of no particular system, and of systems with a program of their own.
const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "verbs-itself",
        network: Network::Itself,
        programs: &[VERBS],
        script: "./ibv_conformance $A",
        seconds: 60,
    },
    Scenario {
        name: "verbs-wire",
        network: Network::Wire { loss: 0 },
        programs: &[VERBS],
        script: "./ibv_conformance $A $B",
        seconds: 60,
    },
    Scenario {
        name: "herd-itself",
        network: Network::Itself,
        programs: &[HERD],
        script: "./herd_conformance $A",
        seconds: 120,
    },
    Scenario {
        name: "herd-wire",
        network: Network::Wire { loss: 0 },
        programs: &[HERD],
        script: "./herd_conformance $A $B",
        seconds: 120,
    },
    Scenario {
        name: "processes-lossy",
        network: Network::Wire { loss: 5 },
        programs: &[PROCESSES],
        script: "./herd_processes calm $A $B",
        seconds: 120,
    },
    Scenario {
        name: "processes-late",
        network: Network::SlowWire { delay: 100 },
        programs: &[PROCESSES],
        script: include_str!("scripts/late.sh"),
        seconds: 180,
    },
    Scenario {
        name: "processes-killed",
        network: Network::Wire { loss: 0 },
        programs: &[PROCESSES],
        script: "./herd_processes kills $A $B",
        seconds: 120,
    },
    Scenario {
        name: "service-wire",
        network: Network::Wire { loss: 0 },
        programs: &[Program::Drover],
        script: include_str!("scripts/service.sh"),
        seconds: 120,
    },
    Scenario {
        name: "metrics-lossy",
        network: Network::Wire { loss: 2 },
        programs: &[Program::Drover],
        script: include_str!("scripts/metrics.sh"),
        seconds: 240,
    },
    Scenario {
        name: "guarded-wire",
        network: Network::Wire { loss: 0 },
        programs: &[Program::Drover],
        script: include_str!("scripts/guarded.sh"),
        seconds: 240,
    },
    Scenario {
        name: "service-itself",
        network: Network::Itself,
        programs: &[Program::Drover],
        script: "./drover bench --fabric rdma --keys 1000 --seconds 1 --repeats 1 --spin-us 0 --no-results -q",
        seconds: 60,
    },
    Scenario {
        name: "drover-doctor",
        network: Network::Wire { loss: 0 },
        programs: &[Program::Drover],
        script: include_str!("scripts/doctor.sh"),
        seconds: 60,
    },
    Scenario {
        name: "drover-devices",
        network: Network::Wire { loss: 0 },
        programs: &[Program::Drover],
        script: include_str!("scripts/devices.sh"),
        seconds: 60,
    },
    Scenario {
        name: "perf-kinds",
        network: Network::Wire { loss: 0 },
        programs: &[Program::Drover],
        script: include_str!("scripts/perf.sh"),
        seconds: 120,
    },
];

/// Comes last, when other steps of CI have left the processors: both its ends poll, and beside other programs each round
/// waits for a processor several times as long as it measures.
const BESIDE_PERFTEST: Scenario = Scenario {
    name: "perf-beside-perftest",
    network: Network::Wire { loss: 0 },
    programs: &[Program::Drover],
    script: include_str!("scripts/perftest.sh"),
    seconds: 600,
};

/// The wire that loses packets, for the suites of all systems. Three quarters of their time they wait for repeated packets, so
/// they run beside each other.
const LOSSY: Network = Network::Wire { loss: 5 };

/// The suite of HERD, which has a program of its own, on that wire.
const HERD_LOSSY: Scenario = Scenario {
    name: "herd-lossy",
    network: LOSSY,
    programs: &[HERD],
    script: "./herd_conformance $A $B",
    seconds: 600,
};

/// The scenario of a system of shards: its suite on that wire.
fn lossy(system: &str) -> Scenario {
    // Names live as long as the chore.
    Scenario {
        name: format!("{system}-lossy").leak(),
        network: LOSSY,
        programs: &[SHARDS],
        script: format!("./shards_conformance {system} $A $B").leak(),
        seconds: 600,
    }
}

/// Number of suites that run beside each other: with six, 1 MiB over a wire that loses packets was not there in time once. The
/// longest takes a quarter of the time of all, so that a fifth would save next to nothing.
pub const TOGETHER: usize = 4;

/// `scenarios` in groups: the suites of all systems on a wire that loses packets, of which [some](TOGETHER) run beside each other, and
/// each other scenario alone.
pub fn groups(scenarios: &[Scenario]) -> impl Iterator<Item = &[Scenario]> {
    let is_suite =
        |scenario: &Scenario| scenario.network == LOSSY && matches!(scenario.programs, [SHARDS] | [HERD]);
    scenarios.chunk_by(move |a, b| is_suite(a) && is_suite(b))
}

/// Time limit of a group, seconds.
pub fn seconds_of(group: &[Scenario]) -> u32 {
    let each = group.iter().map(|scenario| scenario.seconds).max();
    each.unwrap_or(0) * group.chunks(TOGETHER).count() as u32
}

/// All scenarios, in the order of execution.
///
/// # Errors
/// The table of systems cannot be read.
pub fn all() -> Result<Vec<Scenario>, String> {
    let has_program = |krate: &str| {
        let program = format!("crates/systems/kv-{krate}/examples/{krate}_conformance.rs");
        root().join(program).exists()
    };
    let rows = systems::all()?;
    // Systems further down in the table take longer, so they begin first.
    let shards = rows.iter().rev().filter(|row| !has_program(&row.krate));
    let generated = shards.map(|row| lossy(&row.name));
    let all = SCENARIOS.iter().copied().chain(generated);
    Ok(all.chain([HERD_LOSSY, BESIDE_PERFTEST]).collect())
}

/// The scenarios whose names equal or begin with one of `only`; all if it is empty.
///
/// # Errors
/// An entry matches no scenario, or the table of systems cannot be read.
pub fn chosen(only: &[String]) -> Result<Vec<Scenario>, String> {
    let fits = |scenario: &Scenario, wish: &String| scenario.name.starts_with(wish.as_str());
    let all = all()?;
    for wish in only {
        if !all.iter().any(|scenario| fits(scenario, wish)) {
            let names: Vec<&str> = all.iter().map(|scenario| scenario.name).collect();
            return Err(format!("no scenario {wish:?}; there are: {}", names.join(", ")));
        }
    }
    let wanted = |scenario: &Scenario| only.is_empty() || only.iter().any(|wish| fits(scenario, wish));
    Ok(all.into_iter().filter(wanted).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_can_be_files_and_words_of_a_shell() {
        let all = all().expect("a table of systems");
        let mut names: Vec<&str> = all.iter().map(|scenario| scenario.name).collect();
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
        assert!(names.iter().all(|name| name.chars().all(plain)), "{names:?}");
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all.len());
    }

    #[test]
    fn every_system_has_a_wire_that_loses_packets() {
        for system in systems::names().expect("a table of systems") {
            let name = format!("{system}-lossy");
            assert_eq!(chosen(&[name]).map(|found| found.len()), Ok(1), "{system}");
        }
    }

    #[test]
    fn scenarios_are_chosen_by_the_beginning_of_their_name() {
        let names = |only: &str| {
            let found = chosen(&[only.to_string()]);
            found.map(|all| all.iter().map(|one| one.name).collect::<Vec<_>>())
        };
        assert_eq!(names("verbs"), Ok(vec!["verbs-itself", "verbs-wire"]));
        assert_eq!(names("verbs-wire"), Ok(vec!["verbs-wire"]));
        let why = names("nothing").expect_err("no such scenario");
        assert!(
            why.starts_with("no scenario \"nothing\"; there are: verbs-itself, "),
            "{why}"
        );
    }
}
