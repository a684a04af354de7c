//! `Faulty` and `Traced` around shared memory follow the rules while no fault is injected, and inject faults when told
//! to.

use drover_mem::PageWish;
use drover_verbs::*;
use drover_verbs_shm::{Shm, ShmDevice};
use drover_verbs_suite::conformance::{TestBed, assert_rule};
use drover_verbs_suite::faulty::{FaultOptions, Faulty, FaultyDevice};
use drover_verbs_suite::traced::{Traced, TracedDevice};

struct Bed;

impl TestBed for Bed {
    type Provider = Traced<Faulty<Shm>>;

    /// All faults are possible, so that the code for late messages runs, but none is injected.
    fn ends(&self) -> Result<[TracedDevice<Faulty<Shm>>; 2], OpenError> {
        let device = || FaultyDevice::new(ShmDevice::default(), FaultOptions::all(1, 1e-300));
        Ok([TracedDevice::new(device(), 64), TracedDevice::new(device(), 64)])
    }
}

fn run(rule: &str) {
    match rule {
        "queue_full" => println!("skipped {rule}: the queue is deeper where messages can be late"),
        _ => assert_rule(&Bed, rule),
    }
}

mod wrapped {
    use super::run;
    drover_verbs_suite::conformance_tests!(run);
}

#[test]
fn every_fate_strikes_and_every_request_completes_once_and_in_order() {
    let device = FaultyDevice::<Shm>::new(ShmDevice::default(), FaultOptions::all(5, 0.2));
    let ctx = device.context().expect("context");
    let region = ctx.alloc(8192, PageWish::Small).expect("memory");
    let mr = ctx.register(&region, Access::REMOTE_WRITE).expect("register");
    let mut cq = ctx.create_cq(64).expect("completion queue");
    let mut a = ctx
        .create_qp(&QpOptions::new(QpKind::Uc, &cq, ctx.caps()))
        .expect("queue pair");
    let mut b = ctx
        .create_qp(&QpOptions::new(QpKind::Uc, &cq, ctx.caps()))
        .expect("queue pair");
    a.connect(&b.export().expect("export")).expect("connect");
    b.connect(&a.export().expect("export")).expect("connect");
    let remote = ctx
        .import_region(&mr.export(&[]).expect("export"))
        .expect("import");
    let mut seen = Vec::new();
    let mut list = SendList::default();
    for n in 0..600u64 {
        if n < 400 {
            list.clear();
            let payload = list.inline(&[n as u8 | 1; 96]);
            let remote = remote.at(n as usize * 8);
            list.push(SendWr::write(remote, payload).signaled(WrId(n)));
            a.post_send(ctx.cpu(), &list).expect("post");
        }
        let mut wcs = [Wc::default(); 8];
        let count = cq.poll(ctx.cpu(), &mut wcs);
        seen.extend(wcs[..count].iter().map(|wc| (wc.wr_id.0, wc.status)));
    }
    assert!(
        seen.iter().copied().eq((0..400).map(|n| (n, WcStatus::Success))),
        "{seen:?}"
    );
    let counts = device.counts();
    for count in [
        counts.dropped,
        counts.torn,
        counts.delayed,
        counts.reordered,
        counts.duplicated,
    ] {
        assert!(count > 20, "{counts:?}");
    }
    assert_eq!(counts.overflowed, 0);
}
