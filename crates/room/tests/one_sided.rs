//! Systems whose GETs pass the server by, in a room: everything is found, and what binds is not the server's core.

use drover_base::Ns;
use drover_room::{Load, Outcome, Pilaf, Setup, run};

/// Keys of all clients; three quarters of 4096 places.
const KEYS: u64 = 3_072;

fn setup(put_percent: u64, seed: u64) -> Setup {
    Setup {
        seed,
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

fn pilaf(put_percent: u64, seed: u64) -> Outcome {
    let outcome = run(&setup(put_percent, seed), &Pilaf::for_keys(KEYS));
    println!(
        "{put_percent} % PUTs: {:.2} Mops at {:.2} us, {:?} binds",
        outcome.mops,
        outcome.latency.mean_us,
        outcome.report.binding_of(0)
    );
    assert_eq!((outcome.failed, outcome.hit_share), (0, 1.0), "{outcome:?}");
    outcome
}

#[test]
fn the_same_seed_is_the_same_run() {
    let (once, again, other) = (pilaf(10, 1), pilaf(10, 1), pilaf(10, 2));
    assert_eq!((once.trace_hash, once.done), (again.trace_hash, again.done));
    assert_ne!(once.trace_hash, other.trace_hash);
}

#[test]
fn gets_need_nothing_of_the_servers_core_and_puts_do() {
    let (gets, puts) = (pilaf(0, 1), pilaf(100, 1));
    assert_ne!(gets.report.binding_of(0).resource, "cpu", "{}", gets.report);
    assert_eq!(puts.report.binding_of(0).resource, "cpu", "{}", puts.report);
}
