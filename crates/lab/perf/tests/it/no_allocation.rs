//! Nothing is allocated while a measurement runs. The allocator counts per thread, so other tests may run meanwhile.

use drover_base::{Actor, Progress};
use drover_mem::CountingAlloc;
use drover_perf::{Client, End, Op, Outcome, Plan, Server, join, players};
use drover_verbs::{Context, Device};
use drover_verbs_shm::{Shm, ShmContext, ShmDevice};

#[global_allocator]
static ALLOC: CountingAlloc = CountingAlloc::new();

/// Both ends alternately, `count` times. Whether the measurement is still going on.
fn turns(
    (client, outcome): &mut (Client<Shm>, Outcome),
    server: &mut Server<Shm>,
    [here, there]: [&ShmContext; 2],
    count: usize,
) -> bool {
    for _ in 0..count {
        let ours: Progress = client.step(here.cpu());
        let theirs = server.step(there.cpu());
        std::hint::black_box((ours, theirs));
    }
    !outcome.is_done()
}

#[test]
fn of_any_test() {
    let here = ShmDevice::default().context().expect("shared memory");
    let there = ShmDevice::default().context().expect("shared memory");
    for op in Op::all() {
        for bytes in [8, 2048] {
            let mut plan = Plan::new(op, here.caps());
            (plan.iterations, plan.warm_up) = (u64::MAX >> 24, 10);
            plan.sizes = if plan.sizes == [8] { vec![8] } else { vec![bytes] };
            let mut ends = [&here, &there].map(|ctx| End::<Shm>::new(ctx, &plan).expect("an end"));
            let [a, b] = &mut ends;
            join([(&here, a), (&there, b)]).expect("connected");
            let (mut client, (mut server, _)) = players(&plan, ends, plan.sizes[0] as usize);
            let ctxs = [&here, &there];
            assert!(
                turns(&mut client, &mut server, ctxs, 2000),
                "{op}: it has warmed up and goes on"
            );
            let before = ALLOC.count();
            assert!(turns(&mut client, &mut server, ctxs, 20_000), "{op}: it goes on");
            assert_eq!(ALLOC.count() - before, 0, "{op} of {bytes} bytes");
        }
    }
}
