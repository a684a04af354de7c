//! Every system of the table, and the sample, in a simulated cluster.

use crate::Table;
use drover_base::Ns;
use drover_simcluster::{Setup, run_of};

#[test]
fn every_system_runs_in_a_simulated_cluster() {
    let mut setup = Setup::new();
    (setup.servers.shard_count, setup.clients, setup.machines) = (2, 4, 2);
    setup.load.keys = 1_000;
    (setup.warm_up, setup.measured) = (Ns::from_us(50), Ns::from_us(100));
    for system in Table::ALL {
        let outcome = run_of(&setup, *system, None);
        assert_eq!((outcome.failed, outcome.hit_share), (0, 1.0), "{system}");
        assert!(
            outcome.by_partition.iter().all(|mops| *mops > 0.1),
            "{system}: {outcome:?}"
        );
    }
}
