//! HERD, unchanged, on simulated machines: replayable, lossless, and limited by what the model says.

use drover_base::Ns;
use drover_kv_herd::Herd;
use drover_kv_herd::control::Format;
use drover_sim::Noise;
use drover_simcluster::{Load, Outcome, Servers, Setup, run_form};

fn herd(setup: &Setup) -> Outcome {
    run_form::<Herd>(setup, Format::D)
}

fn servers(shard_count: usize) -> Servers {
    Servers {
        shard_count,
        ..Servers::new()
    }
}

fn small(seed: u64) -> Setup {
    Setup {
        seed,
        servers: servers(2),
        clients: 8,
        machines: 4,
        load: Load {
            put_percent: 30,
            keys: 200,
            ..Load::new()
        },
        filled: false,
        warm_up: Ns::from_us(200),
        measured: Ns::from_us(500),
        ..Setup::new()
    }
}

#[test]
fn same_seed_same_trace_and_another_seed_differs() {
    let noisy = |seed| {
        let mut setup = small(seed);
        setup.world.noise = Noise {
            stall_every: Ns::from_us(300),
            ..Noise::ORDINARY
        };
        herd(&setup)
    };
    let (once, again, other) = (noisy(1), noisy(1), noisy(2));
    assert_eq!((once.trace_hash, once.done), (again.trace_hash, again.done));
    assert_ne!(once.trace_hash, other.trace_hash);
}

#[test]
fn littles_law_holds_and_nothing_fails() {
    let setup = small(1);
    let outcome = herd(&setup);
    let window = (setup.clients * setup.depth) as f64;
    let outstanding = outcome.mops * outcome.latency.mean_us;
    assert!(
        (outstanding / window - 1.0).abs() < 0.05,
        "{outstanding:.1} of {window}"
    );
    assert_eq!(outcome.failed, 0);
    assert!(outcome.hit_share > 0.7, "{}", outcome.hit_share);
}

/// With as many requests outstanding per core: with half as many, each core does up to a sixth more than alone.
#[test]
fn one_core_binds_and_two_do_twice_as_much() {
    let at = |partitions| {
        let setup = Setup {
            servers: servers(partitions),
            clients: 24 * partitions,
            machines: 8,
            ..small(1)
        };
        herd(&setup)
    };
    let (one, two) = (at(1), at(2));
    println!("{:.2} and {:.2} Mops", one.mops, two.mops);
    assert_eq!(one.report.binding_of(0).resource, "cpu", "{}", one.report);
    let ratio = two.mops / one.mops;
    assert!((1.7..2.2).contains(&ratio), "{ratio}");
}

/// Over a network that loses messages, every operation ends well all the same.
#[test]
fn loss_costs_time_not_operations() {
    let mut setup = small(1);
    setup.world.loss = 0.01;
    // A client that has lost a request waits for cluster in that partition, and asks for nothing else meanwhile.
    (setup.warm_up, setup.measured) = (Ns::ZERO, Ns::from_ms(10));
    let outcome = herd(&setup);
    assert_eq!(outcome.failed, 0);
    assert!(outcome.done > 1_000, "{} done", outcome.done);
}
