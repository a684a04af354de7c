//! Memory on the card is not behind the bus.

use super::pair::Pair;
use drover_base::Cpu;
use drover_sim::Ps;
use drover_verbs::{
    Access, Context, DeviceMemory, MemoryRegion, QpKind, QueuePair, RegisterError, RemoteRegion, SendList,
    SendWr, WcStatus, WrId,
};
use drover_verbs_sim::World;
use drover_verbs_sim::profile::Profile;

/// Posts each request alone and waits for it; returns the time that all took, and how long the responder's bus was busy.
fn run(
    remote_of: impl Fn(&Pair) -> RemoteRegion,
    request: impl Fn(RemoteRegion, &Pair) -> SendWr,
) -> (u64, Ps) {
    let world = World::new(Profile::named("cx6").expect("a profile"), 2, 7);
    let mut pair = Pair::new(&world, QpKind::Rc, 64);
    let remote = remote_of(&pair);
    let start = pair.here.cpu().refresh();
    for n in 0..20 {
        let mut list = SendList::default();
        list.push(request(remote, &pair).signaled(WrId(n)));
        pair.qp.post_send(pair.here.cpu(), &list).expect("space");
        let wcs = loop {
            pair.here.arm();
            match pair.completions() {
                wcs if wcs.is_empty() => pair.here.park(drover_base::Ns::MAX),
                wcs => break wcs,
            }
        };
        assert_eq!(wcs[0].status, WcStatus::Success);
    }
    let time = pair.here.cpu().refresh().since(start).0;
    let parts = &world.report().machines[1].parts;
    (time, parts.bus_in.busy + parts.bus_out.busy)
}

#[test]
fn atomics_on_the_card_cost_no_trip_over_the_bus() {
    let card = |pair: &Pair| {
        let memory = pair
            .there
            .alloc_device(4096, Access::ALL)
            .expect("memory on the card");
        let remote = pair.here.import_region(&memory.export().expect("an export"));
        std::mem::forget(memory); // stays until the world ends
        remote.expect("an import")
    };
    let host = |pair: &Pair| pair.remote;
    let into = |pair: &Pair| pair.mr.sge(0, 8);
    let add = |remote: RemoteRegion, pair: &Pair| SendWr::fetch_add(remote.at(8), 1, into(pair));
    let ((slow, bus), (fast, no_bus)) = (run(host, add), run(card, add));
    assert!(bus > Ps::ZERO && no_bus == Ps::ZERO, "{bus:?} and {no_bus:?}");
    assert!(fast < slow, "{fast} ns on the card, {slow} in the host");
    let read = |remote: RemoteRegion, pair: &Pair| SendWr::read(remote.at(8), into(pair));
    let ((slow, _), (fast, no_bus)) = (run(host, read), run(card, read));
    assert!(
        fast < slow && no_bus == Ps::ZERO,
        "{fast} ns on the card, {slow} in the host"
    );
}

#[test]
fn a_card_that_gives_programs_no_memory_says_so_and_a_full_one_how_much_is_left() {
    let world = World::new(Profile::named("apt").expect("a profile"), 2, 7);
    let pair = Pair::new(&world, QpKind::Rc, 64);
    let refused = pair
        .there
        .alloc_device(64, Access::ALL)
        .expect_err("there is none");
    assert_eq!(
        refused.to_string(),
        "sim offers no memory on the card (device_memory_bytes is 0)"
    );
    let world = World::new(Profile::named("cx6").expect("a profile"), 2, 7);
    let pair = Pair::new(&world, QpKind::Rc, 64);
    let _most = pair.there.alloc_device(200 << 10, Access::ALL).expect("enough");
    let refused = pair
        .there
        .alloc_device(100 << 10, Access::ALL)
        .expect_err("too much");
    assert!(matches!(
        refused,
        RegisterError::DeviceMemoryTaken {
            asked: 102_400,
            free: 57_344
        }
    ));
    pair.here
        .alloc_device(100 << 10, Access::ALL)
        .expect("another machine's card");
}
