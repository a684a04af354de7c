//! Between two simulated machines: the figures follow from the profile and the seed.

use drover_base::Ns;
use drover_perf::{Atomic, End, Found, LOOK, LatencyRow, Op, PerfError, Plan, RateRow, Row, join, players};
use drover_verbs::{Context, Device, QpKind};
use drover_verbs_sim::profile::Profile;
use drover_verbs_sim::{Sim, World, WorldOptions};

/// Longer than any measurement here takes, in virtual time.
const LIMIT: Ns = Ns::from_s(60);

fn world(seed: u64, loss: f64) -> World {
    let mut options = WorldOptions::new(Profile::named("apt").expect("built in"));
    options.costs.push((
        LOOK.name.to_string(),
        options.profile.parameters().cpu.slot_poll_ns,
    ));
    options.loss = loss;
    World::with_options(options, 2, seed)
}

fn found(world: &World, change: &dyn Fn(&mut Plan), name: &str) -> Result<(Plan, Found), PerfError> {
    let contexts = [0, 1].map(|machine| world.device(machine).context().expect("of this thread"));
    let [here, there] = &contexts;
    let op: Op = name.parse().expect("a test");
    let mut plan = Plan::new(op, here.caps());
    change(&mut plan);
    let (mut a, mut b) = (End::<Sim>::new(here, &plan)?, End::<Sim>::new(there, &plan)?);
    join([(here, &mut a), (there, &mut b)])?;
    let ((client, outcome), (server, _)) = players(&plan, [a, b], plan.sizes[0] as usize);
    world.spawn(here, Box::new(client));
    world.spawn(there, Box::new(server));
    let watch = outcome.clone();
    world.run_while(LIMIT, || !watch.is_done());
    let found = outcome.take().ok_or(PerfError::Silent { patience: LIMIT })?;
    Ok((plan, found?))
}

fn row(name: &str, change: &dyn Fn(&mut Plan)) -> Row {
    let (plan, found) = found(&world(1, 0.0), change, name).expect("measured");
    Row::new(plan.op, plan.sizes[0], &found, 0)
}

fn latency(name: &str, change: &dyn Fn(&mut Plan)) -> LatencyRow {
    match row(name, change) {
        Row::Latency(row) => row,
        Row::Rate(_) => panic!("a latency"),
    }
}

fn rate(name: &str, change: &dyn Fn(&mut Plan)) -> RateRow {
    match row(name, change) {
        Row::Rate(row) => row,
        Row::Latency(_) => panic!("a rate"),
    }
}

fn near(got: f64, want: f64, percent: f64) -> bool {
    (got - want).abs() <= want * percent / 100.0
}

/// The published latencies that the profile was fitted to, [HERD] Fig. 2, stand for a whole READ and half an echo.
#[test]
fn latencies_of_the_published_card() {
    let read = latency("read-lat", &|plan| plan.sizes = vec![16]);
    assert!(near(read.t_typical, 2.52, 10.0), "{read:?}");
    let write = latency("write-lat", &|plan| plan.sizes = vec![16]);
    assert!(near(write.t_typical, 1.305, 10.0), "{write:?}");
    assert!(
        read.t_min <= read.t_typical && read.t_typical <= read.t_max,
        "{read:?}"
    );
    assert_eq!((read.iterations, write.iterations), (1000, 1000));
}

#[test]
fn what_must_be_slower_is_slower() {
    let inline = latency("write-lat", &|plan| plan.sizes = vec![64]);
    let gathered = latency("write-lat", &|plan| {
        (plan.sizes, plan.inline_bytes) = (vec![64], 0)
    });
    assert!(inline.t_typical < gathered.t_typical, "{inline:?} {gathered:?}");
    let (short, long) = (
        latency("read-lat", &|_| {}),
        latency("read-lat", &|plan| plan.sizes = vec![8192]),
    );
    assert!(short.t_typical + 1.0 < long.t_typical, "{short:?} {long:?}");
    let send = latency("send-lat", &|_| {});
    let write = latency("write-lat", &|_| {});
    assert!(write.t_typical < send.t_typical, "{write:?} {send:?}");
}

#[test]
fn every_test_runs_over_every_kind_it_can() {
    for op in Op::all() {
        for kind in [QpKind::Rc, QpKind::Uc, QpKind::Ud] {
            let change = |plan: &mut Plan| {
                (plan.kind, plan.iterations) = (kind, 50);
                plan.sizes = vec![plan.sizes[0].min(1024)];
            };
            match found(&world(3, 0.0), &change, op.name()) {
                Ok((_, Found::Latency(latency))) => assert_eq!(latency.count(), 50, "{op} {kind:?}"),
                Ok((_, Found::Rate { count, time, peak })) => {
                    assert!(count >= 50 && time > Ns::ZERO && peak > 0.0, "{op} {kind:?}");
                }
                Err(PerfError::Plan(why)) => {
                    assert!(why.contains("does not exist, only"), "{op} {kind:?}: {why}")
                }
                Err(error) => panic!("{op} {kind:?}: {error}"),
            }
        }
    }
}

/// [HERD] Fig. 4: 32 B inline WRITEs of one process, and all that the link carries.
#[test]
fn rates_stay_below_what_the_card_can() {
    let small = rate("write-bw", &|plan| {
        (plan.sizes, plan.inline_bytes) = (vec![16], 32)
    });
    assert!((2.0..35.0).contains(&small.msg_rate), "{small:?}");
    let large = rate("write-bw", &|_| {});
    // 6.3 B/ns on the link.
    assert!((5000.0..6010.0).contains(&large.bw_average), "{large:?}");
    assert!(large.bw_peak >= large.bw_average, "{large:?}");
    let atomic = rate("atomic-bw", &|plan| plan.atomic = Atomic::CompareSwap);
    assert!(near(atomic.msg_rate, 2.7, 15.0), "[A16] Fig. 14: {atomic:?}");
}

#[test]
fn the_same_seed_gives_the_same_figures() {
    let run = |seed| {
        let world = world(seed, 0.0);
        let (plan, found) = found(&world, &|_| {}, "send-lat").expect("measured");
        (
            format!("{:?}", Row::new(plan.op, 2, &found, 0)),
            world.trace_hash(),
        )
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7).1, run(8).1);
}

#[test]
fn a_lost_message_is_told_and_not_waited_for() {
    let world = world(1, 0.05);
    let error = found(&world, &|plan| plan.kind = QpKind::Uc, "write-lat").expect_err("one in 20 is lost");
    assert!(matches!(error, PerfError::Silent { .. }), "{error}");
    let (_, found) =
        found(&self::world(1, 0.05), &|plan| plan.iterations = 100, "write-lat").expect("RC sends again");
    assert!(matches!(found, Found::Latency(latency) if latency.count() == 100));
}

#[test]
fn for_so_long_instead_of_so_many() {
    let row = latency("read-lat", &|plan| plan.duration = Some(Ns::from_ms(1)));
    let expected = 1000.0 / row.t_avg;
    assert!(near(row.iterations as f64, expected, 2.0), "{row:?}");
}
