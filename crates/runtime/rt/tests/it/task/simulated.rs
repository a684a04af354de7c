//! Tasks on a simulated card.

use drover_base::Ns;
use drover_rt::{TASK_SWITCH, TaskOptions, TaskPool};
use drover_verbs::{Access, Context, Device, MemoryRegion, QpKind, QpOptions, QueuePair};
use drover_verbs_sim::{Sim, World, WorldOptions, profile::Profile};
use std::cell::Cell;
use std::rc::Rc;

/// Time at which one task has read `count` words one after the other, if a switch of tasks costs `switch_ns`.
fn time_of(count: u64, switch_ns: f64) -> Ns {
    let mut options = WorldOptions::new(Profile::named("apt").expect("built in"));
    options.costs.push((TASK_SWITCH.cost.name.to_owned(), switch_ns));
    let world = World::with_options(options, 2, 7);
    let (here, there) = (world.device(0), world.device(1));
    let (here, there) = (
        here.context().expect("context"),
        there.context().expect("context"),
    );
    let mut pool = TaskPool::<Sim>::new(&here, &TaskOptions::default()).expect("pool");
    let mut near = pool.create_qp(&here, QpKind::Rc).expect("queue pair");
    let cq = there.create_cq(16).expect("queue");
    let mut far = there
        .create_qp(&QpOptions::<Sim>::new(QpKind::Rc, &cq, there.caps()))
        .expect("queue pair");
    near.connect(&far.export().expect("export")).expect("connect");
    far.connect(&near.export().expect("export")).expect("connect");
    let memory = there.alloc(4096, drover_mem::PageWish::Small).expect("memory");
    let mr = there.register(&memory, Access::ALL).expect("register");
    let remote = here
        .import_region(&mr.export(&[]).expect("export"))
        .expect("import");
    let (peer, ended) = (pool.add_peer(near), Rc::new(Cell::new(Ns::ZERO)));
    let put = ended.clone();
    pool.spawn(move |cx| async move {
        for _ in 0..count {
            cx.read(peer, cx.buffer(8).expect("buffer"), remote.at(0))
                .expect("staged");
            cx.sync().await.expect("READ");
        }
        put.set(cx.now());
    })
    .expect("space");
    world.spawn(&here, Box::new(pool));
    assert!(
        !world.run_while(Ns::from_s(1), || ended.get() == Ns::ZERO),
        "it hangs"
    );
    ended.get()
}

#[test]
fn a_switch_of_tasks_is_charged_once_per_suspension() {
    let count = 100;
    let (free, priced) = (time_of(count, 0.0), time_of(count, 400.0));
    let each = (priced - free).0 as f64 / count as f64;
    assert!((350.0..=450.0).contains(&each), "{each} ns per suspension");
}
