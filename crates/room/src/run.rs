//! [`run`]: connects everybody, warms up, measures.

use crate::{Asker, Outcome, Setup, Tally, fill, open};
use drover_base::Ns;
use drover_rt::control::Desk;
use drover_verbs_sim::World;

/// All clients are let in long before this.
const CONNECT_MAX: Ns = Ns::from_s(1);

/// Lets `setup` happen.
///
/// # Panics
/// If the server cannot be opened, or a client is not let in.
pub fn run(setup: &Setup) -> Outcome {
    let world = World::with_options(setup.world.clone(), 1 + setup.machines, setup.seed);
    let desk = Desk::new();
    let options = setup.server_options();
    open(&world, 0, &options, &desk, |workers| {
        if setup.filled {
            fill(workers, &setup.load, setup.hash_seed(), setup.client.format);
        }
    })
    .expect("a server");
    let tally = Tally::new(options.partition_count);
    for client in 0..setup.clients {
        Asker::enter(&world, setup, client, &desk, &tally);
    }
    let waiting = world.run_while(CONNECT_MAX, || tally.ready() < setup.clients);
    assert!(
        !waiting,
        "only {} of {} clients connected",
        tally.ready(),
        setup.clients
    );
    world.run_for(setup.warm_up);
    let before = world.report();
    tally.begin();
    world.run_for(setup.measured);
    let report = world.report().since(&before);
    let trace = (world.trace_hash(), world.events());
    Outcome::new(&tally, setup.measured, report, trace)
}
