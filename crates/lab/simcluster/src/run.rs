//! [`run`]: connects all clients, warms up, measures.

use crate::{Asker, Outcome, Service, Setup, Tally};
use drover_base::Ns;
use drover_verbs_sim::World;

/// Virtual time by which all clients must be connected and all keys filled in; takes far less.
const CONNECT_MAX: Ns = Ns::from_s(1);

/// Simulates the clients of `setup` against `service` in a new cluster and returns what was measured. Waits until all
/// clients are connected and the keys are filled in, then runs the warm-up and the measured span.
///
/// # Panics
/// If the server cannot be opened, or not all clients are ready within one virtual second.
pub fn run<S: Service + 'static>(setup: &Setup, service: &S) -> Outcome {
    let world = World::with_options(setup.world.clone(), 1 + setup.machines, setup.seed);
    let desks = service.open(&world, setup);
    let tally = Tally::new(service.part_count());
    for client in 0..setup.clients {
        Asker::<S>::enter(&world, setup, service, client, &desks, &tally);
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
