//! Three systems on a cluster of simulated machines: how fast each is, and which part of the server's machine is busiest.
//! Time is virtual: the numbers are the same on every computer, and again in the next run.

use drover_base::Ns;
use drover_simcluster::{Outcome, Setup, run};
use drover_systems::System;

fn main() {
    println!(
        "{:<8} {:>6} {:>9} {:>9}  busiest part of the server's machine",
        "system", "Mops", "mean us", "p95 us"
    );
    // Two shards; twelve clients on six machines keep four operations under way each, 5 % of them PUTs.
    let mut setup = Setup::new();
    setup.servers.shard_count = 2;
    (setup.clients, setup.machines, setup.depth) = (12, 6, 4);
    (setup.load.keys, setup.load.put_percent) = (1 << 14, 5);
    (setup.warm_up, setup.measured) = (Ns::from_us(100), Ns::from_us(200));
    for system in System::ALL {
        let outcome = run(&setup, *system, None);
        assert_eq!(outcome.failed, 0, "nothing fails in a cluster without faults");
        show(system.facts().name, &outcome);
    }
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
