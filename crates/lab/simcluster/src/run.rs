//! [`run`]: opens the servers, connects all clients, warms up, measures.

use crate::asker::Asker;
use crate::tally::Tally;
use crate::{Load, Outcome, Setup, costs};
use drover_base::Ns;
use drover_control::Dial;
use drover_kv::{ConnectOptions, SteppedJob, SteppedSystem, SystemTable};
use drover_systems::System;
use drover_verbs::Device;
use drover_verbs_sim::{Sim, World};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Virtual time by which all clients must be connected and all keys filled in; takes far less.
const CONNECT_MAX: Ns = Ns::from_s(1);

/// Simulates `system` in the form (variant) called `form`; `None`: in its usual form. See [`run_form`]. This function is not
/// generic, so that all systems are compiled for simulated clusters here, and not in each program that simulates one.
///
/// # Panics
/// As [`run_form`], and if the system has no such form.
pub fn run(setup: &Setup, system: System, form: Option<&str>) -> Outcome {
    run_of(setup, system, form)
}

/// As [`run`], with a system of any table.
///
/// # Panics
/// As `run`.
pub fn run_of<T: SystemTable>(setup: &Setup, system: T, form: Option<&str>) -> Outcome {
    system.stepped(Run { setup, form })
}

struct Run<'a> {
    setup: &'a Setup,
    form: Option<&'a str>,
}

impl SteppedJob for Run<'_> {
    type Answer = Outcome;

    fn run<S: SteppedSystem>(self) -> Outcome {
        let mut forms = S::FORMS.iter();
        let form = forms.find(|(name, _)| self.form.is_none_or(|wanted| wanted == *name));
        let Some((_, form)) = form else {
            panic!("{} has no form {:?}", S::FACTS.name, self.form);
        };
        run_form::<S>(self.setup, *form)
    }
}

/// Simulates the servers and clients of `setup` in a new cluster and returns what was measured. Waits until all clients
/// are connected and, unless the servers are filled already or start empty, have submitted PUTs of all keys; then runs
/// the warm-up and the measured span.
///
/// # Panics
/// If the servers cannot be opened, or not all clients are ready within one virtual second.
pub fn run_form<S: SteppedSystem>(setup: &Setup, form: S::Form) -> Outcome {
    let world = world::<S>(setup);
    let tally = Tally::new(setup.servers.shard_count);
    enter::<S>(&world, setup, form, &tally);
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
    Outcome::new(&tally, setup, report, trace)
}

/// A cluster for `setup`, whose cores take their time for the system's own code.
fn world<S: SteppedSystem>(setup: &Setup) -> World {
    let mut options = setup.world.clone();
    // Of two prices of one name, the last counts.
    options.costs = costs::of(&options.profile, S::FACTS.work);
    options.costs.extend(setup.world.costs.iter().cloned());
    World::with_options(options, 1 + setup.machines, setup.seed)
}

/// Starts the servers on machine 0 and the clients on the others, each actor on a core of its own.
fn enter<S: SteppedSystem>(world: &World, setup: &Setup, form: S::Form, tally: &Tally) {
    let device = world.device_with(0, setup.servers.doorbells);
    let (value, count) = (setup.load.value(), if setup.filled { setup.load.keys } else { 0 });
    let keys: Vec<[u8; 16]> = (0..count).map(Load::key).collect();
    let items = keys.iter().map(|key| (&key[..], &value[..]));
    let service = S::open_service::<Sim>(&device, form, &setup.sizes(), items).expect("servers");
    for (core, server) in service.actors {
        world.spawn(&core, server);
    }
    let options = ConnectOptions {
        window: setup.window,
        depth: setup.depth,
        fetch: setup.prescribed.fetch,
        ..ConnectOptions::default()
    };
    let mut processes = BTreeMap::new();
    for index in 0..setup.clients {
        let (machine, nth) = (index % setup.machines, index / setup.machines);
        let process = processes.entry((machine, nth / setup.prescribed.threads.max(1)));
        let core = process.or_insert_with(|| world.device(1 + machine)).context();
        let core = Rc::new(core.expect("a core of this world"));
        let dials = service.listeners.iter().map(Dial::at).collect();
        let dials = S::FACTS.channels.of_client(dials, index);
        let client = S::open_client::<Sim>(core.clone(), dials, form, &options);
        let asker = Asker::new(client, setup, index, service.is_filled, tally);
        world.spawn(&core, Box::new(asker));
    }
}
