//! Three systems on a cluster of simulated machines: how fast each is, and which part of the server's machine is busiest.
//! Time is virtual: the numbers are the same on every computer, and again in the next run.

use drover_base::Ns;
use drover_kv::{ShardedJob, ShardedSystem, SystemTable};
use drover_simcluster::{Herd, Outcome, Service, Setup, Shards, run};
use drover_systems::System;

const KEYS: u64 = 1 << 14;

fn main() {
    println!(
        "{:<8} {:>6} {:>9} {:>9}  busiest part of the server's machine",
        "system", "Mops", "mean us", "p95 us"
    );
    for system in System::ALL {
        let outcome = system.sharded(OfShards).unwrap_or_else(|_| {
            let mut herd = Herd::new();
            herd.server.partition_count = 2;
            simulate(&herd)
        });
        show(system.facts().name, &outcome);
    }
}

/// Two shards of whichever system it is.
struct OfShards;

impl ShardedJob for OfShards {
    type Answer = Outcome;

    fn run<S: ShardedSystem>(self) -> Outcome {
        simulate(&Shards::<S>::for_keys(2, KEYS))
    }
}

/// Twelve clients on six machines keep four operations under way each, 5 % of them PUTs.
fn simulate(system: &(impl Service + 'static)) -> Outcome {
    let mut setup = Setup::new();
    (setup.clients, setup.machines, setup.depth) = (12, 6, 4);
    setup.load.keys = KEYS;
    setup.load.put_percent = 5;
    (setup.warm_up, setup.measured) = (Ns::from_us(100), Ns::from_us(200));
    let outcome = run(&setup, system);
    assert_eq!(outcome.failed, 0, "nothing fails in a cluster without faults");
    outcome
}

fn show(name: &str, outcome: &Outcome) {
    let busiest = outcome.report.binding_of(0);
    println!(
        "{name:<8} {:>6.2} {:>9.1} {:>9.1}  {}, {:.0} % of the time",
        outcome.mops,
        outcome.latency.mean_us,
        outcome.latency.p95_us,
        busiest.resource,
        busiest.share * 100.0
    );
}
