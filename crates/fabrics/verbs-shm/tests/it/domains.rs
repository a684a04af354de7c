//! Threads of one domain: each region of a peer is mapped once, and known to all of them.

use crate::common::{connect, context, qp};
use drover_mem::{PageWish, Region};
use drover_testkit::alone::alone;
use drover_verbs::*;
use drover_verbs_shm::{Shm, ShmContext, ShmDevice, ShmDomain};
use std::sync::Barrier;

const THREADS: usize = 4;
const REGIONS: usize = 3;
/// Length of the peer's regions: no other mapping of this process has it.
const BYTES: usize = 11 << 12;

/// Mappings of this process that are as long as the peer's regions.
fn mappings() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("proc");
    let is_ours = |line: &&str| {
        let mut ends = line.split([' ', '-']).map(|hex| usize::from_str_radix(hex, 16));
        matches!((ends.next(), ends.next()), (Some(Ok(start)), Some(Ok(end))) if end - start == BYTES)
    };
    maps.lines().filter(is_ours).count()
}

/// A peer's regions, each watched by it, and their exports.
fn peer() -> (ShmContext, Vec<(Region, Export)>) {
    let peer = context();
    let regions = (0..REGIONS).map(|_| {
        let region = peer.alloc(BYTES, PageWish::Small).expect("memory");
        let mr = peer.register(&region, Access::ALL).expect("registered");
        let (range, bell) = (0..BYTES, peer.bell());
        let export = mr.export(&[Watch { range, bell }]).expect("an export");
        (region, export)
    });
    let regions = regions.collect();
    (peer, regions)
}

/// One WRITE of the number `n` to word `n` of every region, by a context of its own.
fn write_to_all(domain: &ShmDomain, remotes: &[RemoteRegion], n: usize) {
    let ctx = domain.context().expect("a context");
    let cq = ctx.create_cq(16).expect("a queue");
    let (mut here, mut there) = (qp(&ctx, &cq, QpKind::Rc), qp(&ctx, &cq, QpKind::Rc));
    connect(&mut here, &mut there);
    let mut list = SendList::default();
    for remote in remotes {
        let payload = list.inline(&(n as u64).to_ne_bytes());
        list.push(SendWr::write(remote.at(8 * n), payload));
    }
    here.post_send(ctx.cpu(), &list).expect("posted");
    assert_eq!(here.state(), QpState::ReadyToSend);
}

#[test]
fn four_threads_map_a_region_once_and_all_write_to_it() {
    alone(
        "domains::four_threads_map_a_region_once_and_all_write_to_it",
        || {
            let (_peer, regions) = peer();
            let own = mappings();
            let device = ShmDevice::default();
            let domain = device.domain(&DomainOptions::default()).expect("a domain");
            let imported = |(_, export): &(Region, Export)| domain.import_region(export).expect("imported");
            let remotes: Vec<RemoteRegion> = regions.iter().map(imported).collect();
            let (ready, seen) = (Barrier::new(THREADS + 1), Barrier::new(THREADS + 1));
            std::thread::scope(|scope| {
                for n in 1..=THREADS {
                    let (domain, remotes, ready, seen, regions) =
                        (&domain, &remotes, &ready, &seen, &regions);
                    scope.spawn(move || {
                        write_to_all(domain, remotes, n);
                        // A context that imports the region itself gets another key of the same mapping.
                        let ctx = domain.context().expect("a context");
                        let again = ctx.import_region(&regions[0].1).expect("imported");
                        assert_ne!(again.rkey, remotes[0].rkey);
                        ready.wait();
                        seen.wait();
                        ctx.forget_region(&again);
                    });
                }
                ready.wait();
                assert_eq!(mappings() - own, REGIONS, "each imported region is mapped once");
                seen.wait();
            });
            for (region, _) in &regions {
                for n in 1..=THREADS {
                    assert_eq!(
                        region.load_u64(8 * n, std::sync::atomic::Ordering::Acquire),
                        n as u64
                    );
                }
            }
            remotes.iter().for_each(|remote| domain.forget_region(remote));
            assert_eq!(mappings(), own, "nothing is left when all have forgotten it");
        },
    );
}

#[test]
fn a_context_that_has_used_a_forgotten_region_forgets_it_itself() {
    let (_peer, regions) = peer();
    let device = ShmDevice::default();
    let domain = device.domain(&DomainOptions::default()).expect("a domain");
    let remote = domain.import_region(&regions[0].1).expect("imported");
    let (used, fresh) = [(); 2].map(|()| domain.context().expect("a context")).into();
    let statuses = |ctx: &ShmContext| {
        let mut cq = ctx.create_cq(16).expect("a queue");
        let (mut here, mut there) = (qp(ctx, &cq, QpKind::Rc), qp(ctx, &cq, QpKind::Rc));
        connect(&mut here, &mut there);
        let mut list = SendList::default();
        let payload = list.inline(&[1]);
        list.push(SendWr::write(remote.at(0), payload).signaled(WrId(1)));
        here.post_send(ctx.cpu(), &list).expect("posted");
        let mut wcs = [Wc::default(); 2];
        assert_eq!(cq.poll(ctx.cpu(), &mut wcs), 1);
        wcs[0].status
    };
    assert_eq!(statuses(&used), WcStatus::Success);
    domain.forget_region(&remote);
    assert_eq!(statuses(&used), WcStatus::Success, "it keeps its view");
    assert_eq!(statuses(&fresh), WcStatus::RemoteAccess, "it never had one");
    used.forget_region(&remote);
    assert_eq!(statuses(&used), WcStatus::RemoteAccess);
}

/// A list whose first requests go to known regions and whose last goes to one that another context imported.
#[test]
fn a_key_that_the_context_has_yet_to_learn_may_stand_anywhere_in_a_list() {
    let (_peer, regions) = peer();
    let device = ShmDevice::default();
    let domain = device.domain(&DomainOptions::default()).expect("a domain");
    let ctx = domain.context().expect("a context");
    let mut remotes = vec![ctx.import_region(&regions[0].1).expect("imported")];
    for (_, export) in &regions[1..] {
        remotes.push(domain.import_region(export).expect("imported"));
    }
    let mut cq = ctx.create_cq(64).expect("a queue");
    let options = QpOptions::<Shm>::new(QpKind::Rc, &cq, ctx.caps());
    let mut here = ctx
        .create_qp(&QpOptions {
            send_depth: 6,
            ..options
        })
        .expect("a queue pair");
    let mut there = qp(&ctx, &cq, QpKind::Rc);
    connect(&mut here, &mut there);
    let mut list = SendList::default();
    for n in 0..7u64 {
        let payload = list.inline(&(n + 1).to_ne_bytes());
        let remote = remotes[n as usize % REGIONS].at(8 * n as usize);
        list.push(SendWr::write(remote, payload).signaled(WrId(n)));
    }
    let error = here.post_send(ctx.cpu(), &list).expect_err("the queue takes six");
    assert_eq!((error.accepted, error.kind), (6, PostErrorKind::QueueFull));
    let mut wcs = [Wc::default(); 8];
    assert_eq!(cq.poll(ctx.cpu(), &mut wcs), 6);
    for (n, wc) in wcs[..6].iter().enumerate() {
        assert_eq!((wc.wr_id, wc.status), (WrId(n as u64), WcStatus::Success));
        let word = regions[n % REGIONS]
            .0
            .load_u64(8 * n, std::sync::atomic::Ordering::Acquire);
        assert_eq!(word, n as u64 + 1);
    }
}
