//! Systems whose GETs pass the server by, in a cluster: everything is found, and what binds is not the server's core.

use drover_base::Ns;
use drover_simcluster::{Load, Outcome, Servers, Setup, run};
use drover_systems::System;

/// Keys of all clients; three quarters of 4096 places.
const KEYS: u64 = 3_072;

fn setup(put_percent: u64, seed: u64) -> Setup {
    Setup {
        seed,
        servers: Servers {
            shard_count: 1,
            ..Servers::new()
        },
        clients: 24,
        machines: 8,
        load: Load {
            put_percent,
            keys: KEYS,
            ..Load::new()
        },
        warm_up: Ns::from_us(100),
        measured: Ns::from_us(300),
        ..Setup::new()
    }
}

fn told(name: &str, put_percent: u64, outcome: Outcome) -> Outcome {
    let binding = outcome.report.binding_of(0);
    println!(
        "{name}, {put_percent} % PUTs: {:.2} Mops at {:.2} us, {} binds ({:.0} %)",
        outcome.mops,
        outcome.latency.mean_us,
        binding.resource,
        binding.share * 100.0
    );
    assert_eq!((outcome.failed, outcome.hit_share), (0, 1.0), "{outcome:?}");
    outcome
}

/// One shard of the system of this name, in its usual form or another one.
fn play(system: &str, form: Option<&str>, put_percent: u64, seed: u64) -> Outcome {
    let system = System::named(system).expect("in the table");
    let outcome = run(&setup(put_percent, seed), system, form);
    told(system.facts().name, put_percent, outcome)
}

fn pilaf(put_percent: u64, seed: u64) -> Outcome {
    play("pilaf", None, put_percent, seed)
}

fn farm(put_percent: u64, seed: u64) -> Outcome {
    play("farm", None, put_percent, seed)
}

#[test]
fn the_same_seed_is_the_same_run() {
    for system in [pilaf, farm] {
        let (once, again, other) = (system(10, 1), system(10, 1), system(10, 2));
        assert_eq!((once.trace_hash, once.done), (again.trace_hash, again.done));
        assert_ne!(once.trace_hash, other.trace_hash);
    }
}

#[test]
fn gets_need_nothing_of_the_servers_core_and_puts_do() {
    for system in [pilaf, farm] {
        let (gets, puts) = (system(0, 1), system(100, 1));
        assert_ne!(gets.report.binding_of(0).resource, "cpu", "{}", gets.report);
        assert_eq!(puts.report.binding_of(0).resource, "cpu", "{}", puts.report);
    }
}

/// Values in the table, or behind it: one READ for a GET, or two.
#[test]
fn a_second_read_costs_farm_what_it_should() {
    let (inside, outside) = (farm(0, 1), play("farm", Some("FaRM-KV / values outside"), 0, 1));
    assert!(inside.mops > 1.2 * outside.mops);
    assert!(inside.latency.mean_us < outside.latency.mean_us);
}
